"""Find what a person only pastes: frames that a program puts around text, and lines that a program wrote.

Programs write lines of a shape: a time in front, columns, brackets, the same words around other numbers. A line whose
shape tells enough is pasted by itself (a trace, a log), any other only beside lines like it. Whatever begins with “I”
or “my” is somebody's own.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

FIRST_PERSON_WORDS = "i|i['’]m|we|we['’]re|my|ich|meine?|yo|mi|me|je|mon|ma|я|мой|моя|меня|με"
"""The words by which somebody speaks of themselves, as a pattern."""
_OWN_START = re.compile(rf"(?:{FIRST_PERSON_WORDS})(?:['’]\w+)?(?=\s+[^\W\d_])", re.IGNORECASE)
_Kind = Literal["pasted", "alike", "inner", "own"]
"""``pasted`` tells by itself that a program wrote it, ``alike`` beside another such line, ``inner`` between the two."""
_TELLING = ("pasted", "alike")
_TAG = re.compile(r"<(?P<end>/?)(?P<name>[A-Za-z][\w.:-]*)(?:\s[^<>\n]*)?>|\[(?P<slash>/?)(?P<label>[A-Z][A-Z_ ]+)\]")
_INLINE_TAGS = re.compile(
    "a|abbr|b|big|code|del|em|font|i|ins|kbd|mark|q|s|small|span|strike|strong|sub|sup|tt|u", re.IGNORECASE
)
"""Tags by which people mark a word of their own."""
_BLOCK_START = re.compile(r"[ \t]*(?:-{3,} ?BEGIN |BEGIN:|\\begin\{)(\w[^-\n{}]*)\}?-*[ \t]*")
_BLOCK_END = re.compile(r"[ \t]*(?:-{3,} ?END |END:|\\end\{)(\w[^-\n{}]*)\}?-*[ \t]*")

_MONTHS = "Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec"
_LEVELS = "TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|FATAL|CRITICAL|SEVERE"
_OUTPUT_STARTS = (
    r"\$ [a-z./~]|[\w.-]+@[\w.-]+:[^\s$#]*[$#] |PS [A-Z]:\\",  # a shell's prompt
    r"diff --git |@@ -\d|(?:\+\+\+|---) \"?(?:[ab]/|/)",
    r"Traceback \(",
)
_OUTPUT_START = re.compile("|".join(_OUTPUT_STARTS))
"""After such a line comes output, up to an empty line."""
_PASTED = re.compile(
    "|".join(
        (
            *_OUTPUT_STARTS,
            # logs, by their times and levels
            r"\W{0,2}\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d|\[?\d\d:\d\d:\d\d(?:[.,]\d+)?\]?[ \t]",
            rf"\W{{0,2}}(?:{_MONTHS}) [ \d]\d \d\d:\d\d:\d\d\b|[^\n\[]{{0,80}}\[\d\d/(?:{_MONTHS})/\d{{4}}:",
            rf"\s*\[(?:{_LEVELS})\]",
            # chats, as messengers export them
            r"\[?\d{1,2}[./]\d{1,2}[./]\d{2,4},? \d{1,2}:\d\d(?::\d\d)?(?: ?[AP]M)?(?:\]| -) [^:\n]{1,40}: ",
            # traces and test reports
            r"\s*File \"[^\"\n]+\", line \d|\s+at [\w.$<>/ ]+\(|\s*\.{3} \d+ more$|[\w/.-]+\.\w{1,4}:\d+:",
            r"Caused by: |Exception in thread |Uncaught \w+|panic: |goroutine \d|E {3,}\S|={3,} .+ ={3,}$",
            r"(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Warning)(?:: |$)",
            # rules of tables, lists of files, first lines of code
            r"\s*\|?\s*:?-{3,}:?\s*\||\s*\+[-=+]{3,}|\s*[│┃║┌├└╔╠╚]",
            r"[dl-]r(?:[w-][xsStT-][r-]){2}[w-][xsStT-]|#!|#include\b",
        )
    )
)
_ALIKE = re.compile(
    "|".join(
        (
            # code, by its first words and its ends of lines
            r"\s*(?:async def|def|class) \w+.*:\s*(?:#.*)?$|\s*@\w[\w.]*(?:\(.*\))?$",
            r"\s*(?:if|for|while|elif|with|try|except|else|finally)\b.*:\s*$",
            r"(?:from [\w.]+ )?import [\w.{*\"']+[^.!?]*$|\s*(?:export |const |let |var )+[\w{\[, }\]]+=",
            r".*(?:[{}]|\) ?=>|=> ?\()\s*$|\s*[{}\[\]()]+[;,]?\s*$|[^;]*[=(][^;]*;\s*$",
            r"\s*[\w.\[\]\"'-]+ ?[-+*/|&:]?= ?(?:[\w.]+[(\[]|[\"'\[{(])|\s*[\w.]+\([^()]*\)[;,]?\s*$",
            r"\s*(?:SELECT|INSERT INTO|UPDATE|DELETE FROM|CREATE|ALTER|DROP|FROM|(?:LEFT |INNER |OUTER )?JOIN|WHERE)\b",
            r"\s*(?:(?:GROUP|ORDER) BY|HAVING|LIMIT|VALUES|(?:OPTIONAL )?MATCH|RETURN|MERGE|WITH|UNWIND)\b",
            r"\s*\"[^\"\n]*\"\s*:",  # data
            # logs without a time, and digests
            rf"(?:\S+ ){{0,2}}(?:{_LEVELS}|ERR!|FAILED|PASSED)(?:[: ]|$)",
            r"\d{9,}(?:\.\d+)? |[^\n]*\b(?=\w*\d)(?=\w*[a-f])[\da-f]{12,}\b",
            # tables: bars, tabs, wide gaps
            r"[^|\n]*\|[^|\n]*\||[^\t\n]*\S\t+\S[^\t\n]*\t",
            r"(?:\S| \S)+(?<![.!?:]) {2,}\S(?:\S| \S)*(?<![.!?:]) {2,}\S",
        )
    )
)
_INNER = re.compile(r"\s*$|[ \t]{2,}\S|\t|\s*(?://|/\*|\*/|--\s|#)")
_FENCE = re.compile(r"\s*(?:```|~~~|>(?!>>))")
_SENTENCE = re.compile(r"[^\W\d_][\w'’,-]*(?: [\w'’,-]+){2,}[.!?…]\s*")
_NUMBERS = re.compile(r"\w*\d\w*")
_CODE_MARKS = re.compile(r"[{}\[\]<>=|\\_#$%^&*~;]")
_LINE_LENGTH = 300
"""So many characters of a line tell its kind."""
_MIN_REPEATS, _MANY_REPEATS = 4, 30
"""So many lines that differ in numbers alone are a program's: with two numbers and a mark of code in each, or any."""
_MIN_DENSE_LENGTH, _DENSE_SHARE = 20, 0.08
"""Of a line with at least so many characters, the share of marks that prose hardly has."""


def find_frames(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of what stands in a pair of tags, tags included, and of blocks from a BEGIN line to its END."""
    opened: dict[str, list[int]] = {}
    for tag in _TAG.finditer(text):
        name = tag["name"] or tag["label"]
        if tag["name"] and _INLINE_TAGS.fullmatch(name):
            continue
        if not (tag["end"] or tag["slash"]):
            opened.setdefault(name, []).append(tag.start())
        elif starts_of_name := opened.get(name):
            yield starts_of_name.pop(), tag.end()
    starts: dict[str, int] = {}
    for start, end in _iterate_lines(text):
        if begin := _BLOCK_START.fullmatch(text, start, end):
            starts.setdefault(begin[1].strip(), start)
        elif (finish := _BLOCK_END.fullmatch(text, start, end)) and finish[1].strip() in starts:
            yield starts.pop(finish[1].strip()), end


def find_pasted_lines(text: str) -> Iterator[tuple[int, int]]:
    """Start and end of each run of lines that a program wrote."""
    spans = list(_iterate_lines(text))
    lines = [text[start : min(end, start + _LINE_LENGTH)] for start, end in spans]
    kinds = _classify_lines(lines)
    start = 0
    while start < len(lines):
        end = start
        while end < len(lines) and kinds[end] != "own":
            end += 1
        telling = [place for place in range(start, end) if kinds[place] in _TELLING]
        if len(telling) > 1 or any(kinds[place] == "pasted" for place in telling):
            first, last = telling[0], telling[-1]
            while first > start and lines[first - 1].strip():
                first -= 1
            while last + 1 < end and lines[last + 1][:1] in (" ", "\t") and lines[last + 1].strip():
                last += 1
            yield spans[first][0], spans[last][1]
        start = end + 1


def _classify_lines(lines: Sequence[str]) -> list[_Kind]:
    shapes = [_NUMBERS.sub("0", line) for line in lines]
    counts = Counter(shape for shape in shapes if "0" in shape)
    kinds, is_output = list[_Kind](), False
    for line, shape in zip(lines, shapes, strict=True):
        is_own = _is_own(line)
        is_output = (is_output or bool(_OUTPUT_START.match(line))) and bool(line.strip()) and not is_own
        has_marks = shape.count("0") > 1 and _CODE_MARKS.search(shape) is not None
        is_repeated = counts[shape] >= (_MIN_REPEATS if has_marks else _MANY_REPEATS) and not is_own
        kinds.append("pasted" if is_output or is_repeated else _classify_line(line))
    for place in range(1, len(kinds) - 1):
        is_prose = _is_own(lines[place]) or _SENTENCE.fullmatch(lines[place])
        if kinds[place - 1] in _TELLING and kinds[place + 1] in _TELLING and not is_prose:
            kinds[place] = "inner"
    return kinds


def _classify_line(line: str) -> _Kind:
    if _is_own(line):
        return "own"
    if _PASTED.match(line):
        return "pasted"
    # three cells or more, as in a file of comma-separated values
    has_cells = any(line.count(mark) > 1 and f"{mark} " not in line for mark in ",;")
    is_dense = len(line) >= _MIN_DENSE_LENGTH and len(_CODE_MARKS.findall(line)) >= _DENSE_SHARE * len(line)
    if has_cells or is_dense or _ALIKE.match(line):
        return "alike"
    return "inner" if _INNER.match(line) else "own"


def _is_own(line: str) -> bool:
    return bool(_OWN_START.match(line) or _FENCE.match(line))


def _iterate_lines(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    for line in text.splitlines(keepends=True):
        yield start, start + len(line.rstrip("\r\n"))
        start += len(line)
