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

/* The other member of each pair. */
INLINE vf swapped(vf x) {
#if W == 16
  return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
#else
  return __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
#endif
}

/* Turn `width` numbers; `turn` has cosine and sine of each pair, interleaved.  Even members
 * become x c - y s, odd ones x s + y c. */
INLINE void rotate(const float *x, const float *turn, uint32_t width, float *out) {
  vi odd;
  for (int l = 0; l < W; l++) odd[l] = -(l % 2);
  for (uint32_t i = 0; i < width; i += W) {
    const vf a = load(x + i), b = swapped(a), t = load(turn + i), u = swapped(t);
    const vf cosines = choose(odd, u, t), sines = choose(odd, t, u);
    const vf ac = a * cosines, bs = b * sines;
    store(out + i, choose(odd, bs + ac, ac - bs));
  }
}

/* W numbers to bfloat16, as `to_bfloat` does it. */
INLINE vu to_bfloats(vf x) {
  const vu bits = (vu)x;
  const vu rounded = (bits + (vu)splat_int(0x7fff) + ((bits >> 16) & 1)) >> 16;
  return (vu)choose((vi)(bits & 0x7fffffff) > splat_int(0x7f800000), (vf)splat_int(0x7fc0),
                    (vf)rounded);
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
      uint32_t *k = (uint32_t *)(p->keys + history) + (size_t)(place / 16) * pairs * 16 +
                    place % 16;
      for (uint32_t i = 0; i < width; i += W) { /* pairs of columns, 16 positions apart */
        const vu halves = to_bfloats(load(rotated + i));
        const vu joined = halves | ((vu)swapped((vf)halves) << 16);
        for (uint32_t l = 0; l < W; l += 2) k[8 * (i + l)] = joined[l];
      }
      uint16_t *v = (uint16_t *)(p->values + history) + (size_t)(place / 2) * width * 2 + place % 2;
      for (uint32_t i = 0; i < width; i += W) {
        const vu halves = to_bfloats(load(value + h * width + i));
        for (uint32_t l = 0; l < W; l++) v[2 * (i + l)] = (uint16_t)halves[l];
      }
    }
  }
}
