"""Choose from a user's current facts what is always worth knowing; knows no database, no model and no embedder."""

from adk_graph_memory.profile_view.form import FormDraft, draft_form
from adk_graph_memory.profile_view.placement import MODALITY_WEIGHTS
from adk_graph_memory.profile_view.selection import select_items

__all__ = ["MODALITY_WEIGHTS", "FormDraft", "draft_form", "select_items"]
