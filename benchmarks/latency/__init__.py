"""ADK's own session services and ours side by side, and what remembering and searching cost."""
