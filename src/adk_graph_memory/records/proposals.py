"""What agents propose to change of a memory, until its owner decides."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

ProposalAction = Literal["correct", "forget"]


@dataclass(frozen=True, slots=True)
class Proposal:
    """A change that an agent proposes. Nothing changes until the owner accepts it.

    ``text`` is what a correction would say; it is empty if the memory is to be forgotten.
    """

    id: str
    action: ProposalAction
    memory_id: str
    memory_text: str
    """what the memory says now"""
    text: str
    reason: str
    by: str
    """the agent"""
    at: datetime
    is_pinned: bool = False
    """whether the owner has pinned the memory"""
