"""Let only requests in that carry a bearer token, and tell from it whose memory they may use."""

from __future__ import annotations

import asyncio
import hmac
import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Protocol

from adk_graph_memory import errors
from adk_graph_memory.runtime.concurrency import Throttle
from adk_graph_memory.servers.access import Owner

try:
    import jwt
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives import serialization
    from starlette.datastructures import Headers
    from starlette.requests import Request
    from starlette.types import ASGIApp, Receive, Scope, Send

    from adk_graph_memory.servers.problems import make_problem
except ImportError as error:
    raise errors.ExtraMissing(what="A check of tokens", extra="http", reason=error) from error

JWKS_TIMEOUT = 5
"""Seconds."""
SHORTEST_SECRET = 32
"""Characters."""
OWNER_KEY = "adk_graph_memory.owner"
"""Where a request's owner stands in its ASGI scope."""
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA")
"""Signatures with a private key, so that who can check a token cannot make one."""
logger = logging.getLogger(__name__)


class TokenVerifier(Protocol):
    """Tells whose memory a token opens."""

    async def find_owner(self, token: str) -> Owner | None:
        """The app name and the user's id, or None if the token opens nothing."""
        ...


class SecretVerifier:
    """Opens one user's memory, or those of all users of an app, to who knows a secret.

    Raises:
        errors.InvalidArgument: the secret has less than 32 characters.
    """

    def __init__(self, secret: str, owner: Owner) -> None:
        if len(secret) < SHORTEST_SECRET:
            reason = f"a token of less than {SHORTEST_SECRET} characters is no secret: delete its file, or give another"
            raise errors.InvalidArgument(reason=reason)
        self._secret, self._owner = secret.encode(), owner

    async def find_owner(self, token: str) -> Owner | None:
        """Compare the token with the secret, in a time that tells nothing."""
        return self._owner if hmac.compare_digest(token.encode(), self._secret) else None


class JwtVerifier:
    """Opens each user's memory to tokens that your identity provider signed: the claim ``sub`` is the user's id.

    Args:
        app_name: the app of all users.
        key: a file with a public key in PEM, or the address of a JWKS document.
        audience: whom the tokens have to be for.
        issuer: who has to have issued them.

    Raises:
        errors.InvalidArgument: the key cannot be used.
    """

    def __init__(self, app_name: str, key: str, *, audience: str, issuer: str | None = None) -> None:
        self._app_name, self._audience, self._issuer = app_name, audience, issuer
        self._keys = jwt.PyJWKClient(key, timeout=JWKS_TIMEOUT) if key.startswith("https://") else None
        self._fetching = Throttle(1)  # anybody may name a key that has to be fetched
        self._key: Any = None if self._keys else _read_key(key)

    async def find_owner(self, token: str) -> Owner | None:
        """Check signature, expiry, audience and issuer, and return whose memory the subject may use."""
        try:
            async with self._fetching.hold_permit() if self._keys else nullcontext():
                claims = await asyncio.to_thread(self._decode, token)
        except (jwt.PyJWTError, TypeError, ValueError) as error:  # some versions do not tell keys of two kinds apart
            logger.warning("A token was refused: %s", error)
            return None
        subject = claims["sub"]
        return (self._app_name, subject) if isinstance(subject, str) and subject else None

    def _decode(self, token: str) -> dict[str, Any]:
        key = self._keys.get_signing_key_from_jwt(token).key if self._keys else self._key
        claims: dict[str, Any] = jwt.decode(
            token,
            key,
            algorithms=list(ALGORITHMS),
            audience=self._audience,
            issuer=self._issuer,
            options={"require": ["exp", "sub", "aud"]},
        )
        return claims


def _read_key(path: str) -> str:
    try:
        text = Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise errors.InvalidArgument(reason=f"the key {path!r} cannot be read ({error})") from error
    try:
        serialization.load_pem_public_key(text.encode())
    except (ValueError, UnsupportedAlgorithm) as error:
        reason = f"{path!r} holds no public key in PEM (-----BEGIN PUBLIC KEY-----): {error}"
        raise errors.InvalidArgument(reason=reason) from error
    return text


class BearerAccess:
    """Hands requests on with their owner, and answers all others with 401."""

    def __init__(self, app: ASGIApp, verifier: TokenVerifier) -> None:
        self._app, self._verifier = app, verifier

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or hand it on."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scheme, _, token = Headers(scope=scope).get("authorization", "").partition(" ")
        owner = await self._verifier.find_owner(token.strip()) if scheme.lower() == "bearer" else None
        if owner is None:
            response = make_problem(401, "Send a valid token: Authorization: Bearer …", {"WWW-Authenticate": "Bearer"})
            await response(scope, receive, send)
            return
        await self._app({**scope, OWNER_KEY: owner}, receive, send)


def get_owner(request: Request | None) -> Owner | None:
    """Return the owner that :class:`BearerAccess` made out."""
    owner: Owner | None = request.scope.get(OWNER_KEY) if request is not None else None
    return owner
