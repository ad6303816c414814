"""Tokens and sessions: who is calling. Knows digests of tokens only, and compares them in constant time.

A tokens file has a line `NAME TOKEN` for each giver of orders; the name stands in `orders.ordered_by`. Invariant: no
token is ever logged, shown twice, or kept where `crawl sql` could read it.
"""

import hashlib
import hmac
import os
import secrets
import stat
import threading
import time
from collections.abc import Mapping
from pathlib import Path

SHORTEST = 16
"""Characters of a token."""
SESSION_S = 12 * 3600
MOST_SESSIONS = 256


class TokenError(Exception):
    """The API has no token that could be used."""


class Tokens:
    """Names by the digest of their token."""

    def __init__(self, tokens: Mapping[str, str]) -> None:
        for name, token in tokens.items():
            _check(name, token)
        self._digests = {name: _digest(token) for name, token in tokens.items()}

    def name_of(self, token: str) -> str | None:
        """Whose token it is; all are compared, whatever one matches."""
        digest, found = _digest(token), None
        for name, known in self._digests.items():
            if hmac.compare_digest(digest, known):
                found = name
        return found


class Sessions:
    """Who has logged in with a browser, by the digest of their cookie; forgotten when the server ends."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[bytes, tuple[str, float]] = {}

    def begin(self, name: str) -> str:
        """A new cookie for this name."""
        cookie = secrets.token_urlsafe(32)
        with self._lock:
            while len(self._known) >= MOST_SESSIONS:
                del self._known[next(iter(self._known))]
            self._known[_digest(cookie)] = (name, time.monotonic() + SESSION_S)
        return cookie

    def name_of(self, cookie: str) -> str | None:
        """Whose cookie it is, if it is still good."""
        with self._lock:
            name, until = self._known.get(_digest(cookie), ("", 0.0))
        return name if time.monotonic() < until else None

    def end(self, cookie: str) -> None:
        """Forget a cookie."""
        with self._lock:
            self._known.pop(_digest(cookie), None)


def read(path: Path) -> Tokens:
    """Read a tokens file that nobody else can read."""
    try:
        if path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise TokenError(f"expected {path} to be readable by its owner alone: chmod 600 {path}")
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as trouble:
        raise TokenError(f"expected a tokens file at {path}, found: {trouble}") from trouble
    given = [line.split() for line in lines if line.strip() and not line.startswith("#")]
    if not given or any(len(words) != 2 for words in given) or len({name for name, _ in given}) < len(given):
        raise TokenError(f"expected lines `NAME TOKEN`, each name once, in {path}")
    return Tokens(dict(given))


def make(path: Path, name: str) -> str:
    """Make a tokens file with one new token, which is given back: it is shown once."""
    token = secrets.token_urlsafe(32)
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(f"# NAME TOKEN: one line for each who may give orders; keep it to yourself\n{name} {token}\n")
    except OSError as trouble:
        raise TokenError(f"expected to write a token to {path}, found: {trouble}") from trouble
    return token


def home() -> Path:
    """Where the tokens file is unless another is named: never in the lake, which is shared and can be read by SQL."""
    return Path(os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config") / "crawl" / "api-tokens"


def _check(name: str, token: str) -> None:
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise TokenError(
            f"expected the token of {name} to be {SHORTEST} printable characters or more: "
            "make one with: python3 -c 'import secrets; print(secrets.token_urlsafe(32))'"
        )
    if not name.isprintable() or len(name) > 100:
        raise TokenError(f"expected a name of at most 100 printable characters, found {name!r}")


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).digest()
