"""Ready rules for a guard: each is a pure function that knows nothing but the fact it is asked about.

A rule looks for what does not depend on a language where it can: who speaks, of whom, and the marks of chat templates.
Words that give orders to an assistant are matched in the languages of ``_ORDERS``.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache

from adk_graph_memory.records import fold_text
from adk_graph_memory.records.guard import GuardCandidate, GuardVerdict
from adk_graph_memory.redaction import secrets

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
    matches = (match for pattern in patterns for match in secrets.search_in_chunks(pattern, text))
    return next((" ".join(match[0].split())[:80] for match in matches), "")


def drop_secrets(candidate: GuardCandidate) -> GuardVerdict | None:
    """Drop keys, tokens, passwords and card numbers."""
    texts = (candidate.text, *candidate.quotes)
    if any(secrets.remove_secrets(text) != text for text in texts):
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
    """Hold what no person said, only an agent or a tool."""
    if candidate.origin in ("agent", "tool"):
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
