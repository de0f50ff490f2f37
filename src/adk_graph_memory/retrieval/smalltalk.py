"""Tell turns that only ask or acknowledge, and so answer nothing, from turns that say something.

It is told by form: a question mark at the end and no statement before it, or nothing but the words with which people
and agents acknowledge. A name or a number that the question at hand does not have makes any turn say something.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache

from adk_graph_memory.language.words import WIDE_CHARACTER, language_of, ordinary_words
from adk_graph_memory.retrieval.candidates import Candidate

LONGEST = 170
"""Characters of a turn that may say nothing; who writes more tells something with it."""
_MOST_WORDS, _MOST_WIDE = 14, 40
"""Words, or characters where there are no spaces, of a question that asks only."""
_MOST_BEFORE = 2
"""Words that may stand before a comma in such a question: a greeting, a name, "so", "by the way"."""

_SENTENCE = re.compile(r"[^.!?。！？؟…।;；\n]+[.!?。！？؟…।;；\n]*")
_ASKS = re.compile(r"[?？؟;][\W_]*$")
_COMMA = re.compile(r"(?<!\d)[,:]|[,:](?!\d)|[،、，：–—]")
"""What parts a question; not what stands within a number or a time."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_NOT = re.compile(r"n['’]t$|['’](?:s|m|re|ve|ll|d)$", re.IGNORECASE)

_TELLING = re.compile(
    r"\b(?:told|tell|mention\w*|did you know|didn['’]t you know)\b.*\b(?:i|my|we|our|that)\b"
    r"|\b(?:because|since|whose|when (?:i|we|my)|where (?:i|we|my)|if (?:i|we|my)|now that)\b"
    r"|^\W*(?:i|we|my|our)\b"
    r"|(?<!\bdo)(?<!\bdid)(?<!\bam)(?<!\bwas)(?<!\bare)(?<!\bwere)(?<!\bhave)(?<!\bhad)(?<!\bcan)(?<!\bcould)(?<!\bshould)"
    r"(?<!\bwill)(?<!\bwould)(?<!\bmay)(?<!\bmust)(?<!\bmight)(?<!n['’]t) (?:i|we)\b",
    re.IGNORECASE,
)
"""An English question that tells something besides: only what follows a verb form asks."""
_ANSWERS = re.compile(r"^\W*(?:yes|no|yeah|yep|nope|nah)(?=\W*$|[,.!;:]| thank)", re.IGNORECASE)

_ACKNOWLEDGING = """
en: ok okay thanks thank thx cheers great cool nice wow awesome lovely noted understood know remember recall sorry
    information idea mind hello hi hey bye goodbye welcome congratulations haha glad alright
es pt it: vale gracias genial sé recordaré entendido perdón hola adiós siento información
    obrigado obrigada sei lembrarei entendi desculpe olá tchau grazie so ricorderò capito scusa ciao
fr: merci sais souviendrai compris désolé désolée bonjour salut
de nl: danke weiß merke merken verstanden leider hallo tschüss super prima bedankt dank weet onthoud begrepen hoi
ru uk tr: спасибо понятно понял поняла знаю запомню хорошо извините привет пока ладно дякую
    tamam teşekkürler bilmiyorum anladım hatırlayacağım merhaba
ar: شكرا حسنا أعرف أعلم سأتذكر آسف مرحبا
"""
_FILLING = """
    je j ne n le m que ich das es mir nicht no não lo non me eu vou ça ya yo te en l я не это вас لا أنا هذا لم
"""
_ACKNOWLEDGES = frozenset(word.casefold() for word in _ACKNOWLEDGING.split() if not word.endswith(":"))
"""Words with which people and agents acknowledge."""
_FILLS = frozenset(_FILLING.split())
"""What stands beside them where a language lists few ordinary words."""
_ACKNOWLEDGES_WIDE = re.compile(
    r"(?:对不起|抱歉|不好意思|好的?|谢谢[你您]?|我?[会會已将]*经?记[住下得]了?|我?[还還]?不(?:太)?(?:知道|清楚)|我?[知明]道?白?了"
    r"|没问题|不客气|嗯+|哈+|你好|再见|收到|这个?|那个?|[吧哦啊呢啦的了]"
    r"|ありがとう(?:ございま(?:す|した))?|わかりま(?:した|せん)|分かりま(?:した|せん)|知りません|了解(?:です|しました)?"
    r"|覚えて(?:おき|い)ます|すみません|それは|申し訳(?:ありません|ございません)|こんにちは|なるほど"
    r"|감사합니다|고마워요?|고맙습니다|알겠습니다|알겠어요?|모르겠(?:습니다|어요?)|몰라요?|기억하겠습니다|죄송합니다|안녕하세요"
    r"|[\s、，,])+"
)


def empty(candidates: Iterable[Candidate], question: str) -> dict[str, str]:
    """The words of those turns that only ask or acknowledge, and on which no fact rests, by their ids."""
    asked = words_of(question)
    brief = ((one.id, one.words) for one in candidates if one.words is not None and not one.facts)
    return {id: words for id, words in brief if says_nothing(words, asked)}


def says_nothing(text: str, question: Container[str]) -> bool:
    """Whether all sentences of a turn ask or acknowledge, with no name or number that the question does not have.

    Args:
        text: the turn's.
        question: the words of the question at hand, casefolded.
    """
    names = _names_of_empty(text)
    return names is not None and all(name in question for name in names)


def words_of(question: str) -> frozenset[str]:
    """The words of a question as :func:`says_nothing` compares them."""
    return frozenset(_folded(word) for word in _WORD.findall(question))


@lru_cache(maxsize=8_192)
def _names_of_empty(text: str) -> frozenset[str] | None:
    """The names and numbers in a turn that asks or acknowledges; None if it says something."""
    if len(text) > LONGEST:
        return None
    sentences = [sentence for sentence in map(str.strip, _SENTENCE.findall(text)) if _WORD.search(sentence)]
    names = set[str]()
    for sentence in sentences:
        names |= (named := _names(sentence))
        says_more = _tells(sentence) if _ASKS.search(sentence) else not _acknowledges(sentence, named)
        if says_more:
            return None
    return frozenset(names) if sentences else None


def _tells(question: str) -> bool:
    """Whether a question is long enough to tell something besides, or does so by its form."""
    if len(WIDE_CHARACTER.findall(question)) > _MOST_WIDE or len(_WORD.findall(question)) > _MOST_WORDS:
        return True
    *before, asked = _COMMA.split(question)
    is_told = any(len(_WORD.findall(part)) > _MOST_BEFORE or len(WIDE_CHARACTER.findall(part)) > 4 for part in before)
    return is_told or not _WORD.search(asked) or _TELLING.search(question) is not None


def _acknowledges(sentence: str, names: Container[str]) -> bool:
    if WIDE_CHARACTER.search(sentence):
        return _ACKNOWLEDGES_WIDE.fullmatch(sentence.strip(" .!。！…~")) is not None
    words = [_NOT.sub("", word) for word in map(_folded, _WORD.findall(sentence)) if word not in names]
    if _ACKNOWLEDGES.isdisjoint(words) or _ANSWERS.search(sentence):
        return False
    ordinary = ordinary_words(language_of(sentence))
    return all(word in _ACKNOWLEDGES or word in _FILLS or word in ordinary for word in words)


def _names(sentence: str) -> set[str]:
    """Words with a digit, or that a capital begins, but for the first word where it is an ordinary one, and "I"."""
    words = _WORD.findall(sentence)
    found = {word for word in words if any(map(str.isdigit, word))}
    found |= {word for word in words[1:] if word[0].isupper() and not re.match(r"I(?:['’]|$)", word)}
    if words and words[0][0].isupper():
        first = _NOT.sub("", _folded(words[0]))
        if first not in _ACKNOWLEDGES and first not in ordinary_words(language_of(sentence)):
            found.add(words[0])
    return {_folded(word) for word in found}


def _folded(word: str) -> str:
    folded = unicodedata.normalize("NFC", word).casefold()
    return folded[:-2] if folded.endswith(("'s", "’s")) else folded
