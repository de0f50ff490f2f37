"""Secrets go, everything else stays, and whatever a redaction of one's own does wrong is named."""

from __future__ import annotations

import asyncio
import json
import re
import socket
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.growth import assert_linear

import adk_graph_memory
from adk_graph_memory import GraphMemory, errors
from adk_graph_memory.memory import redaction
from adk_graph_memory.memory.redaction import (
    _CHUNK_OVERLAP,
    _CHUNK_SIZE,
    REDACTED_PLACEHOLDER,
    Redactor,
    load_detectors,
    remove_secrets,
    search_in_chunks,
)
from adk_graph_memory.records.turns import Statement, Turn
from adk_graph_memory.runtime.settings import Settings, load_settings

NOW = datetime(2025, 5, 1, 12, tzinfo=UTC)
ROOT = Path(__file__).parents[2]
DEMO = Path(adk_graph_memory.__file__).parent / "cli" / "demo" / "conversation.json"

# In two parts each, so that no scanner takes this file for a leak; none of them was ever anybody's.
LETTERS = "x7Gd93kLmPq2RsTuVwXyZ1aB4cDe5FgH6iJk"
KNOWN = {
    "AWS access key": ["AKIA" + "Q3EGRZ5NXYW7PLM2"],
    "GitHub token": ["ghp_" + LETTERS, "github_pat_" + "11ABCDEFG0" + LETTERS + "_" + LETTERS],
    "Slack token": ["xoxb-" + "2847562910-4829104756-aBcDeFgHiJkLmNoPqRsTuVwX", "xapp-1-" + "A012-345-6f7a8b"],
    "Stripe key": ["sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc", "rk_test_" + LETTERS * 3],
    "JSON web token": [
        "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0.SflKxwRJSMeKKF2QT4fwpMeJf36POk6yJV_adQssw5c"
    ],
    "API key": [
        "sk-" + LETTERS + "T3BlbkFJ" + LETTERS,
        "sk-proj-" + LETTERS,
        "sk-ant-api03-" + LETTERS * 2 + "-AA",
        "gsk_" + LETTERS,
        "xai-" + LETTERS * 2,
    ],
    "Google API key": ["AIza" + "SyD8aB3dE5fG7hI9jK1lM3nO5pQ7rS9tU1v"],
    "GitLab token": ["glpat-" + "aB3dE5fG7hI9jK1lM3nO"],
    "npm token": ["npm_" + LETTERS],
    "Hugging Face token": ["hf_" + LETTERS[:34]],
    "private key": [
        "-----BEGIN RSA PRIVATE" + " KEY-----\nMIIEowIBAAKCAQEAy8Dbv8prpJ/0kKhlGeJY\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE"
        + " KEY-----\\nMIIEowIBAAKCAQEAy8Dbv8prpJ\\n-----END PRIVATE KEY-----\\n".removesuffix("\\n"),
        "-----BEGIN OPENSSH PRIVATE" + " KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAE",
    ],
    "Google access token": ["ya29." + "a0AfH6SMB" + LETTERS + "_" + LETTERS],
    "Google client secret": ["GOCSPX-" + LETTERS[:28]],
    "card number": [
        "4111111111111111",
        "4111 1111 1111 1111",
        "5555-5555-5555-4444",
        "3782 822463 10005",
        "30569309025904",
        "6011000990139424",
        "4222222222222",
    ],
}
SECRETS = [(kind, secret) for kind in KNOWN for secret in KNOWN[kind]]

ASSIGNED = {
    "my password: hunter2, ok?": "my password: [secret], ok?",
    "Password: swordfish": "Password: [secret]",
    "my password is hunter2": "my password is [secret]",
    "Passwort: geheim\nund weiter": "Passwort: [secret]\nund weiter",
    "DB_PASSWORD=s3cr3t!pass": "DB_PASSWORD=[secret]",
    '{"password": "correct horse", "user": "ana"}': '{"password": "[secret]", "user": "ana"}',
    "config['api_key'] = 'abcdef'": "config['api_key'] = '[secret]'",
    "aws_secret_access_key = wJalrXUtnFEMIK7MDENGbPxRfiCYzXq81Lm0pQ": "aws_secret_access_key = [secret]",
    "https://example.com/?token=abc123&page=2": "https://example.com/?token=[secret]&page=2",
    "postgres://ana:s3cr3tPW@db.example.com/x": "postgres://ana:[password]@db.example.com/x",
    "Password: one1 and pwd: two2": "Password: [secret] and pwd: [secret]",
    "user ana pw: swordfish": "user ana pw: [secret]",
    "PW: hunter2, ok?": "PW: [secret], ok?",
    "Authorization: Bearer swordfish": "Authorization: Bearer [secret]",
    "-H 'authorization: Basic YW5hOmh1bnRlcjI='": "-H 'authorization: Basic [secret]'",
    '{"Authorization": "Bearer 9f.8e-7d"}': '{"Authorization": "Bearer [secret]"}',
    "send Bearer 8f2c19ab8f2c19ab8f2c with it": "send Bearer [secret] with it",
    "send Basic YW5hOmh1bnRlcjI= with it": "send Basic [secret] with it",
    "<password>correct horse</password>": "<password>[secret]</password>",
    '<db:api_key env="test"> abcdef </db:api_key>': '<db:api_key env="test"> [secret] </db:api_key>',
    '<input type="password" name="p" value="hunter">': '<input type="password" name="p" value="[secret]">',
    r'"{\"password\": \"correct horse\", \"n\": 1}"': r'"{\"password\": \"[secret]\", \"n\": 1}"',
    r'"{\\\"token\\\": \\\"8f2c19ab\\\"}"': r'"{\\\"token\\\": \\\"[secret]\\\"}"',
    f"token: {'a1' * 5_000} and more": "token: [secret] and more",
}

HIDDEN = {
    "my pass\u200bword: hun\u200bter2, ok?": "my pass\u200bword: [secret], ok?",
    "my pass\u00adword: hunter2\u200d, ok?": "my pass\u00adword: [secret]\u200d, ok?",
    "ｐａｓｓｗｏｒｄ：ｈｕｎｔｅｒ２　ok": "ｐａｓｓｗｏｒｄ：[secret]　ok",
    "４１１１ １１１１ １１１１ １１１１": "[card number]",
    "4111\u200b 1111\u00a01111\u00ad 1111 \U0001f436": "[card number] \U0001f436",
    "\ufeffgh\u2060p_" + LETTERS + "\u200e": "\ufeff[GitHub token]\u200e",
}

PROSE = [
    "I forgot my password: can you help?",
    "The password is 12 characters long and case-sensitive.",
    "The secret: patience. The secret is COVID-19-related.",
    "Tokens: 2 per person; secret: 100% wool.",
    "Call +49 30 12345678901 or 0171 1234567 or (555) 123-4567.",
    "It costs 1.299,00 EUR or $1,234,567.89 on 2025-01-14 18:02:10.",
    "Order 4000123456789012, invoice 2025-000123, ISBN 9783161484100, at 1700000000000 ms.",
    "The years 2025 2026 2027 2028, and 10 20 30 40 50 60 70 80.",
    "The task-based, risk-adjusted desk-side sk-learn tutorial is at https://example.com/sk-how-to-do-all-of-this-now",
    "A key has a header like -----BEGIN PRIVATE KEY----- and an end.",
    "550e8400-e29b-41d4-a716-446655440000 and da39a3ee5e6b4b0d3255bfef95601890afd80709",
    "IBAN DE89 3704 0044 0532 0130 00",
    "We need Basic Instinct, basic English and Bearer bonds; the bearer of-this-long-and-boring-letter may enter.",
    "The Authorization header carries a Bearer token; Basic authentication is older. PW Warszawa: 3 km.",
    "Write <password> or <token></token> there, then <b>the password is in the safe</b>.",
    "Le mot de passe est oublié. Mein Passwort ist schon wieder weg, sagt Jürgen\u00adMeier.",
    "Секрет: терпение. Пароль я забыл, а токен потерял.",
    "我忘记了密码：怎么办？「パスワード」は秘密です。ＡＢＣ１２３，４５６７。",
    "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \u0631\u0645\u0632 \u0631\u0627 "
    "\u0628\u06af\u0648\u06cc\u0645. \U0001f469\u200d\U0001f4bb",
    "",
]


def turn(text: str, id: str = "t1") -> Turn:
    return Turn(id, author="user", text=text, at=NOW, seq=3)


def test_a_secret_leaves_its_kind_behind(subtests: pytest.Subtests) -> None:
    for kind, secret in SECRETS:
        for around in ["{}", "It is {}, keep it.", "({})", "here:\n{}\nthanks", "\u201c{}\u201d", "key {}."]:
            with subtests.test(around=around, kind=kind, secret=secret):
                assert remove_secrets(around.format(secret)) == around.format(f"[{kind}]")


def test_what_is_called_a_password_goes(subtests: pytest.Subtests) -> None:
    for told, kept in ASSIGNED.items():
        with subtests.test(told=told, kept=kept):
            assert remove_secrets(told) == kept


def test_characters_nobody_sees_and_full_width_letters_hide_no_secret(subtests: pytest.Subtests) -> None:
    for told, kept in HIDDEN.items():
        with subtests.test(told=told, kept=kept):
            assert remove_secrets(told) == kept
            assert remove_secrets(kept) == kept


def test_pages_of_prose_stay(subtests: pytest.Subtests) -> None:
    for page in ["ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"]:
        with subtests.test(page=page):
            lines = (ROOT / page).read_text("utf-8").splitlines()
            assert [line for line in lines if remove_secrets(line) != line] == []


def test_prose_and_numbers_stay(subtests: pytest.Subtests) -> None:
    for text in PROSE:
        with subtests.test(text=text):
            assert remove_secrets(text) == text


def test_no_turn_of_the_demo_is_touched():
    texts = [turn["text"] for session in json.loads(DEMO.read_text("utf-8"))["sessions"] for turn in session["turns"]]
    assert len(texts) > 100
    assert [text for text in texts if remove_secrets(text) != text] == []


PIECES = st.sampled_from(
    [secret for secrets in KNOWN.values() for secret in secrets]
    + [
        *ASSIGNED,
        *HIDDEN,
        *PROSE,
        *(f"[{kind}]" for kind in KNOWN),
        "[secret]",
        " ",
        "password",
        ": ",
        "=",
        '"',
        "\n",
        "-",
        "4",
    ]
)


@given(st.lists(PIECES | st.text(max_size=8), max_size=8).map("".join))
def test_redacting_twice_changes_nothing_more(text):
    once = remove_secrets(text)
    assert remove_secrets(once) == once


BAD = (
    *("-----BEGIN PRIVATE KEY-----", "sk-", "sk-A1", "eyJ", "eyJaaaaaa.", "://", "://a:", "4111 ", "1", "_", "a_"),
    *("password", "password: ", "password:", "password=", "password is ", "password:a", 'password: "', "passw_", "pw:"),
    *("token:", "token: a", "token=", "token:a1", "xoxb-1-", "AKIA", ".a", "ghp_", "ya29.", "GOCSPX-", "gsk_", "xai-"),
    *("Bearer ", "Bearer a", "Basic A", "Authorization: Basic ", "<password>", "<password ", "type=password ", "\\"),
    *("\u200b", "ｔｏｋｅｎ：", '\\"token\\": '),
)


@pytest.mark.slow
def test_a_longer_text_takes_longer_by_as_much(subtests: pytest.Subtests) -> None:
    def redact(text: str) -> None:
        remove_secrets(f"{text} x {text}")

    for bad in BAD:
        with subtests.test(bad=bad):
            assert_linear(lambda count, bad=bad: redact(bad * count), 32_000 // len(bad))  # type: ignore[misc]


def test_threads_do_not_disturb_each_other():
    texts = [
        f"{n} {secret} my password: hunter{n}" for n in range(20) for secrets in KNOWN.values() for secret in secrets
    ]
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(remove_secrets, texts)) == [remove_secrets(text) for text in texts]


def test_nobody_is_asked_whether_a_secret_works(monkeypatch):
    def refused(*_: object, **__: object) -> None:
        raise AssertionError("a connection was opened")

    monkeypatch.setattr(socket.socket, "connect", refused)
    monkeypatch.setattr(socket, "getaddrinfo", refused)
    assert remove_secrets(" ".join(secret for secrets in KNOWN.values() for secret in secrets)).count("[") > 10


async def test_turns_keep_all_but_their_text():
    [first, second] = await Redactor("secrets").redact_turns([turn("my password: hunter2"), turn("I keep bees.", "t2")])
    assert first == turn("my password: [secret]")
    assert second == turn("I keep bees.", "t2")
    assert first.text_key == turn("my password: [secret]").text_key


async def test_statements_and_metadata_are_redacted_however_deep():
    @dataclass
    class Note:
        text: str

    metadata = {"n": 1, "deep": [{"x": "bob"}, ("bob", None, True)], "bob": "bob", "note": Note("bob"), "at": NOW}
    statement = Statement("bob came", at=NOW, author="bob", id="s", metadata=metadata)
    [redacted] = await Redactor(lambda text: text.replace("bob", "[name]")).redact_statements([statement])
    assert (redacted.text, redacted.id, redacted.author, redacted.at) == ("[name] came", "s", "bob", NOW)
    assert redacted.metadata == {
        "n": 1,
        "deep": [{"x": "[name]"}, ["[name]", None, True]],
        "bob": "[name]",
        "note": {"text": "[name]"},
        "at": "2025-05-01T12:00:00Z",
    }


async def test_without_a_choice_everything_is_handed_on_as_it_is():
    redactor, turns, metadata = Redactor(None), [turn("my password: hunter2")], {"x": "hunter2"}
    assert await redactor.redact_turns(turns) is turns
    assert await redactor.redact_metadata(metadata) is metadata
    assert await redactor.redact_text("password=hunter2") == "password=hunter2"
    assert redactor.redact_function is None


async def test_a_turn_of_which_nothing_is_left_says_so():
    redactor = Redactor(lambda text: "")
    assert [redacted_turn.text for redacted_turn in await redactor.redact_turns([turn("all of it"), turn("")])] == [
        REDACTED_PLACEHOLDER,
        "",
    ]


async def test_a_redaction_that_raises_is_named_and_does_not_give_the_text_away():
    def careful(text: str) -> str:
        raise ValueError(f"cannot read {text}")

    with pytest.raises(errors.RedactionFailed, match=r"careful failed.*raised ValueError") as caught:
        await Redactor(careful).redact_turns([turn("hunter2")])
    assert "hunter2" not in str(caught.value)
    assert isinstance(caught.value.__cause__, ValueError)


async def test_a_redaction_that_gives_no_text_is_named():
    with pytest.raises(errors.RedactionFailed, match="returned NoneType, not text"):
        await Redactor(lambda text: None).redact_text("x")  # type: ignore[arg-type,return-value]


async def test_a_slow_redaction_does_not_stop_the_loop():
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.01)
            ticks += 1

    ticking = asyncio.create_task(tick())
    await Redactor(lambda text: time.sleep(0.2) or text).redact_text("x")
    ticking.cancel()
    assert ticks >= 3


def test_a_secret_is_found_wherever_a_long_text_is_cut(subtests: pytest.Subtests, monkeypatch) -> None:
    monkeypatch.setattr(redaction, "_CHUNK_SIZE", 300)
    for place in range(260, 303):
        with subtests.test(place=place):
            filler = ("bee " * place)[: place - 1] + " "
            assert remove_secrets(f"{filler}password: hunter2 {filler}") == f"{filler}password: [secret] {filler}"


def test_no_search_goes_through_all_of_a_long_text():
    class Counted:
        searched = 0

        def search(self, text, start, end):
            self.searched = max(self.searched, min(end, len(text)) - start)
            return re.compile("bees").search(text, start, end)

    pattern, text = Counted(), "I keep bees and wasps. " * 20_000
    spans = [match.span() for match in search_in_chunks(pattern, text)]
    assert spans == [match.span() for match in re.finditer("bees", text)]
    assert pattern.searched <= _CHUNK_SIZE + _CHUNK_OVERLAP < len(text)


def test_an_unknown_redaction_is_refused():
    with pytest.raises(errors.ConfigurationError, match='neither "secrets" nor a function'):
        Redactor("secret")  # type: ignore[arg-type]


def test_a_missing_library_names_the_extra(subtests: pytest.Subtests, monkeypatch) -> None:
    for module in ["detect_secrets.plugins", "pydantic_extra_types.payment"]:
        with subtests.test(module=module):
            load_detectors.cache_clear()
            monkeypatch.setitem(sys.modules, module, None)
            with pytest.raises(errors.RedactorMissing, match=r'pip install "adk-graph-memory\[privacy\]"'):
                Redactor("secrets")


def test_it_is_chosen_by_an_argument_or_by_the_setting(monkeypatch):
    assert GraphMemory(settings=Settings()).engine.redactor.redact_function is None
    monkeypatch.setenv("ADK_GRAPH_MEMORY_REDACT", "secrets")
    function = GraphMemory(settings=Settings()).engine.redactor.redact_function
    assert function is not None
    assert function("password=hunter2") == "password=[secret]"
    mine = GraphMemory(settings=Settings(), redact=str.upper).engine.redactor.redact_function
    assert mine is not None
    assert mine("a") == "A"
    monkeypatch.setenv("ADK_GRAPH_MEMORY_REDACT", "everything")
    with pytest.raises(errors.ConfigurationError, match=r"ADK_GRAPH_MEMORY_REDACT|redact"):
        load_settings()
