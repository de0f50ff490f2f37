"""Tell what somebody asks an assistant to do from what they state, and a statement from the question it leads to."""

from __future__ import annotations

import re

_OPENING = r"\W*(?:(?:hey|hi|hello|ok|okay|so|and|now|then|bitte|por favor|s['’]il (?:te|vous) pla[iî]t)\b,?\s+)*"
_FOR_ME = (
    r"(?:book|order|reserve|find|get|give|show|tell|send|bring|make|draw|write|draft|read|teach|remind|help|wake|fetch"
    r"|schedule|recommend|suggest|explain|list|name) (?:me|us)\b"
    r"|(?:buch|bestell|reservier|such|find|gib|zeig|sag|schreib|erklär|übersetz|erinner|empfiehl|mach|besorg|hilf)e?"
    r" (?:mir|uns|mich)\b"
    r"|(?:reserva|busca|encuentra|escribe|explica|recuérda|da|muéstra|di|traduce|recomiénda)(?:me|nos)\b"
    r"|(?:réserve|trouve|écris|explique|rappelle|donne|montre|dis|traduis|conseille)[sz]?[ -](?:moi|nous)\b"
)
_TASK = (
    r"(?:summari[sz]e|translate|proofread|rephrase|rewrite|paraphrase|refactor|debug|calculate|compute|convert|explain"
    r"|generate|compose|draft|write|classify|outline|transcribe|search|find|look up|compare|list|describe|analy[sz]e"
    r"|implement|set|turn o(?:n|ff)|switch o(?:n|ff)|book|reserve|order|schedule|recommend|suggest) "
    r"(?:a|an|the|this|that|these|those|my|our|some|all|(?<!find )it|them|how|why|what|which|two|three|\d+)\b"
)
_REQUEST = re.compile(rf"{_OPENING}(?:(?:please|pls|plz|(?:can|could) you) )*(?:{_FOR_ME}|{_TASK})", re.IGNORECASE)
_OWN_CLAUSE = re.compile(
    r"(?<!what )(?<!how )(?<!where )(?<!when )(?<!which )(?<!if )\b(?:i|we)(?:['’](?:m|ve|d|ll|re))?\s+\w"
    r"|\bmy (?:[\w'’-]+ ){1,3}(?:is|are|was|has|have|likes?|lives?|needs?|can['’]t)\b"
    r"|\b(?:ich|wir|yo|je) \w|\b(?:soy|tengo)\b",
    re.IGNORECASE,
)
_STATEMENT = (
    r"(?:\w+[,!]\s+)?(?:(?:I|We)(?:['’](?:m|ve|re))?|My(?: [\w'’-]+){1,3}? (?:is|are|has|have|was)|Ich|Wir|Je)\s"
    r"(?!(?:wonder|was wondering|want to know|need to know|guess|think|should|could|can|may|shall|would|will|must)\b)"
    r"[^?;]{4,}?"
)
_QUESTION = (
    r"(?:any|what|how|where|when|which|who|why|do|does|did|can|could|would|will|should|is|are|has|have|got|anyone"
    r"|hast|habt|was|wie|wo|wann|welche\w*|wer|warum|kannst|könnt|gibt|as-tu|avez-vous|quel\w*|comment|où|des)"
    r"['’\w]*\s[^?]+\?"
)
_LEADING_STATEMENT = re.compile(
    rf"(?P<statement>{_STATEMENT})(?:[,;:]| [–—-])\s+(?:(?:and|so|but|und|et)\s+)?(?P<question>{_QUESTION})",
    re.IGNORECASE,
)
_TAG_QUESTION = re.compile(r"[\w'’]+ (?:I|we|you|he|she|it|they)(?: not)?\s*\?", re.IGNORECASE)
_MORE = re.compile(r"[,;:–—] ?[^\W\d_]|\bthat\b", re.IGNORECASE)
"""After it comes what somebody states beside their request."""
_MIN_STATEMENT_WORDS, _MAX_QUESTION_LENGTH = 3, 500
"""Words of a statement before “¿”, and characters of a question that may begin with a statement."""


def is_request(sentence: str) -> bool:
    """Whether the sentence only asks for something to be done, and states nothing beside it."""
    request = _REQUEST.match(sentence)
    return request is not None and not (_OWN_CLAUSE.search(sentence) or _MORE.search(sentence, request.end()))


def find_leading_statement(question: str) -> tuple[int, int] | None:
    """Where the statement ends by which somebody leads to their question, and where the question itself begins."""
    if len(question) > _MAX_QUESTION_LENGTH:
        return None
    if match := _LEADING_STATEMENT.match(question):
        return None if _TAG_QUESTION.match(match["question"]) else (match.end("statement"), match.start("question"))
    start = question.find("¿")  # Spanish says where it begins
    statement = question[: max(start, 0)].rstrip(" \t,;:–—-")
    return (len(statement), start) if len(statement.split()) >= _MIN_STATEMENT_WORDS else None
