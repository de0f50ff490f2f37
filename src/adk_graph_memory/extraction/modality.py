"""A sentence goes in; whether it asserts what it says comes out, or plans, supposes, denies or only passes it on.

The signs are English, German and Spanish ones. Where a sentence has none it counts as asserted, in its own words.
"""

from __future__ import annotations

import re

from adk_graph_memory.language.dates import Direction
from adk_graph_memory.records import Modality


def _words(*alternatives: str) -> re.Pattern[str]:
    return re.compile(rf"(?<!\w)(?:{'|'.join(alternatives)})(?!\w)", re.IGNORECASE)


_SAYS = (
    r"(?:says?|said|claims?|claimed|thinks?|believes?|mentioned|insists?|reckons?|suspects?|(?:writes|wrote)(?= that)"
    r"|(?:tells|told)(?= (?:me|us|him|her|them)\b))"
)
REPORT = re.compile(
    rf"(?:(?:he|she|they|somebody|someone|people|everybody|everyone|(?:my|our|his|her|the) [\w\-]+(?: [\w\-]+)?"
    rf"|(?-i:[^\W\d_a-z][\w'’\-]+)(?: (?-i:[^\W\d_a-z][\w'’\-]+))?) (?:also |just |still |once )?{_SAYS}"
    rf"(?: (?:me|us|him|her|them))?(?! (?:hi|hello|yes|no|goodbye|thanks|thank|sorry|about|to|of)\b)"
    r"|I(?:['’]ve| have)? (?:just |also )?(?:heard|read)(?! (?:the|a|an|my|his|her|from|it)\b)|I was told"
    r"|apparently|supposedly|allegedly|rumou?r has it|according to [^,]{1,40},)(?: that)?,?(?!\w)",
    re.IGNORECASE,
)
_HYPOTHETICAL = _words(
    *("if", "unless", "suppose", "supposing", "imagine", "might", "maybe", "perhaps", "possibly", "probably", "would"),
    *("wouldn['’]t", "i wish", "in case", "whether", r"(?-i:may)(?= \w)", "should(?! have)", "hypothetically"),
    *("vielleicht", "eventuell", "womöglich", "falls", "wenn", "wäre", "würde", "würden", "hätte", "könnte"),
    *("quizás?", "tal vez", "ojalá", "si(?= )", "a lo mejor", "podría", "sería", "tendría", "viviría"),
)
_SHORT_WOULD = re.compile(
    r"\b(?:I|you|he|she|we|they|it)['’]d (?!been\b|had\b|better\b|\w+(?:ed|en|one|ut)\b)[a-z]+", re.I
)
_CONDITION = _words("if", "unless", "maybe", "perhaps", "falls", "vielleicht", "quizás?", "tal vez")
_PLANNED = _words(
    r"going to (?!(?:the|a|an|my|our|his|her|their|see you)\b)(?-i:[a-z])\w+",
    *("gonna", r"plan(?:s|ning)? (?:to|on)", "about to", r"intend(?:s|ing)? to", "will", "shall", r"decided to"),
    *(r"hop(?:e|es|ing) to", "next (?:week|month|year|summer|winter|spring|autumn|fall)", "tomorrow"),
    *("voy a", "vamos a", "(?<!la )mañana", "werde", "werden wir", "vorhabe", "habe vor"),
)
_WILL = re.compile(r"['’]ll\b", re.IGNORECASE)
_ONGOING = re.compile(
    r"(?:['’](?:m|re|s)|\b(?:am|are|is))\s+(?:\w+ly\s+)?(?!nothing|something|anything|everything)\w+ing\b"
)
_NEGATED = _words(
    "not(?! (?:only|just|sure|to mention))",
    "never",
    "no longer",
    r"\w+n['’]t(?! (?:only|just))",
    "neither",
    *(
        "nicht(?! nur)",
        "nie",
        "niemals",
        r"kein\w*",
        "ya no",
        "no(?= (?:me|te|se|lo|la|es|soy|tengo|vivo|trabajo|puedo)\\b)",
    ),
    *("nunca", "не", "никогда"),
)
_CORRECTION = re.compile(
    r"(?:(?:oh |oops,? |well,? )?(?:no|nope)[,.]?\s+(?:actually|wait|sorry|i meant|that)\b|actually,? no\b|correction\b"
    r"|(?:sorry,? )?i meant?\b(?! (?:it|that)\b)|i was wrong\b|i (?:misspoke|made a mistake)\b|scratch that\b)"
    r"|.*\b(?:that|this|it) (?:was|is)(?: not|n['’]t)? (?:wrong|right|correct|a mistake)(?:[.,;!]|$)(?<!n't right.)"
    r"|.*\b(?:a|one|the) correction\b",
    re.IGNORECASE | re.DOTALL,
)
_RIGHT = re.compile(r"\b(?:that|this|it)(?:['’]s| is| was) (?:right|correct)\b", re.IGNORECASE)
_PAST = re.compile(
    r"\b(?:was|were|had|did|didn['’]t|wasn['’]t|weren['’]t|went|got|took|came|met|saw|began|bought|left|told)\b"
    r"|\b(?:I|we|he|she|it|they|who|(?-i:[^\W\d_a-z])\w+)\s+(?:\w+ly\s+|just\s+|never\s+)?(?!need|feed|breed)\w{2,}ed\b",
    re.IGNORECASE,
)
_PERFECT = re.compile(r"(?:['’]ve|\bhave|['’]s|\bhas)\s+(?:\w+ly\s+|just\s+|not\s+)?(?:been|\w+ed)\b", re.IGNORECASE)
_OF_ANOTHER_TIME = re.compile(
    r"\b(?:booked|reserved|scheduled|arranged|planned|signed up|registered|enrolled|applied|invited|born|tickets?)\b",
    re.IGNORECASE,
)
"""What was done, but for a day of its own: a flight booked for December, somebody born in June of whatever year."""
_FIRST_CLAUSE = re.compile(r"[,;:]|\s(?:but|and|so|because|aber|und|pero|y)\s")
_FICTION = _words(
    *(
        "dream",
        "dreams",
        "dreamed",
        "dreamt",
        "novel",
        "imaginary",
        "pretend",
        "pretended",
        "kidding",
        "joking",
        "joke",
    ),
    *(
        "fictional",
        "as if",
        "lied",
        "in the (?:game|film|movie|story|book)",
        "roleplay",
        "let['’]s say",
        "sueño",
        "Traum",
    ),
)


def modality_of(sentence: str) -> Modality:
    """How the sentence says what it says, taken as a whole."""
    if REPORT.match(sentence.lstrip()) or re.search(r"\b(?:apparently|supposedly|rumou?r has it)\b", sentence, re.I):
        return "reported"
    if is_hypothetical(first_clause(sentence)) or _CONDITION.search(sentence):
        return "hypothetical"
    if _NEGATED.search(first_clause(sentence)):
        return "negated"
    return "planned" if is_planned(sentence) else "asserted"


def is_hypothetical(sentence: str) -> bool:
    """Whether it supposes, wishes or guesses."""
    return _HYPOTHETICAL.search(sentence) is not None or _SHORT_WOULD.search(sentence) is not None


def is_planned(sentence: str) -> bool:
    """Whether it speaks of what is still to come."""
    return _PLANNED.search(sentence) is not None or _WILL.search(sentence) is not None


def is_denied(words: str) -> bool:
    """Whether there is a negation in these words."""
    return _NEGATED.search(words) is not None


def is_ongoing(sentence: str) -> bool:
    """Whether it says "am coming", "are moving": with a day to come, that is a plan."""
    return _ONGOING.search(sentence) is not None


def is_fiction(sentence: str) -> bool:
    """Whether it speaks of a dream, a game or a joke, so that "I live in …" in it is not to be believed."""
    return _FICTION.search(sentence) is not None


def is_correction(sentence: str) -> bool:
    """Whether it takes back something that was said before."""
    return _CORRECTION.match(sentence.lstrip()) is not None and _RIGHT.search(sentence) is None


def first_clause(sentence: str) -> str:
    """The sentence up to its first comma or conjunction; what follows may be denied without the rest being so."""
    clauses = [clause for clause in _FIRST_CLAUSE.split(sentence) if len(clause.split()) > 1]
    return clauses[0] if clauses else sentence


def direction_of(sentence: str) -> Direction | None:
    """Whether an English sentence looks back or ahead; None where its verbs do not tell."""
    ahead = is_planned(sentence) or is_hypothetical(sentence) or is_ongoing(sentence)
    back = _PAST.search(sentence) is not None or _PERFECT.search(sentence) is not None
    if ahead == back or (back and _OF_ANOTHER_TIME.search(sentence)):
        return None
    return "past" if back else "future"
