"""The application's routes, without a server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

from starlette.routing import Route

from helios.serve.app import build_app
from helios.serve.route import Service


def some_routes() -> list[Route]:
    """Every route; nothing behind them is ever called."""
    service = Service(
        front=cast(Any, None),
        frontend=cast(Any, None),
        preparers=ThreadPoolExecutor(1),
        model="acme/small",
        names=frozenset({"acme/small"}),
    )
    return build_app(service).routes
