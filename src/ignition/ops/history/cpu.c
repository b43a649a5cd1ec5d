/* Rotary positions, and what they leave in the history.
 *
 * Reads rows of [query heads | key heads | value heads], rotates queries and keys by adjacent
 * pairs, writes queries as floats and keys and values into their pages as bfloat16:
 *
 *   keys    [page][layer][head][page_tokens / 16][width / 2][16]  pairs of adjacent columns
 *   values  [page][layer][head][page_tokens / 2][width]           pairs of adjacent positions
 *
 * Units are shares of the token rows.
 */
#include "executor.h"
#include "parameters.h"
#include "simd.h"

/* cosine and sine of each pair, interleaved; x holds `width` numbers. */
INLINE void rotate(const float *x, const float *turn, uint32_t width, float *out) {
  for (uint32_t i = 0; i < width; i += 2) {
    const float c = turn[i], s = turn[i + 1];
    out[i] = x[i] * c - x[i + 1] * s;
    out[i + 1] = x[i] * s + x[i + 1] * c;
  }
}

KERNEL(rotate_and_store) {
  const struct rotate_and_store_parameters *p = parameters;
  UNUSED(thread);
  const uint32_t width = p->width, pairs = width / 2;
  FOR_SHARED_ROWS(row, *p->rows) {
    const float *x = p->x + (size_t)row * p->stride;
    const uint32_t position = (uint32_t)p->positions[row];
    const float *turn = p->turns + (size_t)position * width;
    for (uint32_t h = 0; h < p->query_heads; h++)
      rotate(x + h * width, turn, width, p->queries + ((size_t)row * p->query_heads + h) * width);
    const uint32_t slot = p->slots[p->lanes[row]];
    const uint32_t page = p->pages[(size_t)slot * p->row_pages + position / p->page_tokens];
    const uint32_t place = position % p->page_tokens;
    const float *key = x + p->query_heads * width, *value = key + p->key_heads * width;
    for (uint32_t h = 0; h < p->key_heads; h++) {
      float rotated[256];
      rotate(key + h * width, turn, width, rotated);
      const size_t history = (size_t)page * p->page_stride + p->layer_offset +
                             (size_t)h * p->page_tokens * width * 2;
      uint16_t *k = (uint16_t *)(p->keys + history) + (size_t)(place / 16) * pairs * 32 +
                    place % 16 * 2;
      for (uint32_t i = 0; i < pairs; i++) {
        k[32 * i] = to_bfloat(rotated[2 * i]);
        k[32 * i + 1] = to_bfloat(rotated[2 * i + 1]);
      }
      uint16_t *v = (uint16_t *)(p->values + history) + (size_t)(place / 2) * width * 2 + place % 2;
      for (uint32_t i = 0; i < width; i++) v[2 * i] = to_bfloat(value[h * width + i]);
    }
  }
}
