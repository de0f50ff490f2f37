"""Restrict extraction to given topics, entity types and predicates, in the prompt and in the reply."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from adk_graph_memory import errors
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.records.extractions import UNKNOWN_TYPE


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of fact worth remembering; if there are topics, facts on no topic are dropped.

    Args:
        label: the label that its facts carry.
        description: what belongs to it; part of the prompt.
        examples: example facts.
    """

    label: str
    description: str
    examples: tuple[str, ...] = ()


MANAGED_TOPICS = (
    Topic(
        "USER_PERSONAL_INFO",
        "who the user is: name, people close to them and how they are related, home, work, health, important dates",
        ("Nadia's daughter Mila starts school on 1 September 2025.",),
    ),
    Topic(
        "USER_PREFERENCES",
        "what the user likes, dislikes, avoids, or wants done in a certain way",
        ("Nadia prefers trains to planes.",),
    ),
    Topic(
        "KEY_CONVERSATION_DETAILS",
        "what came of the conversation: decisions, results, plans, tasks and where they stand",
        ("Nadia decided to have the roof mended before winter.",),
    ),
    Topic(
        "EXPLICIT_INSTRUCTIONS",
        "what the user explicitly asks the assistant to remember, or how to behave from now on",
        ("Nadia wants answers in short sentences.",),
    ),
)
"""The four managed topics of Google's Memory Bank, with its labels."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The topics, entity types and predicates that an extraction may use; empty for any.

    ``functional_predicates`` have a single value per subject at a time.
    """

    topics: tuple[Topic, ...] = ()
    entity_types: tuple[str, ...] = ()
    predicates: tuple[str, ...] = ()
    functional_predicates: frozenset[str] = frozenset()

    @classmethod
    def from_topics(
        cls,
        topics: Iterable[Topic | str] | str | None = (),
        *,
        entity_types: Iterable[str] = (),
        predicates: Iterable[str] = (),
        functional_predicates: Collection[str] = (),
    ) -> Vocabulary:
        """Make a vocabulary; a topic may be the label of one of :data:`MANAGED_TOPICS`.

        Raises:
            errors.ConfigurationError: no topic has this label.
        """
        topics = [topics] if isinstance(topics, str) else topics or ()
        resolved = tuple(
            topic if isinstance(topic, Topic) else _select_topics([topic], MANAGED_TOPICS)[0] for topic in topics
        )
        return cls(
            resolved, tuple(entity_types), tuple(map(format_predicate, predicates)), frozenset(functional_predicates)
        )

    def restrict_topics(self, labels: Collection[str]) -> Vocabulary:
        """The vocabulary restricted to the topics with these labels.

        Raises:
            errors.ConfigurationError: no topic has this label.
        """
        return replace(self, topics=_select_topics(labels, self.topics or MANAGED_TOPICS))

    def format_prompt_fields(self) -> dict[str, str]:
        """Format the fields of the extraction prompt's template."""
        entity_types = f"one of {', '.join(self.entity_types)}" if self.entity_types else _DEFAULT_ENTITY_TYPES
        predicates = f" Use no others than these, and leave out what fits none of them: {', '.join(self.predicates)}."
        topic_lines = [_TOPIC_LIST_HEADER]
        for topic in self.topics:
            examples = f" For example: {' '.join(topic.examples)}" if topic.examples else ""
            topic_lines.append(f"  - `{topic.label}`: {topic.description}.{examples}")
        return {
            "topics": "\n".join(topic_lines) if self.topics else _ANY_TOPIC,
            "entity_types": entity_types,
            "predicates": predicates if self.predicates else _DEFAULT_PREDICATES,
        }

    def match_topic(self, label: str) -> str | None:
        """The label of the topic that a reply means; None if it is not in the vocabulary."""
        if not self.topics:
            return label
        return next((topic.label for topic in self.topics if fold_text(topic.label) == fold_text(label)), None)

    def match_entity_type(self, type: str) -> str:
        """The entity type that a reply means; ``thing`` if it is not in the vocabulary."""
        types = {fold_text(allowed): allowed for allowed in self.entity_types}
        return types.get(fold_text(type), UNKNOWN_TYPE) if types else type

    def has_predicate(self, predicate: str) -> bool:
        """Whether the vocabulary allows a predicate in snake_case."""
        return not self.predicates or predicate in self.predicates


_ANY_TOPIC = "one or two words, in English."
_DEFAULT_PREDICATES = (
    " Of people: lives_in, works_at, works_as, studies_at, born_on, married_to, parent_of, sibling_of, friend_of,"
    " likes, dislikes, prefers, feels, believes, thinks_of, motivated_by, advised_by, owns, uses, takes, allergic_to,"
    " suffers_from, phone_number, plans_to, visited, decided."
    " Of tasks and things: done_by, due_on, depends_on, has_status, located_in, part_of, costs."
    " Else one of your own."
)
_DEFAULT_ENTITY_TYPES = "person, group, organization, place, animal, event, object or topic"
OFFERED_LABELS = (_DEFAULT_PREDICATES, _DEFAULT_ENTITY_TYPES, *(topic.label for topic in MANAGED_TOPICS))
"""Texts with the labels that the prompt offers where nothing else is configured."""
_TOPIC_LIST_HEADER = "one of these labels, letter by letter; a fact that belongs to none of them is left out:"


OPEN_VOCABULARY = Vocabulary()
"""Any topic, any entity type, any predicate."""


def format_predicate(words: str) -> str:
    """Write a predicate in snake_case."""
    return "_".join(words.lower().split())


def _select_topics(labels: Iterable[str], topics: Iterable[Topic]) -> tuple[Topic, ...]:
    topics_by_label = {fold_text(topic.label): topic for topic in topics}
    labels = [labels] if isinstance(labels, str) else [str(label) for label in labels]
    if unknown := sorted(label or "of no name" for label in labels if fold_text(label) not in topics_by_label):
        available = ", ".join(topic.label for topic in topics_by_label.values())
        raise errors.ConfigurationError(reason=f"there is no topic {', '.join(unknown)}, only {available}")
    return tuple(topics_by_label[fold_text(label)] for label in dict.fromkeys(labels))
