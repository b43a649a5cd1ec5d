/* Partial pages to and from continuation rows: [keys of a page | values of a page].
 *
 * A page is strips, one for each head of each layer.  A strip of keys, and one of values, is
 * tiles of 16 positions (history/cpu.c), so the leading records are whole tiles from the front;
 * what the last tile holds past the endpoint is carried along and never read.
 *
 * Units are shares of the strips of all live rows.
 */
#include "executor.h"
#include "parameters.h"
#include "simd.h"

#define TILE 16

/* Whole 64-byte lines: a tile has 32 bytes a column, and columns come in pairs. */
INLINE void copy(uint8_t *to, const uint8_t *from, uint64_t nbytes) {
  uint64_t *out = (uint64_t *)to;
  const uint64_t *in = (const uint64_t *)from;
  for (uint64_t i = 0; i < nbytes / 8; i++) out[i] = in[i];
}

INLINE uint64_t leading_nbytes(uint32_t records, uint32_t page_tokens, uint64_t strip_nbytes) {
  return (records + TILE - 1) / TILE * (strip_nbytes / (page_tokens / TILE));
}

KERNEL(restore) {
  const struct restore_parameters *p = parameters;
  UNUSED(thread);
  FOR_SHARED_ROWS(unit, *p->live_rows * p->strips) {
    const uint32_t lane = unit / p->strips, endpoint = p->endpoints[lane];
    const uint32_t records = endpoint % p->page_tokens;
    const int32_t row = p->rows[lane], from = p->pages[lane];
    if (!records || (row < 0 && from < 0)) continue;
    const uint32_t page =
        p->tables[(size_t)p->slots[lane] * p->row_pages + endpoint / p->page_tokens];
    const uint64_t strip = unit % p->strips * p->strip_nbytes;
    const uint64_t nbytes = leading_nbytes(records, p->page_tokens, p->strip_nbytes);
    const uint8_t *keys = p->keys + (uint64_t)from * p->page_stride;
    const uint8_t *values = p->values + (uint64_t)from * p->page_stride;
    if (row >= 0) {
      keys = p->continuations + (uint64_t)row * 2 * p->page_stride;
      values = keys + p->page_stride;
    }
    copy(p->keys + page * p->page_stride + strip, keys + strip, nbytes);
    copy(p->values + page * p->page_stride + strip, values + strip, nbytes);
  }
}

KERNEL(publish) {
  const struct publish_parameters *p = parameters;
  UNUSED(thread);
  FOR_SHARED_ROWS(unit, *p->live_rows * p->strips) {
    const uint32_t lane = unit / p->strips, endpoint = p->endpoints[lane];
    const uint32_t records = endpoint % p->page_tokens;
    if (!records) continue;
    const uint32_t page =
        p->tables[(size_t)p->slots[lane] * p->row_pages + endpoint / p->page_tokens];
    const uint64_t strip = unit % p->strips * p->strip_nbytes;
    const uint64_t nbytes = leading_nbytes(records, p->page_tokens, p->strip_nbytes);
    uint8_t *keys = p->continuations + (uint64_t)p->rows[lane] * 2 * p->page_stride;
    copy(keys + strip, p->keys + page * p->page_stride + strip, nbytes);
    copy(keys + p->page_stride + strip, p->values + page * p->page_stride + strip, nbytes);
  }
}
