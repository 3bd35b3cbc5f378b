"""Tables made of tables: what a file is to a table, a slot is to them."""
