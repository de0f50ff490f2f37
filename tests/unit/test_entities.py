"""Who is who: the same person under several names is one, namesakes are two, and what rules cannot tell is a doubt."""

from __future__ import annotations

import unicodedata
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace

import pytest
from benchmarks.quality import aliases
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from adk_graph_memory.consolidation import entity_groups
from adk_graph_memory.consolidation.entity_resolution import answer_doubts, digest_entity_name, resolve_entities
from adk_graph_memory.consolidation.names import NameMatch, match_names, parse_name
from adk_graph_memory.extraction.extractor import join_extractions
from adk_graph_memory.records.extractions import ExtractedEntity, Extraction
from adk_graph_memory.records.facts import EntityDoubt, EntityResolution, EntityWrite, KnownEntity


def person(ref: int, name: str, about: str = "", *, window: int = 0, type: str = "person") -> ExtractedEntity:
    return ExtractedEntity(ref, name, type, about=about, window=window)


def held(name: str, *aliases: str, type: str = "person", about: str = "", key: str = "") -> KnownEntity:
    return KnownEntity(key or digest_entity_name(name), name, type, aliases, about)


def taken_for(name: str, *known: KnownEntity, type: str = "person", about: str = "") -> KnownEntity | str:
    """The known entity that the name is taken for, or ``doubt`` or ``new``."""
    resolution = resolve_entities([ExtractedEntity(1, name, type, about=about)], known)
    entity = {entity.key: entity for entity in known}.get(resolution.keys_by_ref[1])
    return entity or ("doubt" if resolution.doubts else "new")


# --- one under several names --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "name"),
    [
        ("Inés Moreau", "INÉS  MOREAU"),
        ("Inés Moreau", unicodedata.normalize("NFD", "Inés Moreau")),
        ("Inés Moreau", "Ines Moreau"),
        ("Inés Moreau", "Inés"),
        ("Inés", "Inés Moreau"),
        ("Jan van der Berg", "Jan"),
        ("Inés Moreau", "Moreau, Inés"),
        ("Anna Weber", "Dr. Weber"),
        ("Anna Weber", "Frau Anna Weber"),
        ("Jonas Weber", "J. Weber"),
        ("Jonas Weber", "Jonas W."),
        ("Jonas Weber (brother)", "Jonas Weber (brother)"),
        ("Müller", "Mueller"),
        ("Anton Reiß", "ANTON REISS"),
        ("Łukasz", "Lukasz"),
        ("Işık Yılmaz", "IŞIK YILMAZ"),
        ("Seán O’Brien", "Seán O'Brien"),
        ("Алёна Королёва", "Алена Королева"),
        ("Иван Петров", "д-р Петров"),
        ("Ελένη", "ΕΛΕΝΗ"),
        ("أحمد", "أَحْمَد"),
        ("أحمد", "احمـد"),
        ("فاطمة", "فاطمه"),
        ("דנה כהן", 'ד"ר כהן'),
        ("राहुल शर्मा", "श्री राहुल शर्मा"),
        ("山田太郎", "山田 太郎"),
        ("山田太郎", "山田さん"),
        ("サクラ", "ｻｸﾗ"),
        ("サクラ", "さくら"),
        ("ジョン・スミス", "ジョン"),
        ("김민수", "김민수 씨"),
        ("김민수", "민수"),
        ("สมชาย ใจดี", "คุณสมชาย"),
    ],
)
def test_a_person_is_known_under_another_writing(known: str, name: str) -> None:
    assert taken_for(name, held(known)) == held(known)


@pytest.mark.parametrize(
    ("known", "name", "type"),
    [
        ("Acme GmbH", "Acme", "organization"),
        ("Acme", "ACME GmbH & Co. KG", "organization"),
        ("Fiat S.p.A.", "Fiat SpA", "organization"),
        ("ООО «Ромашка»", "Ромашка", "organization"),
        ("トヨタ自動車株式会社", "トヨタ自動車", "organization"),
        ("(주)삼성전자", "삼성전자 주식회사", "organization"),
        ("the Louvre", "Louvre", "place"),
        ("São Paulo", "Sao Paulo", "place"),
    ],
)
def test_a_company_or_place_is_known_without_what_stands_beside_its_name(known: str, name: str, type: str) -> None:
    assert taken_for(name, held(known, type=type), type=type) == held(known, type=type)


def test_an_extractors_alias_finds_the_known() -> None:
    known = held("Ivan Petrov")
    resolution = resolve_entities([ExtractedEntity(1, "Иван Петров", "person", ("Ivan Petrov",))], [known])
    assert resolution.planned_entities == (
        EntityWrite(known.key, "Ivan Petrov", "person", ("Иван Петров",), is_new=False),
    )


@pytest.mark.parametrize("author", ["user", "assistant", "travel_agent", "ada@example.org"])
def test_the_user_and_the_agent_have_the_keys_of_their_author_names(author: str) -> None:
    assert resolve_entities([person(1, author)], []).keys_by_ref == {1: digest_entity_name(author)}


def test_a_thing_of_no_kind_takes_the_kind_it_is_found_to_be() -> None:
    [planned] = resolve_entities([person(1, "Porto", type="place")], [held("Porto", type="name")]).planned_entities
    assert (planned.type, planned.is_new) == ("place", False)


def test_a_context_learned_later_is_kept() -> None:
    [planned] = resolve_entities([person(1, "Jonas", "brother")], [held("Jonas")]).planned_entities
    assert (planned.key, planned.about) == (digest_entity_name("Jonas"), "brother")


# --- two under one name -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "name"),
    [
        (held("Florence", type="place"), "Florence"),
        (held("Apple", type="organization"), "Apple"),
        (held("Frau Weber"), "Herr Weber"),
        (held("Weber", "Mrs Weber"), "Mr Weber"),
        (held("健太郎"), "花太郎"),
        (held("マリ"), "マリア"),
        (held("さくら"), "さくらこ"),
        (held("Inés Moreau"), "Inés Costa"),
        (held("が"), "か"),
        (held("मीना"), "मीनू"),
        (held("C++", type="topic"), "C"),
        (held("???"), "!!!"),
    ],
)
def test_two_are_two(known: KnownEntity, name: str) -> None:
    assert taken_for(name, known) == "new"


@pytest.mark.parametrize(
    ("known", "name", "about"),
    [
        ([held("Jonas", about="brother")], "Jonas", "colleague at Acme"),
        ([held("Jonas", about="brother"), held("Jonas", about="colleague", key="k2")], "Jonas", ""),
        ([held("Jonas", about="brother"), held("Jonas", about="colleague", key="k2")], "Jonas", "neighbour"),
        ([held("Jonas")], "Jonas (brother)", ""),
        ([held("Zoë")], "Zoé", ""),
        ([held("Inés Moreau"), held("Inés Costa")], "Inés", ""),
        ([held("Inés", "Inés Moreau")], "Inés Costa", ""),
        ([held("Inés"), held("Inés Costa")], "Inés Moreau", ""),
        ([held("Jonas Weber"), held("Julia Weber")], "J. Weber", ""),
        ([held("Anna Weber")], "Mr Weber", ""),
        ([held("Anna Weber")], "Weber", ""),
        ([held("Martin King")], "Martin King Jr.", ""),
        ([held("Martin Thomas")], "Thomas Martin", ""),
        ([held("Jean-Luc Arnaud")], "Jean", ""),
        ([held("Ann Lee")], "Annlee", ""),
        ([held("Jonas")], "Jonas' wife", ""),
        ([held("brother")], "brother of Ada", ""),
        ([held("Franziska Vogt", "Franzi")], "Franzi Huber", ""),
        ([held("健太郎")], "太郎", ""),
        ([held("王小明")], "王先生", ""),
        ([held("Bella", type="animal")], "Bella", ""),
        ([held("Ada Lovelace", type="name")], "Ada", ""),
        ([held("Саша")], "Sasha", ""),
        ([held("Li Ming")], "李 明", ""),
    ],
)
def test_what_may_be_one_or_two_is_a_doubt(known: list[KnownEntity], name: str, about: str) -> None:
    assert taken_for(name, *known, about=about) == "doubt"


@pytest.mark.parametrize(
    ("known", "name"),
    [("Acme Labs", "Acme"), ("Acme Inc.", "Acme GmbH"), ("World Health Organization", "WHO"), ("La Paz", "Paz")],
)
def test_what_may_be_one_company_or_two_is_a_doubt(known: str, name: str) -> None:
    assert taken_for(name, held(known, type="organization"), type="organization") == "doubt"


@pytest.mark.parametrize(
    ("known", "name", "type"),
    [
        (held("Apple", type="product"), "apple", "food"),
        (held("apple", type="food"), "Apple", "organization"),
        (held("bee", type="animal"), "bees", "animal"),
        (held("sour cherries", type="food"), "sour cherry", "food"),
        (held("bateau", type="object"), "bateaux", "object"),
        (held("Biene", type="animal"), "Bienen", "animal"),
    ],
)
def test_what_may_be_one_thing_or_two_is_a_doubt(known: KnownEntity, name: str, type: str) -> None:
    assert taken_for(name, known, type=type) == "doubt"


@pytest.mark.parametrize(
    ("known", "name", "type"),
    [
        (held("Porto", type="place"), "Portos", "place"),
        (held("Roberts"), "Robert", "person"),
        (held("李明"), "黎明", "person"),
        (held("Reiter", type="topic"), "Reiterin", "topic"),
    ],
)
def test_two_that_are_spelled_alike_are_two(known: KnownEntity, name: str, type: str) -> None:
    assert taken_for(name, known, type=type) == "new"


def test_a_number_says_that_a_thing_of_another_type_is_the_same() -> None:
    known = held("pottery", type="topic")
    again = ExtractedEntity(1, "pottery", "event", known_key=known.key, quotes=("my pottery",))
    assert resolve_entities([again], [known]).keys_by_ref == {1: known.key}


def test_the_context_decides_between_namesakes() -> None:
    namesakes = [held("Jonas", about="brother"), held("Jonas", about="colleague at Acme", key="k2")]
    assert [taken_for("Jonas", *namesakes, about=known.about) for known in namesakes] == namesakes


def test_a_shared_nickname_decides_nothing() -> None:
    known = held("Anton Reiß", "Toni")
    resolution = resolve_entities([ExtractedEntity(1, "Antonia Graf", "person", ("Toni",))], [known])
    assert (resolution.keys_by_ref, resolution.doubts) == (
        {1: digest_entity_name("Antonia Graf")},
        (EntityDoubt(1, (known.key,)),),
    )


# --- one window, several windows ----------------------------------------------------------------------------

JONASES = [person(1, "Jonas"), person(2, "Jonas", "brother"), person(3, "JONAS", "colleague at Acme")]


@given(st.permutations(JONASES))
def test_namesakes_of_one_reply_have_keys_that_no_order_changes(entities: list[ExtractedEntity]) -> None:
    resolution = resolve_entities(entities, [])
    assert resolution.keys_by_ref[1] == digest_entity_name("Jonas")
    assert (len(set(resolution.keys_by_ref.values())), resolution.doubts) == (3, ())


@pytest.mark.parametrize("again", [JONASES, JONASES[1:], JONASES[1:2], JONASES[2:]])
def test_namesakes_are_found_again(again: list[ExtractedEntity]) -> None:
    first = resolve_entities(JONASES, [])
    second = resolve_entities(again, known_after(first))
    assert second.keys_by_ref == {entity.ref: first.keys_by_ref[entity.ref] for entity in again}


def test_the_first_namesake_by_context_has_the_key_of_the_name() -> None:
    assert resolve_entities(JONASES[1:], []).keys_by_ref[2] == digest_entity_name("Jonas")


def test_a_person_and_a_place_of_one_reply_are_two() -> None:
    resolution = resolve_entities([person(1, "Florence"), person(2, "Florence", type="place")], [])
    assert len(set(resolution.keys_by_ref.values())) == 2


def test_a_full_name_and_a_short_one_of_one_reply_were_told_apart() -> None:
    resolution = resolve_entities([person(1, "Inés"), person(2, "Inés Moreau")], [held("Inés")])
    assert (resolution.keys_by_ref, resolution.doubts) == (
        {1: digest_entity_name("Inés"), 2: digest_entity_name("Inés Moreau")},
        (),
    )


def test_two_of_one_reply_who_may_both_be_the_known_one_are_doubts() -> None:
    resolution = resolve_entities([person(1, "Jonas", "brother"), person(2, "Jonas", "colleague")], [held("Jonas")])
    assert {doubt.ref for doubt in resolution.doubts} == {1, 2}


def test_the_same_name_in_two_windows_is_one() -> None:
    parts = [Extraction((person(1, "Jonas", "brother"),)), Extraction((person(1, "jonas"),))]
    resolution = resolve_entities(join_extractions(parts).entities, [held("Jonas", about="landlord")])
    assert len(set(resolution.keys_by_ref.values())) == 1
    assert resolution.keys_by_ref[0] != digest_entity_name("Jonas")


def test_contexts_that_differ_between_windows_are_a_doubt() -> None:
    resolution = resolve_entities([person(1, "Jonas", "brother"), person(2, "Jonas", "boss", window=1)], [])
    assert resolution.doubts == (EntityDoubt(2, (resolution.keys_by_ref[1],)),)


NAMES = [
    "Inés",
    "INES",
    "Inés Moreau",
    "Ines Costa",
    "I. Moreau",
    "Dr. Moreau",
    "Jonas",
    "Jonas Weber",
    "Weber",
    "王明",
]
MENTIONS = st.builds(
    person,
    st.just(0),
    st.sampled_from(NAMES),
    st.sampled_from(["", "", "sister", "boss"]),
    window=st.integers(0, 2),
    type=st.sampled_from(["person", "person", "place"]),
)
BATCHES = st.lists(MENTIONS, max_size=6).map(lambda found: [replace(e, ref=i) for i, e in enumerate(found)])
KNOWN = st.lists(
    st.builds(held, st.sampled_from(NAMES), st.sampled_from(NAMES), about=st.sampled_from(["", "sister"])),
    max_size=4,
    unique_by=lambda entity: entity.key,
)


@given(BATCHES, KNOWN, st.data())
def test_no_order_changes_who_is_who(
    entities: list[ExtractedEntity], known: list[KnownEntity], data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(entities)), data.draw(st.permutations(known))
    assert resolve_entities(*shuffled) == resolve_entities(entities, known)


@settings(max_examples=300)
@given(BATCHES, st.data())
def test_where_rules_alone_decide_two_batches_end_like_one(
    entities: list[ExtractedEntity], data: st.DataObject
) -> None:
    """Each mention in a window of its own; in one batch, and in two in another order."""
    alone = [replace(entity, window=i) for i, entity in enumerate(entities)]
    together = resolve_entities(alone, [])
    order = data.draw(st.permutations(alone))
    cut = data.draw(st.integers(0, len(order)))
    first = resolve_entities([replace(e, window=i) for i, e in enumerate(order[:cut])], [])
    second = resolve_entities([replace(e, window=i) for i, e in enumerate(order[cut:])], known_after(first))
    assume(not (together.doubts or first.doubts or second.doubts))
    assert partition({**first.keys_by_ref, **second.keys_by_ref}.items()) == partition(together.keys_by_ref.items())


@given(BATCHES)
def test_what_was_resolved_is_known_the_next_time(entities: list[ExtractedEntity]) -> None:
    first = resolve_entities([replace(entity, window=0) for entity in entities], [])
    second = resolve_entities([replace(entity, window=0) for entity in entities], known_after(first))
    assert second.keys_by_ref == first.keys_by_ref


@given(st.lists(st.builds(person, st.just(0), st.text(min_size=1), st.text(max_size=3)), max_size=5), st.data())
def test_any_characters_can_be_a_name(entities: list[ExtractedEntity], data: st.DataObject) -> None:
    types = st.sampled_from(["person", "organization", "place", "", "whatever"])
    batch = [replace(entity, ref=i, type=data.draw(types)) for i, entity in enumerate(entities)]
    resolution = resolve_entities(batch, [])
    assert set(resolution.keys_by_ref) == {entity.ref for entity in batch}
    assert {planned.key for planned in resolution.planned_entities} == set(resolution.keys_by_ref.values())
    assert resolve_entities(batch, known_after(resolution)).keys_by_ref.keys() == resolution.keys_by_ref.keys()


def known_after(*resolutions: EntityResolution) -> list[KnownEntity]:
    return [
        KnownEntity(entity.key, entity.name, entity.type, entity.aliases, entity.about)
        for resolution in resolutions
        for entity in resolution.planned_entities
    ]


def partition(keys: Iterable[tuple[int, str]]) -> set[frozenset[int]]:
    parts: dict[str, set[int]] = defaultdict(set)
    for ref, key in keys:
        parts[key].add(ref)
    return {frozenset(part) for part in parts.values()}


# --- doubts -------------------------------------------------------------------------------------------------


BROTHER = held("Jonas", about="brother")


def doubted(*entities: ExtractedEntity, known: Sequence[KnownEntity] = (BROTHER,)) -> EntityResolution:
    resolution = resolve_entities(entities or [person(1, "Jonas", "my boss")], known)
    assert resolution.doubts
    return resolution


def test_a_doubt_stands_as_somebody_new() -> None:
    resolution = doubted()
    assert resolution.doubts == (EntityDoubt(1, (BROTHER.key,)),)
    assert [(planned.key, planned.is_new) for planned in resolution.planned_entities] == [
        (resolution.keys_by_ref[1], True)
    ]


def test_an_answer_makes_two_one() -> None:
    resolution = answer_doubts(doubted(), {1: BROTHER.key}, [BROTHER])
    assert (resolution.keys_by_ref, resolution.doubts) == ({1: BROTHER.key}, ())
    assert resolution.planned_entities == (
        EntityWrite(BROTHER.key, "Jonas", "person", (), is_new=False, about="brother"),
    )


def test_somebody_new_stays_new() -> None:
    before = doubted()
    assert answer_doubts(before, {1: None}, [BROTHER]) == replace(before, doubts=())


@pytest.mark.parametrize("same", [{}, {7: BROTHER.key}])
def test_a_doubt_without_an_answer_is_kept(same: dict[int, str | None]) -> None:
    assert answer_doubts(doubted(), same, [BROTHER]) == doubted()


def test_an_answer_that_was_not_offered_counts_for_nothing() -> None:
    resolution = answer_doubts(doubted(), {1: "somebody else's"}, [BROTHER])
    assert resolution.keys_by_ref == doubted().keys_by_ref


def test_an_answer_holds_for_the_same_name_in_every_window() -> None:
    before = doubted(person(1, "Jonas", "my boss"), person(2, "Jonas", "my boss", window=1))
    assert answer_doubts(before, {1: BROTHER.key}, [BROTHER]).keys_by_ref == {1: BROTHER.key, 2: BROTHER.key}


def test_answers_that_go_round_in_a_circle_end() -> None:
    before = EntityResolution(
        {1: "a", 2: "b"},
        (EntityWrite("a", "A", "person", (), True), EntityWrite("b", "B", "person", (), True)),
        (EntityDoubt(1, ("b",)), EntityDoubt(2, ("a",))),
    )
    resolution = answer_doubts(before, {1: "b", 2: "a"}, [])
    assert (len(set(resolution.keys_by_ref.values())), len(resolution.planned_entities)) == (1, 1)


def test_two_new_ones_who_are_one_go_by_the_name_of_the_one_that_is_meant() -> None:
    before = doubted(person(1, "Ann Lee"), person(2, "Annlee", window=1), known=[])
    [planned] = answer_doubts(before, {2: digest_entity_name("Ann Lee")}, []).planned_entities
    assert planned == EntityWrite(digest_entity_name("Ann Lee"), "Ann Lee", "person", ("Annlee",), is_new=True)


def test_a_merged_one_that_is_listed_beside_its_target_is_again_who_it_was() -> None:
    merged = replace(held("Franziska Vogt"), merged_keys=(digest_entity_name("Kröte"),))
    resolution = resolve_entities([person(1, "Franziska Vogt"), person(2, "Kröte")], [merged])
    assert resolution.keys_by_ref == {1: merged.key, 2: digest_entity_name("Kröte")}
    assert [(planned.name, planned.split_from) for planned in resolution.planned_entities if planned.split_from] == [
        ("Kröte", merged.key)
    ]


# --- measured -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ask_gold", [False, True])
def test_names_in_many_scripts_are_resolved(ask_gold: bool) -> None:
    mentions = aliases.load()
    outcome = aliases.resolve_mentions(mentions, ask_gold=ask_gold)
    assert outcome.list_false_merges() == []
    assert outcome.compute_b_cubed()[2] >= 0.95
    if ask_gold:
        scripts = {mention.script for mention in mentions}
        assert len(scripts) >= 8
        assert {script for script in scripts if outcome.compute_b_cubed(script)[2] < 0.95} == set()


# --- the number of a known entity ---------------------------------------------------------------------------


def numbered(
    name: str, meant: KnownEntity, *, quote: str | None = None, about: str = "", **more: str
) -> ExtractedEntity:
    """An entity whose number is that of the one meant, in words that hold its name."""
    quotes = (f"{name} is here" if quote is None else quote,)
    kind = more.get("type", "person")
    return ExtractedEntity(1, name, kind, about=about, known_key=meant.key, quotes=quotes if quotes[0] else ())


INES, TOM, ANNA = held("Inés Moreau", "Nena"), held("Tom"), held("Anna", about="colleague", key="a2")


@pytest.mark.parametrize("name", ["Inés Moreau", "inés  moreau", "Ines", "Nena", "I. Moreau"])
def test_a_number_is_taken_where_the_name_or_an_alias_is_the_same(name: str) -> None:
    resolution = resolve_entities([numbered(name, INES)], [INES, TOM])
    assert (resolution.keys_by_ref[1], resolution.doubts) == (INES.key, ())


def test_a_number_tells_namesakes_apart() -> None:
    sister = held("Anna", about="sister")
    assert resolve_entities([numbered("Anna", ANNA)], [sister, ANNA]).keys_by_ref[1] == ANNA.key


@pytest.mark.parametrize(("name", "known"), [("my brother", TOM), ("妹", held("美緒")), ("Bob", held("Robert Hale"))])
def test_a_number_beside_another_name_is_a_doubt_with_the_words(name: str, known: KnownEntity) -> None:
    resolution = resolve_entities([numbered(name, known)], [known, INES])
    assert resolution.doubts == (EntityDoubt(1, (known.key,), (f"{name} is here",)),)
    assert answer_doubts(resolution, {1: known.key}, [known, INES]).keys_by_ref[1] == known.key
    assert answer_doubts(resolution, {1: None}, [known, INES]).keys_by_ref[1] == digest_entity_name(name)


@pytest.mark.parametrize(
    ("entity", "known"),
    [
        (numbered("John", held("Tetris", type="object")), [held("Tetris", type="object")]),
        (numbered("Porto", TOM, type="place"), [TOM]),
        (numbered("my brother", TOM, quote=""), [TOM]),
    ],
)
def test_a_number_is_passed_over_where_the_kind_clashes_or_no_words_hold_the_name(
    entity: ExtractedEntity, known: list[KnownEntity]
) -> None:
    resolution = resolve_entities([entity], known)
    assert (resolution.keys_by_ref[1], resolution.doubts) == (digest_entity_name(entity.name), ())


def test_a_number_does_not_outweigh_the_kind_of_a_namesake() -> None:
    food, company = held("Apple", type="object", key="a2"), held("Apple", type="organization")
    resolution = resolve_entities([numbered("Apple", food, type="organization")], [food, company])
    assert (resolution.keys_by_ref[1], resolution.doubts) == (company.key, ())


def test_a_number_beside_another_writing_of_a_name_makes_no_doubt() -> None:
    resolution = resolve_entities([numbered("Mueller", TOM)], [held("Müller"), TOM])
    assert (resolution.keys_by_ref[1], resolution.doubts) == (digest_entity_name("Müller"), ())


@pytest.mark.parametrize(("one", "other"), [(INES, TOM), (TOM, held("Tetris", type="object")), (INES, held("Inés"))])
def test_numbers_swapped_between_two_change_nobody(one: KnownEntity, other: KnownEntity) -> None:
    swapped = [
        ExtractedEntity(ref, mine.name, mine.type, known_key=theirs.key, quotes=(mine.name,), window=0)
        for ref, mine, theirs in ((1, one, other), (2, other, one))
    ]
    resolution = resolve_entities(swapped, [one, other])
    assert (resolution.keys_by_ref, resolution.doubts) == ({1: one.key, 2: other.key}, ())
    assert all(not planned.aliases for planned in resolution.planned_entities)


@pytest.mark.parametrize("type", ["person", "agent", "object"])
def test_whoever_is_named_like_an_author_is_that_author(type: str) -> None:
    known = [held("Ada", "ada", about="colleague", key="a2"), held("ada"), TOM]
    resolution = resolve_entities([numbered("ada", TOM, type=type)], known, [("ada", "user")])
    assert (resolution.keys_by_ref[1], resolution.doubts) == (digest_entity_name("ada"), ())


def test_a_place_named_like_an_author_is_a_place() -> None:
    known = [held("Florence")]
    assert resolve_entities([ExtractedEntity(1, "Florence", "place")], known, [("Florence", "user")]).keys_by_ref[
        1
    ] != digest_entity_name("Florence")


@settings(max_examples=50)
@given(st.data())
def test_numbers_make_no_difference_where_names_are_told_apart(data: st.DataObject) -> None:
    known = [held(name) for name in ("Inés Moreau", "Tom", "Robert Hale", "Mila Novak")]
    meant = data.draw(st.permutations(known))
    entities = [
        ExtractedEntity(ref, mine.name, "person", known_key=theirs.key, quotes=(mine.name,))
        for ref, (mine, theirs) in enumerate(zip(known, meant, strict=True))
    ]
    entities = data.draw(st.permutations(entities))
    assert resolve_entities(entities, known).keys_by_ref == {ref: entity.key for ref, entity in enumerate(known)}


def test_nobody_is_compared_with_everybody(monkeypatch) -> None:
    compared, relation = [0], entity_groups.match_groups

    def counted(one: entity_groups.EntityGroup, other: entity_groups.EntityGroup) -> entity_groups.EntityMatch:
        compared[0] += 1
        return relation(one, other)

    monkeypatch.setattr(entity_groups, "match_groups", counted)
    names = [f"Ann{a}{b} Lee{b}{a}" for a in "abcdefghijklmno" for b in "bcdfghjklmnpqrs"]
    known = [held(name) for name in names]
    resolution = resolve_entities([person(n, name) for n, name in enumerate(names)], known)
    assert set(resolution.keys_by_ref.values()) == {entity.key for entity in known}
    assert compared[0] < 10 * len(names)


@pytest.mark.parametrize(
    ("name", "base", "note"), [("Anna (vet)", "anna", "vet"), ("(the vet)", "(the vet)", ""), ("Anna", "anna", "")]
)
def test_what_stands_in_brackets_is_a_note_on_a_name_unless_it_is_all_of_it(name: str, base: str, note: str) -> None:
    parsed = parse_name(name, "thing")
    assert (parsed.base, parsed.note) == (base, note)


@pytest.mark.parametrize(
    ("name", "words"),
    [("山田 太郎さん", ("山田", "太郎")), ("さん", ("さん",)), ("太郎さん", ("太郎",)), ("김 민수님", ("김", "민수"))],
)
def test_an_honorific_is_no_part_of_a_name_and_the_other_words_are(name: str, words: tuple[str, ...]) -> None:
    assert parse_name(name, "person").words == words


def test_a_short_form_says_less_than_another_writing() -> None:
    short, loose = (
        match_names(parse_name(one, "person"), parse_name(other, "person"), "person")
        for one, other in (("Jonas Weber", "Jonas W."), ("Müller", "Mueller"))
    )
    assert (short, loose) == (NameMatch.SHORT, NameMatch.LOOSE) and short < loose
