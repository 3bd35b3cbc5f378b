"""A file a page: from the project and a query to the value that its template and its JSON form show."""
