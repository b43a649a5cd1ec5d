/**
 * What a model thinks before it answers: open while it thinks, folded when it begins to answer.
 *
 * Who has opened or folded it decides from then on.
 */

import { element } from "./markup.js";

export class Thought {
  #details = element("details", "thought");
  #summary = element("summary", "", "Thinking");
  #text = document.createTextNode("");
  #begun = performance.now();
  #over = false;
  #chosen = false;

  constructor(before) {
    const place = element("div", "thoughts");
    place.append(this.#text);
    this.#details.append(this.#summary, place);
    this.#details.open = true;
    this.#summary.addEventListener("click", () => (this.#chosen = true));
    before.before(this.#details);
  }

  /** The thoughts so far, and whether they are over. */
  show(text, { over }) {
    const shown = text.replace(/^\n+/, "");
    if (shown.startsWith(this.#text.data)) {
      this.#text.appendData(shown.slice(this.#text.length));
    } else this.#text.data = shown;
    if (!over || this.#over) return;
    this.#over = true;
    const seconds = (performance.now() - this.#begun) / 1000;
    this.#summary.textContent = `Thought for ${seconds.toFixed(1)} s`;
    if (!this.#chosen) this.#details.open = false;
  }
}
