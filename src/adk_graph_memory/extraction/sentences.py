"""Split a text into its author's own sentences, each joined with those that make no sense without it.

Code, markup, lines that begin with “>” or, as in a transcript, with a speaker in capitals, text in quotation marks,
pasted mails, and the paragraph after a colon and an empty line are not the author's own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from adk_graph_memory.language.detection import WIDE_CHARACTER

_QUOTED_MATERIAL = re.compile(
    r"```.*?(?:```|\Z)|^[ \t]*+~~~.*?(?:^[ \t]*+~~~|\Z)|^[ \t]*+>[^\n]*+"
    r"|<!--.*?(?:-->|\Z)|^[ \t]*+</?[a-zA-Z][^\n]*+"
    r"|(?<=[:：])[ \t]*+\r?\n[ \t]*+\r?\n(?:[ \t]*+\S[^\n]*+(?:\n|\Z))++"
    r"|(?P<inside>`[^`\n]++`|„[^„“”]*+[“”]|“[^“”]*+”|«[^«»]*+»|»[^«»]*+«|「[^「」]*+」|『[^『』]*+』"
    r"|(?<!\w)\"[^\"\n]++\"(?!\w))",
    re.DOTALL | re.MULTILINE,
)
_TRANSCRIPT_LINE = re.compile(r"^[ \t]*+[A-Z][A-Z0-9]+(?:[ _-][A-Z0-9]+)*+:[ \t][^\n]*+", re.MULTILINE)
_MAIL_SENDER = re.compile(
    r"\s*(?:From|Von|Van|De|Da|Fra|Från|От|发件人|寄件者|差出人|보낸 사람)\s*[:：]", re.IGNORECASE
)
_MAIL_HEADER = re.compile(
    r"\s*(?:From|To|Cc|Bcc|Date|Sent|Subject|Von|An|Datum|Gesendet|Betreff|De|Para|Fecha|Asunto|À|Envoyé|Objet"
    r"|От|Кому|Дата|Тема|发件人|收件人|日期|主题|差出人|宛先|件名)\s*[:：]",
    re.IGNORECASE,
)
_MAIL_SEPARATOR = re.compile(r"\s*-{4,}\s*\w[^-]*-{4,}|(?=[^<]*+<[^<>\s@]+@[^<>\s@]+>).*[:：]\s*$")
_MAIL_ATTRIBUTION = re.compile(r"(?=.*?\b(?:19|20)\d\d\b)(?=.*?\d:\d\d).*[:：]\s*$")

_LINE = re.compile(r"[^\r\n\v\f\u2028\u2029]+")
_SENTENCE_END = re.compile(
    r"[。！？]+[」』”）)]*"
    r"|(?<![.!?…؟⁇⁈])[.!?…؟⁇⁈]++[\"'”’»）)*_]*+(?=\s+\S)"
    r"|(?<![!?؟])[!?؟]++(?=[^\s\w.,;:)\"'”’»\]}/&=])"
)
_NONBLANK_TEXT = re.compile(r"\S(?:.*\S)?", re.DOTALL)
_LAST_WORD = re.compile(r"(?:[^\W\d_]+|\d+)$")
ABBREVIATION = re.compile(
    r"mr|mrs|ms|mx|dr|prof|st|sr|jr|sra|srta|mme|fr|hr|rev|hon|gen|col|sgt|vs|eg|ie|etc|approx|dept|est|fig|no|nr|bzw|ca"
    r"|evtl|ggf|inkl|usw|vgl|str|tel|г|ул|д|стр|кв|обл|им|inc|ltd|co|corp|jan|feb|mar|apr|jun|jul|aug|sept?|oct|nov|dec",
    re.IGNORECASE,
)
_ORDINAL_LANGUAGES = frozenset(("de", "da", "nb", "fi", "cs", "hu", "pl"))
"""Languages that write "the 3rd of March" as "3. March"."""
_DEPENDENT_SENTENCE = re.compile(
    r"(?:It|They|He|She)\b|(?:That|This|These|Those)(?:['’]s|\s+(?:is|was|are|were|isn['’]t|wasn['’]t|has|had|will)\b)"
    r"|\W*(?:\+?\d[\d\s().\-/]{4,}\d|[\w.+\-]+@[\w\-]+(?:\.[\w\-]+)+|https?://\S+)\W*$"
)
_MAX_GROUP_LENGTH, _MAX_SENTENCE_GAP = 320, 3
"""Characters of joined sentences, and between them; a wider gap stands for masked text."""


def mask_quoted_text(text: str) -> str:
    """Replace all but the author's own words by blanks, or by “_” inside a sentence; the length stays."""
    masked, end = _QUOTED_MATERIAL.sub(lambda match: ("_" if match["inside"] else " ") * len(match[0]), text), 0
    if len(_TRANSCRIPT_LINE.findall(masked)) > 1:  # one may be a note of the author's: "UPDATE: …"
        masked = _TRANSCRIPT_LINE.sub(lambda match: " " * len(match[0]), masked)
    for line, next_line in pairwise([*masked.splitlines(keepends=True), ""]):
        is_header = _MAIL_SENDER.match(line) or (_MAIL_HEADER.match(line) and _MAIL_HEADER.match(next_line))
        if is_header or _MAIL_SEPARATOR.match(line) or _MAIL_ATTRIBUTION.match(line):
            break
        end += len(line)
    return masked[:end] + " " * (len(masked) - end)


def split_sentences(text: str, language: str) -> Iterator[tuple[int, int]]:
    """Start and end of each sentence; a period after an initial or abbreviation or before a small letter ends none."""
    for line in _LINE.finditer(text):
        ends = [
            line.start() + match.end()
            for match in _SENTENCE_END.finditer(line[0])
            if _is_sentence_end(line[0], match, language)
        ]
        for start, end in pairwise([line.start(), *ends, line.end()]):
            if sentence := _NONBLANK_TEXT.search(text, start, end):
                yield sentence.span()


def group_sentences(text: str, language: str) -> list[tuple[int, int]]:
    """Start and end of each sentence, joined with the next if that begins with "It is …" or is only a number."""
    groups: list[tuple[int, int]] = []
    for start, end in split_sentences(text, language):
        group_start, group_end = groups[-1] if groups else (0, -_MAX_GROUP_LENGTH)
        group, sentence = text[group_start:group_end], text[start:end]
        is_near = start - group_end <= _MAX_SENTENCE_GAP and end - group_start <= _MAX_GROUP_LENGTH
        has_question = is_question(group) or is_question(sentence)
        if is_near and len(group.split()) > 2 and not has_question and _DEPENDENT_SENTENCE.match(sentence):
            groups[-1] = group_start, end
        else:
            groups.append((start, end))
    return groups


def is_question(sentence: str) -> bool:
    """Whether the sentence ends with a question mark of any script, ignoring closing quotes."""
    return re.search(r"[?？؟⁇⁈][!\s\"'”’»）)\]」』*_]*$", sentence) is not None


def _is_sentence_end(line: str, match: re.Match[str], language: str) -> bool:
    following = line[match.end() : match.end() + 40].lstrip()
    if match[0][0] not in ".…":
        return match[0][0] in "。！？" or not following[:1].islower()
    word = _LAST_WORD.search(line, max(0, match.start() - 30), match.start())
    if match[0] != "." or word is None or following[:1].islower():
        return not following[:1].islower()
    if word[0].isdigit():
        return not (language in _ORDINAL_LANGUAGES and len(word[0]) <= 2) and (word.start() > 0 or len(word[0]) > 2)
    if len(word[0]) == 1 and not WIDE_CHARACTER.match(word[0]):
        return word[0] == "I" and language == "en"
    is_short = ABBREVIATION.fullmatch(word[0]) or (language == "de" and word[0].endswith("str"))
    return not is_short or (word[0].casefold() == "no" and not following[:1].isdigit())
