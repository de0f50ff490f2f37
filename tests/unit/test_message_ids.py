"""Messages of Agent Framework have ids that a transcript sent again has too."""

from __future__ import annotations

import pytest

pytest.importorskip("agent_framework", reason="the extra agent-framework is not installed")

from agent_framework import Content, Message
from hypothesis import given
from hypothesis import strategies as st

from adk_graph_memory.maf.history_provider import decode_message, encode_message
from adk_graph_memory.maf.message_ids import choose_author, count_known, derive_message_ids, digest_message, get_digest

TEXTS = st.lists(st.sampled_from(["yes", "no", "why?"]), max_size=8)


@pytest.mark.parametrize(
    ("known", "later", "count"),
    [
        ("", "ab", 0),
        ("ab", "", 0),
        ("ab", "c", 0),
        ("ab", "abc", 2),  # the transcript again, and what is new
        ("abcd", "cde", 2),  # its end again
        ("cd", "abcde", 4),  # more than was known
        ("aba", "a", 1),  # a run that failed, tried again
        ("ab", "a", 0),  # the same question again
        ("abab", "ab", 2),
    ],
)
def test_what_is_sent_again_is_known(known: str, later: str, count: int) -> None:
    assert count_known(list(known), list(later)) == count


@given(TEXTS, TEXTS)
def test_a_whole_transcript_has_the_ids_that_its_messages_had(first: list[str], second: list[str]) -> None:
    assert derive_message_ids(first + second)[: len(first)] == derive_message_ids(first)
    assert len(set(derive_message_ids(first + second))) == len(first + second)
    if first:
        assert count_known(first, first + second) >= len(first)


def test_an_id_holds_its_digest() -> None:
    digest = digest_message(Message("user", ["Yes."]))
    assert [get_digest(id) for id in derive_message_ids([digest, digest])] == [digest, digest]
    assert get_digest("made-elsewhere") == "made-elsewhere"


def test_messages_differ_by_role_words_and_tools() -> None:
    messages = [
        Message("user", ["Yes."]),
        Message("assistant", ["Yes."]),
        Message("user", ["No."]),
        Message("assistant", ["Yes.", Content.from_function_call("c1", "walk", arguments="{}")]),
        Message("assistant", ["Yes.", Content.from_function_call("c2", "walk", arguments="{}")]),
        Message("tool", [Content.from_function_result("c1", result="done")]),
    ]
    assert len({digest_message(message) for message in messages}) == len(messages)
    again = Message("user", ["Yes."], message_id="m1", additional_properties={"channel": "web"})
    assert digest_message(again) == digest_message(messages[0])


def test_a_message_is_the_same_after_it_was_stored() -> None:
    contents = ["I look.", Content.from_function_call("c1", "sky", arguments='{"city": "Évora"}')]
    message = Message("assistant", contents, author_name="companion", message_id="m1", additional_properties={"a": 1})
    event = encode_message(message, id="e1", run_id="r1", timestamp=1.0)
    decoded_message = decode_message(event["body"])
    assert decoded_message is not None
    assert decoded_message.to_dict() == message.to_dict()
    assert digest_message(decoded_message) == digest_message(message)
    assert (event["author"], event["text"]) == ("companion", "I look.")


@pytest.mark.parametrize("blank", ["", " ", "\u200b"])
def test_a_blank_name_is_no_author(blank: str) -> None:
    assert choose_author(Message("assistant", ["Hi"], author_name=blank), "companion") == "companion"
    assert choose_author(Message("assistant", ["Hi"], author_name=blank), blank) == "assistant"
    assert choose_author(Message("user", ["Hi"], author_name=blank)) == "user"
