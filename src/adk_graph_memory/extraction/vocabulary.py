"""Topics and words to keep to go in; what the prompt says of them, and what of a reply fits them, comes out."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace

from adk_graph_memory import errors
from adk_graph_memory.records import fold_text


@dataclass(frozen=True, slots=True)
class Topic:
    """A kind of thing worth remembering; where there are topics, what belongs to none of them is left out.

    Args:
        label: what facts of it carry.
        description: what belongs to it, for whoever reads the conversation.
        examples: facts of this kind.
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
"""The four kinds that Google's Memory Bank manages, by their labels there."""


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What an extraction keeps to; empty where it is free.

    ``functional`` are predicates of which a subject has one value at a time.
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
        functional: Collection[str] = (),
    ) -> Vocabulary:
        """A vocabulary; a topic may be given by the label of one of :data:`MANAGED_TOPICS`.

        Raises:
            errors.ConfigurationError: there is no topic of this label.
        """
        listed = [topics] if isinstance(topics, str) else topics or ()
        chosen = tuple(one if isinstance(one, Topic) else _select_topics([one], MANAGED_TOPICS)[0] for one in listed)
        return cls(chosen, tuple(entity_types), tuple(map(format_predicate, predicates)), frozenset(functional))

    def restrict_topics(self, labels: Collection[str]) -> Vocabulary:
        """The same for a request that allows these topics only.

        Raises:
            errors.ConfigurationError: there is no topic of this label.
        """
        return replace(self, topics=_select_topics(labels, self.topics or MANAGED_TOPICS))

    def make_prompt_fields(self) -> dict[str, str]:
        """What the extraction prompt says of it, by the names in its template."""
        kinds = f"one of {', '.join(self.entity_types)}" if self.entity_types else _DEFAULT_ENTITY_TYPES
        only = f" Use no others than these, and leave out what fits none of them: {', '.join(self.predicates)}."
        return {
            "topics": "\n".join((_TOPIC_LIST_HEADER, *map(_format_topic, self.topics))) if self.topics else _ANY_TOPIC,
            "entity_types": kinds,
            "predicates": only if self.predicates else _DEFAULT_PREDICATES,
        }

    def match_topic(self, said: str) -> str | None:
        """The topic that a reply means, as its label is written; None for one that was not asked for."""
        if not self.topics:
            return said
        return next((topic.label for topic in self.topics if fold_text(topic.label) == fold_text(said)), None)

    def match_entity_type(self, said: str) -> str:
        """The type that a reply means; ``thing`` for one that is not in the vocabulary."""
        known = {fold_text(kind): kind for kind in self.entity_types}
        return known.get(fold_text(said), "thing") if known else said

    def has_predicate(self, said: str) -> bool:
        """Whether a predicate is in the vocabulary."""
        return not self.predicates or said in self.predicates


_ANY_TOPIC = "one or two words, in English."
_DEFAULT_PREDICATES = (
    " Of people: lives_in, works_at, works_as, studies_at, born_on, married_to, parent_of, sibling_of, friend_of,"
    " likes, dislikes, prefers, owns, uses, takes, allergic_to, suffers_from, phone_number, plans_to, visited, decided."
    " Of tasks and things: done_by, due_on, uses, depends_on, has_status, located_in, part_of, costs."
    " Where none of these fits, one of your own."
)
_DEFAULT_ENTITY_TYPES = "person, organization, place, animal, event, object or topic"
_TOPIC_LIST_HEADER = "one of these labels, letter by letter; a fact that belongs to none of them is left out:"


OPEN_VOCABULARY = Vocabulary()
"""Any topic, any kind of entity, any predicate."""


def format_predicate(words: str) -> str:
    """A predicate in snake_case."""
    return "_".join(words.lower().split())


def _format_topic(topic: Topic) -> str:
    examples = f" For example: {' '.join(topic.examples)}" if topic.examples else ""
    return f"  - `{topic.label}`: {topic.description}.{examples}"


def _select_topics(labels: Iterable[str], topics: Iterable[Topic]) -> tuple[Topic, ...]:
    known = {fold_text(topic.label): topic for topic in topics}
    labels = [labels] if isinstance(labels, str) else [str(label) for label in labels]
    if unknown := sorted(label or "of no name" for label in labels if fold_text(label) not in known):
        there_are = ", ".join(topic.label for topic in known.values())
        raise errors.ConfigurationError(reason=f"there is no topic {', '.join(unknown)}, only {there_are}")
    return tuple(known[fold_text(label)] for label in dict.fromkeys(labels))
