"""Every route of the server, as one ASGI application."""

from __future__ import annotations

import asyncio
import gzip
import time
from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Final

from starlette.applications import Starlette
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from helios.serve.chat import ChatFormat
from helios.serve.completions import CompletionFormat
from helios.serve.messages import CountFormat, MessageFormat
from helios.serve.openapi import document, open_paths
from helios.serve.responses import ResponseFormat
from helios.serve.route import Format, Service
from helios.serve.route import Route as Generating
from helios.serve.texts import TextFormat, apply_template, detokenize, input_tokens, tokenize
from helios.serve.wire import KINDS, encode

PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}

PAGE_FILES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "announcer.js": "text/javascript; charset=utf-8",
    "answer.js": "text/javascript; charset=utf-8",
    "bottom.js": "text/javascript; charset=utf-8",
    "calls.js": "text/javascript; charset=utf-8",
    "conversation.js": "text/javascript; charset=utf-8",
    "events.js": "text/javascript; charset=utf-8",
    "heat.js": "text/javascript; charset=utf-8",
    "live.js": "text/javascript; charset=utf-8",
    "markup.js": "text/javascript; charset=utf-8",
    "metrics.js": "text/javascript; charset=utf-8",
    "pretty.js": "text/javascript; charset=utf-8",
    "server.js": "text/javascript; charset=utf-8",
    "settings.js": "text/javascript; charset=utf-8",
    "thought.js": "text/javascript; charset=utf-8",
    "thread.js": "text/javascript; charset=utf-8",
}


def json_response(value: object, *, status: int = 200) -> Response:
    """A JSON response."""
    return Response(encode(value), status_code=status, media_type="application/json")


def state_response(problem: str | None) -> Response:
    """200 when there is no problem, else 503 that names it."""
    if problem is None:
        return json_response({"status": "ok"})
    return json_response({"status": "unavailable", "problem": problem}, status=503)


class Application:
    """Every path; generating ones go past the layers that would do nothing for their tokens."""

    def __init__(self, generating: Mapping[str, ASGIApp], routes: list[Route]) -> None:
        posts = [Route(path, app, methods=["POST"]) for path, app in generating.items()]
        self.routes: Final = [*posts, *routes]
        handlers = {404: not_found, 405: not_allowed, Exception: broken}
        self._others = Starlette(routes=self.routes, exception_handlers=handlers)
        self._generating = {
            path: ServerErrorMiddleware(app, handler=broken) for path, app in generating.items()
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        app = self._generating.get(scope["path"]) if scope["method"] == "POST" else None
        await (app or self._others)(scope, receive, send)


def build_app(service: Service) -> Application:
    """The application."""
    front = service.front

    async def health(_request: Request) -> Response:
        return state_response(front.problem)

    async def ready(_request: Request) -> Response:
        draining = "the server is shutting down" if front.draining else None
        return state_response(front.problem or draining)

    async def metrics(_request: Request) -> Response:
        return Response(front.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    formats: dict[str, Format] = {
        "/v1/chat/completions": ChatFormat(service),
        "/v1/completions": CompletionFormat(service),
        "/v1/responses": ResponseFormat(service),
        "/v1/messages": MessageFormat(service),
        "/v1/messages/count_tokens": CountFormat(service),
    }
    routes = [
        *model_routes(service),
        *text_routes(service),
        Route("/version", version),
        Route("/openapi.json", openapi),
        Route("/health", health),
        Route("/ready", ready),
        Route("/metrics", metrics),
        *page_routes(),
    ]
    return Application({path: Generating(service, form) for path, form in formats.items()}, routes)


def model_routes(service: Service) -> list[Route]:
    """The served model by each of its names."""
    created = int(time.time())

    def described(name: str) -> dict[str, object]:
        return {
            "id": name,
            "object": "model",
            "created": created,
            "owned_by": "helios",
            "context_tokens": service.frontend.context_tokens,
        }

    async def models(_request: Request) -> Response:
        names = service.served_names()
        return json_response({"object": "list", "data": [described(name) for name in names]})

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        if name in service.names:
            return json_response(described(name))
        return problem(request, 404, f"expected one of {service.served_names()}")

    return [Route("/v1/models", models), Route("/v1/models/{name:path}", model)]


def text_routes(service: Service) -> list[Route]:
    """Routes about text and tokens, without generating."""
    works = {
        "/tokenize": tokenize,
        "/detokenize": detokenize,
        "/apply-template": apply_template,
        "/v1/chat/completions/input_tokens": input_tokens,
    }
    return [
        Route(path, Generating(service, TextFormat(service, work)), methods=["POST"])
        for path, work in works.items()
    ]


async def version(_request: Request) -> Response:
    """The server's version."""
    return json_response({"version": package_version()})


async def openapi(_request: Request) -> Response:
    """The OpenAPI document."""
    return Response(await asyncio.to_thread(openapi_bytes), media_type="application/json")


@cache
def package_version() -> str:
    """Of the package that is installed."""
    from importlib import metadata  # noqa: PLC0415 - slow, and nothing of a start wants it

    return metadata.version("helios-ignition")


@cache
def openapi_bytes() -> bytes:
    """The document, made when it is first asked for."""
    return encode(document(version=package_version(), pages=page_paths()))


def page_paths() -> dict[str, str]:
    """Paths of the page's files, with their media types."""
    return {"/" if name == "index.html" else f"/{name}": kind for name, kind in PAGE_FILES.items()}


def paths_without_key() -> frozenset[str]:
    """What is open to everybody: the page's files, and whether the server is there."""
    return open_paths() | page_paths().keys()


def page_routes() -> list[Route]:
    """The page's files, read once."""
    folder = files("helios.serve") / "page"
    routes = []
    for name, media_type in PAGE_FILES.items():
        content = (folder / name).read_bytes()
        path = "/" if name == "index.html" else f"/{name}"
        routes.append(Route(path, page_route(content, media_type)))
    return routes


def page_route(content: bytes, media_type: str):  # type: ignore[no-untyped-def]  # noqa: ANN201
    """A route that serves fixed bytes, compressed for whoever takes that."""
    packed = gzip.compress(content, mtime=0)

    async def page(request: Request) -> Response:
        taken = request.headers.get("accept-encoding", "").split(",")
        headers = {**PAGE_HEADERS, "vary": "accept-encoding"}
        if "gzip" not in (coding.strip() for coding in taken):
            return Response(content, media_type=media_type, headers=headers)
        headers["content-encoding"] = "gzip"
        return Response(packed, media_type=media_type, headers=headers)

    return page


async def not_found(request: Request, _error: Exception) -> Response:
    """No such route."""
    return problem(request, 404, "expected a path that docs/api.md lists")


async def not_allowed(request: Request, _error: Exception) -> Response:
    """Wrong method."""
    return problem(request, 405, f"found {request.method}, which this path does not take")


async def broken(request: Request, _error: Exception) -> Response:
    """Our own bug: the log has it, the client has not."""
    return problem(request, 500, "the server failed; its log says more")


def problem(request: Request, status: int, sentence: str) -> Response:
    """An error about the path itself, in the API's shape."""
    return json_response(
        {
            "error": {
                "message": f"{request.url.path}: {sentence}",
                "type": KINDS.get(status, "server_error"),
                "param": None,
                "code": status,
            }
        },
        status=status,
    )
