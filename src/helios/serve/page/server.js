/**
 * What the page asks the server, and what can go wrong with it.
 *
 * Every failure is a `Failure` with a title and a sentence for the reader; only an abort,
 * which the reader asked for, stays an AbortError.
 */

import { eventData } from "./events.js";

const UNREACHABLE = "The server cannot be reached. Is it still running?";
const CUT = "The connection closed before the answer was complete.";

/** A request that did not get its answer. */
export class Failure extends Error {
  constructor(title, sentence) {
    super(sentence);
    this.title = title;
  }
}

/** Anything that was thrown, as a Failure. */
export function asFailure(error) {
  return error instanceof Failure ? error : new Failure("Unexpected answer", error.message);
}

/** The model that is served: its name and how many tokens a conversation may have. */
export async function servedModel() {
  const response = await request("v1/models");
  const { data } = await response.json();
  return { name: data[0].id, contextTokens: data[0].context_tokens };
}

/**
 * The answer to a conversation, as it comes: `{ text }`, and at last `{ finish }`.
 */
export async function* answerTo(messages, { model, signal }) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ model, messages, stream: true }),
    signal,
  });
  for await (const data of unlessCut(eventData(response.body))) {
    if (data === "[DONE]") return;
    const { error, choices } = JSON.parse(data);
    if (error) throw failureOf(error);
    for (const { delta, finish_reason: finish } of choices) {
      if (delta.content) yield { text: delta.content };
      if (finish) yield { finish };
    }
  }
  throw new Failure("Connection lost", CUT);
}

/** A response with a good status, or a Failure. */
async function request(path, options) {
  let response;
  try {
    response = await fetch(path, options);
  } catch (error) {
    throw isAbort(error) ? error : new Failure("No connection", UNREACHABLE);
  }
  if (response.ok) return response;
  throw failureOf(await errorIn(response));
}

/** The error that a response with a bad status carries. */
async function errorIn(response) {
  try {
    const { error } = await response.json();
    if (error?.message) return error;
  } catch (error) {
    if (isAbort(error)) throw error;
  }
  const sentence = `The server gave no reason (${response.statusText || "no status text"}).`;
  return { code: response.status, message: sentence };
}

/** An error in the API's shape, as a Failure. */
function failureOf({ code, message }) {
  return new Failure(code ? `Error ${code}` : "Error", message);
}

/** The same events; a broken connection becomes a Failure. */
async function* unlessCut(events) {
  try {
    yield* events;
  } catch (error) {
    throw isAbort(error) ? error : new Failure("Connection lost", CUT);
  }
}

function isAbort(error) {
  return error.name === "AbortError";
}
