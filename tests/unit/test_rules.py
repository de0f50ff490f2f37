"""What is read without a language model: people's statements, and the names and days in them, in several languages."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from dateparser.search import search_dates
from hypothesis import example, given
from hypothesis import strategies as st
from tests.support.growth import assert_linear

from adk_graph_memory.consolidation.comparison import compare_extraction
from adk_graph_memory.consolidation.decisions import JudgeDecisions
from adk_graph_memory.consolidation.reconciliation import reconcile_claims
from adk_graph_memory.extraction.names import ExtractedName, PatternNameFinder, group_sentences, mask_quoted_text
from adk_graph_memory.extraction.rules import RuleExtractor
from adk_graph_memory.language import date_finder
from adk_graph_memory.language.date_finder import find_dates, find_relative_date
from adk_graph_memory.language.detection import detect_language
from adk_graph_memory.records.extractions import ExtractedFact, Extraction
from adk_graph_memory.records.facts import STATES_PREDICATE, Candidates, KnownEntity, Standing
from adk_graph_memory.records.turns import Turn

NOON = datetime(2026, 5, 4, 12, tzinfo=UTC)
"""A Monday."""

RULES = RuleExtractor(PatternNameFinder())


def turn(text: str, *, author: str = "user", id: str = "t0", **more: Any) -> Turn:
    return Turn(id, author, text, NOON, **more)


async def read(*texts: str | Turn, known: tuple[KnownEntity, ...] = ()) -> Extraction:
    turns = [text if isinstance(text, Turn) else turn(text, id=f"t{n}") for n, text in enumerate(texts)]
    return await RULES.extract(turns, known)


async def names(*texts: str) -> list[str]:
    result = await read(*texts)
    return sorted(entity.name for entity in result.entities if entity.name != "user" and entity.type != "thing")


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


async def test_what_says_nothing_is_dropped_with_the_reason(subtests: pytest.Subtests) -> None:
    for text, reason in [
        ("Where do the bees live?", "a question"),
        ("蜜蜂住在哪里？", "a question"),
        ("أين يعيش النحل هنا؟", "a question"),
        ("He asked “where do they live?”", "mostly quoted"),
        ("Thank you!", "too short to say anything"),
        ("Ok.", "too short to say anything"),
        ("I see.", "too short to say anything"),
        ("👍👍👍", "too short to say anything"),
    ]:
        with subtests.test(text=text, reason=reason):
            result = await read(text)
            assert (result.facts, result.drop_counts) == ((), {reason: 1})


async def test_what_an_agent_says_is_no_fact() -> None:
    result = await read(turn("I live in Rome.", author="bot", role="model"))
    assert (result.facts, result.drop_counts) == ((), {"said by an agent": 1})


async def test_a_statement_beside_a_question_is_kept() -> None:
    result = await read("I keep bees in the garden. Do you like honey?")
    assert [fact.text for fact in result.facts] == ["I keep bees in the garden."]
    assert result.drop_counts == {"a question": 1}


async def test_a_short_sentence_about_oneself_is_kept(subtests: pytest.Subtests) -> None:
    for text in ["I'm vegetarian.", "I quit smoking.", "My brother sings."]:
        with subtests.test(text=text):
            assert [fact.text for fact in (await read(text)).facts] == [text]


async def test_statements_of_other_languages_are_kept_too(subtests: pytest.Subtests) -> None:
    for text in [
        "我在花园里养了很多蜜蜂。",
        "私は庭でミツバチを飼っています。",
        "저는 정원에서 꿀벌을 키웁니다.",
        "أربي النحل في الحديقة منذ زمن.",
        "Я держу пчёл в своём саду.",
        "Ich halte Bienen in meinem Garten.",
        "Tengo abejas en mi jardín.",
        "Κρατάω μέλισσες στον κήπο μου.",
    ]:
        with subtests.test(text=text):
            [fact] = (await read(text)).facts
            assert (fact.text, fact.predicate, fact.modality) == (text, "states", "asserted")


async def test_the_speaker_is_who_said_the_turn() -> None:
    result = await read(
        turn("I live in Rome.", author="Ben"), turn("Thanks, Ben. I live in Oslo.", author="Eva", id="t1")
    )
    assert told(result) == [("Ben", "states", "Rome", "asserted"), ("Eva", "states", "Oslo", "asserted")]
    [ben] = [entity.ref for entity in result.entities if entity.name == "Ben"]
    assert ("t1", ben) in result.mentions


# --- sentences ----------------------------------------------------------------------------------------------


async def test_a_point_inside_ends_no_sentence(subtests: pytest.Subtests) -> None:
    for text in [
        "It costs 3.50 euros at the shop.",
        "I read it on www.example.org this morning.",
        "I saw Dr. Smith at St. Mary's, e.g. on Monday.",
        "My favourite writer is J. R. R. Tolkien of course.",
        "You can mail me at ada.b@example.org or not.",
        "I left at 5 p.m. with the others.",
        "Ich habe z. B. einen Hund und wohne in der Bahnhofstr. 5.",
        "Я живу в г. Москве на ул. Ленина.",
    ]:
        with subtests.test(text=text):
            assert [text[start:end] for start, end in group_sentences(text, detect_language(text))] == [text]


def test_sentences_and_what_leans_on_them(subtests: pytest.Subtests) -> None:
    for text, expected in [
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
    ]:
        with subtests.test(text=text, expected=expected):
            assert [text[start:end].strip() for start, end in group_sentences(text, detect_language(text))] == expected


# --- names --------------------------------------------------------------------------------------------------


async def test_names_are_told_by_how_they_are_written(subtests: pytest.Subtests) -> None:
    for text, expected in [
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
    ]:
        with subtests.test(text=text, expected=expected):
            assert await names(text) == expected


async def test_a_name_that_somebody_gives_themselves_is_an_alias_of_theirs(subtests: pytest.Subtests) -> None:
    for text, name in [
        ("My name is Anna Maria Berg, by the way.", "Anna Maria Berg"),
        ("Hi there, my name's Ludwig van Berg!", "Ludwig van Berg"),
        ("I'm called Lofty and I am tall.", "Lofty"),
        ("Me llamo Inés y soy médica.", "Inés"),
        ("Ich heiße Jürgen und mag Tee.", "Jürgen"),
        ("Je m’appelle Chloé.", "Chloé"),
        ("Меня зовут Анна Павлова.", "Анна Павлова"),
        ("Με λένε Γιώργο.", "Γιώργο"),
        ("私の名前は田中美咲です。", "田中美咲"),
        ("你好，我叫王小明。", "王小明"),
    ]:
        with subtests.test(text=text, name=name):
            result = await read(text)
            assert [entity.aliases for entity in result.entities if entity.name == "user"] == [(name,)]
            assert [fact.predicate for fact in result.facts] == ["states"]
            assert all(entity.name != name for entity in result.entities)


async def test_a_nickname_counts_beside_the_name(subtests: pytest.Subtests) -> None:
    for text, aliases in [
        ("My name is Franziska Vogt, but everyone calls me Franzi.", ("Franziska Vogt", "Franzi")),
        ("Ich heiße Franziska, aber alle nennen mich Franzi!", ("Franziska", "Franzi")),
        ("My name is Anna, but everyone calls me names.", ("Anna",)),
        ("My name is Anna, but everyone calls me Monday mornings.", ("Anna",)),
    ]:
        with subtests.test(text=text, aliases=aliases):
            result = await read(text)
            assert [entity.aliases for entity in result.entities if entity.name == "user"] == [aliases]


async def test_no_other_name_is_an_alias_of_who_speaks(subtests: pytest.Subtests) -> None:
    for text in [
        "My name is mud these days.",
        "In the game everyone calls me Zorro.",
        "If my name is Anna, then what.",
        "My name is not Anna.",
        "Is my name Anna to you?",
        "In the game I was told my name is Zorro.",
        "My sister's name is Anna.",
        "Everyone calls me Lofty here.",
        "Hello Anna, good to see you.",
        "妹が一人、美緒といいます。",
        "犬がいます。名前はみそといいます。",
        "他说我叫王小明。",
        "Mi hermana me dijo: me llamo Inés.",
        "I wrote “My name is Anna” on it.",
    ]:
        with subtests.test(text=text):
            result = await read(text, turn("Hi Lofty! Hello Lofty!", author="bot", id="t9", role="model"))
            assert {entity.name: entity.aliases for entity in result.entities}["user"] == ()


async def test_an_agent_has_no_other_name() -> None:
    result = await read(turn("My name is Anna.", author="bot", role="model"))
    assert {entity.name: entity.aliases for entity in result.entities} == {"bot": (), "Anna": ()}


async def test_a_first_word_is_a_name_where_it_is_used_as_one_elsewhere() -> None:
    assert await names("Anna keeps bees here. I like Anna.") == ["Anna"]


async def test_an_opening_word_before_a_name_is_none_of_it() -> None:
    assert await names("I like Anna a lot.", "Poor Anna has a cold.") == ["Anna"]


class Lowercase:
    """Takes whatever stands behind "mister" for a name."""

    version = "lowercase"

    def find_names(self, sentence: str, language: str) -> list[ExtractedName]:
        _, _, name = sentence.partition("mister ")
        return [ExtractedName(name.rstrip("."), "person")] if name else []


async def test_whatever_tells_names_is_asked_of_every_sentence() -> None:
    rules = RuleExtractor(Lowercase())
    assert rules.version == "rules@4 lowercase"
    result = await rules.extract([turn("I like mister fox. I like Rome, mister owl.")], [])
    assert [(entity.name, entity.type) for entity in result.entities] == [
        ("user", "person"),
        ("fox", "person"),
        ("owl", "person"),
    ]
    assert [fact.object for fact in result.facts] == [1, 2]


async def test_a_turn_mentions_the_names_it_uses() -> None:
    result = await read("I met Ann in the garden.", "The Annex is closed for now.")
    [ann] = [entity.ref for entity in result.entities if entity.name == "Ann"]
    assert ("t0", ann) in result.mentions
    assert ("t1", ann) not in result.mentions


ANNA = KnownEntity("k1", "Anna", "person", ("Anna Berg", "美咲"))


async def test_a_known_entity_is_recognised(subtests: pytest.Subtests) -> None:
    for text in ["I met anna there.", "Anna rang me up.", "ANNA BERG rang me.", "昨日美咲に会いました。"]:
        with subtests.test(text=text):
            result = await read(text, known=(ANNA,))
            assert [entity.known_key for entity in result.entities if entity.name == "Anna"] == ["k1"]
            assert [fact.object for fact in result.facts] == [1]


async def test_another_word_is_no_known_entity(subtests: pytest.Subtests) -> None:
    for known, text in [
        (ANNA, "I met annabel there."),
        (KnownEntity("k", "Will", "person"), "I will see them there."),
        (KnownEntity("k", "Rose", "person"), "I bought a rose there."),
        (KnownEntity("k", "user", "person"), "Every user of it likes this."),
    ]:
        with subtests.test(known=known, text=text):
            result = await read(text, known=(known,))
            assert result.facts[0].object is None
            assert {ref for _, ref in result.mentions} == set()


async def test_a_name_that_two_entities_share_is_given_to_neither() -> None:
    twins = (KnownEntity("a", "Anton Reiß", "person", ("Anton",)), KnownEntity("b", "Anton Vogt", "person", ("Anton",)))
    result = await read("I met Anton in the garden.", known=twins)
    assert [(entity.name, entity.known_key) for entity in result.entities] == [("user", None), ("Anton", None)]


async def test_the_author_keeps_the_key_that_is_known() -> None:
    me = KnownEntity("k", "user", "person", ("Franka Ott",))
    result = await read("My sister said: Franka Ott never sleeps.", known=(me,))
    assert [entity.known_key for entity in result.entities] == ["k"]


# --- nothing is inferred, nothing ends ----------------------------------------------------------------------


async def ends(*texts: str) -> list[tuple[str, str, object]]:
    """How each fact stands after all of these were said, where not simply so from when it was said."""
    draft = compare_extraction(
        await read(*texts), Candidates(), functional_predicates=RuleExtractor.functional_predicates
    )
    plan = reconcile_claims(draft, JudgeDecisions())
    assert (plan.revisions, plan.links) == ((), ())
    return [
        (fact.proposition.text, fact.standing.state, fact.standing.valid_to)
        for fact in (write.fact for write in plan.facts)
        if fact.standing != Standing() or fact.proposition.predicate != STATES_PREDICATE
    ]


async def test_nothing_that_is_said_ends_anything(subtests: pytest.Subtests) -> None:
    for texts in [
        ("I live in Porto.", "In summer we move to Lisbon."),
        ("I live in Porto.", "I no longer live in Porto."),
        ("I live in Porto.", "No, actually I live in Lisbon."),
        ("I work at Acme.", "I quit my job at Acme yesterday.", "I work at Miller & Sons."),
        ("My phone number is 555 0134.", "I have a new phone number. It's 555 0177."),
        ("We will move to Rome next month.", "I moved to Rome from 2019 to 2023."),
        ("Ich wohne in Wien.", "Ich wohne nicht mehr in Wien."),
        ("Vivo en Valencia.", "Ya no vivo en Valencia."),
    ]:
        with subtests.test(texts=texts):
            assert await ends(*texts) == []


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
    "No,",
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


@given(st.lists(st.lists(st.sampled_from(_PIECES), max_size=12), min_size=2, max_size=4))
async def test_however_words_are_put_nothing_ends(texts: list[list[str]]) -> None:
    assert await ends(*map(" ".join, texts)) == []


# --- whose words they are -----------------------------------------------------------------------------------

MAIL = """What shall I answer to this?

From: Rita Alves <rita@example.org>
To: me
Subject: the flat

I live in Lisbon now. My name is Rita Alves.

```
home = "Lisbon"  # I no longer live in Porto.
```
"""


async def test_what_somebody_only_shows_is_not_their_word(subtests: pytest.Subtests) -> None:
    for text in [
        MAIL,
        "From: Rita\nI live in Lisbon with Ines now.",
        "Von: Rita\nIch wohne jetzt mit Ines in Lissabon.",
        "发件人：李雷\n我现在和家人住在上海。",
        "Subject: the flat\nTo: me\nI live in Lisbon with Ines now.",
        "-----Original Message-----\nI live in Lisbon with Ines now.",
        "---------- Weitergeleitete Nachricht ---------\nIch wohne jetzt mit Ines in Lissabon.",
        "On Mon, 4 May 2026 at 10:15 Rita Alves <rita@example.org> wrote:\nI live in Lisbon with Ines now.",
        "Am 04.05.2026 um 10:15 schrieb Rita Alves:\nIch wohne jetzt mit Ines in Lissabon.",
        "```\nI live in Lisbon with Ines now.\n```",
        "```python\n# I live in Lisbon with Ines now.",
        "~~~\nI live in Lisbon with Ines now.\n~~~",
        "`I live in Lisbon with Ines now.`",
        "> I live in Lisbon with Ines now.\n > So do we, in Lisbon.",
        '"I live in Lisbon with Ines now."',
        "“I live in Lisbon now. I like Ines.”",
        "„Ich wohne jetzt mit Ines in Lissabon.“",
        "«Я живу с Инес в Лиссабоне.»",
        "「私は今、リスボンに住んでいます。」",
        'She wrote: "I live in Lisbon now. I like Ines and the sea."',
        'Translate this: "I am allergic to penicillin, says Ines."',
    ]:
        with subtests.test(text=text):
            result = await read(text)
            assert result.facts == ()
            assert [(entity.name, entity.aliases) for entity in result.entities] == [("user", ())]


async def test_ones_own_words_beside_them_are_kept(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("I keep bees here.\n> So do I, in Rome.\nIt is hard work.", ["I keep bees here.", "It is hard work."]),
        (
            "I wrote this script:\n```\nI = 1\n```\nIt fails on my old laptop.",
            ["I wrote this script:", "It fails on my old laptop."],
        ),
        ('I read "The Hobbit." It took me a week.', ['I read "The Hobbit." It took me a week.']),
        ('"Brave" by Sara is a song I like.', ['"Brave" by Sara is a song I like.']),
        ('He shouted "I live in Rome" and left.', ['He shouted "I live in Rome" and left.']),
        ("My dog is 6'2\" long, says Anna.", ["My dog is 6'2\" long, says Anna."]),
        ("From my window I see the sea.", ["From my window I see the sea."]),
        ("This is my list: milk, honey.", ["This is my list: milk, honey."]),
        ("I bought honey:\n- milk\n\nI keep bees there.", ["I bought honey:", "I keep bees there."]),
        ("UPDATE: I keep bees there.", ["UPDATE: I keep bees there."]),
        ("I keep <3 bees there.", ["I keep <3 bees there."]),
    ]:
        with subtests.test(text=text, expected=expected):
            assert [fact.text for fact in (await read(text)).facts] == expected


async def test_markup_transcripts_and_what_follows_a_colon_are_not_ones_own(subtests: pytest.Subtests) -> None:
    for text in [
        "Why does it restart? Log:\n\nI am a robot and I live here\nI live in Rome too\n\nMy own bees are fine there.",
        "Why does it restart? Log:\r\n\r\nI am a robot and I live here\r\n\r\nMy own bees are fine there.",
        "<article>\n<p>I live in Rome.</p>\n</article>\nMy own bees are fine there.",
        "<!-- I live\nin Rome. -->My own bees are fine there.",
        "CAPTAIN: I own three ships.\nFIRST MATE: I live in Rome.\nMy own bees are fine there.",
    ]:
        with subtests.test(text=text):
            assert [fact.text for fact in (await read(text)).facts] == ["My own bees are fine there."]


OWN = "I live in Rome with Ines."
PASTED = {
    "a harness's reminder": "<system-reminder>\nThe user opened main.py in the editor.\n</system-reminder>",
    "a reminder in a line": "<system-reminder>The user opened main.py. Do not tell.</system-reminder>",
    "a frame in brackets": "[CONTEXT]\nThe user opened main.py in the editor.\n[/CONTEXT]",
    "a tool's result": '<file path="a.txt">\nMy dog is called Rex.\n\nI live in Lisbon.\n</file>',
    "a key": "-----BEGIN PUBLIC KEY-----\nthe body of it is here\n-----END PUBLIC KEY-----",
    "a calendar": "BEGIN:VEVENT\nSUMMARY:Dinner with Ana and Ben in Lisbon\nEND:VEVENT",
    "Python": "import os\n\ndef main(args):\n    # I live in Lisbon\n    print('We moved')\n    return 0\n\nmain(None)",
    "JavaScript": "function greet(name) {\n  console.log(`I live in Lisbon, ${name}`);\n}",
    "SQL": "SELECT name, city\nFROM people of the town\nWHERE city = 'Lisbon';",
    "a trace": "Traceback (most recent call last):\n  File \"a.py\", line 1, in main\n    x()\nValueError: Ana is in",
    "a Java trace": "java.io.IOException: the disk is full today\n\tat com.acme.Disk.write(Disk.java:7)\n\t... 12 more",
    "a log": "\n".join(f"2026-05-04 12:00:{n:02},1 INFO worker {n} reads page {n}" for n in range(60)),
    "a server's log": 'h - - [04/May/2026:12:00:01 +0000] "GET /index.html HTTP/1.1" 200 512 "-" "Mozilla/5.0"',
    "lines of one wording": "\n".join(f"Worker {n} has finished page {n * 7} of the book" for n in range(40)),
    "levels": "INFO the server has started\nWARN the disk is nearly full today\nERROR cannot reach the host Lisbon",
    "a table": "| name | city |\n|---|---|\n| Ana Alves | Lisbon by the sea |\n| Ben Brown | Porto in the north |",
    "tabs": "name\tcity\tpet\nAna Alves\tLisbon by the sea\ta dog called Rex",
    "columns": "NAME    READY   AGE\nweb-1   1/1     5 days or so\ndb-1    1/1     6 days or so",
    "CSV": "name,age,city\nAna Alves,34,Lisbon by the sea\nBen Brown,28,Porto in the north",
    "a diff": "@@ -1,2 +1,2 @@\n-I live in Porto with my dog\n+I live in Lisbon with my dog\n and one more line",
    "a shell": "$ git status\nYour branch is up to date with origin\nnothing to commit here",
    "a chat": "[04/05/2026, 12:30:15] Ben: I live in Lisbon\n[04/05/2026, 12:31:15] Zoe: So do we, in the north",
    "a model's chat": "user: I live in Lisbon with my dog.\nassistant: That is nice to hear.",
}  # fmt: skip


async def test_what_a_program_wrote_is_nobodys_word_and_is_counted(subtests: pytest.Subtests) -> None:
    for name, pasted in PASTED.items():
        for text in (f"{OWN}\n\n{pasted}", f"{pasted}\n{OWN}"):
            with subtests.test(name=name, text=text):
                result = await read(text)
                assert [fact.text for fact in result.facts] == [OWN]
                lines = [line for line in pasted.splitlines() if line.strip()]
                assert sum(result.drop_counts.values()) >= len(lines) - 1


async def test_what_people_write_line_by_line_is_their_own(subtests: pytest.Subtests) -> None:
    for text in [
        "- I live in Rome now.\n- My sister is called Ines.",
        "1. I live in Rome now.\n2. Mia is my daughter.\n3. Tom is my son.",
        "I ran 5 km on Monday.\nI ran 6 km on Tuesday.\nI ran 7 km on Friday.\nI ran 8 km on Sunday.",
        "Kids: Mia (3), Tom (5) and Ines (8)\nPets: Rex (dog), Tom (cat) and Ben (fish)",
        "Address: Via Roma 12, 00100 Rome\nPhone: +39 06 123 4567\nBlood type is A positive",
        "08:00 I take my pills\n12:30 lunch with my team at work",
        "2026-05-04: I moved to Porto with my dog\n2026-05-05: I found a flat near the sea",
        "Ibuprofen 400 mg in the morning\nAspirin 100 mg in the evening",
        "Passengers: me and my daughter Mia, who is allergic to nuts",
        "I use C++ and Python; my editor is vim.",
        "I love <b>bees</b> and the honey.",
    ]:
        with subtests.test(text=text):
            result = await read(text)
            assert ([fact.text.strip() for fact in result.facts], result.drop_counts) == (text.splitlines(), {})


async def test_a_form_is_no_mail_and_a_note_is_no_speaker(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("From: Lisbon\nTo: Porto\nGuests: me and Mia, who eats no nuts", "Guests: me and Mia, who eats no nuts"),
        ("Von: Rom\nAn: Oslo\nGäste: ich und Mia, die keine Nüsse isst", "Gäste: ich und Mia, die keine Nüsse isst"),
        ("From: Lisbon\nTo: Porto\n\nI travel with Mia, who eats no nuts", "I travel with Mia, who eats no nuts"),
        ("NOTE: I am allergic to penicillin\nTODO: a call", "NOTE: I am allergic to penicillin"),
    ]:  # fmt: skip
        with subtests.test(text=text):
            assert [fact.text for fact in (await read(text)).facts] == [expected]


async def test_what_is_shown_is_counted(subtests: pytest.Subtests) -> None:
    for text, count in [(MAIL, 7), ("> I live in Rome now.\n> So do we.", 2), ("```\nI live in Rome now.\n```", 3)]:
        with subtests.test(text=text):
            assert (await read(text)).drop_counts["shown, not said"] == count


async def test_a_request_is_no_statement(subtests: pytest.Subtests) -> None:
    for text in [
        "Book me a table for two at Luigi's.",
        "Hey, could you please find us a cheap flight to Oslo.",
        "Summarize this article about bees in Rome.",
        "Remind me to water the plants at six.",
        "Tell me how I can cook rice.",
        "Buche mir einen Tisch für zwei bei Luigi.",
        "Recomiéndame un libro sobre abejas en Roma.",
        "Montre-moi des photos de vieilles voitures.",
    ]:
        with subtests.test(text=text):
            result = await read(text)
            assert (result.facts, result.drop_counts) == ((), {"a request": 1})


async def test_what_only_begins_like_a_request_is_kept(subtests: pytest.Subtests) -> None:
    for text in [
        "Book me a table at Luigi's, I am vegetarian.",
        "Remind me that my mom's birthday is in May.",
        "Call me Sam from now on.",
        "Please always answer in German.",
        "Remember that I am allergic to nuts.",
        "Book club is on Friday at Ana's place.",
        "Order was restored at home yesterday.",
        "Find it hard to sleep these days.",
    ]:
        with subtests.test(text=text):
            assert [fact.text for fact in (await read(text)).facts] == [text]


async def test_a_statement_that_leads_to_a_question_is_kept(subtests: pytest.Subtests) -> None:
    for text, expected in [
        ("I just moved to Porto, any tips?", "I just moved to Porto"),
        ("My dog Rex is afraid of thunder - what should I do?", "My dog Rex is afraid of thunder"),
        ("Ich bin nach Porto gezogen, hast du Tipps?", "Ich bin nach Porto gezogen"),
        ("Acabo de mudarme a Oporto, ¿algún consejo?", "Acabo de mudarme a Oporto"),
    ]:
        with subtests.test(text=text):
            result = await read(text)
            assert [fact.text for fact in result.facts] == [expected]
            assert result.drop_counts == {"a question": 1}
    for text in ["I can eat nuts, can't I?", "I should take the bus, or is it late?", "I'm on the list, am I?"]:
        with subtests.test(text=text):
            assert (await read(text)).facts == ()


@given(st.text(st.sampled_from('ab \n"“”„«»「」`~>-:<@.I19F!/'), max_size=60))
@example("``````")
@example("From: a\n>b")
def test_own_words_stand_where_they_stood(text: str) -> None:
    own = mask_quoted_text(text)
    assert len(own) == len(text)
    assert all(mine in (" ", "_", theirs) for mine, theirs in zip(own, text, strict=True))


# --- dates --------------------------------------------------------------------------------------------------

DAYS = [
    ("Yesterday I swam 400 metres.", date(2026, 5, 3)),
    ("Last night I swam 400 metres.", date(2026, 5, 3)),
    ("Three weeks ago it rained a lot.", date(2026, 4, 13)),
    ("I quit my job at Acme yesterday.", date(2026, 5, 3)),
    ("Вчера я встретил Анну в парке.", date(2026, 5, 3)),
    ("私は昨日東京に行きました。", date(2026, 5, 3)),
    ("We shall move to Lisbon in September.", None),
    ("In September we move to Lisbon.", None),
    ("I moved to Rome on Saturday.", None),
    ("I moved to Rome on 3 March.", None),
    ("I've lived in Rome since 2019.", None),
    ("I collect tapes from 1974 here.", None),
    ("I was born on 12 March 1988.", None),
    ("My best time is 4 hours 31.", None),
    ("Tomorrow I'll buy a boat.", None),
    ("Yesterday I swam, three weeks ago I ran.", None),
    ('He sang "yesterday" to me and Anna.', None),
    ("I slept for six hours on the boat.", None),
    ("I rented a bench for 160 euros a month.", None),
    ("We may sit on the sofa.", None),
    ("I visited Rome in 2024.", None),
    ("I visited Rome in March 2024.", None),
]


async def test_a_date_is_as_exact_as_it_was_said(subtests: pytest.Subtests) -> None:
    for text, began, precision in [
        ("I moved to Rome last year.", date(2025, 1, 1), "year"),
        ("I moved to Rome two years ago.", date(2024, 1, 1), "year"),
        ("I moved to Rome last month.", date(2026, 4, 1), "month"),
        ("I moved to Rome yesterday.", date(2026, 5, 3), "day"),
    ]:
        with subtests.test(text=text, began=began, precision=precision):
            [fact] = (await read(text)).facts
            assert (period(fact)[0], fact.valid_from_precision) == (began, precision)


@pytest.mark.slow
def test_how_long_ago_it_was_is_told_on_any_day(subtests: pytest.Subtests) -> None:
    for month in range(1, 13):
        for day in [1, 28]:
            with subtests.test(day=day, month=month):
                for year in (2024, 2025, 2026):
                    at = datetime(year, month, day, 12, tzinfo=UTC)
                    last = (at.replace(day=1) - timedelta(days=1)).replace(day=1)
                    dates = [
                        find_relative_date(f"I moved to Rome {when}.", at, "en")
                        for when in ("last year", "last month", "in 2019")
                    ]
                    assert [
                        relative_date and (relative_date.at.date(), relative_date.precision) for relative_date in dates
                    ] == [
                        (date(year - 1, 1, 1), "year"),
                        (last.date(), "month"),
                        None,
                    ]


async def test_only_a_day_that_lies_so_long_ago_is_told(subtests: pytest.Subtests) -> None:
    for text, day in DAYS:
        with subtests.test(text=text, day=day):
            [fact] = (await read(text)).facts
            assert period(fact) == (day, None)


async def test_days_are_told_in_any_year(subtests: pytest.Subtests) -> None:
    for year in [2, 1970, 9998]:
        with subtests.test(year=year):
            at = datetime(year, 12, 30, tzinfo=UTC)
            for text in ("Yesterday I swam 400 metres.", "On 3 March 1999 I swam.", "7,990 years ago there was ice."):
                await RULES.extract([Turn("t", "user", text, at)], [])


def test_what_only_looks_like_a_date_is_none(subtests: pytest.Subtests) -> None:
    for text in [
        "We are 5 people",
        "call 555 0134",
        "I paid 2000 euros",
        "it is 3/4/2025 here",
        "today and now",
        "5:30",
    ]:
        with subtests.test(text=text):
            assert find_dates(text, NOON, "en") == []


def test_a_day_is_one_of_the_turns_time_zone() -> None:
    at = datetime.fromisoformat("2026-05-04T01:00:00+09:00")
    [day] = find_dates("I came yesterday.", at, "en")
    assert day.at == datetime.fromisoformat("2026-05-03T00:00:00+09:00")


def test_the_language_is_told(subtests: pytest.Subtests) -> None:
    for text, language in [
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
    ]:
        with subtests.test(text=text, language=language):
            assert detect_language(text) == language


# --- the extractor ------------------------------------------------------------------------------------------


async def test_nothing_gives_nothing() -> None:
    assert await read() == Extraction()


async def test_the_same_turns_give_the_same_extraction() -> None:
    texts = ("I met Anna and Ben in Rome.", "Ben works at Acme. It's loud.", "I live in Oslo since 3 March 2020.")
    assert await read(*texts) == await read(*texts)


@given(st.text(max_size=200))
@example("I keep bees. \n\nIn  the\tgarden!  Really?? Yes... a.b.c")
@example("👩‍👩‍👧 is my family now. 我在花园里养蜜蜂。ok")
@example("My name is . I live in . It's 5. 3.3.3333 May 99999999999")
@example("I moved to İstanbul on 31.02.2024. That's it.")
async def test_every_fact_stands_in_its_turn(text: str) -> None:
    source_turn = turn(text)
    result = await read(source_turn)
    for fact in result.facts:
        [source] = fact.sources
        assert source_turn.text[source.start : source.end] == source.quote == fact.text
    refs = {entity.ref for entity in result.entities}
    used = {ref for fact in result.facts for ref in (fact.subject, fact.object)} - {None}
    assert used | {ref for _, ref in result.mentions} <= refs


@pytest.mark.slow
def test_many_names_take_eight_times_as_long_as_an_eighth_of_them() -> None:
    names = [f"Ana{'abcdefghij'[n % 10]}{'x' * (n // 10)}" for n in range(400)]

    def read_names(count: int) -> None:
        text = " ".join(f"Yesterday I met {name} at noon." for name in names[:count])
        assert len(asyncio.run(read(text)).facts) == count

    assert_linear(read_names, len(names))


@pytest.mark.slow
def test_many_known_names_cost_no_more_than_their_number() -> None:
    known = tuple(KnownEntity(f"k{n}", f"Person{n:05} Family{n:05}", "person") for n in range(20_000))
    turns = ["I met nobody in particular in the garden."] * 100
    assert_linear(lambda count: asyncio.run(read(*turns, known=known[:count])), len(known))


@pytest.mark.slow
def test_a_long_text_of_one_kind_takes_eight_times_as_long_as_an_eighth_of_it(subtests: pytest.Subtests) -> None:
    for unit in [
        "a",
        "A ",
        "a.",
        "?",
        "Word",
        ". ",
        "\n",
        "Aa-",
        "I live in Rome ",
        "1 ",
        "It's 5. ",
        "<a1>",
        "a  b",
        "From: a\n",
    ]:
        with subtests.test(unit=unit):
            assert_linear(lambda count, unit=unit: asyncio.run(read(unit * count)), 100_000 // len(unit))  # type: ignore[misc]


async def test_the_loop_goes_on_meanwhile(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = set[threading.Thread]()
    extract = RuleExtractor._extract_by_rules

    def extract_somewhere(self: RuleExtractor, *arguments: Any) -> Any:
        threads.add(threading.current_thread())
        return extract(self, *arguments)

    monkeypatch.setattr(RuleExtractor, "_extract_by_rules", extract_somewhere)
    assert (await read("I met Anna in the garden.")).facts
    assert threads
    assert threading.current_thread() not in threads


async def test_only_sentences_that_may_say_how_long_ago_are_searched_for_dates(monkeypatch: pytest.MonkeyPatch) -> None:
    searched: list[str] = []
    search = search_dates
    monkeypatch.setattr(date_finder, "search_dates", lambda text, **more: searched.append(text) or search(text, **more))
    moved = "We moved house 3 years ago with our cats."
    result = await read(f"We bought 12 apples and 3 pears at stall 48. {moved} My number is 555 0127, extension 9.")
    assert [fact.valid_from and fact.valid_from.year for fact in result.facts] == [None, 2023, None]
    assert searched == [moved]


def test_a_name_late_in_a_long_sentence_costs_no_more_than_an_early_one() -> None:
    sentence = CountedText("then Anna met Bruno and saw Clara near " * 500)
    assert len(list(PatternNameFinder().find_names(sentence, "en"))) == 1_500
    assert sentence.copied < 20 * len(sentence)


class CountedText(str):
    """A text that counts the characters that are copied out of it."""

    copied = 0

    def __getitem__(self, key: Any) -> str:
        words = super().__getitem__(key)
        self.copied += len(words)
        return words


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("[Family]\nAna is my wife.\n[Work]\nBen is my boss at Acme.", ["Ana is my wife.", "Ben is my boss at Acme."]),
        (
            "allergies:\nnuts and eggs always\njob:\nnurse at the clinic",
            ["nuts and eggs always", "nurse at the clinic"],
        ),
        ("\n".join(f"Took {n} mg ramipril today" for n in (5, 5, 6, 6)), ["Took 5 mg ramipril today"]),
        ("rent = 800 EUR\nMum moved to Porto last week.\nfood = 200 EUR", ["Mum moved to Porto last week."]),
        ("Der Hund heißt Rex;\ndie Katze heißt Mia;", ["Der Hund heißt Rex;", "die Katze heißt Mia;"]),
        ("--- home/work ---\nAna works at Acme in Porto.", ["Ana works at Acme in Porto."]),
        ("Suggest a gift, my wife loves jazz.", ["Suggest a gift, my wife loves jazz."]),
        ("Remind me that Ana is allergic to nuts.", ["Remind me that Ana is allergic to nuts."]),
        ("Order for Ana arrived today from Zalando.", ["Order for Ana arrived today from Zalando."]),
    ],
)
async def test_notes_lists_and_what_stands_beside_a_request_are_somebodys_word(text: str, kept: list[str]) -> None:
    extraction = await RuleExtractor().extract([Turn("t", "user", text, NOON)], ())
    assert set(kept) <= {fact.text for fact in extraction.facts}


@pytest.mark.parametrize("text", ["I was in Rome, wasn't I?", "<div>a<div>b</div>I live in Paris now.</div>"])
async def test_a_tag_question_and_a_frame_within_a_frame_state_nothing(text: str) -> None:
    assert not (await RuleExtractor().extract([Turn("t", "user", text, NOON)], ())).facts
