"""Bring amounts, times of day, telephone and account numbers into one form, so that equal ones compare as equal.

A question's identifiers are searched for in other spellings too; a text's numbers are indexed in their normal form too.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal

from adk_graph_memory.language.detection import load_stop_words

_UNITS = {
    "eur": "€ euro euros eur евро",
    "usd": "$ dollar dollars dólares dolares usd доллар доллара долларов",
    "gbp": "£ gbp sterling pound pounds pfund libras livres",
    "chf": "chf franc francs franken franchi sfr",
    "jpy": "¥ yen jpy 円",
    "cny": "¥ yuan rmb cny 元",
    "inr": "₹ rupee rupees inr",
    "rub": "₽ rouble roubles ruble rubles rub рубль рубля рублей",
    "pln": "zł złoty zloty złotych pln",
    "krw": "₩ krw",
    "brl": "reais brl",
    "kg": "kg kilo kilos kilogram kilograms kilogramm kilogramme kilogrammes кг",
    "g": "g gram grams gramm grammes gramos г",
    "lb": "lb lbs pound pounds",
    "oz": "oz ounce ounces",
    "km": "km kilometre kilometres kilometer kilometers kilómetros км",
    "mi": "mi mile miles",
    "m": "m metre metres meter meters metros м",
    "cm": "cm centimetre centimetres centimeter centimeters см",
    "ft": "ft foot feet",
    "in": "inch inches",
    "l": "l litre litres liter liters litros",
    "ml": "ml millilitre millilitres milliliter milliliters",
    "°c": "°c celsius",
    "°f": "°f fahrenheit",
    "%": "% percent prozent",
    "minute": "min minute minutes minuten minutos минут минуты",
    "hour": "h hour hours stunde stunden heure heures hora horas час часа часов",
    "day": "day days tag tage tagen jour jours día días dia dias день дня дней",
    "week": "week weeks woche wochen semaine semaines semana semanas неделя недели недель",
    "month": "month months monat monate monaten mois mes meses месяц месяца месяцев",
    "year": "year years jahr jahre jahren ans año años ano anos год года лет",
}
"""What each unit is called; a word may be the name of several."""
_MEASURES: Mapping[str, tuple[str, Decimal, Decimal]] = {
    unit: (measure, Decimal(factor), Decimal(zero))
    for measure, units in {
        "mass": {"kg": "1", "g": "0.001", "lb": "0.45359237", "oz": "0.028349523"},
        "length": {"km": "1000", "m": "1", "cm": "0.01", "mi": "1609.344", "ft": "0.3048", "in": "0.0254"},
        "volume": {"l": "1", "ml": "0.001"},
        "time": {"minute": "1", "hour": "60", "day": "1440", "week": "10080", "month": "43829.1", "year": "525949.2"},
        "temperature": {"°c": "1", "°f": "0.55555555556"},
    }.items()
    for unit, factor in units.items()
    for zero in ("32" if unit == "°f" else "0",)
}
"""What each unit measures, how many of the first it is, and its number for nothing."""
_CODES = ["eur", "usd", "gbp", "chf", "jpy", "cny", "inr", "rub", "pln", "krw", "brl"]
_SYMBOLS = "€$£¥₽₹₩"
_SCALES = {
    **dict.fromkeys(["k", "thousand", "tausend", "tsd", "mille", "mil", "тыс", "тысяч"], 3),
    **dict.fromkeys(["million", "millions", "mio", "mn", "mln", "millionen", "millones", "млн"], 6),
    **dict.fromkeys(["billion", "billions", "bn", "mrd", "milliarde", "milliarden", "milliards", "млрд"], 9),
}
_NUMBER_WORDS = (
    "two three four five six seven eight nine ten eleven twelve",
    "zwei drei vier fünf sechs sieben - neun zehn - zwölf",
    "deux trois quatre cinq six - huit - - onze douze",
    "dos tres cuatro cinco seis siete ocho nueve diez - doce",
    "dois três quatro cinco seis sete oito nove dez onze doze",
    "- tre quattro cinque - sette - nove dieci undici dodici",
    "twee drie vier vijf zes zeven - negen tien - twaalf",
    "два три четыре пять шесть семь восемь девять десять одиннадцать двенадцать",
)
"""Two to twelve; left out are words that mean something else in another language: "once", "due", "elf", "Otto"."""
_DIGITS_BY_WORD = {
    word: str(digit) for words in _NUMBER_WORDS for digit, word in enumerate(words.split(), 2) if word != "-"
}
_MONTHS = (
    "january jan januar jänner janvier enero janeiro gennaio januari января",
    "february feb februar feber février febrero fevereiro febbraio februari февраля",
    "march mar märz mars marzo março maart марта",
    "april apr avril abril aprile апреля",
    "may mai mayo maio maggio mei мая",
    "june jun juni juin junio junho giugno июня",
    "july jul juli juillet julio julho luglio июля",
    "august aug août agosto augustus августа",
    "september sep sept septembre septiembre setembro settembre сентября",
    "october oct oktober okt octobre octubre outubro ottobre октября",
    "november nov novembre noviembre novembro ноября",
    "december dec dezember dez décembre diciembre dezembro dicembre декабря",
)
_MONTHS_BY_NAME = {name: number for number, names in enumerate(_MONTHS, 1) for name in names.split()}
_COUNTRY_CODE = re.compile(r"[17]|2[07]|3[0-469]|4[013-9]|5[1-8]|6[0-6]|8[1246]|9[0-58]|\d{3}")
"""Of telephone numbers; all that begin otherwise have three digits."""
_DATE_UNIT, _TIME_UNIT = frozenset({"date"}), frozenset({"time of day"})
_FIRST_PLACE, _LAST_PLACE = 0xF0000, 0x10FFFF
"""A character of the private use area stands for each quantity until all are read."""
_PLAIN_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_MOST_DIGITS = 24
"""Digits of a number that is compared by its value; a longer one is compared as it is written."""

UNITS_BY_NAME: dict[str, frozenset[str]] = {
    name: frozenset(unit for unit, names in _UNITS.items() if name in names.split())
    for name in " ".join(_UNITS.values()).split()
}


def _join(words: Iterable[str]) -> str:
    return "|".join(map(re.escape, sorted(words, key=len, reverse=True)))


_CURRENCY = rf"[{_SYMBOLS}] | (?<!\w) (?: {_join(_CODES)} )"
_CURRENCY_AT_END = re.compile(rf"(?:{_CURRENCY})\s?$", re.VERBOSE)
_WHOLE_NUMBER = re.compile(r"[1-9][0-9]*")
_WHOLE_YEAR = re.compile(r"(?:19|20)\d\d")
_UNIT = rf"\ ?(?: {_join([*UNITS_BY_NAME, *_SCALES])} )(?!\w)"
_DIGITS = r"(?<![\d.,]) \d{1,3} (?: [\ '’]\d{3} )+ (?!\d) (?: [.,]\d+ )? | \d+ (?: [.,]\d+ )*"
_FRACTION, _PRIVATE = re.compile(r"(?<!\d)(\d*)(\d)\u2044([2458])"), re.compile("[\U000f0000-\U0010ffff]")
_NUMBER_WORD = re.compile(rf"(?<!\w)(?: {_join(_DIGITS_BY_WORD)} )(?!\w)", re.VERBOSE)
_ADDRESS = re.compile(r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+|(?:https?://|www\.)[^\s\"<>)]*[^\s\"<>).,;:!?]")
_ACCOUNT = re.compile(r"(?<!\w)[a-z]{2}\d{2} ?(?:[a-z]{4} ?)?(?:\d{4} ?){2,7}(?:\d{1,4}|(?<=\d))(?!\w)")
_MONTH = rf"(?P<month>{_join(_MONTHS_BY_NAME)})"
_DATES = tuple(
    re.compile(rf"(?<![\d./-]){form}(?!\d)")
    for form in (
        r"(?<!\w)(?P<year>\d{4})([-/])(?P<month>\d\d?)\2(?P<day>\d\d?)",
        r"(?P<year>\d{4}) ?[年년] ?(?P<month>\d\d?) ?[月월] ?(?P<day>\d\d?) ?[日일号號]",
        r"(?<!\w)(?P<day>\d\d?)\. ?(?P<month>\d\d?)\. ?(?P<year>\d{4})",
        rf"(?<!\w)(?:the )?(?P<day>\d\d?)(?:st|nd|rd|th|er|[o.])? (?:of |de |di )?{_MONTH}"
        r"\.?,? (?:del? )?(?P<year>(?:19|20)\d\d)",
        rf"(?<!\w){_MONTH}\.? (?P<day>\d\d?)(?:st|nd|rd|th)?,? (?P<year>(?:19|20)\d\d)",
    )
)
_DAY_OF_MONTH = re.compile(r"(?<![\w./-])(\d\d?)\. ?(\d\d?)\.(?! ?\d)")
_SLASHED_DATE_OR_YEARS = re.compile(
    r"(?<![\w./-])(?:(\d\d?)([/-])(\d\d?)\2(\d{4}|\d\d)|(?:19|20)\d\d ?[-–/] ?(?:19|20)\d\d)(?!\d)"
)
_TELEPHONE = re.compile(
    rf"(?<![\w.,/:-]) (?P<front> [+(]\ ?\(?\d | 0 )? (?: [\ ()/.-]{{0,2}}\d ){{6,17}} (?![\d:]) (?P<unit> {_UNIT} )?",
    re.VERBOSE,
)
_TIME = re.compile(
    r"""
    (?<![\w.,:]) (?P<hour> [01]?\d | 2[0-3] )
    (?: [:h](?P<minute>[0-5]\d) (?: :[0-5]\d )? (?![\d:]) (?: \ ?(?P<half>[ap])\.?m\b )?
        | \ ?(?P<half_of_hour>[ap])\.?m\b | (?: \.(?P<minute_of_uhr>[0-5]\d) )? \ ?(?: uhr | o'clock )\b )
    """,
    re.VERBOSE,
)
_AMOUNT = re.compile(
    rf"""
    (?P<sign> (?<![\w.,)\]]) [-−–] (?= [{_SYMBOLS}\d] ) | (?<!\w) minus\  )?
    (?: (?P<currency> {_CURRENCY} )\ ? )?
    (?P<number> {_DIGITS} ) (?: / (?P<of> \d+ (?: [.,]\d+ )* ) )?
    (?: \ ? (?P<scale> {_join(_SCALES)} )(?!\w)\.? )?
    (?: \ ? (?P<unit> {_join(UNITS_BY_NAME)} )(?!\w) )?
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Quantity:
    """An amount, a date, a time of day or a number that identifies something, in its normal form.

    ``units`` are those that its unit may mean; without any, the text names none that is known. An ``identifier`` is a
    telephone or account number or an address: whoever says it means it, whatever the words.
    """

    number: str
    units: frozenset[str] = frozenset()
    is_identifier: bool = False

    def is_same(self, other: Quantity) -> bool:
        """Whether both may be one: the number is the same, and so is the unit unless only one of them has any.

        So may be amounts in two units that measure the same, as exactly as their numbers say: 80 kg and 176 lb.
        """
        if not (self.units and other.units) or self.units & other.units:
            return self.number == other.number
        return any(
            measure == other_measure and low < other_high and other_low < high
            for measure, low, high in self._list_ranges()
            for other_measure, other_low, other_high in other._list_ranges()
        )

    def _list_ranges(self) -> Iterator[tuple[str, Decimal, Decimal]]:
        """Yield for each unit what it measures, and between which amounts the number lies before it is rounded."""
        if not _PLAIN_NUMBER.fullmatch(self.number):
            return
        number, half = Decimal(self.number), Decimal(5).scaleb(-1 - len(self.number.partition(".")[2]))
        for unit in self.units & _MEASURES.keys():
            measure, factor, zero = _MEASURES[unit]
            yield measure, factor * (number - half - zero), factor * (number + half - zero)

    def includes(self, other: Quantity) -> bool:
        """Whether both may be one, or the other is the year of this date, or its day without the year."""
        if self.is_same(other):
            return True
        if self.units != _DATE_UNIT or self.number.count("-") != 2:
            return False
        year, month, day = self.number.split("-")
        return other.units <= _DATE_UNIT and other.number in (year, f"{int(day)}", f"{int(day)}.{int(month)}.")

    def __str__(self) -> str:
        return " ".join((self.number, *sorted(self.units - _DATE_UNIT - _TIME_UNIT)))


@dataclass(frozen=True, slots=True)
class NormalText:
    """A text with its quantities in their normal form, and each of these by itself, in the order of the text."""

    text: str
    quantities: tuple[Quantity, ...]

    @property
    def has_identifier(self) -> bool:
        """Whether one of the quantities identifies something."""
        return any(quantity.is_identifier for quantity in self.quantities)

    def format_quantities(self) -> str:
        """Write the quantities as a key, in the same order wherever they stand in the text."""
        return " ".join(sorted(set(map(str, self.quantities))))

    def has_quantities_of(self, other: NormalText) -> bool:
        """Whether each quantity of the other text is also one of this one."""
        return all(any(mine.includes(theirs) for mine in self.quantities) for theirs in other.quantities)


def normalize_quantities(text: str) -> NormalText:
    """Bring the quantities of a text that is folded for comparison into their normal form.

    "1,500" and "1.500" become 1500, "5.0" becomes 5, "9:00" and "9 am" become 9, "two" becomes 2, and "€5" becomes
    "5 eur"; a telephone number loses the code of its country and the zero in front of it. Beyond some 130,000
    quantities, they stay as they are.
    """
    found: list[Quantity] = []

    def keep(match: re.Match[str], read: Callable[[re.Match[str]], Quantity | None]) -> str:
        quantity = read(match) if len(found) < _LAST_PLACE - _FIRST_PLACE else None
        if quantity is None:
            return match[0]
        found.append(quantity)
        return chr(_FIRST_PLACE + len(found))  # nothing reads its digits again

    text = _PRIVATE.sub(" ", unicodedata.normalize("NFKC", text))
    text = _FRACTION.sub(lambda match: str(int(match[1] or 0) + Decimal(match[2]) / Decimal(match[3])), text)
    text = _NUMBER_WORD.sub(lambda match: _DIGITS_BY_WORD[match[0]], text)
    for pattern, read in _READERS:
        text = pattern.sub(lambda match, read=read: keep(match, read), text)  # type: ignore[misc]
    places = {_FIRST_PLACE + place: str(quantity) for place, quantity in enumerate(found, 1)}
    return NormalText(text.translate(places), tuple(found))


def _read_date(match: re.Match[str]) -> Quantity:
    month = _MONTHS_BY_NAME.get(match["month"]) or int(match["month"])
    return _format_date_quantity(match["year"], month, int(match["day"]))


def _format_date_quantity(year: str, month: int, day: int) -> Quantity:
    return Quantity(f"{year}-{month:02}-{day:02}", _DATE_UNIT)


def _read_slashed_date(match: re.Match[str]) -> Quantity:
    """Read a date if only one of its numbers may be the month, or both are the same; else keep it as it is written."""
    first, _, second, year = match.groups()
    if first and len(year) == 4:
        low, high = sorted((int(first), int(second)))
        if low <= 12 and (low == high or high > 12):
            return _format_date_quantity(year, low, high)
    return Quantity(match[0].replace(" ", ""))


def _read_telephone(match: re.Match[str]) -> Quantity | None:
    """Read a telephone number, or the like; None if it may be an amount."""
    groups = re.findall(r"\d+", match[0])
    digits, lengths = "".join(groups), [len(group) for group in groups]
    if not match["front"]:
        is_amount = match["unit"] or _CURRENCY_AT_END.search(match.string[max(0, match.start() - 5) : match.start()])
        lengths = lengths[1:] if lengths[0] == 1 and groups[0] == "1" else lengths
        is_grouped = len(groups) > 1 and (set(lengths[1:]) == {3} or min(lengths) < 2 or match[0].count(".") == 1)
        if is_amount or is_grouped or (len(groups) > 1 and _WHOLE_YEAR.fullmatch(groups[0])):
            return None
    return Quantity(_drop_codes(digits, is_international=match[0][0] == "+"), is_identifier=True)


def _drop_codes(digits: str, *, is_international: bool) -> str:
    """Leave out of a telephone number what is said only abroad or only at home: a country's code, a zero in front."""
    if is_international or digits.startswith("00"):
        digits = digits if is_international else digits[2:]
        if code := _COUNTRY_CODE.match(digits):
            digits = digits[code.end() :]
    elif len(digits) == 11 and digits[0] == "1":  # as North Americans dial
        digits = digits[1:]
    return digits.lstrip("0")


def _read_time(match: re.Match[str]) -> Quantity:
    hour, half = int(match["hour"]), match["half"] or match["half_of_hour"]
    hour = hour % 12 + (12 if half == "p" else 0) if half else hour
    minute = match["minute"] or match["minute_of_uhr"] or "00"
    return Quantity(str(hour) if minute == "00" else f"{hour}:{minute}", _TIME_UNIT)


def _read_amount(match: re.Match[str]) -> Quantity:
    sign, currency, number, of, scale, unit = match.group("sign", "currency", "number", "of", "scale", "unit")
    if currency and unit == "m":  # "$5m" is no length
        scale, unit = "mn", None
    units = frozenset().union(*(UNITS_BY_NAME.get(name, frozenset()) for name in (currency, unit) if name))
    number = _normalize_number(number, _SCALES.get(scale or "", 0), units)
    number = f"-{number}" if sign else number
    return Quantity(f"{number}/{_normalize_number(of)}" if of else number, units)


def _normalize_number(raw: str, scale: int = 0, units: frozenset[str] = frozenset()) -> str:
    """Write a number without marks between thousands, and an amount with as few digits after the point as it needs.

    Without a unit "3.10" may be the number of a version, and with one of measure "1.500" may be one and a half: these
    stay as they are.
    """
    if not scale and _WHOLE_NUMBER.fullmatch(raw):
        return raw
    raw = re.sub(r"[ '’]", "", raw)
    whole, fraction = raw, ""
    marks = [mark for mark in raw if mark in ".,"]
    if len(set(marks)) == 2 or len(marks) == 1:
        whole, _, fraction = raw.rpartition(marks[-1])
        if len(marks) == 1 and len(fraction) == 3 and len(whole) <= 3 and whole != "0":
            if units and units.isdisjoint(_CODES) and marks[0] == ".":
                return raw
            whole, fraction = whole + fraction, ""
        elif not (units or scale) and fraction.endswith("0") and fraction.strip("0"):
            return f"{re.sub('[.,]', '', whole)}.{fraction}"
    elif marks and not re.fullmatch(r"\d{1,3}(?:[.,]\d{3})+", raw):
        return raw  # such as the number of a version or a paragraph
    whole = re.sub(r"[.,]", "", whole)
    if len(whole) + len(fraction) > _MOST_DIGITS or (whole[0] == "0" and len(whole) > 2 and not fraction):
        return raw
    return format(Decimal(f"{whole}.{fraction or 0}").scaleb(scale).normalize(), "f")


_READERS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], Quantity | None]], ...] = (
    (_ADDRESS, lambda match: Quantity(match[0], is_identifier=True)),
    (_ACCOUNT, lambda match: Quantity(match[0].replace(" ", ""), is_identifier=True)),
    *((pattern, _read_date) for pattern in _DATES),
    (_DAY_OF_MONTH, lambda match: Quantity(f"{int(match[1])}.{int(match[2])}.", _DATE_UNIT)),
    (_SLASHED_DATE_OR_YEARS, _read_slashed_date),
    (_TELEPHONE, _read_telephone),
    (_TIME, _read_time),
    (_AMOUNT, _read_amount),
)
"""What is read first is not read again: a date is no telephone number, and a time of day no amount."""
_NUMBER_HINT = re.compile(r"(?:\d[ ()/.-]{0,2}){6}\d|\b[A-Za-z]{2}\d\d \d{4}\b")
"""What every telephone and account number has; most texts have none."""
_YEAR = r"(?:19|20)\d\d(?!\d)"
_CODE = re.compile(
    rf"(?<![\w@./+-])(?:([A-Za-z]{{1,5}})-?(\d{{1,6}})|(?!I )([A-Z]{{1,4}}) (?!{_YEAR})(\d{{1,6}}))(?![\w@%]|[.,:/-]\w)"
)
"""A seat, a flight, a model: letters with a number, and in capitals also apart from it, if that is no year."""
_MAX_CODES = 16
"""Codes of a question that are searched for in other spellings."""
_ENGLISH_STOP_WORDS = frozenset(("a", "an", "and", "as", "at", "be", "but", "by", "for", "if", "in", "is", "it", "no"))
_ENGLISH_STOP_WORDS |= {"not", "of", "on", "or", "that", "the", "to", "was", "will", "with"}
"""Short ones that Lucene's English analyzer, which also reads other languages, drops; the usual list has "e" too."""


@dataclass(frozen=True, slots=True)
class Identifiers:
    """What a text names by a number or a code: the normal forms of numbers, and codes as their letters and digits."""

    numbers: tuple[str, ...] = ()
    codes: tuple[tuple[str, str], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.numbers or self.codes)

    def list_terms(self, language: str) -> Iterator[str]:
        """Yield the terms, some of several words, by which other spellings are found.

        Telephone numbers are indexed in their normal form too, since nobody knows how their digits were grouped.
        """
        for number in self.numbers:
            yield number
            if not number.isdigit():
                yield " ".join(re.findall(".{1,4}", number))
        stop_words = _ENGLISH_STOP_WORDS
        if language not in ("", "en"):
            stop_words |= load_stop_words(language)
        for letters, digits in self.codes:
            yield letters + digits
            if letters not in stop_words:  # else only the digits would count
                yield f"{letters} {digits}"

    def unify_spellings(self, text: str) -> str:
        """Fold a text and write these identifiers in their normal form, wherever it has them."""
        text = normalize_quantities(text.casefold()).text if self.numbers else text.casefold()
        for letters, digits in self.codes:
            text = re.sub(rf"(?<!\w){letters}[ -]?{digits}(?!\w)", letters + digits, text)
        return text


def find_identifiers(text: str) -> Identifiers:
    """Find the identifiers of a question."""
    codes = dict[tuple[str, str], None]()
    for match in _CODE.finditer(text):
        letters = (match[1] or match[3]).casefold()
        if match[1] or letters not in UNITS_BY_NAME:
            codes[letters, match[2] or match[4]] = None
    return Identifiers(tuple(find_number_keys(text)), tuple(codes)[:_MAX_CODES])


def find_number_keys(text: str) -> list[str]:
    """Find the telephone and account numbers of a text, each once in its normal form."""
    if not _NUMBER_HINT.search(unicodedata.normalize("NFKC", text)):
        return []
    quantities = normalize_quantities(text.casefold()).quantities
    return list(dict.fromkeys(one.number for one in quantities if one.is_identifier and one.number.isalnum()))
