"""Language models and embedders, as in ``google.adk.models``."""
