"""The HTML pages of a memory."""
