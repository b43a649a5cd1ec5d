/* What may be drawn, and the draw.
 *
 * Weights are exp((logit - largest) / temperature), so the largest is exactly 1.  What is kept
 * is always a prefix of the tokens ordered by descending weight, then ascending id; it is held
 * as the last kept pair (`floor`, `last_id`).
 */
#pragma once
#include "simd.h"
#include "slot.h"

struct choice {
  float *weights;
  uint32_t tokens;
  uint64_t *work;   /* room for one entry a token */
  float floor;      /* kept: heavier than this, or as heavy with an id up to last_id */
  uint32_t last_id;
};

INLINE uint32_t bits_of(float x) {
  union { float f; uint32_t u; } b = {.f = x};
  return b.u;
}

INLINE int kept(const struct choice *c, uint32_t id) {
  const float w = c->weights[id];
  return w > c->floor || (w == c->floor && id <= c->last_id);
}

static void weigh_tokens(struct choice *c, float most, float temperature) {
  const vf inverse = splat(LOG2_E / temperature);
  uint32_t i = 0;
  for (; i + W <= c->tokens; i += W) {
    const vf x = (load(c->weights + i) - splat(most)) * inverse;
    store(c->weights + i, choose(x > splat(-126.0f), exp2_of(x), splat(0.0f)));
  }
  for (; i < c->tokens; i++) {
    const vf x = (splat(c->weights[i]) - splat(most)) * inverse;
    c->weights[i] = x[0] > -126.0f ? exp2_of(x)[0] : 0.0f;
  }
  c->floor = 0.0f;
  c->last_id = 0xffffffff;
}

/* Order of entries: descending weight, then ascending id.  A weight's bits order as it does. */
INLINE uint64_t entry(float weight, uint32_t id) {
  return ((uint64_t)(0xffffffff - bits_of(weight)) << 32) | id;
}

static void sift(uint64_t *heap, uint32_t at, uint32_t count) {
  const uint64_t value = heap[at];
  for (uint32_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && heap[child + 1] > heap[child]) child++;
    if (heap[child] <= value) break;
    heap[at] = heap[child];
  }
  heap[at] = value;
}

static void sort_entries(uint64_t *entries, uint32_t count) {
  for (uint32_t i = count / 2; i-- > 0;) sift(entries, i, count);
  for (uint32_t n = count; n-- > 1;) {
    const uint64_t last = entries[n];
    entries[n] = entries[0];
    entries[0] = last;
    sift(entries, 0, n);
  }
}

/* Buckets of weights by exponent and top mantissa bits, so that only one needs sorting. */
#define BUCKET_SHIFT 20
#define BUCKETS ((0x3f800000u >> BUCKET_SHIFT) + 1)

INLINE uint32_t bucket_of(float weight) { return bits_of(weight) >> BUCKET_SHIFT; }

/* Sorted kept entries of one bucket. */
static uint32_t entries_of(const struct choice *c, uint32_t bucket) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < c->tokens; i++)
    if (bucket_of(c->weights[i]) == bucket && kept(c, i))
      c->work[count++] = entry(c->weights[i], i);
  sort_entries(c->work, count);
  return count;
}

static void cut_after(struct choice *c, uint64_t last) {
  union { uint32_t u; float f; } b = {.u = 0xffffffff - (uint32_t)(last >> 32)};
  c->floor = b.f;
  c->last_id = (uint32_t)last;
}

static void keep_top_k(struct choice *c, uint32_t k) {
  uint32_t counts[BUCKETS] = {0};
  for (uint32_t i = 0; i < c->tokens; i++) counts[bucket_of(c->weights[i])]++;
  uint32_t above = 0, bucket = BUCKETS;
  while (bucket-- > 0) {
    if (above + counts[bucket] >= k) break;
    above += counts[bucket];
  }
  if (bucket >= BUCKETS) return; /* k is no smaller than the vocabulary */
  entries_of(c, bucket);
  cut_after(c, c->work[k - above - 1]);
}

/* The shortest prefix whose weight reaches top_p of what was kept. */
static void keep_top_p(struct choice *c, float top_p) {
  double sums[BUCKETS] = {0}, total = 0.0;
  for (uint32_t i = 0; i < c->tokens; i++)
    if (kept(c, i)) sums[bucket_of(c->weights[i])] += (double)c->weights[i];
  for (uint32_t b = BUCKETS; b-- > 0;) total += sums[b];
  const double wanted = total * (double)top_p;
  double reached = 0.0;
  for (uint32_t b = BUCKETS; b-- > 0;) {
    if (reached + sums[b] < wanted) {
      reached += sums[b];
      continue;
    }
    const uint32_t count = entries_of(c, b);
    for (uint32_t i = 0; i < count; i++) {
      union { uint32_t u; float f; } w = {.u = 0xffffffff - (uint32_t)(c->work[i] >> 32)};
      reached += (double)w.f;
      if (reached >= wanted || i + 1 == count) {
        cut_after(c, c->work[i]);
        return;
      }
    }
  }
}

static void keep_min_p(struct choice *c, float min_p) {
  if (min_p > c->floor) { /* the largest weight is 1 */
    c->floor = min_p;
    c->last_id = 0xffffffff;
  }
}

/* Philox 4x32-10, first word, for W counters (id, position, 0, 0). */
INLINE vu philox(vu id, uint32_t position, uint64_t seed) {
  vu a = id, b = (vu)splat_int((int32_t)position), c = (vu)splat_int(0), d = c;
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  typedef uint64_t wide __attribute__((vector_size(8 * W)));
  for (int round = 0; round < 10; round++) {
    const wide m0 = __builtin_convertvector(a, wide) * 0xD2511F53u;
    const wide m1 = __builtin_convertvector(c, wide) * 0xCD9E8D57u;
    const vu low0 = __builtin_convertvector(m0, vu), high0 = __builtin_convertvector(m0 >> 32, vu);
    const vu low1 = __builtin_convertvector(m1, vu), high1 = __builtin_convertvector(m1 >> 32, vu);
    a = high1 ^ b ^ (vu)splat_int((int32_t)k0);
    b = low1;
    c = high0 ^ d ^ (vu)splat_int((int32_t)k1);
    d = low0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return a;
}

/* Exponential variates: -log(1 - v) with v = (word + 1/2) / 2^32, exact in relative terms for
 * the small ones, which win. */
INLINE vf exponential(vu word) {
  const vf wide = to_float((vi)(word >> 8)) * splat(256.0f) + to_float((vi)(word & 0xff));
  vf v = (wide + splat(0.5f)) * splat(0x1p-32f);
  const vf y = splat(1.0f) - v;
  const vf from_log = -log_of(choose(y > splat(0.0f), y, splat(0x1p-25f)));
  const vf corrected = from_log * v / (splat(1.0f) - y);
  return choose(v < splat(0x1p-24f), v, choose(y > splat(0.0f), corrected, from_log));
}

/* The kept token with the least variate over weight; the lowest id among equals. */
static int32_t draw(const struct choice *c, uint64_t seed, uint32_t position) {
  float best = __builtin_inff();
  int32_t token = -1;
  for (uint32_t first = 0; first < c->tokens; first += W) {
    const uint32_t last = first + W < c->tokens ? first + W : c->tokens;
    float most = 0.0f;
    for (uint32_t i = first; i < last; i++)
      if (kept(c, i) && c->weights[i] > most) most = c->weights[i];
    /* No variate is under 2^-33: a block too light to win is not drawn. */
    if (most == 0.0f || most * best < 0x1p-33f) continue;
    vu ids;
    for (int i = 0; i < W; i++) ids[i] = first + (uint32_t)i;
    const vf variate = exponential(philox(ids, position, seed));
    for (uint32_t i = first; i < last; i++) {
      if (!kept(c, i) || c->weights[i] == 0.0f) continue;
      const float key = variate[i - first] / c->weights[i];
      if (key < best) best = key, token = (int32_t)i;
    }
  }
  return token;
}
