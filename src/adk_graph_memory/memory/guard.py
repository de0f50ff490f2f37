"""Ask a guard about each fact and statement before it is written; the ready-made rules for one.

A rule looks for what does not depend on a language where it can: who speaks, of whom, and the marks of chat templates.
Words that give orders to an assistant are matched in the languages of ``_ORDERS``.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Literal

from adk_graph_memory import errors
from adk_graph_memory.consolidation.restriction import withhold_facts
from adk_graph_memory.language.text import fold_text
from adk_graph_memory.memory import redaction
from adk_graph_memory.records.extractions import ExtractedFact, Extraction
from adk_graph_memory.records.facts import Candidates, Delta, KnownEntity
from adk_graph_memory.records.history import GuardCandidate, GuardVerdict
from adk_graph_memory.records.readings import WithheldFact
from adk_graph_memory.records.scopes import Scope
from adk_graph_memory.records.turns import IMPERSONAL_ORIGINS, Statement, Turn, find_strongest_origin

GuardRule = Callable[[GuardCandidate], GuardVerdict | None]

_TEMPLATE_MARKS = re.compile(
    r"<\|\w+\|>|\[/?INST\]|<</?SYS>>|</?(?:system|assistant|instructions?)>|^#{2,}\s*(?:system|instructions?)\b"
    r"|\bsystem[ _-]?(?:prompt|override|message)\b|[\U000e0000-\U000e007f]"
    r"|(?<=[a-z])[\u200b-\u200d\u2060\ufeff]+(?=[a-z])",
    re.IGNORECASE | re.MULTILINE,
)
"""Marks of chat templates, and characters that nobody sees but a model."""
_ORDERS: tuple[tuple[str, str], ...] = (
    (r"\b(?:ignore|disregard|override|bypass)\b", r"\b(?:previous|prior|earlier|above|all|your|system)\b.{0,30}"
                                                 r"\b(?:instructions?|rules?|prompts?|guidelines?|directions?)\b"),
    (r"\b(?:ignor\w{0,20}+|olvid\w{0,20}+|descart\w{0,20}+)\b", r"\binstrucciones\b"),
    (r"\b(?:ignor\w{0,20}+|esque[cç]\w{0,20}+|desconsider\w{0,20}+)\b", r"\binstruções\b"),
    (r"\b(?:ignor\w{0,20}+|oubli\w{0,20}+)\b", r"\b(?:instructions|consignes)\b.{0,20}\bprécéden\w{0,20}+"),
    (r"\b(?:ignorier\w{0,20}+|vergiss|vergesst|missachte\w{0,20}+)\b", r"\b(?:anweisungen|instruktionen|vorgaben)\b"),
    (r"\b(?:ignora\w{0,20}+|dimentica\w{0,20}+)\b", r"\bistruzioni\b"),
    (r"\b(?:negeer|vergeet)\b", r"\binstructies\b"),
    (r"\b(?:z?ignoruj\w{0,20}+|zapomnij)\b", r"\b(?:instrukcj\w{0,20}+|polece\w{0,20}+)"),
    (r"(?:игнорир\w{0,20}+|забудь\w{0,20}+)", r"(?:инструкци|указани)\w{0,20}+"),
    (r"(?:ігнору\w{0,20}+|забудь\w{0,20}+)", r"(?:інструкц|вказів)\w{0,20}+"),
    (r"(?:yok say|görmezden gel|unut)\w{0,20}+", r"talimat\w{0,20}+"),
    (r"(?:忽略|无视|無視|忘记|忘掉)", r"(?:指令|指示|提示|规则)"),
    (r"(?:無視|忘れ)", r"(?:指示|命令|ルール)"),
    (r"무시", r"(?:지시|명령|지침)"),
    (r"تجاهل", r"(?:تعليمات|التعليمات|الأوامر)"),
    (r"(?:अनदेखा|नज़रअंदाज़)", r"निर्देश"),
)  # fmt: skip
"""In each language, a word for ignoring and words for what an assistant was told, near each other in either order."""
_NEAR = r".{0,60}?"
_ORDER_PATTERNS = tuple(
    re.compile(f"{verb}{_NEAR}{noun}|{noun}{_NEAR}{verb}", re.IGNORECASE | re.DOTALL) for verb, noun in _ORDERS
)
_MACHINE = (
    r"(?:ai|a\.i\.|llms?|chatbots?|copilots?|(?:ai |virtual |digital )?assistants?|language models?|ai agents?|ki|ia|"
    r"ии|人工智能|助手|アシスタント)"
)
_REMEMBER = (
    r"\b(?:remember|memori[sz]e|note|store|save|record|assume|conclude|recuerd\w*|guard[ae]\w*|memoriz\w*|souvien\w*|"
    r"mémoris\w*|retien\w*|enregistr\w*|merk\w*|speicher\w*|ricord\w*|memorizz\w*|lembr\w*|onthou\w*|bewaar\w*|"
    r"zapamiętaj\w*|запомн\w*|сохран\w*|запам\w*)\b|記憶|覚え|保存|记住|記住|기억|저장|تذكر|احفظ|याद रख"
)
_THE_USER = (
    r"\b(?:the (?:user|human)|(?:el|la) usuari[oa]|l['’]utilisat(?:eur|rice)|(?:der|die|den) (?:be)?nutzer(?:in)?|"
    r"l['’]utente|o (?:usuário|utilizador)|de gebruiker|użytkownik\w*|пользовател\w*|користувач\w*)\b|ユーザー|"
    r"用户|用戶|사용자|المستخدم|उपयोगकर्ता"
)
"""Nobody calls themselves so: who is to remember something of the user is ordered by somebody else."""
_ADDRESS_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"\b(?:note|notice|message|instructions?|attention|reminder|nota|hinweis|anweisung|remarque|mensaje)\W++"
        rf"(?:to|for|para|an|für|pour|per)?\W*+(?:the|any|all|your|el|la|die|den|l['’])?\W*+{_MACHINE}\b",
        r"\b(?:do not|don['’]t|never|without)\s+(?:tell|inform|mention\w*|reveal\w*|alert\w*|notify\w*|warn\w*|telling|"
        r"informing|asking)\b.{0,40}\bthe (?:user|human|customer|owner)\b",
        rf"(?:{_REMEMBER})[^.\n。]{{0,40}}?(?:{_THE_USER})|ユーザー[^\n。]{{0,40}}(?:記憶|覚え|保存)|사용자[^\n.]{{0,40}}(?:기억|저장)",
        r"\b(?:remember|keep|treat|regard|consider|cite)\b[^.\n]{0,60}\bas (?:an?|the|your|my)\s+(?:\w+\s+)?"
        r"(?:trusted|reliable|authoritative|preferred|primary)\s+(?:source|authority|reference)\b",
        r"\b(?:save|store|write|record|add|commit)\b[^.\n]{0,60}\b(?:to|in|into)\s+"
        r"(?:your|the|its|long[- ]term|persistent)\s+(?:\S+\s+)?(?:memory|memories)\b",
    )
)


def hold_instructions(candidate: GuardCandidate) -> GuardVerdict | None:
    """Hold what stands in a text that gives orders to the assistant, beside what a person asks of it themselves."""
    if words := _find_order(candidate.turn_text):
        return GuardVerdict("hold", "instructions", f"its turn gives orders to the assistant: {words!r}")
    return None


@lru_cache(maxsize=4)
def _find_order(text: str) -> str:
    """The first words that give an order; cached, because the facts of a turn are asked about one after another."""
    patterns = (_TEMPLATE_MARKS, *_ORDER_PATTERNS, *_ADDRESS_PATTERNS)
    matches = (match for pattern in patterns for match in redaction.search_in_chunks(pattern, text))
    return next((" ".join(match[0].split())[:80] for match in matches), "")


def drop_secrets(candidate: GuardCandidate) -> GuardVerdict | None:
    """Drop keys, tokens, passwords and card numbers."""
    texts = (candidate.text, *candidate.quotes)
    if any(redaction.remove_secrets(text) != text for text in texts):
        return GuardVerdict("drop", "secrets", "it tells a secret")
    return None


def hold_claims_about_others(candidate: GuardCandidate) -> GuardVerdict | None:
    """Hold what one person of a group says about another, who may see it otherwise."""
    subject, author = fold_text(candidate.subject), fold_text(candidate.author)
    if candidate.origin != "user" or not subject:
        return None
    for names in (tuple(map(fold_text, names)) for names in candidate.speakers):
        if subject in names and author not in names:
            reason = f"{candidate.author} says it about {candidate.subject}, who speaks here too"
            return GuardVerdict("hold", "about another", reason)
    return None


def hold_drift(candidate: GuardCandidate) -> GuardVerdict | None:
    """Hold what would change a fact that the owner pinned."""
    if candidate.pinned_texts and candidate.origin != "owner":
        return GuardVerdict("hold", "pinned fact", f"it would change what is pinned: {candidate.pinned_texts[0]!r}")
    return None


def hold_machine_words(candidate: GuardCandidate) -> GuardVerdict | None:
    """Hold what no person said, only an agent, a tool or a document."""
    if candidate.origin in IMPERSONAL_ORIGINS:
        return GuardVerdict("hold", f"only {candidate.origin}", f"only {candidate.origin} words tell it")
    return None


RULES: tuple[GuardRule, ...] = (
    drop_secrets,
    hold_instructions,
    hold_drift,
    hold_machine_words,
    hold_claims_about_others,
)
"""All rules; the first that has something to say decides."""


def apply_rules(candidate: GuardCandidate) -> GuardVerdict | None:
    """Ask all rules."""
    return next(filter(None, (rule(candidate) for rule in RULES)), None)


Guard = Callable[[GuardCandidate], GuardVerdict | None]
GuardOption = Guard | Literal["rules"] | None


def choose_guard(choice: GuardOption) -> Guard | None:
    """Choose the guard that an argument or a setting names; None is none.

    Raises:
        errors.RedactorMissing: the libraries by which ``"rules"`` finds secrets are not installed.
        errors.InvalidArgument: it is neither a function nor ``"rules"``.
    """
    if choice == "rules":
        redaction.load_detectors()
        return apply_rules
    if isinstance(choice, str) or not (choice is None or callable(choice)):
        raise errors.InvalidArgument(reason=f'guard={choice!r} is neither "rules" nor a function of a candidate')
    return choice


def _ask_guard(guard: Guard, candidates: Sequence[GuardCandidate]) -> list[GuardVerdict]:
    try:
        verdicts = [guard(candidate) or GuardVerdict("keep") for candidate in candidates]
    except Exception as error:
        # The error's message may quote what was said, and ours may end up in a log: name only its type.
        reason = f"the guard raised {type(error).__name__}; nothing is written, and turns stay pending"
        raise errors.ConfigurationError(reason=reason) from error
    if any(not isinstance(verdict, GuardVerdict) for verdict in verdicts):
        raise errors.ConfigurationError(reason="the guard returned what is no GuardVerdict; nothing is written")
    return verdicts


class Screening:
    """What a guard says of one extraction.

    Args:
        guard: the guard; None keeps all.
        extraction: what was extracted.
        turns: the turns of the window and those before it.
        scope: whose memory it is.
        known_entities: stored entities; they tell other names of speakers.
    """

    def __init__(
        self,
        guard: Guard | None,
        extraction: Extraction,
        turns: Sequence[Turn],
        scope: Scope,
        known_entities: Sequence[KnownEntity] = (),
    ) -> None:
        self._guard, self._extraction, self._scope = guard, extraction, scope
        self._turns = {turn.id: turn for turn in turns}
        self._turn_texts: dict[tuple[str, ...], str] = {}
        self._names = {entity.ref: entity.name for entity in extraction.entities}
        self._speakers = tuple(_list_speakers(turns, extraction, known_entities))
        self._verdicts: dict[int, GuardVerdict] = {}

    @property
    def withheld(self) -> tuple[WithheldFact, ...]:
        """What is held for review."""
        held = ((ref, verdict) for ref, verdict in sorted(self._verdicts.items()) if verdict.action == "hold")
        return tuple(WithheldFact(ref, verdict.rule, verdict.reason) for ref, verdict in held)

    @property
    def remembered(self) -> Extraction:
        """The extraction without what is dropped; what is dropped or held is counted."""
        dropped = {ref for ref, verdict in self._verdicts.items() if verdict.action == "drop"}
        counts = Counter(
            f"{'held' if verdict.action == 'hold' else 'dropped'} by the guard: {verdict.rule}"
            for verdict in self._verdicts.values()
            if verdict.action != "keep"
        )
        extraction = withhold_facts(self._extraction, dropped)
        return replace(extraction, drop_counts=Counter(extraction.drop_counts) + counts)

    @property
    def kept(self) -> Extraction:
        """The extraction without what is dropped or held."""
        return withhold_facts(self.remembered, {fact.ref for fact in self.withheld})

    async def check_facts(self) -> None:
        """Ask about every fact.

        Raises:
            errors.ConfigurationError: the guard raised, or returned no verdict.
        """
        await self._ask({fact.ref: () for fact in self._extraction.facts})

    async def check_changes(self, delta: Delta, candidates: Candidates) -> bool:
        """Ask again about facts that would change a pinned one; return whether any of them is withheld now.

        Raises:
            errors.ConfigurationError: the guard raised, or returned no verdict.
        """
        if self._guard is None:
            return False
        return await self._ask(await asyncio.to_thread(self._find_pinned_texts, delta, candidates))

    def _find_pinned_texts(self, delta: Delta, candidates: Candidates) -> dict[int, tuple[str, ...]]:
        """The pinned facts that the delta changes, by the facts that change them."""
        pinned = {fact.id: fact.proposition.text for fact in candidates.facts if fact.ruling.is_pinned}
        texts_by_id: dict[str, list[str]] = {}
        for link in delta.links:
            if link.earlier in pinned:
                texts_by_id.setdefault(link.later, []).append(pinned[link.earlier])
        texts_by_source = {
            (write.fact.proposition.predicate, source.key): tuple(texts_by_id[write.fact.id])
            for write in delta.facts
            if write.fact.id in texts_by_id
            for source in write.added_sources
        }
        if not texts_by_source:
            return {}
        return {
            fact.ref: texts
            for fact in self.kept.facts
            for source in fact.sources
            if (texts := texts_by_source.get((fact.predicate, source.key)))
        }

    async def _ask(self, pinned_texts: Mapping[int, tuple[str, ...]]) -> bool:
        if self._guard is None or not pinned_texts:
            return False
        facts = [fact for fact in self._extraction.facts if fact.ref in pinned_texts]
        guard = self._guard

        def ask() -> list[GuardVerdict]:
            return _ask_guard(guard, [self._build_guard_candidate(fact, pinned_texts[fact.ref]) for fact in facts])

        verdicts = await asyncio.to_thread(ask)
        self._verdicts |= {fact.ref: verdict for fact, verdict in zip(facts, verdicts, strict=True)}
        return any(verdict.action != "keep" for verdict in verdicts)

    def _build_guard_candidate(self, fact: ExtractedFact, pinned_texts: tuple[str, ...]) -> GuardCandidate:
        turn_ids = tuple(dict.fromkeys(source.turn_id for source in fact.sources))
        if turn_ids not in self._turn_texts:
            self._turn_texts[turn_ids] = "\n\n".join(self._turns[id].text for id in turn_ids if id in self._turns)
        return GuardCandidate(
            text=fact.text,
            quotes=tuple(source.quote for source in fact.sources),
            origin=find_strongest_origin(source.origin for source in fact.sources) or "import",
            author=fact.sources[0].author,
            turn_text=self._turn_texts[turn_ids],
            app_name=self._scope.app_name,
            user_id=self._scope.user_id,
            subject=self._names.get(fact.subject, ""),
            speakers=self._speakers,
            pinned_texts=pinned_texts,
        )


def _list_speakers(
    turns: Iterable[Turn], extraction: Extraction, known_entities: Iterable[KnownEntity]
) -> Iterable[tuple[str, ...]]:
    """List the people who speak, each with the names that they are known by."""
    named = [(entity.name, *entity.aliases) for entity in known_entities]
    named += [(entity.name, *entity.aliases) for entity in extraction.entities]
    for author in sorted({turn.author for turn in turns if turn.origin == "user"}):
        folded = fold_text(author)
        own = (names for names in named if folded in map(fold_text, names))
        yield tuple(dict.fromkeys((author, *(name for names in own for name in names))))


async def screen_statements(
    guard: Guard | None, statements: Sequence[Statement], scope: Scope, *, holds: bool
) -> tuple[list[Statement], Mapping[str, int], Guard | None]:
    """Ask about statements that are added directly.

    With ``holds``, a statement that is to be held goes on. Without, it is refused like one that is to be dropped.

    Returns:
        The statements to go on with, counts of the others by rule, and the guard to ask about what is read in these
        statements: it holds whatever is read in one that is to be held.

    Raises:
        errors.ConfigurationError: the guard raised, or returned no verdict; nothing is written.
    """
    if guard is None:
        return list(statements), {}, None
    candidates = [
        GuardCandidate(
            text=statement.text,
            quotes=(statement.text,),
            origin=statement.origin or "import",
            author=statement.author or "",
            turn_text=statement.text,
            app_name=scope.app_name,
            user_id=scope.user_id,
        )
        for statement in statements
    ]
    verdicts = await asyncio.to_thread(_ask_guard, guard, candidates)
    passing = ("keep", "hold") if holds else ("keep",)
    counts = Counter(f"refused by the guard: {verdict.rule}" for verdict in verdicts if verdict.action not in passing)
    kept = [item for item, verdict in zip(statements, verdicts, strict=True) if verdict.action in passing]
    held = {item.text: verdict for item, verdict in zip(statements, verdicts, strict=True) if verdict.action == "hold"}

    def ask_guard(candidate: GuardCandidate) -> GuardVerdict | None:
        texts = (candidate.turn_text, *candidate.turn_text.split("\n\n"))
        return next((held[text] for text in texts if text in held), None) or guard(candidate)

    return kept, counts, ask_guard if held else guard
