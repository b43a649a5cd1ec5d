/**
 * One answer as the reader sees it: thoughts, words, calls, times, and how it ended.
 */

import { keepingBottom } from "./bottom.js";
import { CallsView } from "./calls.js";
import { HeatStrip } from "./heat.js";
import { Rendering, element } from "./markup.js";
import { Thought } from "./thought.js";

const ENDINGS = {
  length: "The answer reached its length limit.",
  stopped: "Stopped.",
};

export class AnswerView {
  #turn;
  #articles;
  #words;
  #rendering;
  #thought = null;
  #calls = null;
  #strip = null;
  #frame = 0;

  constructor(turn, { articles, words, copy }) {
    this.#turn = turn;
    this.#articles = articles;
    this.#words = words;
    this.#rendering = new Rendering(words, { copy });
    this.#article.setAttribute("aria-busy", "true");
  }

  get #article() {
    return this.#articles.at(-1);
  }

  /** The turn has grown; shown with the next frame, however many tokens come until then. */
  grow() {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() =>
      keepingBottom(() => {
        this.#rendering.grow(this.#turn.answer);
        this.#around({ over: false });
      }),
    );
  }

  /** The answer is over: `finish` is the server's word, or "stopped". */
  end(finish, { results, again, edit }) {
    const { calls } = this.#turn;
    this.#close(() => {
      if (finish in ENDINGS) this.#article.append(element("p", "note", ENDINGS[finish]));
      if (calls.length > 0 && finish !== "stopped") this.#calls.askResults(calls, results);
      this.#offer([["Regenerate", again], ...this.#editing(edit)]);
    });
  }

  /** The answer failed, perhaps after some text. */
  fail(failure, { again, edit }) {
    this.#close(() => {
      const problem = element("div", "problem");
      problem.append(element("h3", "", failure.title), element("p", "", failure.message));
      problem.append(action("Try again", again));
      this.#article.append(problem);
      this.#offer(this.#editing(edit));
    });
  }

  /** Take question and answer away. */
  remove() {
    for (const article of this.#articles) article.remove();
  }

  #editing(edit) {
    return this.#turn.question === null ? [] : [["Edit question", edit]];
  }

  #offer(actions) {
    const row = element("div", "actions");
    row.append(...actions.map(([label, act]) => action(label, act)));
    this.#article.append(row);
  }

  #around({ over }) {
    const { answer, reasoning, calls, times } = this.#turn;
    if (reasoning) {
      this.#thought ??= new Thought(this.#words);
      this.#thought.show(reasoning, { over: over || answer !== "" || calls.length > 0 });
    }
    if (calls.length > 0) {
      this.#calls ??= new CallsView(this.#words);
      this.#calls.show(calls);
    }
    if (times.length > 0) {
      this.#strip ??= new HeatStrip(this.#article, this.#turn);
      this.#strip.show();
    }
  }

  #close(append) {
    cancelAnimationFrame(this.#frame);
    keepingBottom(() => {
      this.#rendering.show(this.#turn.answer);
      this.#around({ over: true });
      this.#article.setAttribute("aria-busy", "false");
      if (this.#turn.answer.trim() === "") this.#words.remove();
      append();
    });
  }
}

function action(label, act) {
  const button = element("button", "quiet-button", label);
  button.type = "button";
  button.addEventListener("click", act);
  return button;
}
