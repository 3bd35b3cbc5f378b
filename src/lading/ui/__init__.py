"""`lading ui`: the project in a browser. Every page shows what a command says, from the same calls."""
