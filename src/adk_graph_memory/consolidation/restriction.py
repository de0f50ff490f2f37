"""Take words away from readings: what is left is what memory would have read if it had never heard them.

A fact goes if none of its quotes is left, or if it tells a word that only the forgotten turns said; a name, an alias or
a context goes likewise. So a fact quoted from "He has it too" does not keep the name of a forgotten illness.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from adk_graph_memory.consolidation import fact_rules
from adk_graph_memory.consolidation.entity_resolution import digest_entity_name
from adk_graph_memory.language.detection import WIDE_RUN, detect_languages, load_stop_words
from adk_graph_memory.language.quantities import normalize_quantities
from adk_graph_memory.language.spelling import normalize_words
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.records.extractions import (
    UNKNOWN_TYPE,
    ExtractedEntity,
    ExtractedFact,
    Extraction,
    Source,
    select_said_aliases,
)
from adk_graph_memory.records.facts import STATES_PREDICATE, Fact, Proposition
from adk_graph_memory.records.readings import (
    RULING_REASONS,
    ClaimDecision,
    ClaimRef,
    OwnerRuling,
    Reading,
)
from adk_graph_memory.records.turns import Role

_POSSESSIVE = re.compile(r"(?<=\w)['’]s\b")
_GRAMMAR = re.compile(r"[\u3040-\u309f・]")


def find_lost_words(forgotten_texts: Sequence[str], kept_texts: Iterable[str]) -> frozenset[str]:
    """Find the words that only the forgotten texts say, without those that are ordinary in their languages."""
    words = collect_words(forgotten_texts)
    for text in kept_texts:
        if not words:
            break
        words -= collect_words([text])
    stop_words = {word for language in ("en", *detect_languages(forgotten_texts)) for word in load_stop_words(language)}
    return frozenset(words - collect_words(stop_words))


def list_labels(extraction: Extraction) -> list[str]:
    """List the predicates, topics and types that a model chose; the prompt shows it the types of known entities."""
    labels = [label for fact in extraction.facts for label in (fact.predicate, fact.topic)]
    return labels + [entity.type for entity in extraction.entities if entity.known_key is None]


def collect_label_words(labels: Iterable[str]) -> set[str]:
    """Collect the words of labels, which may be in snake_case."""
    return collect_words(label.replace("_", " ") for label in labels)


def collect_words(texts: Iterable[str]) -> set[str]:
    """Collect the words and numbers of texts; of text written without spaces, each pair of characters.

    Pairs with hiragana are left out: they are grammar. Katakana writes words and names.
    """
    words = set[str]()
    for text in texts:
        folded = _POSSESSIVE.sub("", fold_text(text))
        for run in WIDE_RUN.findall(folded):
            pairs = (run[place : place + 2] for place in range(max(1, len(run) - 1)))
            words.update(pair for pair in pairs if not _GRAMMAR.search(pair))
        for word in normalize_words(WIDE_RUN.sub(" ", folded)):
            words |= {word, word.strip("#&@%*")} - {""}  # who is mentioned as @Ana is Ana
        words.update(quantity.number for quantity in normalize_quantities(folded).quantities)
    return words


ReadFact = tuple[str, int]
"""The id of a reading, and the reference of a fact in it."""


@dataclass(frozen=True, slots=True)
class Removal:
    """What to take away from readings.

    ``takes_words`` is whether what only these turns told goes from other turns too, such as whose alias a name is.
    ``words`` are those that only they said, and ``label_words`` those of them that no reading would choose for a
    predicate, a topic, a type or a speaker without having heard them. ``authors`` are name and role of the author of
    each turn that stays, and ``texts`` what it says, by turn id. ``reading_ids`` are readings that go as a whole.
    """

    turn_ids: frozenset[str]
    authors: Mapping[str, tuple[str, Role]]
    texts: Mapping[str, str]
    takes_words: bool
    words: frozenset[str] = frozenset()
    label_words: frozenset[str] = frozenset()
    facts: frozenset[ReadFact] = frozenset()
    reading_ids: frozenset[str] = frozenset()
    renamed_claims: Mapping[tuple[str, tuple[str, str]], str] = field(default_factory=dict)
    """wording key and source key of a fact that is worded otherwise without what goes → its new wording key"""


def restrict_readings(readings: Iterable[Reading], removal: Removal) -> list[Reading]:
    """Take the removal away from each reading; a reading of which nothing is left goes."""
    readings = list(readings)
    removal = replace(removal, renamed_claims=_rename_claims(readings, removal))
    restricted = (_restrict_reading(reading, removal) for reading in readings)
    return [reading for reading in restricted if reading is not None]


def _rename_claims(readings: Iterable[Reading], removal: Removal) -> dict[tuple[str, tuple[str, str]], str]:
    """Find the facts that lose a predicate or a date, so that decisions and rulings still find them."""
    renamed = dict[tuple[str, tuple[str, str]], str]()
    for reading in readings:
        if removal.turn_ids.isdisjoint(reading.heard_turn_ids):
            continue
        kept = {fact.ref: fact for fact in _restrict_facts(reading, removal)}
        for fact in reading.extraction.facts:
            if (new := kept.get(fact.ref, fact)) != fact:
                old_key, new_key = (resolve_read_proposition(reading, one).wording_key for one in (fact, new))
                renamed |= {(old_key, source.key): new_key for source in new.sources if old_key != new_key}
    return renamed


def select_current_readings(readings: Iterable[Reading], removal: Removal) -> list[Reading]:
    """Leave out of each reading the turns that were read again; the removal tells the authors and texts of turns."""
    current = []
    for reading in readings:
        gone = Removal(frozenset(reading.reread_at), removal.authors, removal.texts, takes_words=False)
        kept = _restrict_reading(reading, gone) if reading.reread_at else reading
        if kept is not None:
            current.append(kept)
    return current


def _restrict_reading(reading: Reading, removal: Removal) -> Reading | None:
    if outdated_ids := reading.outdated_turn_ids:
        outdated = Removal(outdated_ids, removal.authors, removal.texts, takes_words=False)
        current = _restrict_reading(replace(reading, outdated_turn_ids=frozenset()), outdated)
        kept = current and _restrict_reading(current, removal)
        return kept and replace(kept, outdated_turn_ids=outdated_ids)
    kept_ids = tuple(id for id in reading.heard_turn_ids if id not in removal.turn_ids)
    if reading.heard_turn_ids and not kept_ids:
        return None
    ruling = reading.ruling and _restrict_ruling(reading.ruling, removal)
    if reading.id in removal.reading_ids or (reading.ruling and not ruling and not kept_ids):
        return None
    extraction = _restrict_extraction(reading, removal)
    if len(kept_ids) < len(reading.heard_turn_ids):
        extraction = _restrict_speakers(extraction, removal, kept_ids)
    refs = {entity.ref for entity in extraction.entities}
    fact_refs = {fact.ref for fact in extraction.facts}
    dependencies = [(_restrict_ref(a, removal), _restrict_ref(b, removal)) for a, b in reading.dependencies]
    return replace(
        reading,
        extraction=extraction,
        entity_keys={ref: key for ref, key in reading.entity_keys.items() if ref in refs},
        claim_decisions=tuple(_restrict_decisions(reading.claim_decisions, removal)),
        dependencies=tuple((claim, base) for claim, base in dependencies if claim and base),
        doubt_answers={ref: key for ref, key in reading.doubt_answers.items() if ref in refs},
        heard_turn_ids=kept_ids,
        reread_at={id: time for id, time in reading.reread_at.items() if id in kept_ids},
        ruling=ruling,
        held=tuple(
            replace(fact, reason="") if _tells_lost_word(fact.reason, removal) else fact
            for fact in reading.held
            if fact.ref in fact_refs
        ),
    )


def _restrict_speakers(extraction: Extraction, removal: Removal, kept_ids: Collection[str]) -> Extraction:
    """Take away authors of whom no turn is left, and aliases that no turn which is left ties to their entity.

    If no words are taken, a turn that is left may say an alias as it was understood then.
    """
    authors = {removal.authors[id] for id in kept_ids if id in removal.authors}
    names, texts = [name for name, _ in authors], [removal.texts[id] for id in kept_ids if id in removal.texts]
    said_words = [] if removal.takes_words else [collect_words([text]) for text in texts]

    def is_said(alias: str) -> bool:
        words = collect_words([alias]) if len(alias) > 1 else set()
        return bool(words) and any(words <= said for said in said_words)

    def select_aliases(entity: ExtractedEntity) -> tuple[str, ...]:
        tied = select_said_aliases(entity.name, entity.aliases, names, texts)
        return tuple(alias for alias in entity.aliases if alias in tied or is_said(alias))

    entities = (replace(entity, aliases=select_aliases(entity)) for entity in extraction.entities)
    kept_authors = tuple(author for author in extraction.authors if author in authors)
    return replace(extraction, authors=kept_authors, entities=tuple(entities))


def _restrict_ruling(ruling: OwnerRuling, removal: Removal) -> OwnerRuling | None:
    """Take the ruling away if what it is about is gone, or told in a lost word; a reason that tells one goes alone."""
    claim = ruling.claim and _restrict_ref(ruling.claim, removal)
    texts = [*ruling.names, *([ruling.wording.text] if ruling.wording else [])]
    if (ruling.claim is not None and claim is None) or any(_tells_lost_word(text, removal) for text in texts):
        return None
    reason = RULING_REASONS[ruling.op] if _tells_lost_word(ruling.reason, removal) else ruling.reason
    return replace(ruling, claim=claim, reason=reason)


def _restrict_extraction(reading: Reading, removal: Removal) -> Extraction:
    """Take facts, mentions and names away, and the entities that nothing refers to any more."""
    extraction = reading.extraction
    restricted = (_restrict_entity(entity, reading, removal) for entity in extraction.entities)
    entities = {entity.ref: entity for entity in restricted if entity}
    facts = tuple(
        fact
        for fact in _restrict_facts(reading, removal)
        if fact.subject in entities and (fact.object is None or fact.object in entities)
    )
    # Who forgets a fact and not its turn does not forget whom the turn names.
    forgotten_facts = [fact for fact in extraction.facts if (reading.id, fact.ref) in removal.facts]
    mentions = tuple(
        mention
        for mention in _keep_mentions(extraction, [*facts, *forgotten_facts])
        if mention[0] not in removal.turn_ids and mention[1] in entities
    )
    lost_refs = _list_refs(extraction.facts, extraction.mentions) - _list_refs(facts, mentions)
    lost_refs |= _list_unheard_refs(reading, removal)
    quotes = {source.quote for fact in facts for source in fact.sources}
    kept_entities = tuple(
        replace(entity, quotes=tuple(quote for quote in entity.quotes if quote in quotes))
        for ref, entity in entities.items()
        if ref not in lost_refs
    )
    return replace(extraction, facts=facts, mentions=mentions, entities=kept_entities)


def _list_unheard_refs(reading: Reading, removal: Removal) -> set[int | None]:
    """List the entities that neither fact nor mention speaks of, but those whose name a turn that is left says."""
    if removal.turn_ids.isdisjoint(reading.heard_turn_ids):
        return set()
    kept_ids = [id for id in reading.heard_turn_ids if id not in removal.turn_ids and id in removal.texts]
    said = [text for id in kept_ids for text in (removal.authors[id][0], removal.texts[id])]
    folded_words = [(fold_text(text), collect_words([text])) for text in said]

    def is_said(name: str) -> bool:
        """Whether a text says the name, and not only a longer word that contains it."""
        folded, words = fold_text(name), collect_words([name])
        return any(folded in text and words <= text_words for text, text_words in folded_words)

    spoken_of = _list_refs(reading.extraction.facts, reading.extraction.mentions)
    return {
        entity.ref
        for entity in reading.extraction.entities
        if entity.ref not in spoken_of and not any(map(is_said, (entity.name, *entity.aliases)))
    }


def _keep_mentions(extraction: Extraction, facts: Iterable[ExtractedFact]) -> tuple[tuple[str, int], ...]:
    """Keep the mentions that do not come from facts which are gone, given those that are left."""
    lost = _list_mentions(extraction.facts) - _list_mentions(facts)
    return tuple(mention for mention in extraction.mentions if mention not in lost)


def _list_mentions(facts: Iterable[ExtractedFact]) -> set[tuple[str, int | None]]:
    """List the turns that facts rest on, each with the references of whom the facts speak of."""
    return {(source.turn_id, ref) for fact in facts for source in fact.sources for ref in _list_refs([fact], ())}


def _list_refs(facts: Iterable[ExtractedFact], mentions: Iterable[tuple[str, int]]) -> set[int | None]:
    """List the references of the entities that facts and turns speak of."""
    return {ref for fact in facts for ref in (fact.subject, fact.object)} | {ref for _, ref in mentions}


def refuse_turns(extraction: Extraction, turn_ids: Collection[str]) -> Extraction:
    """Drop and count what rests on turns from which something was forgotten; drop entities that only they name."""
    if not turn_ids:
        return extraction
    sources = (
        (fact, [source for source in fact.sources if source.turn_id not in turn_ids]) for fact in extraction.facts
    )
    facts = tuple(replace(fact, sources=tuple(kept)) for fact, kept in sources if kept)
    mentions = tuple(mention for mention in extraction.mentions if mention[0] not in turn_ids)
    lost_refs = _list_refs(extraction.facts, extraction.mentions) - _list_refs(facts, mentions)
    entities = tuple(entity for entity in extraction.entities if entity.ref not in lost_refs)
    drop_counts = Counter(extraction.drop_counts) + Counter(
        {"forgotten on request": len(extraction.facts) - len(facts)}
    )
    return replace(extraction, facts=facts, mentions=mentions, entities=entities, drop_counts=+drop_counts)


def withhold_facts(extraction: Extraction, refs: Collection[int]) -> Extraction:
    """Leave out facts by their references, and the mentions and entities that nothing but these facts names."""
    if not refs:
        return extraction
    facts = tuple(fact for fact in extraction.facts if fact.ref not in refs)
    gone = [fact for fact in extraction.facts if fact.ref in refs]
    mentions = _keep_mentions(extraction, facts)
    lost_refs = _list_refs(gone, extraction.mentions) - _list_refs(facts, mentions)
    entities = tuple(entity for entity in extraction.entities if entity.ref not in lost_refs)
    return replace(extraction, facts=facts, mentions=mentions, entities=entities)


def _restrict_facts(reading: Reading, removal: Removal) -> list[ExtractedFact]:
    facts = []
    for fact in reading.extraction.facts:
        sources = tuple(source for source in fact.sources if source.turn_id not in removal.turn_ids)
        is_forgotten = (reading.id, fact.ref) in removal.facts or not sources
        if not is_forgotten and not _tells_lost_word(fact.text, removal):
            facts.append(_restrict_labels(rest_on(fact, sources), removal))
    return facts


def _is_lost_label(label: str, removal: Removal) -> bool:
    return bool(removal.label_words) and not removal.label_words.isdisjoint(collect_label_words([label]))


def _restrict_labels(fact: ExtractedFact, removal: Removal) -> ExtractedFact:
    """Take away what a model chose to call a fact if that tells a lost word; its text stays."""
    if _is_lost_label(fact.speaker, removal):
        fact = replace(fact, speaker=fact.sources[0].author)
    if _is_lost_label(fact.predicate, removal):
        fact = replace(fact, predicate=STATES_PREDICATE)
    return replace(fact, topic="") if _is_lost_label(fact.topic, removal) else fact


def rest_on(fact: ExtractedFact, sources: tuple[Source, ...]) -> ExtractedFact:
    """Let the fact rest on these of its sources: it is the word of whoever said the first of them, and then.

    Its dates go if a quote that is gone told one, and none that is left does.
    """
    if sources == fact.sources:
        return fact
    lost_quotes = [source.quote for source in fact.sources if source not in sources]
    if _tell_date(lost_quotes) and not _tell_date([source.quote for source in sources]):
        fact = replace(fact, valid_from=None, valid_to=None, valid_from_precision=None, valid_to_precision=None)
    if sources[0] == fact.sources[0]:
        return replace(fact, sources=sources)
    speaker = sources[0].author if fact.speaker == fact.sources[0].author else fact.speaker
    return replace(fact, sources=sources, speaker=speaker, at=sources[0].at)


def _tell_date(quotes: Sequence[str]) -> bool:
    from adk_graph_memory.language.date_finder import has_date_hint  # with dateparser, which a history never needs

    languages = ("en", *detect_languages(quotes))
    return any(has_date_hint(quote, language) for quote in quotes for language in languages)


def _tells_lost_word(text: str, removal: Removal) -> bool:
    return bool(removal.words) and not removal.words.isdisjoint(collect_words([text]))


def _restrict_entity(entity: ExtractedEntity, reading: Reading, removal: Removal) -> ExtractedEntity | None:
    """Take away names that tell a lost word, and a context that a forgotten turn may have given."""
    names = [name for name in (entity.name, *entity.aliases) if not _tells_lost_word(name, removal)]
    if not names:
        return None
    turn_ids = {turn_id for turn_id, ref in reading.extraction.mentions if ref == entity.ref}
    for fact in reading.extraction.facts:
        if entity.ref in (fact.subject, fact.object):
            turn_ids |= {source.turn_id for source in fact.sources}
    is_doubtful = not removal.turn_ids.isdisjoint(turn_ids or reading.heard_turn_ids)
    about = "" if is_doubtful or _tells_lost_word(entity.about, removal) else entity.about
    type = UNKNOWN_TYPE if _is_lost_label(entity.type, removal) else entity.type
    return replace(entity, name=names[0], aliases=tuple(names[1:]), type=type, about=about)


def _restrict_decisions(decisions: Iterable[ClaimDecision], removal: Removal) -> Iterable[ClaimDecision]:
    """Keep the decisions whose claim and target are left; a reason that tells a lost word goes."""
    for decision in decisions:
        claim = _restrict_ref(decision.claim, removal)
        targets = tuple(target for ref in decision.targets if (target := _restrict_ref(ref, removal)))
        reason = "" if _tells_lost_word(decision.reason, removal) else decision.reason
        if claim and targets:
            yield replace(decision, claim=claim, targets=targets, reason=reason)


def _restrict_ref(ref: ClaimRef, removal: Removal) -> ClaimRef | None:
    keys: Collection[tuple[str, str]] = [key for key in ref.source_keys if key[0] not in removal.turn_ids]
    new_keys = (removal.renamed_claims.get((ref.wording_key, key)) for key in keys)
    wording_key = next(filter(None, new_keys), ref.wording_key)
    return replace(ref, wording_key=wording_key, source_keys=tuple(keys)) if keys else None


def find_read_facts(readings: Iterable[Reading], fact: Fact) -> frozenset[ReadFact]:
    """Find what of the readings became this fact, by its words: if in doubt, all that was read in them.

    In readings of turns that were read again, words may be quoted otherwise: there, each by itself, what shares a word
    of the turn with a quote counts.
    """
    readings = list(readings)
    found = _find_closest_facts([reading for reading in readings if not reading.reread_at], fact, _share_quote)
    for reading in readings:
        if reading.reread_at:
            found |= _find_closest_facts([reading], fact, _overlap)
    return found


def _share_quote(source: Source, other: Source) -> bool:
    return source.key == other.key


def _overlap(source: Source, other: Source) -> bool:
    return source.turn_id == other.turn_id and source.start < other.end and other.start < source.end


def _find_closest_facts(
    readings: Iterable[Reading], fact: Fact, is_same_place: Callable[[Source, Source], bool]
) -> frozenset[ReadFact]:
    signatures = {fact.proposition.signature, *fact.equivalent_signatures}
    by_closeness: dict[int, set[ReadFact]] = {}
    for reading in readings:
        for read in reading.extraction.facts:
            if not any(is_same_place(source, own) for source in read.sources for own in fact.sources):
                continue
            proposition = resolve_read_proposition(reading, read)
            is_same = proposition.wording_key == fact.proposition.wording_key or proposition.signature in signatures
            closeness = 2 if is_same else 1 if proposition.predicate == fact.proposition.predicate else 0
            by_closeness.setdefault(closeness, set()).add((reading.id, read.ref))
    return frozenset(by_closeness[max(by_closeness)]) if by_closeness else frozenset()


def resolve_read_proposition(reading: Reading, fact: ExtractedFact) -> Proposition:
    """Resolve a fact to a proposition as it was read; an entity that was held back gets the key of its name."""
    keys = {entity.ref: digest_entity_name(entity.name) for entity in reading.extraction.entities}
    return fact_rules.resolve_proposition(fact, {**keys, **reading.entity_keys}, reading.functional_predicates)
