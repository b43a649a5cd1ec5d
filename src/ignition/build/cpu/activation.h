/* Activations as signed 8-bit numbers in groups of 32 columns, and how they are made.
 *
 *   q      [tile][group][16][32]   rounded to nearest, scale = largest magnitude / 127
 *   fine   [tile][group][16][32]   what q left over, in 256ths of its step; or null
 *   scale  [tile][group][16]       float, of the last digit that is kept
 *   sum    [tile][group][16]       scale x sum of digits: what a weight's minimum multiplies
 *   bias   [tile][group][16]       -128 x sum of digits: undoes unsigned 8-bit weights
 *
 * With `fine` a number is 256 q + fine, so a product is two dot products joined as integers.
 * A tile is 16 rows whatever is live, so a row's place depends on its number alone.
 */
#pragma once
#include "simd.h"

struct activation {
  int8_t *q;
  int8_t *fine;
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
  const float most = max16(top), steps = to->fine ? 127.0f * 256.0f : 127.0f;
  const float inverse = most > 0.0f ? steps / most : 0.0f;
  int8_t *q = to->q + index * 32, *fine = to->fine ? to->fine + index * 32 : 0;
  int32_t total = 0;
  for (int i = 0; i < 2 * HALVES; i++) {
    const vi rounded = __builtin_convertvector(round_nearest(y[i] * splat(inverse)), vi);
    for (int lane = 0; lane < W; lane++) {
      int32_t coarse = rounded[lane], rest = 0;
      if (fine) {
        coarse = (rounded[lane] + 128) >> 8;
        rest = rounded[lane] - 256 * coarse;
        if (rest < -127) rest = -127; /* so that its sign can be turned */
        fine[W * i + lane] = (int8_t)rest;
        coarse *= 256;
      }
      q[W * i + lane] = (int8_t)(fine ? coarse / 256 : coarse);
      total += coarse + rest;
    }
  }
  to->scale[index] = most / steps;
  to->sum[index] = to->scale[index] * (float)total;
  to->bias[index] = -128 * total;
}
