/**
 * The page: the reader's actions on one side, the server's answers on the other.
 *
 * Always: at most one answer is coming (`answering`), and Send or Stop is shown accordingly.
 */

import { Announcer } from "./announcer.js";
import { atBottom, goToBottom, keepingBottom } from "./bottom.js";
import { Conversation } from "./conversation.js";
import { answerTo, asFailure, servedModel } from "./server.js";
import { Thread } from "./thread.js";

const HINT = "Enter sends. Shift + Enter starts a new line.";
const HINT_WHILE_ANSWERING = "Esc stops the answer.";
const COPIED_MS = 2000;

const at = (id) => document.getElementById(id);
const [composer, input, send, stop] = ["composer", "message", "send", "stop"].map(at);

const announcer = new Announcer(at("announcer"));
const thread = new Thread(at("thread"), { copy });
let conversation = new Conversation();
let answering = null; // the AbortController of the answer that is coming
let model = null;

// ------------------------------------------------------------------ asking

async function ask(question) {
  const mine = new AbortController();
  const turn = conversation.ask(question);
  const view = thread.add(question, { model: model?.name ?? "Answer" });
  at("welcome").hidden = true;
  setAnswering(mine);
  announcer.begin();
  goToBottom();
  const { finish, error } = await receive(turn, view, mine.signal);
  if (answering !== mine) return; // a new chat has begun
  announcer.end(turn.answer);
  if (mine.signal.aborted) {
    view.end(turn.answer, "stopped");
    announcer.say("Stopped.");
  } else if (error) {
    const failure = asFailure(error);
    view.fail(turn.answer, failure, () => askAgain(turn, view));
    announcer.say(`${failure.title}: ${failure.message}`);
  } else {
    view.end(turn.answer, finish);
  }
  setAnswering(null);
}

/** Let the answer grow until it ends: `{ finish }`, or `{ error }`. */
async function receive(turn, view, signal) {
  let finish = null;
  try {
    for await (const piece of answerTo(conversation.messages(), { model: model?.name, signal })) {
      signal.throwIfAborted();
      turn.answer += piece.text ?? "";
      finish = piece.finish ?? finish;
      view.grow(turn.answer);
      announcer.hear(turn.answer);
    }
    return { finish };
  } catch (error) {
    return { error };
  }
}

function askAgain(turn, view) {
  if (answering) return;
  conversation.drop(turn);
  view.remove();
  input.focus();
  ask(turn.question);
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
    return;
  }
  const tokens = model.contextTokens.toLocaleString("en");
  at("model").textContent = model.name;
  at("welcome-title").textContent = `Ask ${model.name}`;
  at("welcome-text").prepend(`Room for ${tokens} tokens, questions and answers together. `);
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
  if (event.key === "Escape" && !event.isComposing) answering?.abort();
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

setAnswering(null);
fitInput();
introduce();
