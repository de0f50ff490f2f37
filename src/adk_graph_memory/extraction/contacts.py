"""A sentence goes in; which of its speaker's numbers and addresses it tells comes out, and by what name they go."""

from __future__ import annotations

import re
from collections.abc import Iterator

from adk_graph_memory.extraction import modality
from adk_graph_memory.language.words import WIDE, ordinary_words

_NUMBER = r"\+?\(?\d[\d\s().\-/]{4,}\d"
_EMAIL = r"[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+"
_HAVE = r"(?:I|we)(?:['’]ve(?: got)?| have(?: got)?| got)"
_KIND = r"(?:(?:new|current|mobile|cell|phone|telephone|private|personal|german|own)\s+)*"
_IS = (
    r"(?:[^\w?]*(?:is|are|it['’]s|it is|its|that['’]s|now|changed to|has changed to)[^\w+?(]*"
    r"|\s*[:=–—-]\s*|[.!]\s+)+(?:now\s+)?"
)

_CONTACTS = {
    "phone_number": (
        rf"(?:\bmy|\bour|\b{_HAVE} an?)\s+{_KIND}(?:number|mobile|phone)\b{_IS}{_NUMBER}",
        rf"\bmi\s+(?:nuevo\s+)?(?:número(?:\s+de\s+(?:teléfono|móvil))?|teléfono|móvil)\s+(?:\w+\s+)?es\s+(?:el\s+)?{_NUMBER}",
        rf"\bmeine\s+(?:neue\s+)?(?:telefon|handy|mobil)?nummer\s+(?:ist|lautet)\s+(?:jetzt\s+)?(?:die\s+)?{_NUMBER}",
        rf"\bmon\s+(?:nouveau\s+)?numéro(?:\s+de\s+téléphone)?\s+est\s+(?:le\s+)?{_NUMBER}",
        rf"\bмой\s+(?:новый\s+)?(?:номер(?:\s+телефона)?|телефон)\s*[:—–-]?\s*{_NUMBER}",
    ),
    "email": (
        rf"(?:\bmy|\b{_HAVE} an?)\s+{_KIND}e-?mail(?:\s+address)?\b{_IS}{_EMAIL}",
        rf"\bmeine\s+(?:neue\s+)?e-?mail(?:-?adresse)?\s+(?:ist|lautet)\s+{_EMAIL}",
        rf"\bmi\s+(?:nuevo\s+)?(?:correo|e-?mail)(?:\s+electrónico)?\s+es\s+{_EMAIL}",
    ),
    "address": (
        rf"(?:\bmy|\bour|\b{_HAVE} an?)\s+(?:new\s+|home\s+|current\s+|postal\s+)*address\b{_IS}(?=[^.!?]*\d)\w",
    ),
    "birthday": (r"\bmy\s+birthday\s+is\s+(?:on\s+)?(?:the\s+)?(?=[^.!?]*\d)\w",),
}
_PATTERNS = {name: [re.compile(one, re.IGNORECASE) for one in forms] for name, forms in _CONTACTS.items()}

_UNTRUE = re.compile(r"\b(?:old|was|former|isn['’]t|not|no longer|alte|viejo|antiguo|wrong)\b", re.IGNORECASE)

_CASED = rf"(?-i:[^\W\d_a-z{WIDE}])[^\W\d_]+"
_NAME = rf"(?P<name>{_CASED}(?:[ \-](?:(?:van|von|de|der|la|bin|al) )*{_CASED}){{0,3}})"
_END = r"(?=\s*(?:[.,;:!?()]|$|\b(?:and|but|und|aber|y|pero|и|а|et)\b))"
_NAMING = (
    r"\b(?:my\s+(?:full\s+)?name['’]?\s*(?:is|s)|I(?:['’]m|\s+am)\s+called"
    r"|(?:everyone|everybody|people|friends|you can|please|just)\s+calls?\s+me)"
    rf"\s+{_NAME}{_END}",
    r"\b(?:me\s+llamo|mi\s+nombre\s+es|ich\s+hei(?:ß|ss)e|mein\s+name\s+ist|je\s+m['’]appelle|mi\s+chiamo|me\s+chamo"
    rf"|ik\s+heet|με\s+λένε)\s+{_NAME}{_END}",
    rf"\b(?:меня\s+зовут|мене\s+звати|моё\s+имя)\s*[—–-]?\s*{_NAME}{_END}",
    r"(?:私|僕|俺|わたし)の名前は(?P<name>[^\s、。，！!?？はがをに]{1,12}?)(?:です|だ|といいます|と言います|と申します)",
    r"(?:^|[。、\s])(?:私は)?(?P<name>[\u4e00-\u9fff\u30a0-\u30ff]{2,10})と(?:申します|いいます|言います)",
    r"(?:我叫|我的名字(?:是|叫))(?P<name>[\u4e00-\u9fff]{2,4})(?=[，。！,.!\s]|$)",
    r"제\s*이름은\s*(?P<name>[가-힣]{2,5}?)(?=입니다|이에요|예요)",
    r"(?<!\w)(?:أنا\s+)?(?:اسمي|إسمي)\s+(?:هو\s+)?(?P<name>[\u0621-\u064a]+(?:\s[\u0621-\u064a]+)?)(?=\s*(?:[.،,!]|$))",
)
_NAMINGS = [re.compile(one, re.IGNORECASE) for one in _NAMING]

_GREETING = (
    r"hey|hi|hello|hiya|dear|good (?:morning|afternoon|evening|night)|hola|buenos días|buenas (?:tardes|noches)|hallo"
    r"|guten (?:morgen|tag|abend)|bonjour|bonsoir|salut|ciao|buongiorno|olá|oi|bom dia|привет|здравствуй(?:те)?"
)
_THANKS = (
    r"thanks(?: (?:so much|a lot|again))?|thank you(?: so much)?|congrat(?:s|ulations)|bye|goodbye|gracias|danke|merci"
    r"|grazie|obrigad[oa]|спасибо"
)
_TITLES = frozenset({"dr", "mr", "mrs", "ms", "prof", "sir", "madam", "señor", "señora", "herr", "frau", "monsieur"})
_ADDRESSING = re.compile(rf"^\W*(?:(?P<greets>{_GREETING})|{_THANKS})[,\s]+{_NAME}(?=\s*[,.!?—–-]|$)", re.IGNORECASE)


def told(sentence: str) -> Iterator[str]:
    """The contacts that the sentence (or two, the second of which says what "it" is) states as its speaker's own."""
    for name, patterns in _PATTERNS.items():
        match = next((found for pattern in patterns if (found := pattern.search(sentence))), None)
        if match is None or _UNTRUE.search(match[0]):
            continue
        before = sentence[: match.end()]
        if not (modality.is_hypothetical(before) or modality.REPORT.match(sentence) or modality.is_planned(before)):
            yield name


def own_names(sentence: str) -> Iterator[tuple[int, int]]:
    """Where the speaker says what they are called."""
    for pattern in _NAMINGS:
        for match in pattern.finditer(sentence):
            unsure = modality.is_hypothetical(sentence[: match.end()]) or modality.is_denied(match[0])
            if not unsure and not match["name"][0].islower():
                yield match.span("name")


def addressed(sentence: str) -> tuple[str, bool] | None:
    """The name by which the sentence greets or thanks whom it is said to, and whether it is a greeting."""
    match = _ADDRESSING.match(sentence)
    if match is None or match["name"].casefold() in ordinary_words("en") | _TITLES:
        return None
    return match["name"], match["greets"] is not None
