"""The frozen dataclasses that the packages exchange."""
