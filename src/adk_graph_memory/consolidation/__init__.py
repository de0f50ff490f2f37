"""Compare an extraction with what the graph holds and plan the changes.

All of it is pure but the judge, who asks a model: :mod:`adk_graph_memory.consolidation.judge` is imported by itself.
"""

from adk_graph_memory.consolidation.comparison import Comparison, GraphLookup, OpenQuestion, compare_extraction
from adk_graph_memory.consolidation.decisions import Decision, JudgeDecisions
from adk_graph_memory.consolidation.derived_entities import list_known_entities
from adk_graph_memory.consolidation.fact_rules import make_statement_id, plan_statement
from adk_graph_memory.consolidation.lost_words import collect_label_words, collect_words, find_lost_words, list_labels
from adk_graph_memory.consolidation.owner_words import (
    choose_object,
    find_read_wording,
    make_claim_ref,
    make_correction_reading,
    make_ruling_reading,
)
from adk_graph_memory.consolidation.past_facts import find_stale_facts, list_past_facts
from adk_graph_memory.consolidation.promotion import Promotion, make_promotion, make_quote_turn
from adk_graph_memory.consolidation.provenance import trace_entity, trace_fact
from adk_graph_memory.consolidation.readings import record_reading
from adk_graph_memory.consolidation.reconciliation import reconcile_claims
from adk_graph_memory.consolidation.replay import replay_readings, select_candidates
from adk_graph_memory.consolidation.restriction import (
    Removal,
    find_read_facts,
    restrict_readings,
    select_current_readings,
    withhold_facts,
)
from adk_graph_memory.consolidation.salvage import salvage_reading

__all__ = [
    "Comparison",
    "Decision",
    "GraphLookup",
    "JudgeDecisions",
    "OpenQuestion",
    "Promotion",
    "Removal",
    "choose_object",
    "collect_label_words",
    "collect_words",
    "compare_extraction",
    "find_lost_words",
    "find_read_facts",
    "find_read_wording",
    "find_stale_facts",
    "list_known_entities",
    "list_labels",
    "list_past_facts",
    "make_claim_ref",
    "make_correction_reading",
    "make_promotion",
    "make_quote_turn",
    "make_ruling_reading",
    "make_statement_id",
    "plan_statement",
    "reconcile_claims",
    "record_reading",
    "replay_readings",
    "restrict_readings",
    "salvage_reading",
    "select_candidates",
    "select_current_readings",
    "trace_entity",
    "trace_fact",
    "withhold_facts",
]
