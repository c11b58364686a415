"""Timeline of the streamed feed, from events: times of each batch's copy and of its training."""

from __future__ import annotations

from dataclasses import dataclass

from ...device import Event, Stream
from .feeds import StreamedFeed


@dataclass(frozen=True)
class Span:
    """Times of a batch's copy or computation on the device, in seconds since the first event."""

    step: int
    what: str
    begin: float
    end: float


class Timeline:
    """Recorder of events around the copies and computations of a streamed feed's next steps, until `close`."""

    def __init__(self, feed: StreamedFeed) -> None:
        self.feed = feed
        self.events: list[tuple[str, int, Event]] = []
        feed.mark = self._record  # type: ignore[method-assign]

    def _record(self, what: str, step: int, stream: Stream) -> None:
        self.events.append((what, step, stream.record()))

    def spans(self) -> list[Span]:
        """One span for each copy and each computation, after the device has finished."""
        self.feed.device.synchronize()
        if not self.events:
            return []
        zero = self.events[0][2]
        times = {(what, step): event.seconds_since(zero) for what, step, event in self.events}
        return [
            Span(step, what.removesuffix(" begins"), begin, times[what.replace("begins", "ends"), step])
            for (what, step), begin in times.items()
            if what.endswith("begins")
        ]

    def close(self) -> None:
        """Stop recording events."""
        del self.feed.mark


def overlap(spans: list[Span]) -> float:
    """Share, 0 to 1, of the copies' time during which some batch was trained."""
    busy = sorted((span.begin, span.end) for span in spans if span.what == "compute")
    copied = hidden = 0.0
    for span in spans:
        if span.what == "copy":
            copied += span.end - span.begin
            hidden += sum(max(0.0, min(span.end, end) - max(span.begin, begin)) for begin, end in busy)
    return hidden / copied if copied else 0.0
