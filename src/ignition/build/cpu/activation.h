/* Activations as signed numbers of 8 or 16 bits in groups of 32 columns, and how they are made.
 *
 *   q      [tile][group][16][32]   8 bits, scale = largest magnitude / 127; or null
 *   fine   [tile][group][16][32]   16 bits, in 256ths of that step; or null
 *   scale  [tile][group][16]       float, of one step
 *   sum    [tile][group][16]       scale x sum of digits: what a weight's minimum multiplies
 *   bias   [tile][group][16]       -128 x sum of digits: undoes unsigned 8-bit weights
 *
 * Either `q` or `fine` is there.  Of four neighbours, fine digits lie as 0, 2, 1, 3: the order in
 * which bytes of weights become words.  A tile is 16 rows whatever is live, so a row's place
 * depends on its number alone.
 */
#pragma once
#include "simd.h"

struct activation {
  int8_t *q;
  int16_t *fine;
  float *scale;
  float *sum;
  int32_t *bias;
};

/* Index of (row, group) among the scales; times 32 it is the index into q or fine. */
INLINE size_t activation_index(uint32_t row, uint32_t group, uint32_t groups) {
  return ((size_t)(row / 16) * groups + group) * 16 + row % 16;
}

typedef int8_t vbytes __attribute__((vector_size(W), aligned(1)));
typedef int16_t vwords __attribute__((vector_size(2 * W), aligned(2)));
#if W == 16
#define FINE_ORDER 0, 2, 1, 3, 4, 6, 5, 7, 8, 10, 9, 11, 12, 14, 13, 15
#else
#define FINE_ORDER 0, 2, 1, 3, 4, 6, 5, 7
#endif

/* Quantise 32 numbers into (row, group). */
INLINE void quantise_group(const float *x, const struct activation *to, size_t index) {
  vf top[HALVES], y[2 * HALVES];
  for (int h = 0; h < HALVES; h++) top[h] = splat(0.0f);
  for (int i = 0; i < 2 * HALVES; i++) {
    y[i] = load(x + W * i);
    top[i % HALVES] = largest(top[i % HALVES], magnitude(y[i]));
  }
  const float most = max16(top), steps = to->fine ? 127.0f * 256.0f : 127.0f;
  const float inverse = most > 0.0f ? steps / most : 0.0f;
  vi total = splat_int(0);
  for (int i = 0; i < 2 * HALVES; i++) {
    const vi digits = __builtin_convertvector(round_nearest(y[i] * splat(inverse)), vi);
    total += digits;
    if (to->fine) {
      const vwords words = __builtin_convertvector(digits, vwords);
      *(vwords *)(to->fine + index * 32 + W * i) =
          __builtin_shufflevector(words, words, FINE_ORDER);
    } else {
      *(vbytes *)(to->q + index * 32 + W * i) = __builtin_convertvector(digits, vbytes);
    }
  }
  const int32_t sum = __builtin_reduce_add(total);
  to->scale[index] = most / steps;
  to->sum[index] = to->scale[index] * (float)sum;
  to->bias[index] = -128 * sum;
}
