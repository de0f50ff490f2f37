"""Restrict a search to some of a user's memories."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, get_args

from adk_graph_memory import errors
from adk_graph_memory.records.results import MemoryKind
from adk_graph_memory.records.turns import check_timezone_aware


@dataclass(frozen=True, slots=True)
class Filters:
    """Search only memories said from ``since`` to ``until``, of one kind, session and topic, about one entity."""

    since: datetime | None = None
    until: datetime | None = None
    kind: MemoryKind | None = None
    session_id: str | None = None
    topic: str | None = None
    entity: str | None = None

    def __post_init__(self) -> None:
        for moment in (self.since, self.until):
            if moment is not None:
                check_timezone_aware(moment)
        if self.since is not None and self.until is not None and self.since > self.until:
            raise errors.InvalidArgument(reason=f"since {self.since} is later than until {self.until}")
        if self.kind not in (None, *get_args(MemoryKind)):
            raise errors.InvalidArgument(reason=f"kind {self.kind!r} is none of {', '.join(get_args(MemoryKind))}")
        for name in ("session_id", "topic", "entity"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise errors.InvalidArgument(reason=f"{name} {value!r} is no text; of several ask for one at a time")

    def __bool__(self) -> bool:
        return self != Filters()

    def to_parameters(self) -> dict[str, Any]:
        """The filters as parameters of a statement, with times in epoch seconds."""
        times = {name: moment.timestamp() if (moment := getattr(self, name)) else None for name in ("since", "until")}
        return asdict(self) | times
