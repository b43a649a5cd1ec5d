/**
 * What a screen reader says without being asked: an answer sentence by sentence, not token by
 * token, and short notes.
 */

const PAUSE_MS = 1500;
const SENTENCES = /^[^]*(?:[.!?:;]["')\]]?\s|\n)/;

export class Announcer {
  #place;
  #said = 0; // characters of the growing answer
  #last = 0; // when something was said

  constructor(place) {
    this.#place = place;
  }

  /** A new answer begins; what was said before is over. */
  begin() {
    this.#place.replaceChildren();
    this.#said = 0;
    this.#last = performance.now();
  }

  /** The answer so far. */
  hear(answer) {
    if (performance.now() - this.#last < PAUSE_MS) return;
    const [sentences] = SENTENCES.exec(answer.slice(this.#said)) ?? [""];
    this.#said += sentences.length;
    this.say(sentences);
  }

  /** The whole answer. */
  end(answer) {
    this.say(answer.slice(this.#said));
    this.#said = answer.length;
  }

  /** Say something. */
  say(text) {
    const plain = text.replaceAll("`", "").trim();
    if (plain === "") return;
    const said = document.createElement("p");
    said.textContent = plain;
    this.#place.append(said);
    this.#last = performance.now();
  }
}
