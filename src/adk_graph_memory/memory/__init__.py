"""What a memory does: remember, recall, forget, correct, export."""
