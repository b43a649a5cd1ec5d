/**
 * Server-sent events: bytes in, the data of each event out.
 *
 * Bytes may be cut anywhere, also inside a character or between CR and LF.  An event that the
 * stream does not finish is dropped, as the standard says.
 */

const LINE_END = /\r\n|\n|\r/;

/** The data of each event of a response's body, as it comes. */
export async function* eventData(body) {
  let data = [];
  for await (const line of lines(body)) {
    if (line === "") {
      if (data.length > 0) yield data.join("\n");
      data = [];
    } else if (line === "data" || line.startsWith("data:")) {
      data.push(line.slice(5).replace(/^ /, ""));
    }
  }
}

/** The whole lines of a stream of UTF-8 bytes. */
async function* lines(body) {
  let rest = "";
  for await (const text of texts(body)) {
    rest += text;
    // A CR at the end may be the first half of CR LF.
    const held = rest.endsWith("\r") ? "\r" : "";
    const found = rest.slice(0, rest.length - held.length).split(LINE_END);
    rest = found.pop() + held;
    yield* found;
  }
  if (rest.endsWith("\r")) yield rest.slice(0, -1);
}

/** A stream of UTF-8 bytes as text; leaving early cancels the stream. */
async function* texts(body) {
  const decoder = new TextDecoder();
  const reader = body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      yield decoder.decode(value, { stream: true });
    }
  } finally {
    reader.cancel().catch(() => {}); // it may have failed already, and that was told
  }
}
