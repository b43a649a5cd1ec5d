/**
 * What the page asks the server, and what can go wrong with it.
 *
 * Every failure is a `Failure` with a title and a sentence for the reader; only an abort,
 * which the reader asked for, stays an AbortError.
 */

import { eventData } from "./events.js";

const UNREACHABLE = "The server cannot be reached. Is it still running?";
const CUT = "The connection closed before the answer was complete.";
const KEY_PLACE = "helios.key";
const LOCKED = 401;

let key = kept();

/** A request that did not get its answer. */
export class Failure extends Error {
  constructor(title, sentence, { status = null } = {}) {
    super(sentence);
    this.title = title;
    this.locked = status === LOCKED; // a key is needed, or another one
  }
}

/** Send this key with every request, until the tab is closed. */
export function useKey(text) {
  key = text;
  try {
    sessionStorage.setItem(KEY_PLACE, text);
  } catch {
    // Where nothing may be stored, it is kept until a reload.
  }
}

function kept() {
  try {
    return sessionStorage.getItem(KEY_PLACE) ?? "";
  } catch {
    return "";
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

/** The server's counts, as Prometheus text. */
export async function countsText() {
  return (await request("metrics")).text();
}

/**
 * The answer to a conversation, as it comes: pieces for `Turn.take`.
 */
export async function* answerTo(messages, { fields, signal }) {
  const response = await request("v1/chat/completions", {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ ...fields, messages, stream: true }),
    signal,
  });
  for await (const data of unlessCut(eventData(response.body))) {
    if (data === "[DONE]") return;
    yield* piecesOf(JSON.parse(data));
  }
  throw new Failure("Connection lost", CUT);
}

/** The pieces of an answer that one event holds. */
function* piecesOf({ error, choices, performance, usage, reused_prompt_tokens: reused }) {
  if (error) throw failureOf(error);
  for (const choice of choices) {
    const { delta, finish_reason: finish, token_ids: ids, token_timestamps_ns: ns } = choice;
    if (delta.reasoning_content) yield { reasoning: delta.reasoning_content };
    if (delta.content) yield { text: delta.content };
    for (const call of delta.tool_calls ?? []) yield { call };
    if (ids && ns) yield { times: ids.map((token, place) => ({ token, ns: ns[place] })) };
    if (finish) yield { finish };
  }
  if (performance) {
    yield { prefill: { from: performance.enqueue_ns, tokens: usage?.prompt_tokens, reused } };
  }
}

/** A response with a good status, or a Failure. */
async function request(path, { headers = {}, ...options } = {}) {
  let response;
  const shown = key ? { authorization: `Bearer ${key}` } : {};
  try {
    response = await fetch(path, { ...options, headers: { ...headers, ...shown } });
  } catch (error) {
    throw isAbort(error) ? error : new Failure("No connection", UNREACHABLE);
  }
  if (response.ok) return response;
  throw failureOf(await errorIn(response), response.status);
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
function failureOf({ code, message }, status = null) {
  const title = status === LOCKED ? "A key is needed" : `Error ${code ?? ""}`.trim();
  return new Failure(title, message, { status });
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
