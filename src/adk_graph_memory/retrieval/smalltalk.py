"""Recognize small talk: turns that only ask or acknowledge, and so answer nothing.

Form decides: a question mark at the end and no assertion before it, or nothing but the words with which people and
agents acknowledge. A turn with a name or a number that the question at hand lacks is never small talk.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Container, Iterable
from functools import lru_cache

from adk_graph_memory.language.detection import WIDE_CHARACTER, detect_language, load_stop_words
from adk_graph_memory.retrieval.candidates import SearchCandidate

MAX_SMALLTALK_CHARACTERS = 170
"""The longest turn that may be small talk; a longer one says something."""
_MAX_ASKING_WORDS, _MAX_ASKING_CHARACTERS = 14, 40
"""The longest question that only asks, in words, or in characters for scripts without spaces."""
_MAX_LEAD_WORDS = 2
"""Words that may precede a comma in such a question: a greeting, a name, "so", "by the way"."""

_SENTENCE = re.compile(r"[^.!?。！？؟…।;；\n]+[.!?。！？؟…।;；\n]*")
_QUESTION_END = re.compile(r"[?？؟;][\W_]*$")
_CLAUSE_BREAK = re.compile(r"(?<!\d)[,:]|[,:](?!\d)|[،、，：–—]")
"""What separates the clauses of a question; no comma or colon within a number or a time."""
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
"""An English question that also tells something: "I" or "we" asks only right after an auxiliary verb."""
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
"""Words that accompany them, for languages whose stop word lists are short."""
_GOOD_WISHES = re.compile(
    r"\b(?:no worries|you(?:['’]ve| have)? got this|good luck|well done|way to go|keep it up|take care"
    r"|have a (?:great|good|nice|lovely) (?:day|evening|night|weekend|one)|see you(?: soon| later)?"
    r"|(?:great|good|nice|glad) to hear(?: that| it| from you)?)\b",
    re.IGNORECASE,
)
"""English phrases that comfort, praise or take leave; their words alone may say something."""
_WIDE_ACKNOWLEDGEMENT = re.compile(
    r"(?:对不起|抱歉|不好意思|好的?|谢谢[你您]?|我?[会會已将]*经?记[住下得]了?|我?[还還]?不(?:太)?(?:知道|清楚)|我?[知明]道?白?了"
    r"|没问题|不客气|嗯+|哈+|你好|再见|收到|这个?|那个?|[吧哦啊呢啦的了]"
    r"|ありがとう(?:ございま(?:す|した))?|わかりま(?:した|せん)|分かりま(?:した|せん)|知りません|了解(?:です|しました)?"
    r"|覚えて(?:おき|い)ます|すみません|それは|申し訳(?:ありません|ございません)|こんにちは|なるほど"
    r"|감사합니다|고마워요?|고맙습니다|알겠습니다|알겠어요?|모르겠(?:습니다|어요?)|몰라요?|기억하겠습니다|죄송합니다|안녕하세요"
    r"|[\s、，,])+"
)


def find_empty_turns(candidates: Iterable[SearchCandidate], question: str) -> dict[str, str]:
    """Find the turns that only ask or acknowledge, and on which no fact rests; their texts by id."""
    question_words = extract_question_words(question)
    texts = (
        (candidate.id, candidate.short_text)
        for candidate in candidates
        if candidate.short_text is not None and not candidate.fact_count
    )
    return {id: text for id, text in texts if is_smalltalk(text, question_words)}


def is_smalltalk(text: str, question_words: Container[str]) -> bool:
    """Whether every sentence of a turn asks or acknowledges, without a name or number that the question lacks.

    Args:
        text: the turn's text.
        question_words: the words of the question at hand, casefolded.
    """
    names = _find_smalltalk_names(text)
    return names is not None and all(name in question_words for name in names)


def extract_question_words(question: str) -> frozenset[str]:
    """Extract a question's words as :func:`is_smalltalk` compares them."""
    return frozenset(_fold_word(word) for word in _WORD.findall(question))


@lru_cache(maxsize=8_192)
def _find_smalltalk_names(text: str) -> frozenset[str] | None:
    """Find the names and numbers in a turn that only asks or acknowledges; None if it says something."""
    if len(text) > MAX_SMALLTALK_CHARACTERS:
        return None
    sentences = [sentence for sentence in map(str.strip, _SENTENCE.findall(text)) if _WORD.search(sentence)]
    names = set[str]()
    for sentence in sentences:
        names |= (sentence_names := _find_names(sentence))
        if _QUESTION_END.search(sentence):
            is_empty = not _is_telling(sentence)
        else:
            is_empty = _is_acknowledgement(sentence, sentence_names)
        if not is_empty:
            return None
    return frozenset(names) if sentences else None


def _is_telling(question: str) -> bool:
    """Whether a question also tells something, by its length or its form."""
    if (
        len(WIDE_CHARACTER.findall(question)) > _MAX_ASKING_CHARACTERS
        or len(_WORD.findall(question)) > _MAX_ASKING_WORDS
    ):
        return True
    *lead_clauses, last_clause = _CLAUSE_BREAK.split(question)
    has_assertion = any(
        len(_WORD.findall(clause)) > _MAX_LEAD_WORDS or len(WIDE_CHARACTER.findall(clause)) > 4
        for clause in lead_clauses
    )
    return has_assertion or not _WORD.search(last_clause) or _TELLING_QUESTION.search(question) is not None


def _is_acknowledgement(sentence: str, names: Container[str]) -> bool:
    if WIDE_CHARACTER.search(sentence):
        return _WIDE_ACKNOWLEDGEMENT.fullmatch(sentence.strip(" .!。！…~")) is not None
    rest = _GOOD_WISHES.sub(" ", sentence)
    words = [_CONTRACTION.sub("", word) for word in map(_fold_word, _WORD.findall(rest)) if word not in names]
    if rest != sentence and not words:
        return True
    if _ACKNOWLEDGEMENT_WORDS.isdisjoint(words) or _YES_NO_ANSWER.search(sentence):
        return False
    stop_words = load_stop_words(detect_language(sentence))
    return all(word in _ACKNOWLEDGEMENT_WORDS or word in _FILLER_WORDS or word in stop_words for word in words)


def _find_names(sentence: str) -> set[str]:
    """Find the words with a digit or a capital initial, except "I" and a first word that is a stop word."""
    words = _WORD.findall(sentence)
    names = {word for word in words if any(map(str.isdigit, word))}
    names |= {word for word in words[1:] if word[0].isupper() and not re.match(r"I(?:['’]|$)", word)}
    if words and words[0][0].isupper():
        first = _CONTRACTION.sub("", _fold_word(words[0]))
        if first not in _ACKNOWLEDGEMENT_WORDS and first not in load_stop_words(detect_language(sentence)):
            names.add(words[0])
    return {_fold_word(name) for name in names}


def _fold_word(word: str) -> str:
    folded = unicodedata.normalize("NFC", word).casefold()
    return folded[:-2] if folded.endswith(("'s", "’s")) else folded
