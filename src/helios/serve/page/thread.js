/**
 * The conversation as the reader sees it: a question, its answer, and how the answer ended.
 */

import { keepingBottom } from "./bottom.js";
import { Rendering, element } from "./markup.js";

const ENDINGS = {
  length: "The answer reached its length limit.",
  stopped: "Stopped.",
};

export class Thread {
  #place;
  #copy;

  constructor(place, { copy }) {
    this.#place = place;
    this.#copy = copy;
  }

  /** Show a question; returns the view of its answer. */
  add(question, { model }) {
    const asked = message("question", "You");
    asked.words.append(question);
    const answered = message("answer", model);
    this.#place.append(asked.article, answered.article);
    return new AnswerView([asked.article, answered.article], answered.words, this.#copy);
  }

  /** Show nothing. */
  clear() {
    this.#place.replaceChildren();
  }
}

class AnswerView {
  #articles;
  #words;
  #rendering;
  #frame = 0;

  constructor(articles, words, copy) {
    this.#articles = articles;
    this.#words = words;
    this.#rendering = new Rendering(words, { copy });
    this.#article.setAttribute("aria-busy", "true");
  }

  get #article() {
    return this.#articles.at(-1);
  }

  /** The answer so far; shown with the next frame, however many tokens come until then. */
  grow(text) {
    cancelAnimationFrame(this.#frame);
    this.#frame = requestAnimationFrame(() => keepingBottom(() => this.#rendering.grow(text)));
  }

  /** The answer is over: `finish` is the server's word, or "stopped". */
  end(text, finish) {
    this.#close(text, () => {
      if (finish in ENDINGS) this.#article.append(element("p", "note", ENDINGS[finish]));
    });
  }

  /** The answer failed, perhaps after some text; `retry` asks again. */
  fail(text, failure, retry) {
    this.#close(text, () => {
      const problem = element("div", "problem");
      const again = element("button", "quiet-button", "Try again");
      again.type = "button";
      again.addEventListener("click", retry);
      problem.append(element("h3", "", failure.title), element("p", "", failure.message), again);
      this.#article.append(problem);
    });
  }

  /** Take question and answer away. */
  remove() {
    for (const article of this.#articles) article.remove();
  }

  #close(text, append) {
    cancelAnimationFrame(this.#frame);
    keepingBottom(() => {
      this.#rendering.show(text);
      this.#article.setAttribute("aria-busy", "false");
      if (text.trim() === "") this.#words.remove();
      append();
    });
  }
}

let messages = 0;

/** An article with a heading that says whose words it holds. */
function message(kind, speaker) {
  const article = element("article", `message ${kind}`);
  const who = element("h2", "who", speaker);
  who.id = `who-${(messages += 1)}`;
  article.setAttribute("aria-labelledby", who.id);
  const words = element("div", "words");
  article.append(who, words);
  return { article, words };
}
