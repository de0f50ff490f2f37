"""A text goes in; its language, its ordinary words and the days it names come out."""
