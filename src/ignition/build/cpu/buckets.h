/* Where a prefix of logits in falling order ends: found among listed logits, bucket by bucket, so
 * that only a few are ever sorted.
 *
 * Weights are exp((logit - largest) / temperature), so the largest is exactly 1; they are made
 * where they are needed and kept nowhere.
 */
#pragma once
#include "scores.h"
#include "simd.h"

struct scale {
  float most;
  float inverse; /* log2(e) / temperature */
};

/* A token measures its weight, or 1 where tokens are counted. */
enum measure { WEIGHTS, COUNTS };

/* Binary logarithms of weights. */
INLINE vf exponents(struct scale s, vf logits) {
  return (logits - splat(s.most)) * splat(s.inverse);
}

INLINE vf weights_of(vf exponents) {
  return choose(exponents > splat(-126.0f), exp2_of(exponents), splat(0.0f));
}

INLINE vf measure_of(struct scale s, enum measure measure, vf logits) {
  return measure == COUNTS ? splat(1.0f) : weights_of(exponents(s, logits));
}

/* Where logits lie. */
struct span { float least, top; };

/* Those of a list are finite. */
static struct span span_of(const float *list, uint32_t count) {
  const vf out = splat(-__builtin_inff());
  vf least = -out, top = out;
  for (uint32_t first = 0; first < count; first += W) {
    const vf x = logits_at(list, count, first);
    least = smallest(choose(x > out, x, least), least);
    top = largest(x, top);
  }
  struct span span = {least[0], top[0]};
  for (int i = 1; i < W; i++) {
    span.least = least[i] < span.least ? least[i] : span.least;
    span.top = top[i] > span.top ? top[i] : span.top;
  }
  return span;
}

#define BUCKETS 512

/* Measures by size, in equal parts of a span from its top down. */
struct buckets {
  struct span span;
  double sums[BUCKETS];
};

static void clear_buckets(struct buckets *b, struct span span) {
  b->span = span;
  for (int i = 0; i < BUCKETS; i++) b->sums[i] = 0.0;
}

/* The top's is always the first and the least's the last, however near they are. */
INLINE vi bucket_of(const struct buckets *b, vf logits) {
  const vf part = (splat(b->span.top) - logits) / splat(b->span.top - b->span.least);
  return __builtin_convertvector(smallest(part * splat(BUCKETS), splat(BUCKETS - 1)), vi);
}

/* Adds a list, each entry so many times. */
static void fill_buckets(struct buckets *b, struct scale s, enum measure measure,
                         const float *list, uint32_t count, float times) {
  for (uint32_t first = 0; first < count; first += W) {
    const vf x = logits_at(list, count, first);
    const vf each = choose(x >= splat(b->span.least), measure_of(s, measure, x), splat(0.0f)) * splat(times);
    const vi bucket = bucket_of(b, x);
    UNROLL for (int i = 0; i < W; i++) b->sums[bucket[i]] += (double)each[i];
  }
}

/* The bucket in which `wanted` is reached, or the last that holds anything; `before` grows by
 * what is ahead of it. */
static int32_t bucket_reaching(const struct buckets *b, double wanted, double *before) {
  int32_t last = 0;
  double reached = *before;
  for (int32_t i = 0; i < BUCKETS && reached < wanted; i++) {
    if (b->sums[i] == 0.0) continue;
    last = i;
    *before = reached;
    reached += b->sums[i];
  }
  return last;
}

static uint32_t keep_bucket(const struct buckets *b, float *list, uint32_t count, int32_t bucket) {
  uint32_t left = 0;
  for (uint32_t first = 0; first < count; first += W) {
    const vf x = logits_at(list, count, first);
    const vi here = (bucket_of(b, x) == splat_int(bucket)) & (x >= splat(b->span.least));
    left += store_packed(list + left, x, here);
  }
  return left;
}

static void sort_falling(float *list, uint32_t count) {
  for (uint32_t i = 1; i < count; i++) {
    const float x = list[i];
    uint32_t at = i;
    for (; at && list[at - 1] < x; at--) list[at] = list[at - 1];
    list[at] = x;
  }
}

/* An end: the first `equals` of `all` logits that are `floor`. */
struct end {
  float floor;
  uint32_t equals, all;
};

/* How many of `all` that measure `one` each give what is missing; one at least. */
static uint32_t needed_of(double missing, double one, uint32_t all) {
  if (!(missing < one * (double)all)) return all;
  if (!(missing > 0.0)) return 1;
  const uint32_t whole = (uint32_t)(missing / one);
  return whole + (!whole || one * (double)whole < missing);
}

/* The end in a list that falls. */
static struct end end_in_order(struct scale s, enum measure measure, const float *list,
                               uint32_t count, double before, double wanted) {
  struct end end = {0.0f, 0, 0};
  for (uint32_t first = 0; first < count && (!first || before < wanted); first += end.all) {
    end = (struct end){list[first], 0, 0};
    while (first + end.all < count && list[first + end.all] == end.floor) end.all++;
    const double one = (double)measure_of(s, measure, splat(end.floor))[0];
    end.equals = needed_of(wanted - before, one, end.all);
    before += one * (double)end.all;
  }
  return end;
}

#define FEW 24u

/* The end of the shortest prefix that reaches `wanted`, `before` being ahead of the list; its
 * last entry where it is too short.  The list is used up. */
static struct end end_of_prefix(struct scale s, enum measure measure, float *list, uint32_t count,
                                double before, double wanted) {
  while (count > FEW) {
    struct buckets buckets;
    const struct span span = span_of(list, count);
    if (span.least == span.top) break;
    clear_buckets(&buckets, span);
    fill_buckets(&buckets, s, measure, list, count, 1.0f);
    count = keep_bucket(&buckets, list, count, bucket_reaching(&buckets, wanted, &before));
  }
  sort_falling(list, count);
  return end_in_order(s, measure, list, count, before, wanted);
}
