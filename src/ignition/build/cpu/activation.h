/* Activations as signed 8-bit numbers in groups of 32 columns, and how they are made.
 *
 *   q      [tile][group][16][32]   rounded to nearest, scale = largest magnitude / 127
 *   scale  [tile][group][16]       float
 *   sum    [tile][group][16]       scale x sum of q: what a weight's minimum multiplies
 *   bias   [tile][group][16]       -128 x sum of q: undoes unsigned 8-bit weights
 *
 * A tile is 16 rows whatever is live, so a row's place depends on its number alone.
 */
#pragma once
#include "simd.h"

struct activation {
  int8_t *q;
  float *scale;
  float *sum;
  int32_t *bias;
};

/* Index of (row, group) among the scales; times 32 it is the index into q. */
INLINE size_t activation_index(uint32_t row, uint32_t group, uint32_t groups) {
  return ((size_t)(row / 16) * groups + group) * 16 + row % 16;
}

/* Quantise 32 numbers into (row, group). */
INLINE void quantise_group(const float *x, const struct activation *to, size_t index) {
  vf top[HALVES], y[2 * HALVES];
  for (int h = 0; h < HALVES; h++) top[h] = splat(0.0f);
  for (int i = 0; i < 2 * HALVES; i++) {
    y[i] = load(x + W * i);
    top[i % HALVES] = largest(top[i % HALVES], magnitude(y[i]));
  }
  const float most = max16(top);
  const float inverse = most > 0.0f ? 127.0f / most : 0.0f;
  int8_t *q = to->q + index * 32;
  int32_t total = 0;
  for (int i = 0; i < 2 * HALVES; i++) {
    const vi rounded = __builtin_convertvector(round_nearest(y[i] * splat(inverse)), vi);
    for (int lane = 0; lane < W; lane++) {
      q[W * i + lane] = (int8_t)rounded[lane];
      total += rounded[lane];
    }
  }
  to->scale[index] = most / 127.0f;
  to->sum[index] = to->scale[index] * (float)total;
  to->bias[index] = -128 * total;
}
