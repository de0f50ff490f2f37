"""What is read without a language model: statements, names, dates and the plainest facts, in several languages."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, date, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from adk_graph_memory.extraction import RuleExtractor, contacts
from adk_graph_memory.extraction.modality import is_correction, modality_of
from adk_graph_memory.extraction.sentences import passages
from adk_graph_memory.language.dates import days
from adk_graph_memory.language.words import language_of
from adk_graph_memory.records import ExtractedFact, Extraction, KnownEntity, Turn

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
"""A Monday."""

RULES = RuleExtractor(models=())

AT = datetime(2026, 3, 1, 12, tzinfo=UTC)


def turn(text: str, *, author: str = "user", id: str = "t0", **more: Any) -> Turn:
    return Turn(id, author, text, NOON, **more)


async def read(*texts: str | Turn, known: tuple[KnownEntity, ...] = ()) -> Extraction:
    turns = [text if isinstance(text, Turn) else turn(text, id=f"t{n}") for n, text in enumerate(texts)]
    return await RULES.extract(turns, known)


async def names(*texts: str) -> list[str]:
    found = await read(*texts)
    return sorted(entity.name for entity in found.entities if entity.name != "user" and entity.type != "thing")


def told(found: Extraction) -> list[tuple[str, str, str | None, str]]:
    """Subject, predicate, object and modality of each fact, by name."""
    name = {entity.ref: entity.name for entity in found.entities} | {None: None}
    return [(str(name[f.subject]), f.predicate, name[f.object], f.modality) for f in found.facts]


def period(fact: ExtractedFact) -> tuple[date | None, date | None]:
    since, until = fact.valid_from, fact.valid_to
    return since.date() if since else None, until.date() if until else None


# --- statements ---------------------------------------------------------------------------------------------


async def test_a_statement_is_kept_in_its_speakers_words() -> None:
    [fact] = (await read("I keep bees in the garden.")).facts
    assert (fact.text, fact.speaker, fact.predicate, fact.at) == ("I keep bees in the garden.", "user", "states", NOON)


async def test_its_object_is_the_first_other_name() -> None:
    assert told(await read("I met Anna and Ben there.")) == [("user", "states", "Anna", "asserted")]


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Where do the bees live?", "a question"),
        ("蜜蜂住在哪里？", "a question"),
        ("أين يعيش النحل هنا؟", "a question"),
        ("He asked “where do they live?”", "a question"),
        ("Thank you!", "too short to say anything"),
        ("Ok.", "too short to say anything"),
        ("I see.", "too short to say anything"),
        ("👍👍👍", "too short to say anything"),
    ],
)
async def test_what_says_nothing_is_dropped_with_the_reason(text: str, reason: str) -> None:
    found = await read(text)
    assert (found.facts, found.dropped) == ((), {reason: 1})


async def test_what_an_agent_says_is_no_fact() -> None:
    found = await read(turn("I live in Rome.", author="bot", role="model"))
    assert (found.facts, found.dropped) == ((), {"said by an agent": 1})


async def test_a_statement_beside_a_question_is_kept() -> None:
    found = await read("I keep bees in the garden. Do you like honey?")
    assert [fact.text for fact in found.facts] == ["I keep bees in the garden."]
    assert found.dropped == {"a question": 1}


@pytest.mark.parametrize("text", ["I'm vegetarian.", "I quit smoking.", "My brother sings."])
async def test_a_short_sentence_about_oneself_is_kept(text: str) -> None:
    assert [fact.text for fact in (await read(text)).facts] == [text]


@pytest.mark.parametrize(
    "text",
    [
        "我在花园里养了很多蜜蜂。",
        "私は庭でミツバチを飼っています。",
        "저는 정원에서 꿀벌을 키웁니다.",
        "أربي النحل في الحديقة منذ زمن.",
        "Я держу пчёл в своём саду.",
        "Ich halte Bienen in meinem Garten.",
        "Tengo abejas en mi jardín.",
        "Κρατάω μέλισσες στον κήπο μου.",
    ],
)
async def test_statements_of_other_languages_are_kept_too(text: str) -> None:
    [fact] = (await read(text)).facts
    assert (fact.text, fact.predicate, fact.modality) == (text, "states", "asserted")


async def test_the_speaker_is_who_said_the_turn() -> None:
    found = await read(
        turn("I live in Rome.", author="Ben"), turn("Thanks, Ben. I live in Oslo.", author="Eva", id="t1")
    )
    assert told(found) == [("Ben", "lives_in", "Rome", "asserted"), ("Eva", "lives_in", "Oslo", "asserted")]
    [ben] = [entity.ref for entity in found.entities if entity.name == "Ben"]
    assert ("t1", ben) in found.mentions


# --- sentences ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "It costs 3.50 euros at the shop.",
        "I read it on www.example.org this morning.",
        "I saw Dr. Smith at St. Mary's, e.g. on Monday.",
        "My favourite writer is J. R. R. Tolkien of course.",
        "You can mail me at ada.b@example.org or not.",
        "I left at 5 p.m. with the others.",
        "Ich habe z. B. einen Hund und wohne in der Bahnhofstr. 5.",
        "Я живу в г. Москве на ул. Ленина.",
    ],
)
async def test_a_point_inside_ends_no_sentence(text: str) -> None:
    assert [text[p.start : p.end] for p in passages(text, language_of(text))] == [text]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I keep bees here. I sell honey.", ["I keep bees here.", "I sell honey."]),
        ("Do it for me. I need help.", ["Do it for me.", "I need help."]),
        ("We expect them in May. Anton rang.", ["We expect them in May.", "Anton rang."]),
        ("one thing\ntwo things", ["one thing", "two things"]),
        ("犬がいます！猫もいます。", ["犬がいます！", "猫もいます。"]),
        ("你好。ok then. Yes", ["你好。", "ok then.", "Yes"]),
        ("This Tuesday I slept. This week I work.", ["This Tuesday I slept.", "This week I work."]),
        ("I have bees. They make dark honey. I sell it.", ["I have bees. They make dark honey.", "I sell it."]),
        ("Mail me here: \nada@example.org", ["Mail me here: \nada@example.org"]),
        ("Is it late? It is late.", ["Is it late?", "It is late."]),
    ],
)
def test_sentences_and_what_leans_on_them(text: str, expected: list[str]) -> None:
    assert [text[p.start : p.end].strip() for p in passages(text, language_of(text))] == expected


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I met Anna in the garden.", ["Anna"]),
        ("I work with Anton Reiß now.", ["Anton Reiß"]),
        ("My friend Łukasz binds books.", ["Łukasz"]),
        ("We met Zoë and Krümel there.", ["Krümel", "Zoë"]),
        ("I like Jean-Luc and O'Brien a lot.", ["Jean-Luc", "O'Brien"]),
        ("I like Anna's shop and the office at Miller & Sons.", ["Anna", "Miller & Sons"]),
        ("I read Ludwig van Beethoven and J. R. R. Tolkien.", ["J. R. R. Tolkien", "Ludwig van Beethoven"]),
        ("I asked Dr. Novak about it.", ["Novak"]),
        ("Anton Reiß shares my office.", ["Anton Reiß"]),
        ("Tell Anna that I said hello.", ["Anna"]),
        ("I think I'm fine on Monday in May.", []),
        ("Yesterday it rained all day long.", []),
        ("this is NOTHING IMPORTANT really", []),
        ("Вчера я встретил Анну Каренину там.", ["Анну Каренину"]),
        ("Χθες είδα τον Γιώργο στην Αθήνα.", ["Αθήνα", "Γιώργο"]),
        ("Ella vive en San Sebastián con María de la Cruz.", ["María de la Cruz", "San Sebastián"]),
        ("Ich habe einen Hund und wohne mit meiner Frau Anna in Wien.", ["Anna", "Wien"]),
        ("昨日、田中さんとアンナ・カレーニナに会いました。", ["アンナ・カレーニナ", "田中"]),
        ("어제 안나 씨를 만났어요.", ["안나"]),
        ("She writes her name 田中美咲 and cooks.", ["田中美咲"]),
        ("Her name is مريم and she sings.", ["مريم"]),
    ],
)
async def test_names_are_told_by_how_they_are_written(text: str, expected: list[str]) -> None:
    assert await names(text) == expected


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My name is Anna Maria Berg, by the way.", "Anna Maria Berg"),
        ("I'm tall and everyone calls me Lofty.", "Lofty"),
        ("Me llamo Inés y soy médica.", "Inés"),
        ("Ich heiße Jürgen und mag Tee.", "Jürgen"),
        ("Меня зовут Анна Павлова.", "Анна Павлова"),
        ("Με λένε Γιώργο.", "Γιώργο"),
        ("私の名前は田中美咲です。", "田中美咲"),
        ("我叫王小明。", "王小明"),
        ("제 이름은 김민수입니다.", "김민수"),
        ("اسمي أحمد.", "أحمد"),
    ],
)
async def test_a_name_that_somebody_gives_themselves_is_an_alias_of_theirs(text: str, name: str) -> None:
    found = await read(text)
    assert [entity.aliases for entity in found.entities if entity.name == "user"] == [(name,)]
    assert ("user", "named", None, "asserted") in told(found)
    assert all(entity.name != name for entity in found.entities)


@pytest.mark.parametrize(
    "text", ["My name is mud these days.", "If my name is Anna, then what.", "My name is not Anna."]
)
async def test_no_name_is_made_of_what_is_none(text: str) -> None:
    assert [entity.aliases for entity in (await read(text)).entities if entity.name == "user"] == [()]


async def test_a_first_word_is_a_name_where_it_is_used_as_one_elsewhere() -> None:
    assert await names("Anna keeps bees here. I like Anna.") == ["Anna"]


async def test_what_two_turns_speak_of_is_an_entity() -> None:
    found = await read("I cleaned the workshop, again.", "Nobody sleeps in the workshop.", "The shed is full.")
    assert [entity.name for entity in found.entities if entity.type == "thing"] == ["workshop"]


async def test_a_turn_mentions_the_names_it_uses() -> None:
    found = await read("I met Ann in the garden.", "The Annex is closed for now.")
    [ann] = [entity.ref for entity in found.entities if entity.name == "Ann"]
    assert ("t0", ann) in found.mentions
    assert ("t1", ann) not in found.mentions


ANNA = KnownEntity("k1", "Anna", "person", ("Anna Berg", "美咲"))


@pytest.mark.parametrize(
    "text", ["I met anna there.", "Anna rang me up.", "ANNA BERG rang me.", "昨日美咲に会いました。"]
)
async def test_a_known_entity_is_recognised(text: str) -> None:
    found = await read(text, known=(ANNA,))
    assert [entity.known_key for entity in found.entities if entity.name == "Anna"] == ["k1"]
    assert [fact.object for fact in found.facts] == [1]


@pytest.mark.parametrize(
    ("known", "text"),
    [
        (ANNA, "I met annabel there."),
        (KnownEntity("k", "Will", "person"), "I will see them there."),
        (KnownEntity("k", "Rose", "person"), "I bought a rose there."),
        (KnownEntity("k", "user", "person"), "Every user of it likes this."),
    ],
)
async def test_another_word_is_no_known_entity(known: KnownEntity, text: str) -> None:
    found = await read(text, known=(known,))
    assert found.facts[0].object is None
    assert {ref for _, ref in found.mentions} == set()


async def test_a_name_that_two_entities_share_is_given_to_neither() -> None:
    twins = (KnownEntity("a", "Anton Reiß", "person", ("Anton",)), KnownEntity("b", "Anton Vogt", "person", ("Anton",)))
    found = await read("I met Anton in the garden.", known=twins)
    assert [(entity.name, entity.known_key) for entity in found.entities] == [("user", None), ("Anton", None)]


async def test_the_author_keeps_the_key_that_is_known() -> None:
    me = KnownEntity("k", "user", "person", ("Franka Ott",))
    found = await read("My sister said: Franka Ott never sleeps.", known=(me,))
    assert [entity.known_key for entity in found.entities] == ["k"]


# --- what is said outright ----------------------------------------------------------------------------------

SLOTS = [
    ("I live in Rome.", ("user", "lives_in", "Rome", "asserted")),
    ("We live in Rome now.", ("user", "lives_in", "Rome", "asserted")),
    ("Now I'm living in New York.", ("user", "lives_in", "New York", "asserted")),
    ("I moved to Rome last week.", ("user", "lives_in", "Rome", "asserted")),
    ("I've just moved from Oslo to Rome.", ("user", "lives_in", "Rome", "asserted")),
    ("I am going to move to Rome.", ("user", "lives_in", "Rome", "planned")),
    ("We plan to move to Rome.", ("user", "lives_in", "Rome", "planned")),
    ("I'm moving to Rome.", ("user", "lives_in", "Rome", "planned")),
    ("I'll move to Rome next month.", ("user", "lives_in", "Rome", "planned")),
    ("I might move to Rome.", ("user", "lives_in", "Rome", "hypothetical")),
    ("Maybe I will move to Rome.", ("user", "lives_in", "Rome", "hypothetical")),
    ("If it rains, I move to Rome.", ("user", "lives_in", "Rome", "hypothetical")),
    ("I would live in Rome.", ("user", "lives_in", "Rome", "hypothetical")),
    ("I want to live in Rome.", ("user", "lives_in", "Rome", "hypothetical")),
    ("I don't live in Rome any more.", ("user", "lives_in", "Rome", "negated")),
    ("I no longer live in Rome.", ("user", "lives_in", "Rome", "negated")),
    ("I never lived in Rome.", ("user", "lives_in", "Rome", "negated")),
    ("I used to live in Rome.", ("user", "lives_in", "Rome", "asserted")),
    ("I work at Acme.", ("user", "works_at", "Acme", "asserted")),
    ("I work for Miller & Sons.", ("user", "works_at", "Miller & Sons", "asserted")),
    ("Next month I'll start at Acme.", ("user", "works_at", "Acme", "planned")),
    ("I started at Acme on 1 March.", ("user", "works_at", "Acme", "asserted")),
    ("I no longer work at Acme.", ("user", "works_at", "Acme", "negated")),
    ("I quit my job at Acme.", ("user", "works_at", "Acme", "negated")),
    ("I stopped working for Acme.", ("user", "works_at", "Acme", "negated")),
    ("I work as a night nurse.", ("user", "works_as", "night nurse", "asserted")),
    ("I study physics at Harvard.", ("user", "studies_at", "Harvard", "asserted")),
    ("I was born in Oslo.", ("user", "born_in", "Oslo", "asserted")),
    ("I was born on 12 March 1988.", ("user", "born_on", None, "asserted")),
    ("I'm from Oslo.", ("user", "comes_from", "Oslo", "asserted")),
    ("I'm married to Anna.", ("user", "married_to", "Anna", "asserted")),
    ("I'm allergic to walnuts.", ("user", "allergic_to", "walnuts", "asserted")),
    ("I'm not allergic to walnuts at all.", ("user", "allergic_to", "walnuts", "negated")),
    ("I'm 37 years old.", ("user", "age", None, "asserted")),
    ("My phone number is 555 0134.", ("user", "phone_number", None, "asserted")),
    ("My new mobile number: +49 152 555 0134.", ("user", "phone_number", None, "asserted")),
    ("My e-mail address is ada@example.org.", ("user", "email", None, "asserted")),
    ("My new address is Bakerstreet 5, Rome.", ("user", "address", None, "asserted")),
    ("Vivo en Valencia desde marzo.", ("user", "lives_in", "Valencia", "asserted")),
    ("Ya no vivo en Valencia, por suerte.", ("user", "lives_in", "Valencia", "negated")),
    ("Mi nuevo número de teléfono es el 555 010 177.", ("user", "phone_number", None, "asserted")),
    ("Ich wohne seit dem 3. März 2024 in Wien.", ("user", "lives_in", "Wien", "asserted")),
    ("Ich wohne nicht mehr in Wien.", ("user", "lives_in", "Wien", "negated")),
    ("Ich arbeite bei Siemens und mag es.", ("user", "works_at", "Siemens", "asserted")),
]


@pytest.mark.parametrize(("text", "expected"), SLOTS, ids=[text for text, _ in SLOTS])
async def test_what_is_said_outright_is_named(text: str, expected: tuple[str, str, str | None, str]) -> None:
    found = await read(text)
    assert told(found) == [expected]
    assert found.facts[0].text == text


NO_SLOTS = [
    "I live in a small flat near Rome.",
    "I moved to another team at Acme.",
    "I moved my plants to Rome.",
    "Do I look like I live in Rome, dear Anna.",
    "I wish I lived in Rome.",
    "I dreamed that I live in Rome.",
    "In the book I live in Rome.",
    "Anna said I live in Rome.",
    'He shouted "I live in Rome" and left.',
    "Anna's brother lives in Rome.",
    "The friends of Anna and Ben moved to Rome.",
    "I have worked at Acme and other places.",
    "He lives in Rome with us.",
    "Back from Oslo with gifts.",
    "Today Anna from Oslo rang me.",
    "I met a man who works at Acme.",
    "I left Acme early that day.",
    "Good that I don't only work at Acme.",
    "My number is up, they say.",
    "My old phone number was 555 0134.",
    "My phone number isn't 555 0134.",
    "Her phone number is 555 0134.",
    "I am allergic to some kind of nut.",
    "I told you I was allergic to penicillin.",
    "I'm 5 minutes late again.",
    "Si vivo en Roma, soy feliz.",
]


@pytest.mark.parametrize("text", NO_SLOTS)
async def test_what_is_not_said_outright_stays_a_statement(text: str) -> None:
    assert [fact.predicate for fact in (await read(text)).facts] == ["states"]


async def test_what_a_name_does_is_said_of_its_bearer() -> None:
    found = await read("I like Anna. Anna lives in Rome now.", "Anna is allergic to cats but not to dogs.")
    assert told(found)[1:] == [("Anna", "lives_in", "Rome", "asserted"), ("Anna", "allergic_to", "cats", "asserted")]


async def test_one_sentence_may_say_two_things() -> None:
    found = await read("Now I live in Valencia and work at Acme, and my dog is happy.")
    assert [fact[1:3] for fact in told(found)] == [("lives_in", "Valencia"), ("works_at", "Acme")]
    found = await read("I work as an acoustic consultant at Acme.")
    assert [fact[1:3] for fact in told(found)] == [("works_at", "Acme"), ("works_as", "acoustic consultant")]


async def test_what_somebody_else_says_is_reported() -> None:
    assert told(await read("I like Ben.", "Anna said that Ben lives in Rome."))[1] == (
        "Ben",
        "lives_in",
        "Rome",
        "reported",
    )
    assert told(await read("Anna told me the pool will close."))[0][3] == "reported"


async def test_an_employer_is_left_and_never_moved_to() -> None:
    found = await read("I work at Acme.", "I left Acme.", "I moved to Acme in some way.")
    assert told(found) == [
        ("user", "works_at", "Acme", "asserted"),
        ("user", "works_at", "Acme", "negated"),
        ("user", "states", "Acme", "asserted"),
    ]


async def test_the_objects_kind_is_told_by_the_verb() -> None:
    found = await read("I live in Rome.", "I work at Acme.")
    assert {entity.name: entity.type for entity in found.entities} == {
        "user": "person",
        "Rome": "place",
        "Acme": "organization",
    }


def test_predicates_of_one_value_are_named() -> None:
    assert {"lives_in", "works_at", "phone_number"} <= RuleExtractor.functional
    assert not {"states", "named", "allergic_to"} & RuleExtractor.functional


@pytest.mark.parametrize(
    "text",
    [
        "I have a new phone number. It's 555 0134.",
        "I've got a new number! It is +49 (0)30 555 0134.",
        "I have a new phone number.\n555 0134 22",
        "My new number: 555 0134 22",
    ],
)
async def test_a_number_is_kept_with_what_it_is(text: str) -> None:
    [fact] = (await read(text)).facts
    assert (fact.predicate, fact.text, fact.sources[0].quote) == ("phone_number", text, text)


# --- modality -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("I keep bees in the garden.", "asserted"),
        ("I don't drink coffee any more.", "negated"),
        ("She is tired, but I don't care.", "asserted"),
        ("Not only bees live here.", "asserted"),
        ("We'll see them in January.", "planned"),
        ("I am going to buy a boat.", "planned"),
        ("We are going to the shelter.", "asserted"),
        ("If I won, I'd buy a boat.", "hypothetical"),
        ("I'd be good at it.", "hypothetical"),
        ("I'd been there before.", "asserted"),
        ("Maybe it's bar talk.", "hypothetical"),
        ("Marta says the pool closes.", "reported"),
        ("My brother believes that it closes.", "reported"),
        ("I heard that it closes.", "reported"),
        ("I heard the sea at night.", "asserted"),
        ("She writes her name like this.", "asserted"),
        ("Ich trinke keinen Kaffee mehr.", "negated"),
        ("Я не пью кофе.", "negated"),
        ("Nado a las siete de la mañana.", "asserted"),
    ],
)
def test_how_a_sentence_says_what_it_says(sentence: str, expected: str) -> None:
    assert modality_of(sentence) == expected


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("No, actually I live in Rome.", True),
        ("No, wait.", True),
        ("I meant Rome.", True),
        ("Correction: it was Tuesday.", True),
        ("Sorry, I was told, that was wrong.", True),
        ("That is right.", False),
        ("No, she lives in Rome.", False),
        ("I actually live in Rome.", False),
    ],
)
def test_what_takes_something_back(sentence: str, expected: bool) -> None:
    assert is_correction(sentence) is expected


async def test_a_correction_goes_with_the_statement_after_it() -> None:
    found = await read("No, wait. I live in Rome. I keep bees there.")
    assert [(fact.predicate, fact.correction) for fact in found.facts] == [("lives_in", True), ("states", False)]
    found = await read("No, actually I live in Rome.")
    assert [(fact.predicate, fact.correction) for fact in found.facts] == [("lives_in", True)]


# --- dates --------------------------------------------------------------------------------------------------

VALIDITY = [
    ("I moved to Rome last week.", date(2026, 4, 27), None),
    ("I moved to Rome on 3 March.", date(2026, 3, 3), None),
    ("I moved to Rome on Saturday.", date(2026, 5, 2), None),
    ("I've lived in Rome since 2019.", date(2019, 1, 1), None),
    ("I lived in Rome from 2019 to 2023.", date(2019, 1, 1), date(2023, 1, 1)),
    ("I used to live in Rome.", None, date(2026, 5, 4)),
    ("I lived in Rome.", None, date(2026, 5, 4)),
    ("Next month I'll start at Acme.", date(2026, 6, 1), None),
    ("I quit my job at Acme yesterday.", date(2026, 5, 3), None),
    ("I was born on 12 March 1988.", date(1988, 3, 12), None),
    ("I live in Rome and on Saturday I swam.", None, None),
    ("Last night I swam 400 metres.", date(2026, 5, 3), None),
    ("Three weeks ago it rained a lot.", date(2026, 4, 13), None),
    ("I signed the lease on 5 January.", date(2026, 1, 5), None),
    ("We are flying out from 30 May to 4 June.", date(2026, 5, 30), date(2026, 6, 4)),
    ("Tomorrow I'll buy a boat.", date(2026, 5, 5), None),
    ("I slept for six hours on the boat.", None, None),
    ("I rented a bench for 160 euros a month.", None, None),
    ("The party is on Saturday at my place.", None, None),
    ("I booked a flight to Rome for December 20th.", None, None),
    ("I signed up for the triathlon in June.", None, None),
    ("I was born in June.", None, None),
    ("We may sit on the sofa.", None, None),
    ("If it rains tomorrow, I stay here.", None, None),
    ("Vivo en Valencia desde el 8 de agosto.", date(2025, 8, 8), None),
    ("Ich wohne seit dem 3. März 2024 in Wien.", date(2024, 3, 3), None),
    ("Вчера я встретил Анну в парке.", date(2026, 5, 3), None),
    ("私は昨日東京に行きました。", date(2026, 5, 3), None),
    ("أعيش في القاهرة منذ 2019 مع أهلي.", date(2019, 1, 1), None),
]


@pytest.mark.parametrize(("text", "since", "until"), VALIDITY, ids=[text for text, *_ in VALIDITY])
async def test_dates_are_told_from_the_turns_own_time(text: str, since: date | None, until: date | None) -> None:
    [fact] = (await read(text)).facts
    assert period(fact) == (since, until)


@pytest.mark.parametrize(
    "text", ["We are 5 people", "call 555 0134", "I paid 2000 euros", "it is 3/4/2025 here", "today and now", "5:30"]
)
def test_what_only_looks_like_a_date_is_none(text: str) -> None:
    assert [days(text, NOON, "en", way) for way in (None, "past", "future")] == [[], [], []]


def test_a_day_is_one_of_the_turns_time_zone() -> None:
    at = datetime.fromisoformat("2026-05-04T01:00:00+09:00")
    [day] = days("I came yesterday.", at, "en")
    assert day.at == datetime.fromisoformat("2026-05-03T00:00:00+09:00")


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("I keep bees in the garden.", "en"),
        ("Ich halte Bienen in meinem Garten.", "de"),
        ("Tengo abejas en mi jardín.", "es"),
        ("Я держу пчёл в своём саду.", "ru"),
        ("Κρατάω μέλισσες", "el"),
        ("蜜蜂を飼っています", "ja"),
        ("我养蜜蜂", "zh"),
        ("أربي النحل", "ar"),
        ("꿀벌", "ko"),
        ("12345 👍", "en"),
        ("", "en"),
    ],
)
def test_the_language_is_told(text: str, language: str) -> None:
    assert language_of(text) == language


# --- the extractor ------------------------------------------------------------------------------------------


async def test_nothing_gives_nothing() -> None:
    assert await read() == Extraction()


def test_the_version_says_which_models_read() -> None:
    assert RuleExtractor(models=()).version == "rules@2"
    assert RuleExtractor(models=("en_core_web_sm",)).version == "rules@2 en_core_web_sm"


async def test_the_same_turns_give_the_same_extraction() -> None:
    texts = ("I met Anna and Ben in Rome.", "Ben works at Acme. It's loud.", "I live in Oslo since 3 March 2020.")
    assert await read(*texts) == await read(*texts)


@given(st.text(max_size=200))
@example("I keep bees. \n\nIn  the\tgarden!  Really?? Yes... a.b.c")
@example("👩‍👩‍👧 is my family now. 我在花园里养蜜蜂。ok")
@example("My name is . I live in . It's 5. 3.3.3333 May 99999999999")
@example("I moved to İstanbul on 31.02.2024. That's it.")
async def test_every_fact_stands_in_its_turn(text: str) -> None:
    said = turn(text)
    found = await read(said)
    for fact in found.facts:
        [source] = fact.sources
        assert said.text[source.start : source.end] == source.quote == fact.text
    refs = {entity.ref for entity in found.entities}
    used = {ref for fact in found.facts for ref in (fact.subject, fact.object)} - {None}
    assert used | {ref for _, ref in found.mentions} <= refs


_PIECES = [
    "I",
    "we",
    "Anna",
    "live",
    "moved",
    "work",
    "in",
    "to",
    "at",
    "Rome",
    "Acme",
    "not",
    "no longer",
    "if",
    "might",
]
_PIECES += [
    "used to",
    "will",
    "since",
    "2019",
    "yesterday",
    "on 3 March",
    ",",
    "and",
    ".",
    "?",
    "It's",
    "555 0134",
    "said",
]
_DENIED = {"not", "no longer", "if", "might", "will"}


@given(st.lists(st.sampled_from(_PIECES), max_size=12))
async def test_however_words_are_put_nothing_denied_is_asserted(words: list[str]) -> None:
    found = await read("I met Anna in Rome at Acme.", " ".join(words))
    for fact in found.facts[1:]:
        place = found.facts.index(fact)
        before = fact.text.split(" in ")[0].split(" to ")[0].split(" at ")[0].split()
        if place and fact.predicate in ("lives_in", "works_at") and before and before[-2:-1] and before[-2] in _DENIED:
            assert fact.modality != "asserted"


async def test_a_thousand_names_are_read_in_seconds() -> None:
    text = " ".join(f"Yesterday I met Ana{'abcdefghij'[n % 10]}{'x' * (n // 10)} at noon." for n in range(1_000))
    began = time.process_time()
    assert len((await read(text)).facts) == 1_000
    assert time.process_time() - began < 10


async def test_many_names_cost_no_more_than_their_number() -> None:
    known = tuple(KnownEntity(f"k{n}", f"Person{n:05} Family{n:05}", "person") for n in range(20_000))
    began = time.process_time()
    await read(*["I met nobody in particular in the garden."] * 300, known=known)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("unit", ["a", "A ", "a.", "?", "Word", ". ", "\n", "Aa-", "I live in Rome ", "1 ", "It's 5. "])
async def test_a_long_text_of_one_kind_is_read_in_seconds(unit: str) -> None:
    began = time.process_time()
    await read(unit * (100_000 // len(unit)))
    assert time.process_time() - began < 10


async def test_the_loop_goes_on_meanwhile() -> None:
    longest, last = 0.0, time.perf_counter()

    async def tick() -> None:
        nonlocal longest, last
        while True:
            await asyncio.sleep(0.005)
            longest, last = max(longest, time.perf_counter() - last), time.perf_counter()

    ticking = asyncio.create_task(tick())
    await read(*[f"On {n % 27 + 1} March I met Anna in the garden." for n in range(200)])
    ticking.cancel()
    assert longest < 0.5


# -- by what name one is addressed ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("sentence", "name"),
    [
        ("Hey Caroline! Good to see you.", ("Caroline", True)),
        ("Thanks, Melanie!", ("Melanie", False)),
        ("Hola Inés, ¿qué tal?", ("Inés", True)),
        ("Привет, Анна!", ("Анна", True)),
        ("Hi there!", None),
        ("Hello World Bank people", None),
        ("Dear Dr. Vogt", None),
        ("Thanks for the Paris tip.", None),
    ],
)
def test_a_greeting_tells_a_name(sentence: str, name: tuple[str, bool] | None) -> None:
    assert contacts.addressed(sentence) == name


async def test_who_is_greeted_by_a_name_bears_it_where_two_speak() -> None:
    turns = [
        Turn("1", "user", "Hi! I painted a lake.", AT),
        Turn("2", "assistant", "Hello Melanie! A lake is a fine thing to paint.", AT, "model"),
    ]
    read = await RULES.extract(turns, [])
    assert {entity.name: entity.aliases for entity in read.entities}["user"] == ("Melanie",)
    third = [*turns, Turn("3", "ben", "Me too, I paint lakes all day.", AT)]
    read = await RULES.extract(third, [])
    assert {entity.name: entity.aliases for entity in read.entities}["user"] == ()
