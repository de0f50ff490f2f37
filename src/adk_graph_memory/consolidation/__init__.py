"""From what turns say and what is known to what changes; knows no database."""
