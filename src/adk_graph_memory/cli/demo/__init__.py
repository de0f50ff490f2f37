"""The demo: a real conversation and recorded replies of a language model."""
