/**
 * The conversation as the reader sees it: questions, and a view for each answer.
 */

import { AnswerView } from "./answer.js";
import { element } from "./markup.js";

export class Thread {
  #place;
  #copy;

  constructor(place, { copy }) {
    this.#place = place;
    this.#copy = copy;
  }

  /** Show a turn's question, if it has one; returns the view of its answer. */
  add(turn, { model }) {
    const articles = [];
    if (turn.question !== null) {
      const asked = message("question", "You");
      asked.words.append(turn.question);
      articles.push(asked.article);
    }
    const answered = message("answer", model);
    articles.push(answered.article);
    this.#place.append(...articles);
    return new AnswerView(turn, { articles, words: answered.words, copy: this.#copy });
  }

  /** Show nothing. */
  clear() {
    this.#place.replaceChildren();
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
