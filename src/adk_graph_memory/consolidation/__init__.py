"""What was extracted and what the graph holds go in; a plan of what to change comes out, by pure functions."""

from adk_graph_memory.consolidation.decisions import Decision, Decisions
from adk_graph_memory.consolidation.draft import Draft, Question, resolve
from adk_graph_memory.consolidation.facts import direct, told_as
from adk_graph_memory.consolidation.judge import Judge
from adk_graph_memory.consolidation.lookup import Lookup
from adk_graph_memory.consolidation.plan import reconcile

__all__ = [
    "Decision",
    "Decisions",
    "Draft",
    "Judge",
    "Lookup",
    "Question",
    "direct",
    "reconcile",
    "resolve",
    "told_as",
]
