"""Avro: lading finds the blocks, fastavro decodes them."""
