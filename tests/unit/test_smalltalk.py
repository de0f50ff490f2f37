"""Turns that only ask or acknowledge are told from those that say something."""

from __future__ import annotations

import pytest

from adk_graph_memory.retrieval.smalltalk import extract_question_words, is_smalltalk

ASKED = extract_question_words("Where does Franzi work?")


@pytest.mark.parametrize(
    "text",
    [
        "What about my dog?",
        "Where does Franzi work?",
        "Hey Franzi! How are you?",
        "And where is Franzi's key?",
        "Noted. And where is the spare key?",
        "I do not know.",
        "I'm sorry, I don't know that yet.",
        "I have no information about that.",
        "I will remember that",
        "ok, thanks",
        "No worries, you've got this!",
        "Thanks! Keep it up. Have a great day.",
        "你的狗叫什么名字？",
        "我不知道。",
        "好的，谢谢",
        "わかりました。",
        "알겠습니다.",
        "أين أعيش؟",
        "لا أعرف",
        "Das weiß ich nicht.",
        "No lo sé.",
        "Je ne sais pas.",
        "Я не знаю.",
    ],
)
def test_a_turn_that_only_asks_or_acknowledges_says_nothing(text: str) -> None:
    assert is_smalltalk(text, ASKED)


@pytest.mark.parametrize(
    "text",
    [
        "Yes, I do.",
        "No.",
        "No, thanks.",
        "Under the blue pot.",
        "In Porto.",
        "Thanks, I love it there",
        "I have a dog, what should I feed him?",
        "Did you know I have a dog?",
        "You live in Porto, right?",
        "Do you have a dog named Rex?",
        "Rex?",
        "Did we say 7 or 8?",
        "OK, 4711.",
        "I work at Velasorda, don't I?",
        "我住在北京。",
        "",
        "…",
        "What is it? " * 20,
    ],
)
def test_any_statement_name_or_number_makes_a_turn_say_something(text: str) -> None:
    assert not is_smalltalk(text, ASKED)


def test_a_name_that_the_question_has_itself_says_nothing_more() -> None:
    assert is_smalltalk("Does Rex bark?", extract_question_words("What does Rex eat?"))
    assert not is_smalltalk("Does Rex bark?", extract_question_words("What does my dog eat?"))


def test_a_comma_within_a_number_parts_no_question() -> None:
    question = "How far did I swim before it was 1,000 metres?"
    assert is_smalltalk(question, extract_question_words(question))
    assert not is_smalltalk(f"I swam today, {question}", extract_question_words(question))
