"""Topics and vocabularies: what a model is told of them, and what of its reply is kept."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from adk_graph_memory import Limits, Topic, Turn, errors
from adk_graph_memory.adk import memory_codec
from adk_graph_memory.extraction.extractor import ModelExtractor
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.extraction.vocabulary import MANAGED_TOPICS, Vocabulary
from adk_graph_memory.testing import ScriptedLlm

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
BEES = Topic("BEES", "bees and their hives", ("Ada has two hives.",))


def extractor(vocabulary: Vocabulary, *facts: dict[str, Any]) -> tuple[ModelExtractor, ScriptedLlm]:
    fact_replies = [
        {"subject": 1, "predicate": "keeps", "text": "Ada keeps bees", "quote": "bees", "turns": [0], **f}
        for f in facts
    ]
    entities = [{"ref": 1, "name": "user", "type": "person"}, {"ref": 2, "name": "bees", "type": "insect"}]
    model = ScriptedLlm.from_replies(json.dumps({"entities": entities, "facts": fact_replies}))
    return ModelExtractor(model, limits=Limits(), vocabulary=vocabulary), model


def prompt(model: ScriptedLlm) -> str:
    [request] = model.requests
    return request.contents[0].parts[0].text


TOLD = [Turn("t0", "user", "I keep bees", NOON)]


async def test_a_fact_of_no_topic_is_left_out_and_counted() -> None:
    reader, model = extractor(Vocabulary.from_topics([BEES]), {"topic": "bees"}, {"topic": "weather"}, {})
    read = await reader.extract(TOLD, [])
    assert [fact.topic for fact in read.facts] == ["BEES"]
    assert read.drop_counts == {"fact of no topic that was asked for": 2}
    assert "- `BEES`: bees and their hives. For example: Ada has two hives." in prompt(model)


async def test_without_topics_any_will_do() -> None:
    reader, model = extractor(Vocabulary(), {"topic": " weather "})
    assert [fact.topic for fact in (await reader.extract(TOLD, [])).facts] == ["weather"]
    assert "- `topic`: one or two words, in English.\n" in prompt(model)


async def test_a_request_keeps_to_the_topics_it_allows() -> None:
    reader, model = extractor(
        Vocabulary.from_topics([BEES, "USER_PREFERENCES"]), {"topic": "BEES"}, {"topic": "USER_PREFERENCES"}
    )
    read = await reader.restrict_topics(["user_preferences"]).extract(TOLD, [])
    assert [fact.topic for fact in read.facts] == ["USER_PREFERENCES"]
    assert "BEES" not in prompt(model)


def test_without_topics_of_its_own_a_request_may_allow_those_of_memory_bank() -> None:
    vocabulary = Vocabulary().restrict_topics(["EXPLICIT_INSTRUCTIONS"])
    assert vocabulary.topics == (MANAGED_TOPICS[3],)


@pytest.mark.parametrize(
    "chosen",
    [lambda: Vocabulary.from_topics(["BEEZ"]), lambda: Vocabulary.from_topics([BEES]).restrict_topics(["BEEZ"])],
)
def test_an_unknown_topic_is_named_beside_those_there_are(chosen: Any) -> None:
    with pytest.raises(errors.ConfigurationError, match=r"no topic BEEZ, only (USER_PERSONAL_INFO|BEES)"):
        chosen()


def test_rules_refuse_topics() -> None:
    reader = RuleExtractor()
    assert reader.restrict_topics([]) is reader
    with pytest.raises(errors.ConfigurationError, match="topics need a model"):
        reader.restrict_topics(["BEES"])


async def test_a_fact_of_no_predicate_of_the_vocabulary_is_left_out_and_counted() -> None:
    reader, model = extractor(
        Vocabulary.from_topics(predicates=["Lives in", "keeps"]), {}, {"predicate": "lives in"}, {"predicate": "eats"}
    )
    read = await reader.extract(TOLD, [])
    assert [fact.predicate for fact in read.facts] == ["keeps", "lives_in"]
    assert read.drop_counts == {"fact of no predicate that was asked for": 1}
    assert "lives_in, keeps." in prompt(model)


async def test_an_entity_of_no_type_of_the_vocabulary_is_a_thing() -> None:
    reader, model = extractor(Vocabulary.from_topics(entity_types=["Person", "Place"]), {"object": 2})
    assert [entity.type for entity in (await reader.extract(TOLD, [])).entities] == ["Person", "thing"]
    assert "- `type`: one of Person, Place." in prompt(model)


@pytest.mark.parametrize(
    ("given", "labels"),
    [
        (None, ()),
        ({}, ()),
        ({"allowed_topics": "BEES"}, ("BEES",)),
        ({"allowed_topics": ["BEES", "B"]}, ("BEES", "B")),
        ({"topics": [{"managed_memory_topic": "BEES"}, {"custom_memory_topic_label": "B"}]}, ("BEES", "B")),
    ],
)
def test_allowed_topics_are_taken_from_custom_metadata(given: Any, labels: tuple[str, ...]) -> None:
    options = memory_codec.read_options(given)
    assert (options.topics, options.metadata) == (labels, {})
