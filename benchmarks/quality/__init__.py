"""How much of what was said a question finds again, without any model."""
