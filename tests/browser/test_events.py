"""Events are read the same however the network cuts their bytes."""

from __future__ import annotations

import pytest

from tests.browser.reader import Reader

READ = """
const [bytes, sizes] = arguments;
const body = new ReadableStream({
  start(controller) {
    let from = 0;
    for (const size of sizes) {
      controller.enqueue(new Uint8Array(bytes.slice(from, from + size)));
      from += size;
    }
    controller.enqueue(new Uint8Array(bytes.slice(from)));
    controller.close();
  },
});
return import("/events.js").then(async ({ eventData }) => {
  const found = [];
  for await (const data of eventData(body)) found.push(data);
  return found;
});
"""


def events(reader: Reader, stream: bytes, sizes: list[int]) -> list[str]:
    """The events of a stream that arrives in pieces of these sizes."""
    found: list[str] = reader.run(READ, list(stream), sizes)
    return found


STREAM = 'data: {"é": "☀️"}\n\n: a comment\ndata:two\ndata:  lines\n\nevent: x\nid: 4\n\ndata\n\n'
EVENTS = ['{"é": "☀️"}', "two\n lines", ""]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"], ids=["LF", "CRLF", "CR"])
def test_events_may_be_cut_anywhere(play_reader: Reader, end: str) -> None:
    stream = STREAM.replace("\n", end).encode()
    assert events(play_reader, stream, []) == EVENTS
    assert events(play_reader, stream, [1] * len(stream)) == EVENTS
    for cut in range(1, len(stream)):
        assert events(play_reader, stream, [cut]) == EVENTS, f"cut after {cut} bytes"


def test_an_event_without_its_end_is_dropped(play_reader: Reader) -> None:
    assert events(play_reader, b"data: whole\n\ndata: half\n", []) == ["whole"]
    assert events(play_reader, b"data: whole\r\r", []) == ["whole"]
