"""Ask a guard before anything is written: keep it, hold it for review, or drop it."""

from adk_graph_memory.guard.rules import (
    RULES,
    apply_rules,
    drop_secrets,
    hold_claims_about_others,
    hold_drift,
    hold_instructions,
    hold_machine_words,
)
from adk_graph_memory.guard.screening import Guard, GuardOption, Screening, choose_guard, screen_statements
from adk_graph_memory.records.guard import GuardCandidate, GuardVerdict, HeldFact

__all__ = [
    "RULES",
    "Guard",
    "GuardCandidate",
    "GuardOption",
    "GuardVerdict",
    "HeldFact",
    "Screening",
    "apply_rules",
    "choose_guard",
    "drop_secrets",
    "hold_claims_about_others",
    "hold_drift",
    "hold_instructions",
    "hold_machine_words",
    "screen_statements",
]
