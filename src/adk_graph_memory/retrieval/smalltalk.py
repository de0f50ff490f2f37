"""Tell turns that only ask or acknowledge, and so answer nothing, from turns that say something.

It is told by form: a question mark at the end and no statement before it, or nothing but the words with which people
and agents acknowledge. A name or a number that the question at hand does not have makes any turn say something.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache

from adk_graph_memory.language.detection import WIDE_CHARACTER, detect_language, load_stop_words
from adk_graph_memory.retrieval.search_candidates import SearchCandidate

MAX_SMALLTALK_CHARACTERS = 170
"""Characters of a turn that may say nothing; who writes more tells something with it."""
_MAX_ASKING_WORDS, _MAX_ASKING_CHARACTERS = 14, 40
"""Words, or characters where there are no spaces, of a question that asks only."""
_MAX_LEAD_WORDS = 2
"""Words that may stand before a comma in such a question: a greeting, a name, "so", "by the way"."""

_SENTENCE = re.compile(r"[^.!?。！？؟…।;；\n]+[.!?。！？؟…।;；\n]*")
_QUESTION_END = re.compile(r"[?？؟;][\W_]*$")
_CLAUSE_BREAK = re.compile(r"(?<!\d)[,:]|[,:](?!\d)|[،、，：–—]")
"""What parts a question; not what stands within a number or a time."""
_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_CONTRACTION = re.compile(r"n['’]t$|['’](?:s|m|re|ve|ll|d)$", re.IGNORECASE)

_TELLING_QUESTION = re.compile(
    r"\b(?:told|tell|mention\w*|did you know|didn['’]t you know)\b.*\b(?:i|my|we|our|that)\b"
    r"|\b(?:because|since|whose|when (?:i|we|my)|where (?:i|we|my)|if (?:i|we|my)|now that)\b"
    r"|^\W*(?:i|we|my|our)\b"
    r"|(?<!\bdo)(?<!\bdid)(?<!\bam)(?<!\bwas)(?<!\bare)(?<!\bwere)(?<!\bhave)(?<!\bhad)(?<!\bcan)(?<!\bcould)(?<!\bshould)"
    r"(?<!\bwill)(?<!\bwould)(?<!\bmay)(?<!\bmust)(?<!\bmight)(?<!n['’]t) (?:i|we)\b",
    re.IGNORECASE,
)
"""An English question that tells something besides: only what follows a verb form asks."""
_YES_NO_ANSWER = re.compile(r"^\W*(?:yes|no|yeah|yep|nope|nah)(?=\W*$|[,.!;:]| thank)", re.IGNORECASE)

_ACKNOWLEDGEMENT_TEXT = """
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
_FILLER_TEXT = """
    je j ne n le m que ich das es mir nicht no não lo non me eu vou ça ya yo te en l я не это вас لا أنا هذا لم
"""
_ACKNOWLEDGEMENT_WORDS = frozenset(word.casefold() for word in _ACKNOWLEDGEMENT_TEXT.split() if not word.endswith(":"))
"""Words with which people and agents acknowledge."""
_FILLER_WORDS = frozenset(_FILLER_TEXT.split())
"""What stands beside them where a language lists few ordinary words."""
_WIDE_ACKNOWLEDGEMENT = re.compile(
    r"(?:对不起|抱歉|不好意思|好的?|谢谢[你您]?|我?[会會已将]*经?记[住下得]了?|我?[还還]?不(?:太)?(?:知道|清楚)|我?[知明]道?白?了"
    r"|没问题|不客气|嗯+|哈+|你好|再见|收到|这个?|那个?|[吧哦啊呢啦的了]"
    r"|ありがとう(?:ございま(?:す|した))?|わかりま(?:した|せん)|分かりま(?:した|せん)|知りません|了解(?:です|しました)?"
    r"|覚えて(?:おき|い)ます|すみません|それは|申し訳(?:ありません|ございません)|こんにちは|なるほど"
    r"|감사합니다|고마워요?|고맙습니다|알겠습니다|알겠어요?|모르겠(?:습니다|어요?)|몰라요?|기억하겠습니다|죄송합니다|안녕하세요"
    r"|[\s、，,])+"
)


def find_empty_turns(candidates: Iterable[SearchCandidate], question: str) -> dict[str, str]:
    """The words of those turns that only ask or acknowledge, and on which no fact rests, by their ids."""
    asked = extract_question_words(question)
    brief = ((one.id, one.short_text) for one in candidates if one.short_text is not None and not one.fact_count)
    return {id: words for id, words in brief if is_smalltalk(words, asked)}


def is_smalltalk(text: str, question: Container[str]) -> bool:
    """Whether all sentences of a turn ask or acknowledge, with no name or number that the question does not have.

    Args:
        text: the turn's.
        question: the words of the question at hand, casefolded.
    """
    names = _find_smalltalk_names(text)
    return names is not None and all(name in question for name in names)


def extract_question_words(question: str) -> frozenset[str]:
    """The words of a question as :func:`is_smalltalk` compares them."""
    return frozenset(_fold_word(word) for word in _WORD.findall(question))


@lru_cache(maxsize=8_192)
def _find_smalltalk_names(text: str) -> frozenset[str] | None:
    """The names and numbers in a turn that asks or acknowledges; None if it says something."""
    if len(text) > MAX_SMALLTALK_CHARACTERS:
        return None
    sentences = [sentence for sentence in map(str.strip, _SENTENCE.findall(text)) if _WORD.search(sentence)]
    names = set[str]()
    for sentence in sentences:
        names |= (named := _find_names(sentence))
        says_more = (
            _is_telling(sentence) if _QUESTION_END.search(sentence) else not _is_acknowledgement(sentence, named)
        )
        if says_more:
            return None
    return frozenset(names) if sentences else None


def _is_telling(question: str) -> bool:
    """Whether a question is long enough to tell something besides, or does so by its form."""
    if (
        len(WIDE_CHARACTER.findall(question)) > _MAX_ASKING_CHARACTERS
        or len(_WORD.findall(question)) > _MAX_ASKING_WORDS
    ):
        return True
    *before, asked = _CLAUSE_BREAK.split(question)
    is_told = any(
        len(_WORD.findall(part)) > _MAX_LEAD_WORDS or len(WIDE_CHARACTER.findall(part)) > 4 for part in before
    )
    return is_told or not _WORD.search(asked) or _TELLING_QUESTION.search(question) is not None


def _is_acknowledgement(sentence: str, names: Container[str]) -> bool:
    if WIDE_CHARACTER.search(sentence):
        return _WIDE_ACKNOWLEDGEMENT.fullmatch(sentence.strip(" .!。！…~")) is not None
    words = [_CONTRACTION.sub("", word) for word in map(_fold_word, _WORD.findall(sentence)) if word not in names]
    if _ACKNOWLEDGEMENT_WORDS.isdisjoint(words) or _YES_NO_ANSWER.search(sentence):
        return False
    ordinary = load_stop_words(detect_language(sentence))
    return all(word in _ACKNOWLEDGEMENT_WORDS or word in _FILLER_WORDS or word in ordinary for word in words)


def _find_names(sentence: str) -> set[str]:
    """Words with a digit, or that a capital begins, but for the first word where it is an ordinary one, and "I"."""
    words = _WORD.findall(sentence)
    found = {word for word in words if any(map(str.isdigit, word))}
    found |= {word for word in words[1:] if word[0].isupper() and not re.match(r"I(?:['’]|$)", word)}
    if words and words[0][0].isupper():
        first = _CONTRACTION.sub("", _fold_word(words[0]))
        if first not in _ACKNOWLEDGEMENT_WORDS and first not in load_stop_words(detect_language(sentence)):
            found.add(words[0])
    return {_fold_word(word) for word in found}


def _fold_word(word: str) -> str:
    folded = unicodedata.normalize("NFC", word).casefold()
    return folded[:-2] if folded.endswith(("'s", "’s")) else folded
