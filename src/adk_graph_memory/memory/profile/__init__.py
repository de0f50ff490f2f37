"""A user's profile: what of their current facts is always worth knowing."""
