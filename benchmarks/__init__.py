"""How fast the services answer and how much of what was said they find; never part of the tests or of the wheel."""
