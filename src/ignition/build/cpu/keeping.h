/* What may be drawn: top-k, top-p and min-p.
 *
 * What is kept is always a prefix of the tokens ordered by descending logit, then ascending id:
 * what is above `floor`, and the first `equals` of what is as large.  No step orders the
 * vocabulary: a sample of the row says about where a prefix ends, one pass measures what is above
 * and lists the few logits around, and the end is found among these.  A bad guess costs another
 * pass, never another token: what does not depend on the guess decides.
 */
#pragma once
#include "buckets.h"

struct choice {
  const float *logits;
  const float *tops; /* the largest logit of each block */
  float *list;       /* room for a logit a token, and two vectors */
  uint32_t tokens;
  struct scale scale;
  uint32_t kept;     /* no more tokens than these are kept */
  float floor;
  uint32_t equals;
};

/* Logits up to this one are not measured: they are not kept, or lighter than 2^-48, and all of
 * those together are under 2^-30 of the whole. */
INLINE float bottom_of(const struct choice *c, enum measure measure) {
  const float light = c->scale.most - 48.0f / c->scale.inverse;
  return measure == WEIGHTS && light > c->floor && light < c->scale.most ? light : c->floor;
}

/* Where an end is looked for. */
struct bracket { float least, under; };

/* What a pass finds: measures of all that is kept, and of what is above the bracket; the logits
 * in it are listed. */
struct found {
  double total, above, within;
  uint32_t listed;
};

INLINE uint32_t end_of_block(const struct choice *c, uint32_t first) {
  return first + BLOCK < c->tokens ? first + BLOCK : c->tokens;
}

/* BLOCK logits; those beyond the end are out. */
INLINE const float *block_at(const struct choice *c, uint32_t first, float *room) {
  if (first + BLOCK <= c->tokens) return c->logits + first;
  for (uint32_t i = 0; i < BLOCK; i += W) store(room + i, logits_at(c->logits, c->tokens, first + i));
  return room;
}

INLINE void measure_block(const struct choice *c, enum measure measure, const float *logits,
                          float bottom, float under, struct found *found) {
  vf all[HALVES], above[HALVES];
  UNROLL for (int h = 0; h < HALVES; h++) all[h] = above[h] = splat(0.0f);
  for (uint32_t i = 0; i < BLOCK; i += 16) {
    UNROLL for (int h = 0; h < HALVES; h++) {
      const vf x = load(logits + i + W * h);
      const vf each = choose(x > splat(bottom), measure_of(c->scale, measure, x), splat(0.0f));
      all[h] += each;
      above[h] += choose(x >= splat(under), each, splat(0.0f));
    }
  }
  found->total += (double)sum16(all);
  found->above += (double)sum16(above);
}

INLINE void list_block(const struct choice *c, const float *logits, float bottom, struct bracket b,
                       struct found *found) {
  for (uint32_t i = 0; i < BLOCK; i += W) {
    const vf x = load(logits + i);
    const vi within = (x > splat(bottom)) & (x >= splat(b.least)) & (x < splat(b.under));
    found->listed += store_packed(c->list + found->listed, x, within);
  }
}

/* What of the floor itself is kept is last of all. */
static void list_equals(const struct choice *c, enum measure measure, struct bracket b,
                        struct found *found) {
  if (bottom_of(c, measure) > c->floor) return;
  found->total += (double)c->equals * (double)measure_of(c->scale, measure, splat(c->floor))[0];
  if (b.least > c->floor) return;
  for (uint32_t i = 0; i < c->equals; i++) c->list[found->listed++] = c->floor;
}

INLINE struct found look(const struct choice *c, enum measure measure, struct bracket b) {
  const float bottom = bottom_of(c, measure);
  struct found found = {0.0, 0.0, 0.0, 0};
  float room[BLOCK];
  for (uint32_t block = 0; block < blocks_of(c->tokens); block++) {
    if (!(c->tops[block] > bottom)) continue;
    const float *logits = block_at(c, block * BLOCK, room);
    if (measure == WEIGHTS || c->tops[block] >= b.under) /* nobody asks how many there are in all */
      measure_block(c, measure, logits, bottom, b.under, &found);
    if (c->tops[block] >= b.least) list_block(c, logits, bottom, b, &found);
  }
  list_equals(c, measure, b, &found);
  for (uint32_t i = 0; i < found.listed; i += W) {
    const vf x = logits_at(c->list, found.listed, i), each = measure_of(c->scale, measure, x);
    for (uint32_t lane = 0; lane < W && i + lane < found.listed; lane++)
      found.within += (double)each[lane];
  }
  return found;
}

/* ---- where to look ----------------------------------------------------------------------- */

/* How much is wanted: so many tokens, or a share of the weight. */
struct wanted {
  enum measure measure;
  double much;
};

INLINE double wanted_of(struct wanted wanted, double total) {
  return wanted.measure == COUNTS ? wanted.much : wanted.much * total;
}

/* The sample: the heaviest tokens, and the rest of one block of 32. */
#define HEAVY 256u
#define APART 32u

/* The logit that so many blocks reach: so many tokens surely do. */
static float reached_by(const struct choice *c, uint32_t blocks) {
  for (uint32_t b = 0; b < blocks_of(c->tokens); b++) c->list[b] = c->tops[b];
  return end_of_prefix(c->scale, COUNTS, c->list, blocks_of(c->tokens), 0.0, blocks).floor;
}

/* Lists the heaviest above what all reach, then the others. */
static uint32_t list_sample(const struct choice *c, float bottom, float heavy, uint32_t *heaviest) {
  struct found found = {0.0, 0.0, 0.0, 0};
  float room[BLOCK];
  for (uint32_t block = 0; block < blocks_of(c->tokens); block++)
    if (c->tops[block] >= heavy)
      list_block(c, block_at(c, block * BLOCK, room), bottom, (struct bracket){heavy, __builtin_inff()}, &found);
  *heaviest = found.listed;
  for (uint32_t block = 0; block < blocks_of(c->tokens); block += APART)
    list_block(c, block_at(c, block * BLOCK, room), bottom, (struct bracket){bottom, heavy}, &found);
  return found.listed;
}

static void sample_row(const struct choice *c, enum measure measure, struct buckets *buckets) {
  const float bottom = bottom_of(c, measure);
  uint32_t heaviest;
  const uint32_t all = list_sample(c, bottom, reached_by(c, HEAVY), &heaviest);
  clear_buckets(buckets, span_of(c->list, all));
  fill_buckets(buckets, c->scale, measure, c->list, heaviest, 1.0f);
  fill_buckets(buckets, c->scale, measure, c->list + heaviest, all - heaviest, (float)APART);
}

/* Around the likely end: three or four deviations of the sample to both sides. */
static struct bracket likely_bracket(const struct choice *c, struct wanted wanted) {
  struct buckets buckets;
  sample_row(c, wanted.measure, &buckets);
  double total = 0.0, before = 0.0;
  for (int i = 0; i < BUCKETS; i++) total += buckets.sums[i];
  const double middle = wanted_of(wanted, total);
  const double slack = wanted.measure == COUNTS ? 128.0 + middle / 8.0 : 0.15 * (total - middle);
  const float part = (buckets.span.top - buckets.span.least) / BUCKETS;
  struct bracket b = {bottom_of(c, wanted.measure), __builtin_inff()};
  if (middle > slack)
    b.under = buckets.span.top - part * (float)bucket_reaching(&buckets, middle - slack, &before);
  before = 0.0;
  if (middle + slack < total)
    b.least = buckets.span.top - part * (float)(bucket_reaching(&buckets, middle + slack, &before) + 1);
  return b;
}

static struct bracket first_bracket(const struct choice *c, struct wanted wanted) {
  const struct bracket all = {bottom_of(c, wanted.measure), __builtin_inff()};
  if (c->kept <= BLOCK * HEAVY) return all;
  if (wanted.measure == COUNTS && wanted.much * 4.0 <= (double)blocks_of(c->tokens))
    return (struct bracket){reached_by(c, (uint32_t)wanted.much), __builtin_inff()};
  return likely_bracket(c, wanted);
}

/* ---- what is kept ------------------------------------------------------------------------ */

/* Keep the shortest prefix of what is kept that reaches what is wanted. */
INLINE void keep_until(struct choice *c, struct wanted wanted) {
  const float bottom = bottom_of(c, wanted.measure);
  const struct bracket b = first_bracket(c, wanted);
  struct found found = look(c, wanted.measure, b);
  const double goal = wanted_of(wanted, found.total);
  if (found.above >= goal && b.under < __builtin_inff())
    found = look(c, wanted.measure, (struct bracket){b.under, __builtin_inff()});
  else if (found.above + found.within < goal && b.least > bottom)
    found = look(c, wanted.measure, (struct bracket){bottom, b.least});
  if (!found.listed) return; /* all is wanted, but for rounding */
  const struct end end =
      end_of_prefix(c->scale, wanted.measure, c->list, found.listed, found.above, goal);
  c->floor = end.floor;
  c->equals = end.equals;
}

static void keep_top_k(struct choice *c, uint32_t k) {
  if (k >= c->tokens) return;
  keep_until(c, (struct wanted){COUNTS, (double)k});
  c->kept = k;
}

static void keep_top_p(struct choice *c, float top_p) {
  keep_until(c, (struct wanted){WEIGHTS, (double)top_p});
}

/* The largest weight is 1. */
static void keep_min_p(struct choice *c, float min_p) {
  const float floor = c->scale.most + log_of(splat(min_p))[0] * (LOG2_E / c->scale.inverse);
  if (floor <= c->floor) return;
  c->floor = floor;
  c->equals = c->tokens;
}
