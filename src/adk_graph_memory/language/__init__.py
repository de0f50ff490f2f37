"""Read text of any language: its script, dates, quantities and spellings."""
