"""Counts, gauges and times, fed with what the worker reports; no label names a request (TO-45).

Buckets of times are those that operators' dashboards already have.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Final

from prometheus_client import CollectorRegistry, Gauge, generate_latest
from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from helios.mailbox import Begun, Gauges, News, Ready, Round, Step, Totals
from helios.rounds import Finish
from helios.serve.gate import Gate

FIRST_TOKEN_SECONDS: Final = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
TOKEN_GAP_SECONDS: Final = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
REQUEST_SECONDS: Final = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
HOST_SECONDS: Final = (
    *(0.00005, 0.0001, 0.0002, 0.0003, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1),
)

OUTCOMES: Final = {
    Finish.END_OF_SEQUENCE: "finished",
    Finish.OUTPUT_LIMIT: "finished",
    Finish.STOPPED: "finished",
    Finish.CANCELLED: "cancelled",
    Finish.REJECTED: "failed",
    Finish.FAILED: "failed",
}
"""Every started request ends as exactly one of these: started = finished + cancelled + failed."""


class Count(Collector):
    """A counter, in all or by one label; one event loop writes it, so that it needs no lock."""

    def __init__(self, name: str, text: str, label: str | None = None) -> None:
        self._name, self._text, self._label = name, text, label
        self._counts: dict[str, int] = defaultdict(int, {} if label else {"": 0})

    def add(self, amount: int = 1, *, of: str = "") -> None:
        """So many more, of what the label says.  # hot"""
        self._counts[of] += amount

    def set(self, amount: int) -> None:
        """So many in all, counted elsewhere."""
        self._counts[""] = amount

    def collect(self) -> Iterator[CounterMetricFamily]:
        """See `Collector`."""
        labels = [] if self._label is None else [self._label]
        family = CounterMetricFamily(self._name, self._text, labels=labels)
        for of, amount in self._counts.items():
            family.add_metric([of] if labels else [], amount)
        yield family


class Times(Collector):
    """A histogram of seconds, fed with nanoseconds; one event loop writes it, as `Count`."""

    def __init__(self, name: str, text: str, bounds: Sequence[float]) -> None:
        self._name, self._text, self._bounds = name, text, tuple(bounds)
        self._bounds_ns = tuple(round(bound * 1e9) for bound in bounds)
        self._counts = [0] * (len(bounds) + 1)  # up to each bound from the one before; the rest
        self._sum_ns = 0

    def observe(self, nanoseconds: int, times: int = 1) -> None:
        """So many took so long together.  # hot"""
        self._counts[bisect_left(self._bounds_ns, nanoseconds / times)] += times
        self._sum_ns += nanoseconds

    def collect(self) -> Iterator[HistogramMetricFamily]:
        """See `Collector`."""
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        buckets = list(zip(bounds, accumulate(self._counts), strict=True))
        yield HistogramMetricFamily(
            self._name, self._text, buckets=buckets, sum_value=self._sum_ns / 1e9
        )


class Metrics:
    """What `/metrics` shows; one writer, the front's event loop."""

    def __init__(self, gate: Gate) -> None:
        self.registry = CollectorRegistry()
        self._gate = gate
        self._totals, self._gauges = Totals(), Gauges(0, 0, 0)
        self._lifecycle()
        self._work()
        self._cache()
        self._capacity()
        self._times()

    def _lifecycle(self) -> None:
        counter = self._counter
        self.started = counter("flare_requests_started", "Requests handed to the model.")
        self.outcomes = {
            "finished": counter("flare_requests_finished", "Requests answered to their end."),
            "cancelled": counter("flare_requests_cancelled", "Requests whose client left."),
            "failed": counter("flare_requests_failed", "Requests that ended with an error."),
        }
        self.ended = counter("flare_requests_ended", "Requests by how they ended.", "ending")
        self.refused = counter(
            "flare_requests_refused", "Requests refused before the model, by status.", "status"
        )

    def _work(self) -> None:
        counter = self._counter
        self.prompt_tokens = counter("flare_prompt_tokens", "Prompt tokens fed to the model.")
        self.output_tokens = counter("flare_output_tokens", "Tokens emitted.")
        self.launches = counter(
            "flare_graph_launches", "Programs that finished, by operation.", "operation"
        )
        self.mixed_grammar = counter(
            "flare_mixed_grammar_decode_steps",
            "Decode submissions with both constrained and unconstrained lanes.",
        )
        self.constrained_most = self._gauge(
            "flare_constrained_max_inflight",
            "Most frames in flight right after a constrained submission.",
        )
        self.preempted = counter("flare_preemptions", "Lanes that gave way to older ones.")

    def _cache(self) -> None:
        counter = self._counter
        self.lookups = counter(
            "flare_prefix_lookups", "Requests by why reuse went no further.", "stop"
        )
        self.reused = counter("flare_prefix_reused_tokens", "Prompt tokens not computed again.")
        self.asked = counter("flare_prefix_asked_tokens", "Prompt tokens that could be reused.")
        self.restored = counter("flare_readmissions", "Preempted requests that came back.")
        self.published = counter("flare_snapshot_publications", "Continuation rows published.")
        self.evicted = counter("flare_prefix_evictions", "Entries that made room for others.")
        self.spilled = counter("flare_host_pages_saved", "Pages copied to host memory.")
        self.loaded = counter("flare_host_pages_loaded", "Pages copied back from host memory.")

    def _capacity(self) -> None:
        gauge = self._gauge
        self.lanes = gauge("flare_lanes_active", "Requests that hold a slot.")
        self.waiting = gauge("flare_requests_waiting", "Requests that wait for a slot.")
        self.pages = gauge("flare_cache_pages", "Cache pages.")
        self.free_pages = gauge("flare_cache_pages_free", "Cache pages that nobody holds.")
        self.idle_pages = gauge("flare_cache_pages_idle", "Cache pages kept only for reuse.")
        self.rows = gauge("flare_snapshot_rows", "Continuation rows.")
        self.free_rows = gauge("flare_snapshot_rows_free", "Continuation rows nobody holds.")
        self.idle_rows = gauge("flare_snapshot_rows_idle", "Continuation rows kept for reuse.")
        self.slots = gauge("flare_slots", "Request slots.")
        self.permits = gauge("flare_permits", "Requests that may be inside at once.")
        self.held = gauge("flare_permits_held", "Requests that are inside.")

    def _times(self) -> None:
        self._first_token = self._histogram(
            "flare_time_to_first_token_seconds", "From enqueueing.", FIRST_TOKEN_SECONDS
        )
        self._token_gap = self._histogram(
            "flare_inter_token_seconds", "Between tokens of a request.", TOKEN_GAP_SECONDS
        )
        self._whole = self._histogram(
            "flare_request_seconds", "From enqueueing to the last token.", REQUEST_SECONDS
        )
        self._queued = self._histogram(
            "flare_queue_seconds", "From enqueueing to a slot.", REQUEST_SECONDS
        )
        self._host = self._histogram(
            "flare_round_host_seconds", "Planning and packing a round.", HOST_SECONDS
        )
        self._gap = self._histogram(
            "flare_frame_gap_seconds", "The device waited for a round.", HOST_SECONDS
        )
        self._device = self._histogram(
            "flare_round_device_seconds", "The device ran a round.", TOKEN_GAP_SECONDS
        )

    def _counter(self, name: str, text: str, label: str | None = None) -> Count:
        made = Count(name, text, label)
        self.registry.register(made)
        return made

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(name, text, registry=self.registry)

    def _histogram(self, name: str, text: str, bounds: Sequence[float]) -> Times:
        made = Times(name, text, bounds)
        self.registry.register(made)
        return made

    # -------------------------------------------------------------- feeding

    def ready(self, ready: Ready) -> None:
        """The model is loaded."""
        self.pages.set(ready.pages)
        self.rows.set(ready.snapshots)
        self.slots.set(ready.slots)
        self.permits.set(self._gate.permits)
        self._gauges = Gauges(0, 0, ready.pages, free_rows=ready.snapshots)
        for ending in Finish:
            self.ended.add(0, of=ending.value)

    def round(self, told: Round) -> None:
        """A round was reported."""
        for step in told.steps:
            self._step(step)
        for begun in told.begun:
            self._begun(begun)
        tokens = 0
        for news in told.news:
            tokens += len(news.tokens)
            if isinstance(news, News) and news.finish is not None:
                self._end(news.finish)
        self.output_tokens.add(tokens)
        self._totals, self._gauges = told.totals, told.gauges

    def _step(self, step: Step) -> None:
        self.launches.add(of=step.operation)
        self.prompt_tokens.add(step.prompt_tokens)
        decodes = step.operation in ("decode", "mixed")
        if decodes and 0 < step.constrained < step.lanes:
            self.mixed_grammar.add()
        self._host.observe(step.host_ns)
        self._gap.observe(step.gap_ns)
        self._device.observe(step.device_ns)

    def _begun(self, begun: Begun) -> None:
        if begun.again:  # its own work found again is no hit of the cache's
            self.restored.add()
            return
        self.lookups.add(of=begun.stop)
        self.reused.add(begun.reused)
        self.asked.add(begun.asked)
        self._queued.observe(begun.waited_ns)

    def _end(self, finish: Finish) -> None:
        self.ended.add(of=finish.value)
        self.outcomes[OUTCOMES[finish]].add()

    def refuse(self, status: int) -> None:
        """A request was refused, or failed where that could no longer be its status."""
        self.refused.add(of=str(status))

    def lost(self, requests: int) -> None:
        """So many requests ended with the worker."""
        for _ in range(requests):
            self._end(Finish.FAILED)

    def first_token(self, nanoseconds: int) -> None:
        """A request's first token came."""
        self._first_token.observe(nanoseconds)

    def token_gap(self, nanoseconds: int, *, tokens: int) -> None:
        """Tokens came so long after the ones before."""
        self._token_gap.observe(nanoseconds, tokens)

    def whole(self, nanoseconds: int) -> None:
        """A request's last token came."""
        self._whole.observe(nanoseconds)

    # -------------------------------------------------------------- showing

    def text(self) -> bytes:
        """The exposition; what the worker keeps itself is as it said last."""
        self._show_totals()
        self._show_gauges()
        self.held.set(self._gate.held)
        return generate_latest(self.registry)

    def _show_totals(self) -> None:
        totals = self._totals
        self.preempted.set(totals.preempted)
        self.published.set(totals.published)
        self.evicted.set(totals.evicted)
        self.spilled.set(totals.spilled)
        self.loaded.set(totals.loaded)
        self.constrained_most.set(totals.constrained_most_in_flight)

    def _show_gauges(self) -> None:
        gauges = self._gauges
        self.lanes.set(gauges.lanes)
        self.waiting.set(gauges.waiting)
        self.free_pages.set(gauges.free_pages)
        self.idle_pages.set(gauges.idle_pages)
        self.free_rows.set(gauges.free_rows)
        self.idle_rows.set(gauges.idle_rows)
