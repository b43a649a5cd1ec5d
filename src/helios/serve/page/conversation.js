/**
 * The conversation: what was asked and answered.  It lives in memory and ends with the page.
 */

export class Conversation {
  #turns = [];

  /** A new turn; its answer grows as it comes. */
  ask(question) {
    const turn = { question, answer: "" };
    this.#turns.push(turn);
    return turn;
  }

  /** Forget a turn. */
  drop(turn) {
    this.#turns = this.#turns.filter((other) => other !== turn);
  }

  /**
   * What the server is sent for the last turn: the whole conversation.
   *
   * An earlier question that was never answered is left out: templates expect questions and
   * answers in turn.
   */
  messages() {
    const last = this.#turns.at(-1);
    return this.#turns.flatMap((turn) => {
      const asked = { role: "user", content: turn.question };
      if (turn === last) return [asked];
      return turn.answer === "" ? [] : [asked, { role: "assistant", content: turn.answer }];
    });
  }
}
