/* The next token of each sampled row.
 *
 * In order: repetition, presence and frequency penalties from the slot's histogram, logit bias,
 * end-of-sequence ids out until the minimum output is reached, grammar mask; then temperature,
 * top-k, top-p, min-p.  Greedy (temperature 0) takes the lowest id among the largest.  Otherwise
 * each token draws an exponential variate from Philox, keyed by the slot's seed and counted by
 * (token id, position); the least variate over weight wins, which is Gumbel-max.  A token is
 * thus a function of logits, parameters, seed and position alone.  Log-probabilities are those
 * after the mask and before temperature.  Units are shares of the sampled rows.
 */
#include "executor.h"
#include "parameters.h"
#include "sampling.h"
#include "scores.h"
#include "simd.h"
#include "slot.h"

/* Tokens not seen yet are passed over, W at a time. */
static void penalise(float *logits, const uint16_t *histogram, uint32_t tokens,
                     const struct slot *slot) {
  if (slot->repetition == 1.0f && slot->presence == 0.0f && slot->frequency == 0.0f) return;
  for (uint32_t first = 0; first < tokens; first += W) {
    const uint32_t end = first + W < tokens ? first + W : tokens;
    if (end - first == W && !any(__builtin_convertvector(*(const vh *)(histogram + first), vi) != splat_int(0))) continue;
    for (uint32_t i = first; i < end; i++) {
      if (!histogram[i]) continue;
      float x = logits[i];
      x = x > 0.0f ? x / slot->repetition : x * slot->repetition;
      logits[i] = x - (slot->presence + slot->frequency * (float)histogram[i]);
    }
  }
}

/* Ids end with the first that is negative. */
static void add_bias(float *logits, uint32_t tokens, const int32_t *ids, const float *values) {
  for (int i = 0; i < MOST_BIAS && ids[i] >= 0; i++)
    if ((uint32_t)ids[i] < tokens) logits[ids[i]] += values[i];
}

static void forbid_early_end(float *logits, uint32_t tokens, const struct slot *slot) {
  if (slot->emitted >= slot->minimum_output) return;
  for (int i = 0; i < MOST_EOS; i++)
    if (slot->eos[i] >= 0 && (uint32_t)slot->eos[i] < tokens)
      logits[slot->eos[i]] = -__builtin_inff();
}

/* Tokens whose bit is clear are out. */
static void forbid_masked(float *logits, uint32_t tokens, const uint32_t *mask) {
  vi lanes;
  for (int i = 0; i < W; i++) lanes[i] = i;
  for (uint32_t first = 0; first < tokens; first += 32) {
    const uint32_t word = mask[first / 32];
    if (word == 0xffffffff) continue;
    if (first + 32 > tokens) {
      for (uint32_t i = first; i < tokens; i++)
        if (!(word >> (i % 32) & 1)) logits[i] = -__builtin_inff();
      return;
    }
    for (uint32_t i = 0; i < 32; i += W) {
      const vi clear = ((vi)((vu)splat_int((int32_t)word) >> (vu)(lanes + splat_int((int32_t)i))) &
                        splat_int(1)) == splat_int(0);
      float *at = logits + first + i;
      store(at, choose(clear, splat(-__builtin_inff()), load(at)));
    }
  }
}

/* A thread's own memory: a number for each block, then two lists. */
struct work {
  float *tops, *list;
  uint32_t *ids;
};

static struct work work_in(const struct thread *thread, uint32_t tokens) {
  float *tops = thread->scratch, *list = tops + blocks_of(tokens);
  return (struct work){tops, list, (uint32_t *)(list + tokens + 2 * W)};
}

static int32_t draw_token(const float *logits, uint32_t heaviest, uint32_t position,
                          const struct slot *slot, uint32_t tokens, struct work work) {
  struct choice choice = {
      .logits = logits,
      .tops = work.tops,
      .list = work.list,
      .tokens = tokens,
      .scale = {logits[heaviest], LOG2_E / slot->temperature},
      .kept = tokens,
      .floor = -__builtin_inff(),
  };
  if (slot->top_k) keep_top_k(&choice, slot->top_k);
  if (slot->top_p < 1.0f) keep_top_p(&choice, slot->top_p);
  if (slot->min_p > 0.0f) keep_min_p(&choice, slot->min_p);
  return draw(&choice, heaviest, slot->seed, position, work.ids);
}

KERNEL(sample) {
  const struct sample_parameters *p = parameters;
  const struct work work = work_in(thread, p->tokens);
  FOR_SHARED_ROWS(s, *p->samples) {
    const uint32_t lane = p->sample_lanes[s], row = p->sample_rows[s];
    const size_t number = p->slots[lane];
    const struct slot *slot = (const struct slot *)(p->states + number * p->slot_stride);
    float *logits = p->logits + (size_t)(p->by_row ? row : s) * p->stride;
    penalise(logits, p->histograms + number * p->histogram_width, p->tokens, slot);
    add_bias(logits, p->tokens, p->bias_ids + number * MOST_BIAS, p->bias_values + number * MOST_BIAS);
    forbid_early_end(logits, p->tokens, slot);
    forbid_masked(logits, p->tokens, p->masks + number * p->mask_words);
    float most;
    int32_t token = largest_logit(logits, p->tokens, &most, work.tops);
    if (token >= 0 && slot->temperature > 0.0f && most < __builtin_inff())
      token = draw_token(logits, (uint32_t)token, (uint32_t)p->positions[row] + 1, slot, p->tokens, work);
    p->sampled[lane] = token;
    if (token < 0 || slot->logprobs < 0) continue;
    const float total = log_sum(logits, p->tokens, most);
    p->logprobs[lane] = (logits[token] - most) - total;
    top_scores(logits, p->tokens, top_count(slot->logprobs), most, total,
               p->top_ids + (size_t)lane * MOST_TOP,
               p->top_logprobs + (size_t)lane * MOST_TOP);
  }
}
