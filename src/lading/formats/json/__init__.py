"""JSON: one object a line, or with `multiline` one document a file, an object or an array of objects; with
`records` an array that lies deeper in it."""
