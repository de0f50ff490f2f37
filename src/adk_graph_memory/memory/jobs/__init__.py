"""Batch jobs over many users, here or on Ray."""
