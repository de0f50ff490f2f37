"""Draw a memory, and what is measured of it, with one look.

The notebooks draw with it, and so does ``python -m benchmarks.pictures``. It needs matplotlib and networkx.
"""

from .changes import draw_changes
from .graph import draw_graph, select_facts
from .look import INK, LABEL_COLORS, LINK_STYLES, TYPE_COLORS, name_value, tint
from .measurements import compute_interval, draw_hits, draw_times
from .timeline import draw_timeline

__all__ = [
    "INK",
    "LABEL_COLORS",
    "LINK_STYLES",
    "TYPE_COLORS",
    "compute_interval",
    "draw_changes",
    "draw_graph",
    "draw_hits",
    "draw_timeline",
    "draw_times",
    "name_value",
    "select_facts",
    "tint",
]
