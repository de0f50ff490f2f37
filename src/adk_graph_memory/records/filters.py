"""What of a user's memories is searched at all."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from adk_graph_memory.records.answers import Kind
from adk_graph_memory.records.turns import check_aware


@dataclass(frozen=True, slots=True)
class Filters:
    """Only memories that were said from ``since`` to ``until``, of one kind, session, topic, and about one entity."""

    since: datetime | None = None
    until: datetime | None = None
    kind: Kind | None = None
    session_id: str | None = None
    topic: str | None = None
    entity: str | None = None

    def __post_init__(self) -> None:
        for moment in (self.since, self.until):
            if moment is not None:
                check_aware(moment)

    def __bool__(self) -> bool:
        return self != Filters()

    def parameters(self) -> dict[str, Any]:
        """As statements take them: times in seconds since 1970."""
        times = {name: moment.timestamp() if (moment := getattr(self, name)) else None for name in ("since", "until")}
        return asdict(self) | times
