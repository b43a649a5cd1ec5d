"""What every request passes first: its id, its key, its origin, its kind of body; and its log line.

One ASGI layer around all routes.  A path that is not known to be open needs a key, so that a
new route is never open by accident.  Errors have the shape of the path's API.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Callable, Iterable
from typing import Final

import msgspec
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from helios.keys import Keys
from helios.serve.bodies import MOST_BODY_NBYTES
from helios.serve.journal import ANSWERING, Counted, Entry, Journal, counts_of
from helios.serve.wire import encode, error_of
from helios.values import STATUS, BodyTooLarge, HeliosError, KeyRefused, StartRefused, WrongMedia

Headers = list[tuple[bytes, bytes]]

REQUEST_ID: Final = re.compile(rb"[A-Za-z0-9._:@/+=-]{1,128}")
JSON: Final = re.compile(rb"application/(?:[\w.+-]+\+)?json", re.IGNORECASE)
FORM: Final = b"application/x-www-form-urlencoded"
"""What `curl -d` calls any body; read as JSON too."""

ORIGIN: Final = re.compile(r"[a-z][a-z0-9+.-]*://[a-z0-9.\-_\[\]:]+")
MESSAGES: Final = "/v1/messages"  # and what is under it: Anthropic's API
MOST_PATH: Final = 256  # characters of it in the log
PREFLIGHT_SECONDS: Final = b"600"
EXPOSED: Final = b"x-request-id, retry-after"


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Who may use a server."""

    keys: Keys = msgspec.field(default_factory=Keys)
    open_paths: frozenset[str] = frozenset()  # that need no key
    origins: frozenset[bytes] = frozenset()  # whose pages may; `*` is every one

    def check(self, path: str, head: dict[bytes, bytes]) -> None:
        """Refuse who has no key."""
        if not self.keys or path in self.open_paths:
            return
        scheme, _, bearer = head.get(b"authorization", b"").partition(b" ")
        given = bearer.strip() if scheme.lower() == b"bearer" else head.get(b"x-api-key", b"")
        if not self.keys.opens(given):
            found = "another key" if given else "no key"
            raise KeyRefused(
                f"authorization: found {found}, expected Bearer and a key of this server, "
                "or x-api-key"
            )

    def admits(self, origin: bytes) -> bool:
        """Whether pages of this origin may read answers."""
        return origin in self.origins or b"*" in self.origins


def read_origins(texts: Iterable[str]) -> frozenset[bytes]:
    """Origins as browsers send them, or a refusal that names the option."""
    for text in texts:
        if text != "*" and not ORIGIN.fullmatch(text):
            raise StartRefused(
                f"--cors-origin: found {text!r}, expected an origin such as https://example.org, "
                "without a path, or *"
            )
    return frozenset(text.encode() for text in texts)


class Guard:
    """The layer; an ASGI application around another."""

    def __init__(
        self,
        app: ASGIApp,
        door: Door,
        *,
        journal: Journal | None,
        refused: Callable[[int], None] = lambda _status: None,
    ) -> None:
        self._app, self._door, self._journal, self._refused = app, door, journal, refused

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = time.monotonic()
        head = dict(scope["headers"])
        request_id = request_id_of(head)
        extra = [(b"x-request-id", request_id), *self._cors(head)]
        status: int | None = None

        async def sending(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), *extra]
            await send(message)

        answers: list[Counted] = []
        token = ANSWERING.set(answers)
        try:
            await self._serve(scope, head, receive, sending)
        finally:
            ANSWERING.reset(token)
            if self._journal is not None:
                self._journal.add(entry_of(scope, request_id, status, began, answers))

    async def _serve(
        self, scope: Scope, head: dict[bytes, bytes], receive: Receive, send: Send
    ) -> None:
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in head:
            await preflight(send, admitted=self._door.admits(head.get(b"origin", b"")))
            return
        try:
            self._door.check(scope["path"], head)
            if scope["method"] == "POST":
                check_body(head)
        except HeliosError as error:
            self._refused(STATUS[type(error)])
            await refuse(error, scope["path"], send)
            return
        await self._app(scope, receive, send)

    def _cors(self, head: dict[bytes, bytes]) -> Headers:
        """What lets a page of another origin read the answer; nothing if none is admitted."""
        if not self._door.origins:
            return []
        origin = head.get(b"origin", b"")
        vary = (b"vary", b"origin")
        if not origin or not self._door.admits(origin):
            return [vary]
        return [
            (b"access-control-allow-origin", origin),
            (b"access-control-expose-headers", EXPOSED),
            vary,
        ]


def request_id_of(head: dict[bytes, bytes]) -> bytes:
    """The client's id if it is one, else one of ours."""
    given = head.get(b"x-request-id")
    if given is not None and REQUEST_ID.fullmatch(given):
        return given
    return b"req_" + secrets.token_hex(12).encode()


def check_body(head: dict[bytes, bytes]) -> None:
    """Refuse a body that says itself that it is no JSON, or too large."""
    said = head.get(b"content-type", b"")
    kind = said.partition(b";")[0].strip()
    if kind and kind.lower() != FORM and not JSON.fullmatch(kind):
        raise WrongMedia(
            "content-type", repr(said.decode("latin-1")), expected="'application/json'"
        )
    coding = head.get(b"content-encoding", b"identity").lower()
    if coding != b"identity":
        raise WrongMedia(
            "content-encoding", repr(coding.decode("latin-1")), expected="none: JSON as it is"
        )
    length = head.get(b"content-length", b"")
    if length.isdigit() and int(length[:20]) > MOST_BODY_NBYTES:
        raise BodyTooLarge(
            "content-length", f"over {MOST_BODY_NBYTES} bytes", expected="a smaller body"
        )


def entry_of(
    scope: Scope, request_id: bytes, status: int | None, began: float, answers: list[Counted]
) -> Entry:
    """The log's line."""
    prompt, completion = counts_of(answers)
    seconds = time.monotonic() - began
    return Entry(
        time=round(time.time() - seconds, 3),
        method=scope["method"],
        path=scope["path"][:MOST_PATH],
        status=status,
        milliseconds=round(seconds * 1e3, 3),
        request_id=request_id.decode(),
        prompt_tokens=prompt,
        completion_tokens=completion,
    )


# ---------------------------------------------------------------- answers


async def preflight(send: Send, *, admitted: bool) -> None:
    """Whether a page of another origin may ask at all."""
    headers: Headers = []
    if admitted:
        headers = [
            (b"access-control-allow-methods", b"GET, POST, OPTIONS"),
            (b"access-control-allow-headers", b"*, authorization"),
            (b"access-control-max-age", PREFLIGHT_SECONDS),
        ]
    await send(
        {"type": "http.response.start", "status": 204 if admitted else 403, "headers": headers}
    )
    await send({"type": "http.response.body", "body": b""})


async def refuse(error: HeliosError, path: str, send: Send) -> None:
    """An error in the shape of the path's API."""
    status = STATUS[type(error)]
    headers = [(b"content-type", b"application/json")]
    if isinstance(error, KeyRefused):
        headers.append((b"www-authenticate", b"Bearer"))
    body = encode(error_at(path, error, status=status))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


def error_at(path: str, error: HeliosError, *, status: int) -> object:
    """Anthropic's shape under its path, OpenAI's elsewhere."""
    if path != MESSAGES and not path.startswith(f"{MESSAGES}/"):
        return error_of(error, status=status)
    kinds = {401: "authentication_error", 413: "request_too_large"}
    kind = kinds.get(status, "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": str(error)}}
