"""Redact turns, statements, questions and metadata before anything else sees them; remove secrets.

A turn's key is computed from the redacted text. No pattern looks further ahead than some fixed number of characters, so
the time grows with the text and not with its square.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Literal

from pydantic_core import PydanticCustomError, to_jsonable_python

from adk_graph_memory import errors
from adk_graph_memory.records.turns import ShownPart, Statement, Turn

TextSpan = tuple[int, int]
Detector = tuple[str, Callable[[str], Iterable[TextSpan]]]

_CHUNK_SIZE, _CHUNK_OVERLAP = 50_000, 2_000
"""Characters searched at a time, and how far a match may reach beyond them."""
_MAX_ROUNDS = 8
"""No text has needed more than three rounds; the limit keeps a hostile text from holding up others."""


def remove_secrets(text: str) -> str:
    """Replace keys, tokens, passwords and card numbers by their kind, as in ``[card number]``.

    Only the look of a secret decides: nothing is looked up or tried against a service. Invisible characters and
    full-width letters hide no secret. A second call leaves the result unchanged.

    Raises:
        errors.RedactorMissing: the libraries that it needs are not installed.
    """
    for _ in range(_MAX_ROUNDS):
        if (cleaned := _remove_secrets_once(text)) == text:
            break
        text = cleaned  # with its neighbour replaced, another secret may match now
    return text


def _remove_secrets_once(text: str) -> str:
    plain = PlainText(text)
    for kind, find_spans in load_detectors():
        spans = [plain.find_original_span(span) for span in find_spans(plain.text)]
        if spans:
            text = "".join(_replace_spans(text, spans, f"[{kind}]"))
            plain = PlainText(text)
    return text


def _replace_spans(text: str, spans: Iterable[TextSpan], placeholder: str) -> Iterator[str]:
    position = 0
    for start, end in sorted(spans):
        if start >= position:
            yield text[position:start] + placeholder
        position = max(position, end)
    yield text[position:]


class PlainText:
    """A text in plain characters that keeps the position of each one in the original.

    Invisible characters (Unicode category Cf: zero-width, direction marks, soft hyphens) are left out. Characters
    compatible with ASCII (full-width letters and digits, the non-breaking space) become ASCII.

    Attributes:
        text: the plain text.
    """

    def __init__(self, original: str) -> None:
        self.text = original
        self._positions: list[int] | None = None
        plain = {character: _simplify_character(character) for character in set(original)}
        if any(character != simplified for character, simplified in plain.items()):
            self.text = "".join(map(plain.__getitem__, original))
            self._positions = [position for position, character in enumerate(original) for _ in plain[character]]

    def find_original_span(self, span: TextSpan) -> TextSpan:
        """The span of the original that a span of the plain text came from."""
        start, end = span
        if self._positions is None or start == end:
            return span
        return self._positions[start], self._positions[end - 1] + 1


def _simplify_character(character: str) -> str:
    if character.isascii():
        return character
    if unicodedata.category(character) == "Cf":
        return ""
    compatible = unicodedata.normalize("NFKC", character)
    return compatible if compatible.isascii() else character


_REST = re.compile(r"(?:\.?[\w-]+)*")
"""The rest of a token: its format may have grown since the detector was written, or the detector may stop short."""

_SECRET_FORMATS = (
    ("private key", r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----"
                    r"(?:(?:(?!-----)[\s\S])*-----END [A-Z0-9 ]*-----|(?:(?:\s|\\n)*[A-Za-z0-9+/=]{20,})+)"),
    ("JSON web token", r"(?<![\w=-])eyJ[\w=-]{5,}\.[\w=-]{5,}(?:\.[\w+/=-]*)?"),
    ("GitHub token", r"\b(?:gh[pousr]|github_pat)_\w{30,}"),
    ("Google API key", r"\bAIza[\w-]{35}"),
    ("API key", r"(?<![\w-])sk-(?=[\w-]{0,60}[0-9])(?=[\w-]{0,60}[A-Z])[\w-]{32,}"),
    ("Stripe key", r"\b(?:[rs]k_(?:live|test)|whsec)_[A-Za-z0-9]{16,}"),
    ("Slack token", r"\b(?:xox[a-z](?:\.xox[a-z])?|xapp)-[A-Za-z0-9-]{10,}"),
    ("npm token", r"\bnpm_[A-Za-z0-9]{36}"),
    ("Hugging Face token", r"\bhf_[A-Za-z0-9]{34}"),
    ("Google access token", r"\bya29\.[\w-]{20,}"),
    ("Google client secret", r"\bGOCSPX-[\w-]{20,}"),
    ("API key", r"\b(?:gsk_|xai-)[A-Za-z0-9]{20,}"),
)  # fmt: skip
"""Published formats that detect-secrets 1.5 does not know (OpenAI's and Anthropic's API keys among them), finds only in
part, or searches for in quadratic time."""

_SURE = (
    r"(?:pass[_-]?(?:word|phrase|wort|code)|passwd|pswd|pwd?|contraseña|contrasena|kennwort|"
    r"(?:api|auth|access|account|client|private|secret|service|signing)[ _-]?(?:access[ _-]?)?key|"
    r"(?:client|api|app|shared)[ _-]?secret|(?:access|auth|api|bearer|refresh)[ _-]?token)"
)
_VAGUE = r"(?:secret|token)"
_BEFORE, _AFTER = r"(?<![\[\w])(?:\w{1,40}?[_.-])?", r"(?:[_-]\w{1,20})?\b(?:\\{0,3}[\"'`]\]?)?"
_SIGN = r"[ \t]{0,3}(?::=|=>|={1,3}|:)[ \t]{0,3}"
_OPEN = r"(?!\[[A-Za-z ]+\])"
"""Skips a value that is already a placeholder."""
_QUOTE = r"(\\{0,3}[\"'`])"
_WORD = r"(?:[^\s\"'`,;&\\]|\\(?!\\{0,3}[\"'`]))"
_LETTER, _DIGIT, _SYMBOL = (rf"(?={_WORD}{{0,200}}?{kind})" for kind in ("[A-Za-z]", "[0-9]", "[0-9@#$%^&*+_]"))
_VALUE = rf"{_OPEN}(?P<value>{_WORD}"
_LOOK = 200
"""Characters a pattern searches for the end of a value, so that a text of many ``token:`` stays cheap. _BEYOND finds
what a longer value has beyond them."""
_BEYOND = re.compile(rf"{_WORD}*")
_SCHEME = r"(?:Bearer|Basic|Token|ApiKey|Digest)[ \t]{1,3}"
_ASSIGNMENT_PATTERNS = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        # password = "correct horse", password=hunter, and inside a JSON string {\"password\": \"correct horse\"}
        rf"{_BEFORE}{_SURE}{_AFTER}{_SIGN}{_QUOTE}{_OPEN}(?P<value>[^\"'`\n\\]{{3,200}})\1",
        rf"{_BEFORE}(?:{_SURE}|{_VAGUE}){_AFTER}={_VALUE}{{3,200}})",
        # password: hunter2, and without a digit at the end of a line
        rf"{_BEFORE}{_SURE}{_AFTER}{_SIGN}(?={_WORD}{{0,200}}?[0-9!@#$%^&*+_]){_VALUE}{{3,200}})",
        rf"{_BEFORE}{_SURE}{_AFTER}{_SIGN}{_VALUE}{{3,200}}+)(?=[ \t]{{0,100}}+(?:\n|\Z)|{_WORD})",
        # my password is hunter2
        rf"{_BEFORE}{_SURE}{_AFTER} (?:is|ist|es|est):? [\"'`]?{_LETTER}{_SYMBOL}{_VALUE}{{6,200}})",
        # token: 8f2c19ab
        rf"{_BEFORE}{_VAGUE}{_AFTER}{_SIGN}(?:\\{{0,3}}[\"'`])?{_LETTER}{_DIGIT}{_VALUE}{{6,200}})",
        # <password>hunter2</password>, <input type="password" value="hunter2">
        rf"<(?:[\w.-]{{1,40}}:)?(?:\w{{1,40}}?[_.-])?(?:{_SURE}|{_VAGUE})(?:\s[^<>]{{0,200}})?>\s{{0,20}}+{_OPEN}"
        r"(?P<value>[^<>]{3,200}?)\s{0,20}</",
        r"\btype=[\"']?password\b[^<>]{0,200}?\bvalue=[\"'](?P<value>[^\"'<>\n]{3,200})[\"']",
        # Authorization: Basic YW5hOmh1bnRlcjI=
        rf"\bAuthorization(?:\\{{0,3}}[\"'`]\]?)?{_SIGN}(?:\\{{0,3}}[\"'`])?{_SCHEME}{_VALUE}{{3,200}})",
        rf"\bBearer[ \t]{{1,3}}{_OPEN}(?=[\w.~+/=-]{{0,200}}?[0-9])(?P<value>[\w.~+/=-]{{20,200}})",
        r"\bBasic[ \t]{1,3}(?P<value>"
        r"(?=[A-Za-z0-9+/]{0,40}?[0-9A-Z][a-z]{0,9}[A-Z0-9])[A-Za-z0-9+/]{10,200}={1,2})",
    )
)
"""``password: hunter2``. The keyword detector of detect-secrets finds one secret a text, up to the end of its line."""

_CARD_NUMBER = re.compile(
    r"(?<![\w+.,-])(?:[0-9]{13,19}|[0-9]{4}([ \u00a0\u202f-])[0-9]{6}\1[0-9]{5}"
    r"|[0-9]{4}([ \u00a0\u202f-])[0-9]{4}(?:\2[0-9]{4}){1,2}\2[0-9]{1,4}(?:\2[0-9]{1,3})?)(?![\w-]|[.,][0-9])"
)


@cache
def load_detectors() -> tuple[Detector, ...]:
    """The detectors in the order they run: assignments come last, so that a key of a known kind keeps its name."""
    try:
        library_detectors = _load_library_detectors()
        from pydantic_extra_types.payment import PaymentCardBrand, PaymentCardNumber
    except ImportError as error:
        raise errors.RedactorMissing(reason=f"{error.name} is not installed") from error

    def find_card_numbers(text: str) -> Iterator[TextSpan]:
        for match in search_in_chunks(_CARD_NUMBER, text):
            try:
                number = PaymentCardNumber(re.sub(r"[^0-9]", "", match[0]))
            except PydanticCustomError:
                continue
            if number.brand != PaymentCardBrand.other:
                yield match.span()

    tokens: list[Detector] = [(kind, _make_span_finder(re.compile(pattern))) for kind, pattern in _SECRET_FORMATS]
    assignments: list[Detector] = [
        ("secret", _make_span_finder(pattern, "value", search_in_chunks)) for pattern in _ASSIGNMENT_PATTERNS
    ]
    return (*tokens, *library_detectors, ("card number", find_card_numbers), *assignments)


def _load_library_detectors() -> list[Detector]:
    """The reliable patterns of detect-secrets; its ``verify`` is never called.

    Its detectors of entropy, IP addresses and build-server keys are left out: they take ordinary words and numbers for
    secrets. ``analyze_string`` returns no positions, so the patterns are searched directly.
    """
    from detect_secrets.plugins import (
        aws,
        azure_storage_key,
        basic_auth,
        discord,
        gitlab_token,
        mailchimp,
        pypi_token,
        sendgrid,
        slack,
        square_oauth,
        telegram_token,
        twilio,
    )

    kinds: list[tuple[str, Iterable[re.Pattern[str]]]] = [
        ("AWS access key", aws.AWSKeyDetector.denylist[:1]),
        ("Slack token", slack.SlackDetector.denylist),
        ("GitLab token", gitlab_token.GitLabTokenDetector.denylist),
        ("PyPI token", pypi_token.PypiTokenDetector.denylist),
        ("SendGrid API key", sendgrid.SendGridDetector.denylist),
        ("Square secret", square_oauth.SquareOAuthDetector.denylist),
        ("Azure storage key", azure_storage_key.AzureStorageKeyDetector.denylist),
        ("Discord bot token", discord.DiscordBotTokenDetector.denylist),
        ("Telegram bot token", telegram_token.TelegramBotTokenDetector.denylist),
        ("Twilio API key", twilio.TwilioKeyDetector.denylist),
        ("Mailchimp API key", mailchimp.MailchimpDetector.denylist),
    ]
    tokens: list[Detector] = [(kind, _make_span_finder(pattern)) for kind, patterns in kinds for pattern in patterns]
    url_passwords: list[Detector] = [
        ("password", _make_span_finder(pattern, 1)) for pattern in basic_auth.BasicAuthDetector.denylist
    ]
    return tokens + url_passwords


def search_in_chunks(pattern: re.Pattern[str], text: str) -> Iterator[re.Match[str]]:
    """Search a long text in chunks: one search holds the GIL and would block all threads, the event loop's included.

    A match with its lookahead must be no longer than the overlap.
    """
    position = 0
    for border in range(_CHUNK_SIZE, len(text) + _CHUNK_SIZE, _CHUNK_SIZE):
        while match := pattern.search(text, max(position, border - _CHUNK_SIZE), border + _CHUNK_OVERLAP):
            if match.start() >= border:
                break
            position = match.end()
            yield match


def _make_span_finder(
    pattern: re.Pattern[str],
    group: int | str = 0,
    search: Callable[[re.Pattern[str], str], Iterator[re.Match[str]]] = re.Pattern.finditer,
) -> Callable[[str], Iterator[TextSpan]]:
    """A finder of a pattern's secrets: one group of the match, or the whole match with the rest of its token."""

    def find_spans(text: str) -> Iterator[TextSpan]:
        end = 0
        for match in search(pattern, text):
            if match.start() < end:
                continue
            start, end = match.span(group)
            rest = _BEYOND if end - start >= _LOOK else None if group else _REST
            if rest and (tail := rest.match(text, end)):
                end = tail.end()
            yield start, end

    return find_spans


RedactFunction = Callable[[str], str]
RedactOption = RedactFunction | Literal["secrets"] | None

REDACTED_PLACEHOLDER = "[redacted]"
"""Replaces a turn or statement that redaction leaves empty: an embedder may refuse empty text."""


class Redactor:
    """Redacts texts, turns, statements and metadata in a worker thread.

    Args:
        choice: a function from text to text; ``"secrets"`` for
            :func:`adk_graph_memory.memory.redaction.remove_secrets`; or None, which changes nothing.

    Raises:
        errors.RedactorMissing: the libraries that ``"secrets"`` needs are not installed.
        errors.InvalidArgument: ``choice`` is none of these.
    """

    def __init__(self, choice: RedactOption) -> None:
        if choice == "secrets":
            load_detectors()
            choice = remove_secrets
        if isinstance(choice, str) or not (choice is None or callable(choice)):
            reason = f'redact={choice!r} is neither "secrets" nor a function from text to text'
            raise errors.InvalidArgument(reason=reason)
        self._function = choice

    @property
    def redact_function(self) -> RedactFunction | None:
        """The function that redacts one text; None if there is no redaction."""
        return self._apply_function if self._function else None

    async def redact_text(self, text: str) -> str:
        """Redact one text.

        Raises:
            errors.RedactionFailed: the function raised, or did not return text.
        """
        return await asyncio.to_thread(self._apply_function, text) if self._function else text

    async def redact_turns(self, turns: Sequence[Turn]) -> Sequence[Turn]:
        """Redact the text of each turn, and what is known of the parts that it shows; ids, times and order stay."""
        if not self._function:
            return turns
        return await asyncio.to_thread(lambda: list(map(self._redact_turn, turns)))

    def _redact_turn(self, turn: Turn) -> Turn:
        said = replace(turn, text=self._redact_or_placeholder(turn.author_text), own_text=None, shown=())
        return said.show_parts(map(self._redact_part, turn.shown))

    def _redact_part(self, part: ShownPart) -> ShownPart:
        name, uri, description = map(self._redact_value, (part.name, part.uri, part.description))
        return replace(part, name=name, uri=uri, description=description)

    async def redact_statements(self, statements: Sequence[Statement]) -> Sequence[Statement]:
        """Redact the text and metadata of each statement; ids, times and order stay."""
        if not self._function:
            return statements
        return await asyncio.to_thread(
            lambda: [
                replace(item, text=self._redact_or_placeholder(item.text), metadata=self._redact_value(item.metadata))
                for item in statements
            ]
        )

    async def redact_metadata(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """Redact every text value of the metadata at any depth; the keys stay."""
        return await asyncio.to_thread(self._redact_value, metadata) if self._function and metadata else metadata

    def _apply_function(self, text: str) -> str:
        assert self._function is not None  # noqa: S101  # callers check first
        name = getattr(self._function, "__qualname__", type(self._function).__qualname__)
        try:
            redacted: Any = self._function(text)
        except Exception as error:
            # The error's message may quote the text, and ours may end up in a log: name only its type.
            raise errors.RedactionFailed(name=name, reason=f"it raised {type(error).__name__}") from error
        if not isinstance(redacted, str):
            raise errors.RedactionFailed(name=name, reason=f"it returned {type(redacted).__name__}, not text")
        return redacted

    def _redact_or_placeholder(self, text: str) -> str:
        redacted = self._apply_function(text)
        return REDACTED_PLACEHOLDER if text.strip() and not redacted.strip() else redacted

    def _redact_value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self._apply_function(value)
        if isinstance(value, Mapping):
            return {key: self._redact_value(item) for key, item in value.items()}
        if isinstance(value, list | tuple):
            return [self._redact_value(item) for item in value]
        if value is None or isinstance(value, bool | int | float):
            return value
        return self._redact_value(to_jsonable_python(value, bytes_mode="base64", serialize_unknown=True))
