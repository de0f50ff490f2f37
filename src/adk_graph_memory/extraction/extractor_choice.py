"""Choose the extractor that the configuration asks for."""

from __future__ import annotations

from collections.abc import Sequence

from adk_graph_memory import llm
from adk_graph_memory.extraction.extractor import Extractor, ModelExtractor
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.extraction.vocabulary import Topic, Vocabulary
from adk_graph_memory.settings import Settings


def choose_extractor(model: llm.BaseLlm | None, topics: Sequence[Topic | str] | None, settings: Settings) -> Extractor:
    """A model extractor, or rules if there is no model; ``topics`` None means those of the settings."""
    vocabulary = Vocabulary.from_topics(
        settings.topics if topics is None else topics,
        entity_types=settings.entity_types,
        predicates=settings.predicates,
        functional_predicates=settings.functional_predicates,
    )
    if model is None:
        return RuleExtractor().restrict_topics([topic.label for topic in vocabulary.topics])
    return ModelExtractor(
        model,
        window_tokens=settings.limits.window_tokens,
        retry_policy=llm.RetryPolicy.from_settings(settings),
        vocabulary=vocabulary,
        keep_unverified=settings.keep_unverified,
    )
