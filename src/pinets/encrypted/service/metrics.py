"""The counters of a service, in the text format of Prometheus. No label tells about a client or an input."""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

__all__ = ["Metrics"]

_SECONDS = (0.1, 0.25, 0.5, 1, 2.5, 5, 10, 25, 60, 150)


class Metrics:
    """The counters of one service; gauges, by name and explanation, are functions that are called for every answer."""

    def __init__(self, gauges: dict[tuple[str, str], Callable[[], float]]) -> None:
        self._registry = CollectorRegistry()
        self.requests = Counter(
            "pinets_requests", "Requests by route and status.", ["route", "status"], registry=self._registry
        )
        self.received = Counter("pinets_received_bytes", "Bytes of bodies received.", registry=self._registry)
        self.sent = Counter("pinets_sent_bytes", "Bytes of encrypted outputs sent.", registry=self._registry)
        self.evaluated = Counter("pinets_evaluated", "Ciphertexts or sets evaluated.", registry=self._registry)
        self.worker_deaths = Counter("pinets_worker_deaths", "Worker processes that ended.", registry=self._registry)
        self.seconds = Histogram(
            "pinets_evaluate_seconds",
            "Time from a whole request to its first output.",
            buckets=_SECONDS,
            registry=self._registry,
        )
        for (name, explanation), function in gauges.items():
            Gauge(name, explanation, registry=self._registry).set_function(function)

    def text(self) -> bytes:
        """All values."""
        return generate_latest(self._registry)
