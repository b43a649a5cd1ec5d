/**
 * The page: the reader's actions on one side, the server's answers on the other.
 *
 * Always: at most one answer is coming (`answering`), and Send or Stop is shown accordingly.
 */

import { Announcer } from "./announcer.js";
import { atBottom, goToBottom, keepingBottom } from "./bottom.js";
import { Conversation } from "./conversation.js";
import { Live } from "./live.js";
import { answerTo, asFailure, servedModel, useKey } from "./server.js";
import { Settings } from "./settings.js";
import { Thread } from "./thread.js";

const HINT = "Enter sends. Shift + Enter starts a new line.";
const HINT_WHILE_ANSWERING = "Esc stops the answer.";
const KEPT = "The conversation is kept in this tab only; a reload or a new chat ends it.";
const COPIED_MS = 2000;

const at = (id) => document.getElementById(id);
const [composer, input, send, stop] = ["composer", "message", "send", "stop"].map(at);

const announcer = new Announcer(at("announcer"));
const thread = new Thread(at("thread"), { copy });
const settings = new Settings(at("settings-form"));
new Live(at("live"));
let conversation = new Conversation();
let answering = null; // the AbortController of the answer that is coming
let model = null;
let unlocked = null; // what to do once there is a key

// ------------------------------------------------------------------ asking

/** Ask a question; null asks to go on from the results of tools. */
async function ask(question) {
  const mine = new AbortController();
  const turn = conversation.ask(question);
  const view = thread.add(turn, { model: model?.name ?? "Answer" });
  const actions = { again: () => askAgain(turn, view), edit: () => edit(turn, view) };
  at("welcome").hidden = true;
  setAnswering(mine);
  announcer.begin();
  goToBottom();
  const error = await receive(turn, view, mine.signal);
  if (answering !== mine) return; // a new chat has begun
  announcer.end(turn.answer);
  if (mine.signal.aborted) {
    view.end("stopped", actions);
    announcer.say("Stopped.");
  } else if (error) {
    const failure = asFailure(error);
    view.fail(failure, actions);
    announcer.say(`${failure.title}: ${failure.message}`);
    if (failure.locked) askForKey(actions.again);
  } else {
    view.end(turn.finish, { ...actions, results: (texts) => goOn(turn, texts) });
    if (turn.calls.length > 0) {
      announcer.say(`Calls ${turn.calls.map(({ name }) => name).join(", ")}.`);
    }
  }
  setAnswering(null);
}

/** Let the answer grow until it ends; what went wrong, if something did. */
async function receive(turn, view, signal) {
  const fields = { model: model?.name, ...settings.fields() };
  try {
    const messages = conversation.messages(settings.system);
    for await (const piece of answerTo(messages, { fields, signal })) {
      signal.throwIfAborted();
      if (piece.reasoning && turn.reasoning === "") announcer.say("Thinking.");
      turn.take(piece);
      view.grow();
      announcer.hear(turn.answer);
    }
    return null;
  } catch (error) {
    return error;
  }
}

function askAgain(turn, view) {
  if (!take(turn, view)) return;
  input.focus();
  ask(turn.question);
}

/** Back into the input, before what is typed there. */
function edit(turn, view) {
  if (!take(turn, view)) return;
  input.value = [turn.question, input.value].filter(Boolean).join("\n");
  fitInput();
  input.focus();
}

/** Take a turn back, unless an answer is coming or settings cannot be sent. */
function take(turn, view) {
  if (answering || !settings.check()) return false;
  conversation.drop(turn);
  view.remove();
  return true;
}

/** Let the model go on from what its tools gave. */
function goOn(turn, texts) {
  if (answering || !settings.check()) return false;
  turn.calls.forEach((call, index) => (call.result = texts[index]));
  input.focus();
  ask(null);
  return true;
}

function askForKey(then) {
  unlocked = then;
  keepingBottom(() => (at("key-form").hidden = false));
  at("key").focus();
}

function setAnswering(controller) {
  const focused = document.activeElement;
  answering = controller;
  send.hidden = controller !== null;
  stop.hidden = controller === null;
  at("hint").textContent = controller ? HINT_WHILE_ANSWERING : HINT;
  if (focused === send || focused === stop) input.focus();
}

function startOver() {
  const abandoned = answering;
  setAnswering(null);
  abandoned?.abort();
  conversation = new Conversation();
  thread.clear();
  announcer.begin();
  at("welcome").hidden = false;
  input.focus();
}

// ----------------------------------------------------------------- reading

/** Put a block's code on the clipboard, or select it where the browser keeps that from us. */
async function copy(pre, button) {
  let done = "Copied";
  try {
    await navigator.clipboard.writeText(pre.textContent);
  } catch {
    done = "Selected";
  }
  if (done === "Selected") getSelection().selectAllChildren(pre);
  announcer.say(done);
  const label = button.firstChild;
  label.data = done;
  setTimeout(() => (label.data = "Copy"), COPIED_MS);
}

function showLatest() {
  at("latest").hidden = atBottom();
}

async function introduce() {
  try {
    model = await servedModel();
  } catch (error) {
    const failure = asFailure(error);
    at("welcome-title").textContent = failure.title;
    at("welcome-text").textContent = failure.message;
    if (failure.locked) askForKey(introduce);
    return;
  }
  const tokens = model.contextTokens.toLocaleString("en");
  at("model").textContent = model.name;
  at("welcome-title").textContent = `Ask ${model.name}`;
  at("welcome-text").textContent = `Room for ${tokens} tokens, questions and answers together. ${KEPT}`;
  document.title = `${model.name} · Helios`;
}

// ------------------------------------------------------------------ typing

function fitInput() {
  keepingBottom(() => {
    input.style.height = "auto";
    input.style.height = `${input.scrollHeight}px`;
  });
}

composer.addEventListener("submit", (event) => {
  event.preventDefault();
  const question = input.value;
  if (answering || question.trim() === "") {
    input.focus();
    return;
  }
  if (!settings.check()) return;
  input.value = "";
  fitInput();
  input.focus();
  ask(question);
});

input.addEventListener("input", fitInput);
input.addEventListener("keydown", (event) => {
  // While an input method composes, Enter belongs to it.
  if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
  event.preventDefault();
  composer.requestSubmit();
});

document.addEventListener("keydown", (event) => {
  // A panel that Escape closes comes first.
  if (event.key !== "Escape" || event.isComposing || at("settings").matches(":popover-open")) return;
  answering?.abort();
});
document.addEventListener("scroll", showLatest, { passive: true });
new ResizeObserver(showLatest).observe(at("thread"));
stop.addEventListener("click", () => answering?.abort());
// A page that the browser keeps for Back would go on receiving.
addEventListener("pagehide", () => answering?.abort());
at("renew").addEventListener("click", startOver);
at("latest").addEventListener("click", () => {
  goToBottom();
  input.focus();
});

at("key-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  useKey(at("key").value.trim());
  at("key").value = "";
  at("key-form").hidden = true;
  input.focus();
  const then = unlocked;
  if (model === null) await introduce();
  if (then !== introduce && at("key-form").hidden) then?.();
});

setAnswering(null);
fitInput();
introduce();
