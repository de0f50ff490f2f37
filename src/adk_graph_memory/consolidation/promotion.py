"""Make of a user's fact what a shared memory reads: the quotes it rests on, as turns, and what they say."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from adk_graph_memory.records import ExtractedEntity, ExtractedFact, Extraction, KnownFact, Scope, Source, Turn, digest
from adk_graph_memory.records.derived_memory import DerivedEntity

_ANONYMOUS_AUTHOR = "user"
"""ADK's author of whatever a user says, who in a shared memory could be anybody."""
_USER_PATTERN = re.compile(r"\bthe user\b|^user\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Promotion:
    """A fact for a shared memory: the turns it rests on, each no more than a quote, and what is read of them."""

    turns: tuple[Turn, ...]
    entities: tuple[ExtractedEntity, ...]
    fact: ExtractedFact

    def extract_fact(self, turns: Sequence[Turn]) -> Extraction:
        """Extract the fact from those of its turns that are new."""
        if not turns:
            return Extraction()
        sources = tuple(Source.from_turn(turn, 0, len(turn.text)) for turn in turns)
        return Extraction(self.entities, (replace(self.fact, sources=sources),))


def make_promotion(
    fact: KnownFact, turns: Sequence[Turn], entities: Mapping[str, DerivedEntity], author: str
) -> Promotion:
    """Make a promotion of a fact with these turns; ``author`` names the user, who is ``user`` in their own memory."""
    proposition = fact.proposition
    quotes = {source.quote for source in fact.sources}
    text = proposition.text if proposition.text in quotes else _USER_PATTERN.sub(lambda match: author, proposition.text)
    keys = dict.fromkeys(key for key in (proposition.subject, proposition.object) if key)
    refs = {key: ref for ref, key in enumerate(keys)}
    return Promotion(
        turns=tuple(turns),
        entities=tuple(_name_entity(entities[key], ref, author) for key, ref in refs.items()),
        fact=ExtractedFact(
            subject=refs[proposition.subject or ""],
            predicate=proposition.predicate,
            object=refs[proposition.object] if proposition.object else None,
            text=text,
            sources=(),
            speaker=_name_author(proposition.speaker or "", author),
            at=proposition.at,
            modality=proposition.modality,
            valid_from=proposition.valid_from,
            valid_to=proposition.valid_to,
            topic=proposition.topic,
            valid_from_precision=proposition.valid_from_precision,
            valid_to_precision=proposition.valid_to_precision,
        ),
    )


def make_quote_turn(source: Source, scope: Scope, author: str, expires_at: datetime | None) -> Turn:
    """Make a turn of a quote from the memory of this scope. The owner of the user's memory is a user here."""
    origin = "user" if source.is_owner else source.origin
    return Turn(
        id=digest("promoted", scope.key, *source.key),
        author=author if source.is_owner else _name_author(source.author, author),
        text=source.quote,
        at=source.at,
        role="user" if origin in ("user", "import") else "model",
        origin=origin,
        expires_at=expires_at,
    )


def _name_author(name: str, author: str) -> str:
    return author if name == _ANONYMOUS_AUTHOR else name


def _name_entity(entity: DerivedEntity, ref: int, author: str) -> ExtractedEntity:
    is_user = _ANONYMOUS_AUTHOR in (name.casefold() for name in (entity.name, *entity.aliases))
    return ExtractedEntity(ref, author if is_user else entity.name, entity.type)
