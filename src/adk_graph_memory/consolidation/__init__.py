"""What was extracted and what the graph holds go in; a plan of what to change comes out, by pure functions."""

from adk_graph_memory.consolidation.comparison import Comparison, OpenQuestion, compare_extraction
from adk_graph_memory.consolidation.decisions import Decision, JudgeDecisions
from adk_graph_memory.consolidation.fact_rules import make_statement_id, plan_statement
from adk_graph_memory.consolidation.judge import Judge
from adk_graph_memory.consolidation.lookup import GraphLookup
from adk_graph_memory.consolidation.reconciliation import reconcile_claims

__all__ = [
    "Comparison",
    "Decision",
    "GraphLookup",
    "Judge",
    "JudgeDecisions",
    "OpenQuestion",
    "compare_extraction",
    "make_statement_id",
    "plan_statement",
    "reconcile_claims",
]
