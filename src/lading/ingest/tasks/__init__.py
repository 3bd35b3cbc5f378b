"""How a table is read and written: who reads what, what a task does, who runs them, what they tell."""
