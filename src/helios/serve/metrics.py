"""Counts and gauges, fed with what the worker reports; no label names a request (TO-45)."""

from __future__ import annotations

from collections.abc import Iterable

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest

from helios.mailbox import Ready, Round
from helios.rounds import Finish
from helios.serve.gate import Gate


class Metrics:
    """What `/metrics` shows; one writer, the front's event loop."""

    def __init__(self, gate: Gate) -> None:
        self.registry = CollectorRegistry()
        self._gate = gate
        counter, gauge = self._counter, self._gauge
        self.started = counter("flare_requests_started", "Requests handed to the model.")
        self.ended = counter("flare_requests_ended", "Requests by how they ended.", ["ending"])
        self.refused = counter(
            "flare_requests_refused", "Requests refused before the model, by status.", ["status"]
        )
        self.prompt_tokens = counter("flare_prompt_tokens", "Prompt tokens fed to the model.")
        self.output_tokens = counter("flare_output_tokens", "Tokens emitted.")
        self.launches = counter(
            "flare_graph_launches", "Programs submitted, by operation.", ["operation"]
        )
        self.preempted = counter("flare_preemptions", "Lanes that gave way to older ones.")
        self.lanes = gauge("flare_lanes_active", "Requests that hold a slot.")
        self.waiting = gauge("flare_requests_waiting", "Requests that wait for a slot.")
        self.free_pages = gauge("flare_cache_pages_free", "Cache pages that nobody holds.")
        self.pages = gauge("flare_cache_pages", "Cache pages.")
        self.slots = gauge("flare_slots", "Request slots.")
        self.permits = gauge("flare_permits", "Requests that may be inside at once.")
        self.held = gauge("flare_permits_held", "Requests that are inside.")

    def _counter(self, name: str, text: str, labels: Iterable[str] = ()) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def ready(self, ready: Ready) -> None:
        """The model is loaded."""
        self.pages.set(ready.pages)
        self.free_pages.set(ready.pages)
        self.slots.set(ready.slots)
        self.permits.set(self._gate.permits)
        for ending in Finish:
            self.ended.labels(ending.value)

    def round(self, told: Round) -> None:
        """A round was reported."""
        for step in told.steps:
            self.launches.labels(step.operation).inc()
            if step.operation == "prefill":
                self.prompt_tokens.inc(step.tokens)
        for news in told.news:
            self.output_tokens.inc(len(news.tokens))
            if news.finish is not None:
                self.ended.labels(news.finish.value).inc()
        self.preempted.inc(told.preempted)
        self.lanes.set(told.gauges.lanes)
        self.waiting.set(told.gauges.waiting)
        self.free_pages.set(told.gauges.free_pages)

    def text(self) -> bytes:
        """The exposition."""
        self.held.set(self._gate.held)
        return generate_latest(self.registry)
