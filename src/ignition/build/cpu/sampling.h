/* The draw: of the kept tokens that with the least exponential variate over weight wins, the lowest
 * id among equals.
 *
 * Every token that may win needs its word, and few need more: a variate is no less than its
 * word's part of 2^32, so that a word above what the best key so far leaves to the heaviest token
 * around is out, whatever its token weighs.
 */
#pragma once
#include "keeping.h"
#include "noise.h"

struct race {
  const struct choice *choice;
  const struct noise *noise;
  uint32_t *ids; /* of listed logits; room for as many */
  float best;    /* the least key so far, and whose it is */
  uint32_t token;
};

INLINE vu ids_from(uint32_t first) {
  vu lanes;
  UNROLL for (uint32_t i = 0; i < W; i++) lanes[i] = i;
  return lanes + first;
}

/* Lets W tokens run. */
static void run(struct race *race, vf logits, vu ids, vu words) {
  const vf keys = exponential(words) / weights_of(exponents(race->choice->scale, logits));
  if (!any(keys <= splat(race->best))) return;
  for (int i = 0; i < W; i++)
    if (keys[i] < race->best || (keys[i] == race->best && ids[i] < race->token))
      race->best = keys[i], race->token = ids[i];
}

/* No larger word wins for a token of this weight: rounding is far below the slack. */
INLINE uint32_t last_word(const struct race *race, float weight) {
  const float part = race->best * weight * 1.001f;
  return part < 1.0f ? (uint32_t)(part * 0x1p32f) : 0xffffffffu;
}

INLINE vi up_to(vu words, uint32_t last) { return (vi)(words <= splat_word(last)); }

static void run_block(struct race *race, uint32_t first, float heaviest) {
  const struct choice *c = race->choice;
  vu words[BLOCK / W], least = splat_word(0xffffffff);
  for (uint32_t v = 0; v < BLOCK / W; v += PAIR) {
    UNROLL for (uint32_t i = v; i < v + PAIR; i++) words[i] = ids_from(first + i * W);
    make_words(race->noise, words + v);
    UNROLL for (uint32_t i = v; i < v + PAIR; i++) least = __builtin_elementwise_min(least, words[i]);
  }
  const uint32_t last = last_word(race, heaviest);
  if (!any(up_to(least, last))) return;
  for (uint32_t v = 0; v < BLOCK / W; v++)
    if (any(up_to(words[v], last)))
      run(race, logits_at(c->logits, c->tokens, first + v * W), ids_from(first + v * W), words[v]);
}

static void run_listed(struct race *race, uint32_t count) {
  const struct choice *c = race->choice;
  for (uint32_t first = 0; first < count; first += PAIR * W) {
    vu ids[PAIR], words[PAIR];
    UNROLL for (uint32_t i = 0; i < PAIR; i++)
      ids[i] = words[i] = (vu)load_int(race->ids + first + i * W);
    make_words(race->noise, words);
    for (uint32_t i = 0; i < PAIR; i++)
      if (any(up_to(words[i], last_word(race, 1.0f))))
        run(race, logits_at(c->list, count, first + i * W), ids[i], words[i]);
  }
}

/* Lists what a block has above `least`, and the first `equals` that are as large. */
static uint32_t list_kept(const struct race *race, uint32_t begin, float least, uint32_t *equals,
                          uint32_t listed) {
  const struct choice *c = race->choice;
  float room[BLOCK];
  const float *logits = block_at(c, begin, room);
  for (uint32_t i = 0; i < BLOCK; i += W) {
    const vf x = load(logits + i);
    const vi equal = x == splat(least);
    vi kept = x >= splat(least);
    if (any(equal))
      for (int lane = 0; lane < W; lane++)
        if (equal[lane]) kept[lane] = *equals && (*equals)-- ? -1 : 0;
    store_packed(c->list + listed, x, kept);
    listed += store_packed((float *)race->ids + listed, (vf)ids_from(begin + i), kept);
  }
  return listed;
}

/* No smaller logit wins, for no variate is under 2^-33. */
static float least_winner(const struct race *race) {
  const struct scale s = race->choice->scale;
  return s.most - (33.1f + log_of(splat(race->best))[0] * LOG2_E) / s.inverse;
}

/* Whether many tokens of a block may win, by those it begins with. */
INLINE int crowded(const struct choice *c, uint32_t first, float least) {
  uint32_t found = 0;
  for (uint32_t i = first; i < first + 16 && i < c->tokens; i++) found += c->logits[i] >= least;
  return found > 8;
}

/* Everyone runs: block by block where nearly all that a block has may win, else listed. */
static void run_kept(struct race *race) {
  const struct choice *c = race->choice;
  const float winner = least_winner(race), least = winner > c->floor ? winner : c->floor;
  uint32_t listed = 0, equals = winner > c->floor ? c->tokens : c->equals;
  for (uint32_t block = 0; block < blocks_of(c->tokens); block++) {
    const uint32_t first = block * BLOCK;
    if (!(c->tops[block] >= least)) continue;
    if (c->floor == -__builtin_inff() && crowded(c, first, least))
      run_block(race, first, weights_of(exponents(c->scale, splat(c->tops[block])))[0]);
    else
      listed = list_kept(race, first, least, &equals, listed);
  }
  run_listed(race, listed);
}

/* The token at a position, of those that are kept. */
static int32_t draw(const struct choice *c, uint32_t heaviest, uint64_t seed, uint32_t position,
                    uint32_t *ids) {
  const struct noise noise = noise_of(seed, position);
  struct race race = {c, &noise, ids, __builtin_inff(), heaviest};
  vu words[PAIR] = {splat_word(heaviest), splat_word(heaviest)};
  make_words(&noise, words);
  run(&race, splat(c->scale.most), splat_word(heaviest), words[0]);
  run_kept(&race);
  return (int32_t)race.token;
}
