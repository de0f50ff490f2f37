"""From turns to what they say; knows no database."""
