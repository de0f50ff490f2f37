"""Import what other memory and session services stored."""
