/**
 * The bottom of the page: who reads there follows a growing answer, who reads above stays put.
 */

/** Less than one notch of a wheel or one arrow key. */
const NEAR_PIXELS = 24;

const page = document.scrollingElement;

/** Whether the reader is at the bottom. */
export function atBottom() {
  return page.scrollHeight - page.clientHeight - page.scrollTop < NEAR_PIXELS;
}

/** Go there. */
export function goToBottom() {
  page.scrollTop = page.scrollHeight;
}

/** Change the page; a reader at the bottom stays there. */
export function keepingBottom(change) {
  const follow = atBottom();
  change();
  if (follow) goToBottom();
}
