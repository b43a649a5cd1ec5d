/* What may be drawn, and the draw.
 *
 * Weights are exp((logit - largest) / temperature), so the largest is exactly 1; they are made
 * where they are needed and kept nowhere.  What is kept is always a prefix of the tokens ordered
 * by descending logit, then ascending id; it is held as the last kept pair (`floor`, `last_id`).
 * No step orders the vocabulary: blocks whose largest logit is out are passed over.
 */
#pragma once
#include "noise.h"
#include "scores.h"
#include "simd.h"

struct choice {
  const float *logits;
  const float *tops; /* the largest logit of each block */
  uint32_t tokens;
  uint64_t *work;    /* room for one entry a token */
  float most;
  float inverse;     /* log2(e) / temperature */
  float floor;       /* kept: larger than this, or as large with an id up to last_id */
  uint32_t last_id;
};

/* Walks the vectors of all blocks that hold a logit of at least `least`. */
#define FOR_VECTORS(c, first, least)                                              \
  for (uint32_t block_ = 0; block_ < blocks_of((c)->tokens); block_++)            \
    if ((c)->tops[block_] >= (least))                                             \
      for (uint32_t first = block_ * BLOCK;                                       \
           first < (block_ + 1) * BLOCK && first < (c)->tokens; first += W)

INLINE vf row_at(const struct choice *c, uint32_t first) {
  return logits_at(c->logits, c->tokens, first);
}

INLINE int kept(const struct choice *c, uint32_t id) {
  const float x = c->logits[id];
  return x > c->floor || (x == c->floor && id <= c->last_id);
}

/* Binary logarithms of weights. */
INLINE vf exponents(const struct choice *c, vf logits) {
  return (logits - splat(c->most)) * splat(c->inverse);
}

INLINE vf weights_of(vf exponents) {
  return choose(exponents > splat(-126.0f), exp2_of(exponents), splat(0.0f));
}

/* Order of entries: descending logit, then ascending id. */
INLINE uint64_t entry(float logit, uint32_t id) {
  union { float f; uint32_t u; } bits = {.f = logit + 0.0f}; /* one zero */
  const uint32_t rising = bits.u >> 31 ? ~bits.u : bits.u | 0x80000000u;
  return ((uint64_t)~rising << 32) | id;
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

/* A range of weights in buckets of equal ratio, so that only one bucket needs sorting. */
#define BUCKETS 1024

struct range {
  float heaviest, lightest; /* exponents */
  float scale;              /* buckets a unit of exponent */
  float least;              /* no smaller logit is inside, whatever was rounded */
  uint32_t counts_only;     /* a token measures 1, not its weight */
};

static struct range range_of(const struct choice *c, float heaviest, float lightest,
                             uint32_t counts_only) {
  const float least = c->most + (lightest - 0.5f) / c->inverse;
  return (struct range){heaviest, lightest, BUCKETS / (heaviest - lightest),
                        least > c->floor ? least : c->floor, counts_only};
}

/* Lanes of a vector of exponents that a range holds, and their buckets. */
INLINE vi inside(const struct range *r, vf y) {
  return (y <= splat(r->heaviest)) & (y > splat(r->lightest));
}

INLINE vi bucket_of(const struct range *r, vf y) {
  const vf place = choose(inside(r, y), (splat(r->heaviest) - y) * splat(r->scale), splat(0.0f));
  const vi bucket = __builtin_convertvector(place, vi), last = splat_int(BUCKETS - 1);
  return (vi)choose(bucket < last, (vf)bucket, (vf)last);
}

INLINE vf measure_of(const struct range *r, vf y) {
  return r->counts_only ? splat(1.0f) : weights_of(y);
}

/* Lanes whose tokens are kept. */
INLINE vi kept_lanes(const struct choice *c, vf logits, uint32_t first) {
  vi above = logits > splat(c->floor);
  const vi equal = logits == splat(c->floor);
  if (any(equal))
    for (uint32_t i = 0; i < W; i++)
      if (equal[i] && first + i <= c->last_id) above[i] = -1;
  return above;
}

/* Ranges reach from 0 or a bound to the next.  What is lighter than 2^-48 never wins, for variates
 * are between 2^-33 and 23, and all of it together is under 2^-30 of the whole. */
#define BOUNDS 8
static const float bounds[BOUNDS] = {-2.0f, -5.0f, -8.0f, -11.0f, -15.0f, -20.0f, -28.0f, -48.0f};

/* The measure of everything kept above each of the bounds up to the `deepest`: by blocks in
 * single precision. */
static void measure_bounds(const struct choice *c, uint32_t counts_only, int deepest,
                           double *sums) {
  const struct range all = range_of(c, 0.0f, bounds[deepest], counts_only);
  for (int b = 0; b < BOUNDS; b++) sums[b] = 0.0;
  for (uint32_t block = 0; block < blocks_of(c->tokens); block++) {
    if (!(c->tops[block] >= all.least)) continue;
    const uint32_t first = block * BLOCK;
    const uint32_t end = first + BLOCK < c->tokens ? first + BLOCK : c->tokens;
    vf parts[BOUNDS];
    UNROLL for (int b = 0; b < BOUNDS; b++) parts[b] = splat(0.0f);
    for (uint32_t i = first; i < end; i += W) {
      const vf logits = row_at(c, i), y = exponents(c, logits);
      const vf measure = choose(kept_lanes(c, logits, i), measure_of(&all, y), splat(0.0f));
      UNROLL for (int b = 0; b < BOUNDS; b++)
        parts[b] += choose(y > splat(bounds[b]), measure, splat(0.0f));
    }
    for (int b = 0; b < BOUNDS; b++)
      for (int lane = 0; lane < W; lane++) sums[b] += (double)parts[b][lane];
  }
}

/* The highest bound above which there are surely k tokens, as so many blocks have one. */
static int deepest_of(const struct choice *c, uint32_t k) {
  uint32_t found[BOUNDS] = {0};
  for (uint32_t block = 0; block < blocks_of(c->tokens); block++) {
    const float y = exponents(c, splat(c->tops[block]))[0];
    for (int b = 0; b < BOUNDS; b++) found[b] += y > bounds[b];
  }
  int b = 0;
  while (b + 1 < BOUNDS && found[b] < k) b++;
  return b;
}

static void fill_buckets(const struct choice *c, const struct range *r, double *buckets) {
  for (int b = 0; b < BUCKETS; b++) buckets[b] = 0.0;
  FOR_VECTORS(c, first, r->least) {
    const vf logits = row_at(c, first), y = exponents(c, logits);
    const vi in = inside(r, y) & kept_lanes(c, logits, first);
    if (!any(in)) continue;
    const vi bucket = bucket_of(r, y);
    const vf measure = choose(in, measure_of(r, y), splat(0.0f));
    for (uint32_t i = 0; i < W; i++) buckets[bucket[i]] += (double)measure[i];
  }
}

/* Sorted kept entries of one bucket. */
static uint32_t entries_of(const struct choice *c, const struct range *r, int32_t bucket) {
  uint32_t count = 0;
  FOR_VECTORS(c, first, r->least) {
    const vf logits = row_at(c, first), y = exponents(c, logits);
    if (!any(logits >= splat(r->least))) continue;
    const vi here = inside(r, y) & (bucket_of(r, y) == splat_int(bucket));
    if (!any(here)) continue;
    for (uint32_t i = 0; i < W; i++)
      if (here[i] && kept(c, first + i)) c->work[count++] = entry(c->logits[first + i], first + i);
  }
  sort_entries(c->work, count);
  return count;
}

/* Keep no more of a bucket than reaches `wanted`, `reached` before it. */
static void cut_in(struct choice *c, const struct range *r, int32_t bucket, double reached,
                   double wanted) {
  const uint32_t count = entries_of(c, r, bucket);
  for (uint32_t i = 0; i < count; i++) {
    const uint32_t id = (uint32_t)c->work[i];
    reached += (double)measure_of(r, exponents(c, splat(c->logits[id])))[0];
    if (reached < wanted && i + 1 < count) continue;
    c->floor = c->logits[id];
    c->last_id = id;
    return;
  }
}

/* Keep the shortest prefix of what is kept whose measure reaches `wanted`, given what is above
 * each bound. */
static void keep_until(struct choice *c, double wanted, uint32_t counts_only, const double *sums) {
  double buckets[BUCKETS], before = 0.0;
  int b = 0;
  while (b < BOUNDS && sums[b] < wanted) b++;
  if (b == BOUNDS) return; /* all that is kept is wanted */
  double reached = b ? sums[b - 1] : 0.0;
  const struct range range = range_of(c, b ? bounds[b - 1] : 0.0f, bounds[b], counts_only);
  fill_buckets(c, &range, buckets);
  int32_t last = 0;
  for (int32_t i = 0; i < BUCKETS && reached < wanted; i++) {
    if (buckets[i] == 0.0) continue;
    last = i;
    before = reached;
    reached += buckets[i];
  }
  cut_in(c, &range, last, before, wanted); /* rounding may have kept the sum below `wanted` */
}

static void keep_top_k(struct choice *c, uint32_t k) {
  if (k >= c->tokens) return;
  double counts[BOUNDS];
  measure_bounds(c, 1, deepest_of(c, k), counts);
  keep_until(c, (double)k, 1, counts);
}

static void keep_top_p(struct choice *c, float top_p) {
  double sums[BOUNDS];
  measure_bounds(c, 0, BOUNDS - 1, sums);
  keep_until(c, sums[BOUNDS - 1] * (double)top_p, 0, sums);
}

/* The largest weight is 1. */
static void keep_min_p(struct choice *c, float min_p) {
  const float floor = c->most + log_of(splat(min_p))[0] * (LOG2_E / c->inverse);
  if (floor > c->floor) {
    c->floor = floor;
    c->last_id = 0xffffffff;
  }
}

/* The draw so far: the least variate over weight, and whose it is. */
struct race {
  float best;
  uint32_t token;
};

/* Let W tokens run, with their words. */
static void run_race(struct race *race, const struct choice *c, uint32_t first, vu words) {
  const vf weights = weights_of(exponents(c, row_at(c, first)));
  const vf variates = exponential(words);
  for (uint32_t i = 0; i < W && first + i < c->tokens; i++) {
    if (!kept(c, first + i) || weights[i] == 0.0f) continue;
    const float key = variates[i] / weights[i];
    if (key < race->best || (key == race->best && first + i < race->token))
      race->best = key, race->token = first + i;
  }
}

/* No less than 2^y: a chord lies above the curve. */
INLINE vf more_than_exp2(vf y) {
  const vf bits = (largest(y, splat(-126.0f)) + splat(127.0f)) * splat(0x1p23f);
  return (vf)__builtin_convertvector(bits, vi);
}

/* Tokens whose variate is surely too large, by a bound that costs neither logarithm nor power:
 * a variate is more than its word's part of 2^32.  Rounding is far below the slack. */
INLINE vi may_win(const struct choice *c, float best, vf logits, vu words) {
  const vf part = to_float((vi)(words >> 1));
  const vf bound = more_than_exp2(exponents(c, logits)) * splat(best * 0x1.001p31f);
  return (part <= bound) & (logits >= splat(c->floor));
}

/* The least logit that may still win: no variate is under 2^-33. */
INLINE float least_winner(const struct choice *c, float best) {
  const float y = -33.1f - log_of(splat(best))[0] * LOG2_E;
  const float least = c->most + y / c->inverse;
  return least > c->floor ? least : c->floor;
}

/* The kept token with the least variate over weight; the lowest id among equals. */
static int32_t draw(const struct choice *c, uint32_t heaviest, uint64_t seed, uint32_t position) {
  const struct noise noise = noise_of(seed, position);
  struct race race = {__builtin_inff(), 0};
  run_race(&race, c, heaviest - heaviest % W, noise_at(&noise, heaviest - heaviest % W));
  float least = least_winner(c, race.best);
  FOR_VECTORS(c, first, least) {
    const vf logits = row_at(c, first);
    if (!any(logits >= splat(least))) continue;
    const vu words = noise_at(&noise, first);
    if (!any(may_win(c, race.best, logits, words))) continue;
    run_race(&race, c, first, words);
    least = least_winner(c, race.best);
  }
  return (int32_t)race.token;
}
