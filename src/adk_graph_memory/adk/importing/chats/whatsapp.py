"""Read a chat that WhatsApp exported as text, in the languages and forms of Android phones and iPhones."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import accumulate

from adk_graph_memory.adk.importing.chats.files import ChatFiles
from adk_graph_memory.adk.importing.chats.messages import ChatOptions, Message, Row, read_clock
from adk_graph_memory.adk.importing.chats.written_days import (
    CLOCK,
    DATE,
    GAP,
    MARKS,
    choose_date_order,
    parse_local_time,
)
from adk_graph_memory.memory.imports import make_format_error
from adk_graph_memory.records.reports import EARLIER, MEDIA, SYSTEM_LINE, SkippedRow

_EXPECTED = "a chat that WhatsApp exported: lines such as `31.12.24, 21:05 - Ana: Hello`"
_HEADER = re.compile(
    rf"^[{MARKS}\ufeff]*(?P<bracket>\[)?{DATE}{GAP}{CLOCK}(?(bracket)\]\s?|\s+[-–]\s)(?P<rest>.*)$", re.DOTALL
)
_SPEAKER = re.compile(rf"^[{MARKS}\s]*([^:\n]{{1,80}}?): ?(.*)$", re.DOTALL)
_OPEN_QUOTE = re.compile(r'^[^"]*"(?:[^"]*"[^"]*")*[^"]*$|[“„«「『‘‚‹][^”“»」』’‘›]*$|^[^“„”]*”[^”]*$')
"""A name has none; the colon in a notice stands within a group's name."""
_ENCRYPTED = re.compile("المكالمات مشفّ?رة|שיחות מוצפנות")
"""Of the notice that a chat is encrypted, where it has a colon or is written from right to left."""
_ATTACHED = (
    "file attached|Datei angehängt|archivo adjunto|fichier joint|file allegato|arquivo anexado|ficheiro anexado"
    "|bestand bijgevoegd|файл добавлен|dosya ekli|الملف مرفق"
)
_LEFT_OUT = (
    "Media omitted|Medien ausgeschlossen|Medien weggelassen|Multimedia omitido|Archivo omitido|Médias omis|Media omessi"
    "|Mídia oculta|Mídia omitida|Arquivo de mídia oculto|Ficheiro não revelado|Media weggelaten|Без медиафайлов"
    "|Medya dahil edilmedi|メディアは含まれていません|省略多媒體檔案|媒体省略|미디어 파일을 생략한 대화내용"
    "|تم استبعاد الوسائط"
)
_OMITTED = re.compile(
    rf"^[{MARKS}]?(?:<(?:{_LEFT_OUT})>|(?<=\u200e)<[^<>\n]*: [^<>\n]+>"
    r"|[A-Z]{3}-\d{8}-WA\d+\.\w{2,5} \([^()\n]*\)"
    rf"|[^\n]+\.\w{{2,5}} \((?:{_ATTACHED})\))(?=\n|$)"
)
_OMITTED_LINE = re.compile(
    rf"^[^\n]*[{MARKS}][^\n]{{0,40}}\b(?:omitted|weggelassen|ausgelassen|omitid[oa]|absente?|omise?|omess[oa]"
    rf"|non inclus[oa]|ocultad[oa]|ocult[oa]|weggelaten|отсутствует|dahil edilmedi)\.?$|^[{MARKS}]+تم استبعاد[^\n]*$",
    re.MULTILINE,
)
"""How an iPhone says what was left out; no person writes its mark."""
_EDITED = re.compile(
    r"(?:\u200e<[^<>]*>|<(?:This message was edited|Diese Nachricht wurde bearbeitet|Se editó este mensaje"
    r"|Ce message a été modifié|Questo messaggio è stato modificato|Dit bericht is bewerkt|Bu mesaj düzenlendi)\.?>)$"
)
_DELETED = re.compile(
    "^(?:This message was deleted|You deleted this message|Diese Nachricht wurde gelöscht"
    "|Du hast diese Nachricht gelöscht|Se eliminó este mensaje|Este mensaje fue eliminado|Eliminaste este mensaje"
    "|Ce message a été supprimé|Vous avez supprimé ce message|Questo messaggio è stato eliminato"
    "|Hai eliminato questo messaggio|Mensagem apagada|Es[st]a mensagem foi apagada|Você apagou esta mensagem"
    "|Dit bericht is verwijderd|(?:U hebt|Je hebt) dit bericht verwijderd|(?:Данное|Это) сообщение удалено"
    "|Вы удалили (?:данное|это) сообщение|Bu mesaj silindi|Bu mesajı sildiniz|このメッセージは削除されました"
    "|此消息已(?:被)?删除|您删除了此消息|(?:此|這則)訊息已刪除|삭제된 메시지입니다"
    "|تم حذف هذه الرسالة|(?:لقد )?حذفت هذه الرسالة"
    "|यह (?:संदेश|मैसेज) मिटाया गया|यह मैसेज डिलीट कर दिया गया है)[.。।]?$"
)
_MISSED_CALL = re.compile("مكالمة (?:صوتية|فيديو) فائتة")
_PLACE_LINK = re.compile(r"https://(?:maps\.google\.\w+/|www\.google\.\w+/maps|foursquare\.com/)")


def read_whatsapp(files: ChatFiles, options: ChatOptions) -> Iterator[Row]:
    """Read a chat that WhatsApp exported as text, alone or in its ZIP archive."""
    own_name = r"^_chat\.txt$" if "_chat.txt" in files.list_names() else r"\.txt$"  # what was attached is beside it
    entries = _split_entries(files.read_text(files.find_only_name(own_name, _EXPECTED), _EXPECTED), str(files.path))
    order = choose_date_order([match for _, match, _ in entries], options.date_order, str(files.path))
    dated = list[tuple[str, str, datetime]]()
    for place, match, lines in entries:
        try:
            dated.append((place, "\n".join(lines).rstrip(), parse_local_time(match, order, options.zone)))
        except ValueError as error:
            yield SkippedRow(place, "unreadable", f"{match['date']!r} is no day ({error})")
    quotes = _find_quotes([at for _, _, at in dated])
    for number, (place, text, at) in enumerate(dated):
        if number in quotes:
            reason = "it is dated before the message above it: if it is a quote there, put a `>` before it"
            yield SkippedRow(place, EARLIER, reason)
        else:
            yield _read_message(place, text, at)


def _split_entries(text: str, path: str) -> list[tuple[str, re.Match[str], list[str]]]:
    """Split a chat into its entries: the place of each, its header, and its lines.

    A phone writes all headers alike, so a line in another form is part of a message, which quotes another chat.

    Raises:
        errors.UnreadableTranscript: it begins with something else.
    """
    entries, shape = list[tuple[str, re.Match[str], list[str]]](), None
    for number, line in enumerate(text.replace("\r\n", "\n").split("\n"), 1):
        place = f"{path}, line {number}"
        match = _HEADER.match(line)
        if match and _describe_shape(match) == (shape := shape or _describe_shape(match)):
            entries.append((place, match, [match["rest"]]))
        elif entries:
            entries[-1][2].append(line)
        elif line.strip():
            raise make_format_error(place, _EXPECTED, f"there is {line.strip()[:40]!r}")
    if not entries:
        raise make_format_error(path, _EXPECTED, "no line is a message's")
    return entries


def _describe_shape(match: re.Match[str]) -> tuple[object, ...]:
    marks = re.sub(r"[\d\s]", "", match["date"])
    return (
        marks,
        max(map(len, re.findall(r"\d+", match["date"]))) > 2,
        *(bool(match[part]) for part in ("bracket", "before", "second", "after")),
    )


def _find_quotes(moments: Sequence[datetime]) -> set[int]:
    """Find what is dated more than a day before the entry above it, whose time is reached again further down."""
    latest = [*accumulate(reversed(moments), max)][::-1]
    quotes = set[int]()
    above = moments[0] if moments else None
    for number, at in enumerate(moments):
        if above and at + timedelta(days=1) < above <= latest[number]:
            quotes.add(number)
        else:
            above = at
    return quotes


def _read_message(place: str, text: str, at: datetime) -> Row:
    if (speaker := _SPEAKER.match(text)) is None or _OPEN_QUOTE.search(speaker[1]) or _ENCRYPTED.search(speaker[1]):
        return SkippedRow(place, SYSTEM_LINE, text[:80])
    author, said = speaker[1].strip(), speaker[2]
    if omitted := _OMITTED.match(said):
        said = said[omitted.end() :]  # its caption
    said = _OMITTED_LINE.sub("", _EDITED.sub("", said.rstrip())).strip()
    plain = said.replace("\u200e", "").strip(f"{MARKS} \n")
    if not plain:
        return SkippedRow(place, MEDIA, speaker[2].strip(f"{MARKS} \n")[:80])
    if _DELETED.match(plain) or (said[0] in MARKS and not _is_said(said)):
        return SkippedRow(place, SYSTEM_LINE, plain[:80])
    return Message(place, author, plain, at, read_clock(at))


def _is_said(marked: str) -> bool:
    """Whether a person said what begins with a notice's mark: a poll, a place, or a text from right to left."""
    first = next(filter(str.isalpha, marked), "")
    is_right_to_left = unicodedata.bidirectional(first) in ("R", "AL") if first else False
    return bool(
        "\n\u200e" in marked
        or _PLACE_LINK.search(marked)
        or (is_right_to_left and not _ENCRYPTED.search(marked) and not _MISSED_CALL.search(marked))
    )
