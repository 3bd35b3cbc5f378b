"""Workbooks: xlsx, xls and ods."""
