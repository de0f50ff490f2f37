"""Detect the language of a text, list its stop words and find the dates it names."""
