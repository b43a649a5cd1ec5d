/* Log-probabilities of a row: log-softmax of its logits as they stand, in single precision.
 *
 * The sum runs over blocks of 16 in a fixed order and is kept in double precision, so that it
 * depends on the row alone.
 */
#pragma once
#include "simd.h"

#define MOST_TOP 20
#define NO_TOKEN (-1)
#define NOTHING_ALLOWED (-2)

/* Rows are walked in blocks, so that those with no likely token are passed over. */
#define BLOCK 128u

INLINE uint32_t blocks_of(uint32_t tokens) { return (tokens + BLOCK - 1) / BLOCK; }

/* W logits of a row, and -inf beyond its end. */
INLINE vf logits_at(const float *logits, uint32_t tokens, uint32_t first) {
  if (first + W <= tokens) return load(logits + first);
  vf x = splat(-__builtin_inff());
  for (uint32_t i = first; i < tokens; i++) x[i - first] = logits[i];
  return x;
}

/* The largest logit of a block of a row; `broken` where one is undefined. */
INLINE float largest_of_block(const float *logits, uint32_t tokens, uint32_t first, vi *broken) {
  vf tops[2] = {splat(-__builtin_inff()), splat(-__builtin_inff())};
  const uint32_t end = first + BLOCK < tokens ? first + BLOCK : tokens;
  for (uint32_t i = first; i < end; i += 2 * W) {
    UNROLL for (uint32_t h = 0; h < 2; h++) {
      const vf x = i + W * h < tokens ? logits_at(logits, tokens, i + W * h) : tops[h];
      *broken |= x != x;
      tops[h] = largest(x, tops[h]);
    }
  }
  vf top = largest(tops[0], tops[1]);
  float most = top[0];
  for (int lane = 1; lane < W; lane++) most = top[lane] > most ? top[lane] : most;
  return most;
}

/* The largest logit, that of each block (where `tops` is given), and the lowest id that has it;
 * NO_TOKEN when a logit is undefined, NOTHING_ALLOWED when every token is out. */
static int32_t largest_logit(const float *logits, uint32_t tokens, float *most, float *tops) {
  float top = -__builtin_inff();
  uint32_t best = 0;
  vi broken = splat_int(0);
  for (uint32_t block = 0; block < blocks_of(tokens); block++) {
    const float here = largest_of_block(logits, tokens, block * BLOCK, &broken);
    if (tops) tops[block] = here;
    if (here > top) top = here, best = block;
  }
  if (any(broken)) return NO_TOKEN;
  if (top == -__builtin_inff()) return NOTHING_ALLOWED;
  *most = top;
  uint32_t i = best * BLOCK;
  while (logits[i] != top) i++;
  return (int32_t)i;
}

/* Logarithm of the sum of exp(logit - most). */
static float log_sum(const float *logits, uint32_t tokens, float most) {
  double sum = 0.0;
  uint32_t i = 0;
  for (; i + 16 <= tokens; i += 16) {
    vf part[HALVES];
    for (int h = 0; h < HALVES; h++) {
      const vf x = (load(logits + i + W * h) - splat(most)) * splat(LOG2_E);
      part[h] = choose(x > splat(-126.0f), exp2_of(x), splat(0.0f));
    }
    sum += (double)sum16(part);
  }
  for (; i < tokens; i++) {
    const vf x = splat((logits[i] - most) * LOG2_E);
    if (x[0] > -126.0f) sum += (double)exp2_of(x)[0];
  }
  return log_of(splat((float)sum))[0];
}

/* How many of the likeliest a slot asked for: -1 is none, and no log-probability at all. */
INLINE uint32_t top_count(int32_t logprobs) {
  return logprobs < 0 ? 0 : logprobs > MOST_TOP ? MOST_TOP : (uint32_t)logprobs;
}

/* The `count` largest logits, lower ids first among equals, as log-probabilities; the rest of
 * the row names none.  Tokens that are out (-inf) are not among them. */
static void top_scores(const float *logits, uint32_t tokens, uint32_t count, float most,
                       float log_total, int32_t *ids, float *values) {
  float best[MOST_TOP];
  uint32_t found = 0;
  float floor = -__builtin_inff();
  for (uint32_t first = 0; count && first < tokens; first += W) {
    const uint32_t last = first + W < tokens ? first + W : tokens;
    if (last - first == W && !any(load(logits + first) > splat(floor))) continue;
    for (uint32_t i = first; i < last; i++) {
      if (!(logits[i] > floor)) continue;
      uint32_t place = found < count ? found++ : count - 1;
      for (; place && best[place - 1] < logits[i]; place--) {
        best[place] = best[place - 1];
        ids[place] = ids[place - 1];
      }
      best[place] = logits[i];
      ids[place] = (int32_t)i;
      if (found == count) floor = best[count - 1];
    }
  }
  for (uint32_t i = 0; i < found; i++) values[i] = (best[i] - most) - log_total;
  for (uint32_t i = found; i < MOST_TOP; i++) ids[i] = NO_TOKEN, values[i] = 0.0f;
}
