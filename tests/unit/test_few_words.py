"""Few words are no language: what people here speak tells which of them are ordinary."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from itertools import pairwise

import pytest

from adk_graph_memory.graph import lucene
from adk_graph_memory.language.detection import detect_language, detect_languages, load_stop_words
from adk_graph_memory.retrieval.question import (
    MAX_QUESTION_WORDS,
    format_part_queries,
    parse_question,
    split_query_parts,
)

NOW = datetime(2026, 11, 21, tzinfo=UTC)

QUERIES = re.split(
    ", ",
    "dog breed, cat food, car model, dog zebra, son school, red car, van hire, hat size, den colour, die cast, "
    "job title, phone number, home address, sister name, blood type, wine list, tea brand, flat rent, gym day, "
    "train time, visa date, pet name, bus line, man bag, sun cream, tv show, card pin, rose garden, part time, "
    "sol beer, data plan, dog walker, cat allergy, car insurance, son birthday, red wine, van parked, hut key, "
    "sit spot, care home, plus size, over coat, mit degree, sin tax, para sport, come back, fin whale, bent spoon, "
    "fast train, gift shop, war film, art class, note book, arm pain, rat trap, bad tooth, tag price, mode shop, "
    "pour over, tout agency, fort visit, soft toy, dove cage, era music, due date, sera test, mama visit, alle cat, "
    "man cave, hans boat, era dress, mine shaft, dos laptop",
)


def searched(query: str, *languages: str) -> list[str]:
    return parse_question(query, (), NOW, languages).terms


def test_no_word_of_a_short_query_is_lost() -> None:
    assert len(set(QUERIES)) >= 69
    assert [query for query in QUERIES if searched(query, "en") != query.split()] == []


@pytest.mark.parametrize("language", ["ja", "ru", "ar"])
def test_nor_is_it_where_people_write_another_script(language: str) -> None:
    assert [query for query in QUERIES if searched(query, language) != query.split()] == []


@pytest.mark.parametrize(
    ("query", "language", "terms"),
    [
        ("perra de mi hermana", "es", ["perra", "hermana"]),
        ("Hund von meiner Schwester", "de", ["Hund", "Schwester"]),
        ("chien de ma sœur", "fr", ["chien", "sœur"]),
        ("кто моя сестра", "ru", ["сестра"]),
    ],
)
def test_what_is_ordinary_where_people_speak_so_is_left_out(query: str, language: str, terms: list[str]) -> None:
    assert searched(query, language) == terms


def test_of_a_language_that_nobody_speaks_no_word_is_ordinary() -> None:
    question = "¿Cuándo fue la última vez que estuve con mi hermano en Cuenca?"
    parsed_question = parse_question(question, (), NOW, ("en",))
    assert parsed_question.language == "es"
    assert {"Cuándo", "la", "mi"} <= set(parsed_question.terms)
    assert not {"la", "mi"} & set(searched(question, "en", "es"))


@pytest.mark.parametrize(("query", "language"), [("was ist das", "de"), ("¿qué es?", "es"), ("who is it", "en")])
def test_ordinary_words_alone_are_searched_for(query: str, language: str) -> None:
    assert searched(query, language) == query.strip("¿?").split()


@pytest.mark.parametrize(
    ("text", "spoken", "language"),
    [
        ("dog breed", ("en",), "en"),
        ("dog breed", ("en", "da"), "da"),
        ("mi perro", ("en", "es"), "es"),
        ("Reisepass", ("de", "en"), "de"),
        ("dog cat car son visa", ("en",), "en"),
        ("Wo wohnt meine Schwester jetzt, und mit wem?", ("en",), "de"),
        ("東京 天気", ("ja",), "ja"),
        ("東京 天気", ("en",), "zh"),
        ("собака", ("uk", "en"), "uk"),
        ("iPhone", ("zh",), "en"),
        ("12345", ("de",), "de"),
    ],
)
def test_few_words_are_in_a_language_that_people_speak(text: str, spoken: tuple[str, ...], language: str) -> None:
    assert detect_language(text, *spoken) == language


def test_what_people_speak_is_told_from_all_they_said() -> None:
    german, spanish = ["Ich halte Bienen in meinem Garten."] * 3, ["Tengo abejas en mi jardín.", "Perro malo."]
    assert detect_languages([*german, *spanish, "dog breed", "car", "👍"]) == ("de", "es")
    assert detect_languages(["Trabajo en Cuenca.", "Vivo con mi madre.", "No lo sé."]) == ("es",)
    assert detect_languages(["我养蜜蜂", "bees"]) == ("zh",)
    assert detect_languages(["", "👍"]) == detect_languages([]) == ()


@pytest.mark.parametrize(("analyzer", "language"), [("german", "de"), ("cjk", "en"), ("standard-no-stop-words", "en")])
def test_where_nothing_was_said_the_first_analyzer_tells(analyzer: str, language: str) -> None:
    assert lucene.get_analyzer_language(analyzer) == language


def test_a_long_message_is_searched_by_its_names_numbers_and_longest_words_and_twice_by_its_ends() -> None:
    letters = [chr(97 + number % 26) * 3 + chr(97 + number // 26) for number in range(600)]
    plain = [f"then somebody met {word} by chance" for word in letters]
    named = ["yesterday Clara found 1234 tins", "an extraordinarilylongnamed thing happened"]
    text = ". ".join([*plain[:300], *named, *plain[300:], "How are my bees?"])
    parts = split_query_parts(text, "en")
    words = [term for part in parts for term in part.terms]
    assert {"Clara", "1234", "extraordinarilylongnamed", "bees"} <= set(words)
    assert [part.boost for part in parts if "bees" in part.terms] == [2.0]
    assert [part.boost for part in parts if "Clara" in part.terms] == [1.0]


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(f"word{number}" for number in range(10_000)),
        " ".join(f"word{number}" for number in range(1_500)),
        ". ".join(f"Then word{number} met name{number} by chance" for number in range(1_500)),
        "".join(chr(0x4E00 + number % 5_000) for number in range(20_000)),
        "。".join(chr(0x4E00 + number % 5_000) * 9 for number in range(2_000)),
        " ".join(sorted(load_stop_words("en"))),
    ],
    ids=["list", "sentence", "sentences", "characters", "sentences of characters", "ordinary words"],
)
def test_a_message_has_no_more_words_than_a_question_and_few_queries(text: str) -> None:
    parsed_question = parse_question(text, (), NOW, ("en", "zh"))
    assert 0 < len(parsed_question.terms) <= MAX_QUESTION_WORDS
    assert len(format_part_queries(parsed_question.query_parts, "abc", ("text", "words"))) <= 28
    assert len(parsed_question.asking_terms) <= MAX_QUESTION_WORDS


CHINESE = ["今天天气很好我们去公园散步看见很多人在那里放风筝", "王小明来了", "晚上回家吃饭看电视然后睡觉"]
KOREAN = ["나는 오늘 아침에 공원에서 산책을 했다 ", "Zanzibar 에서 ", "저녁에는 집에서 쉬었다 "]


@pytest.mark.parametrize(("said", "name"), [(CHINESE, "小明"), (KOREAN, "Zanzibar")], ids=["Chinese", "Korean"])
def test_a_name_in_the_middle_of_a_message_without_spaces_is_searched_for(said: list[str], name: str) -> None:
    before, named, after = said
    terms = [term for part in split_query_parts(before * 30 + named + after * 30, "zh") for term in part.terms]
    assert name in terms
    assert len(terms) == len(set(terms)) <= MAX_QUESTION_WORDS


def test_a_message_without_spaces_is_searched_for_pairs_from_all_of_it() -> None:
    text = "".join(chr(0x4E00 + number) for number in range(3_000))
    places = sorted(text.index(term) for part in split_query_parts(text, "zh") for term in part.terms)
    assert max(after - before for before, after in pairwise(places)) < 100


def test_what_a_message_asks_stands_at_its_end() -> None:
    story = " ".join(f"In 2019 word{number} was an old friend of Bob." for number in range(200))
    parsed_question = parse_question(
        f"{story} How are my bees doing in the garden now? Thanks!", (("Bob",),), NOW, ("en",)
    )
    assert parsed_question.first_person_text.endswith("How are my bees doing in the garden now? Thanks!")
    assert len(parsed_question.first_person_text) < 200
    assert "bees" in parsed_question.asking_terms and "word7" not in parsed_question.asking_terms
    assert {"bees", "2019"} <= set(parsed_question.terms)


def test_a_question_is_searched_at_once_and_as_it_is() -> None:
    parsed_question = parse_question("Who is it? Where do my bees sleep?", (), NOW, ("en",))
    assert format_part_queries(parsed_question.query_parts, "abc", ["text"]) == lucene.format_lucene_queries(
        "abc", parsed_question.asking_terms, ["text"]
    )
    assert parsed_question.first_person_text == "Who is it? Where do my bees sleep?"
