"""Every route of the server, as one ASGI application."""

from __future__ import annotations

import time
from importlib.resources import files

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from helios.serve.chat import Chat
from helios.serve.front import Front
from helios.serve.wire import encode

PAGE_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}

PAGE_FILES = {
    "index.html": "text/html; charset=utf-8",
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "announcer.js": "text/javascript; charset=utf-8",
    "bottom.js": "text/javascript; charset=utf-8",
    "conversation.js": "text/javascript; charset=utf-8",
    "events.js": "text/javascript; charset=utf-8",
    "markup.js": "text/javascript; charset=utf-8",
    "server.js": "text/javascript; charset=utf-8",
    "thread.js": "text/javascript; charset=utf-8",
}


def json_response(value: object, *, status: int = 200) -> Response:
    """A JSON response."""
    return Response(encode(value), status_code=status, media_type="application/json")


def build_app(front: Front, chat: Chat, *, context_tokens: int) -> Starlette:
    """The application."""
    created = int(time.time())

    async def models(_request: Request) -> Response:
        return json_response(
            {
                "object": "list",
                "data": [
                    {
                        "id": name,
                        "object": "model",
                        "created": created,
                        "owned_by": "helios",
                        "context_tokens": context_tokens,
                    }
                    for name in sorted(chat.names, key=lambda name: (name != chat.model, name))
                ],
            }
        )

    async def health(_request: Request) -> Response:
        healthy = front.healthy
        return json_response(
            {"status": "ok" if healthy else "unavailable"}, status=200 if healthy else 503
        )

    async def metrics(_request: Request) -> Response:
        return Response(front.metrics.text(), media_type="text/plain; version=0.0.4; charset=utf-8")

    routes = [
        Route("/v1/chat/completions", chat, methods=["POST"]),
        Route("/v1/models", models),
        Route("/health", health),
        Route("/metrics", metrics),
        *page_routes(),
    ]
    return Starlette(routes=routes, exception_handlers={404: not_found, 405: not_allowed})


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
    """A route that serves fixed bytes."""

    async def page(_request: Request) -> Response:
        return Response(content, media_type=media_type, headers=PAGE_HEADERS)

    return page


async def not_found(request: Request, _error: Exception) -> Response:
    """No such route."""
    return problem(request, 404, "expected a path that docs/api.md lists")


async def not_allowed(request: Request, _error: Exception) -> Response:
    """Wrong method."""
    return problem(request, 405, f"found {request.method}, which this path does not take")


def problem(request: Request, status: int, sentence: str) -> Response:
    """An error about the path itself, in the API's shape."""
    return json_response(
        {
            "error": {
                "message": f"{request.url.path}: {sentence}",
                "type": "invalid_request_error",
                "param": None,
                "code": status,
            }
        },
        status=status,
    )
