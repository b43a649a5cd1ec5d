/* The next token of each sampled row.
 *
 * End-of-sequence ids are out until the minimum output is reached.  Then, in order: repetition, presence and frequency penalties from the slot's histogram, then
 * temperature, top-k, top-p, min-p.  Greedy (temperature 0) takes the lowest id among the
 * largest.  Otherwise each token draws an exponential variate from Philox, keyed by the slot's
 * seed and counted by (token id, position); the least variate over weight wins, which is
 * Gumbel-max.  A token is thus a function of logits, parameters, seed and position alone.
 * Units are shares of the sampled rows.
 */
#include "executor.h"
#include "parameters.h"
#include "sampling.h"
#include "simd.h"

#define NO_TOKEN (-1)

static void penalise(float *logits, const uint16_t *histogram, uint32_t tokens,
                     const struct slot *slot) {
  if (slot->repetition == 1.0f && slot->presence == 0.0f && slot->frequency == 0.0f) return;
  for (uint32_t i = 0; i < tokens; i++) {
    if (!histogram[i]) continue;
    float x = logits[i];
    x = x > 0.0f ? x / slot->repetition : x * slot->repetition;
    logits[i] = x - (slot->presence + slot->frequency * (float)histogram[i]);
  }
}

static void forbid_early_end(float *logits, uint32_t tokens, const struct slot *slot) {
  if (slot->emitted >= slot->minimum_output) return;
  for (int i = 0; i < MOST_EOS; i++)
    if (slot->eos[i] >= 0 && (uint32_t)slot->eos[i] < tokens)
      logits[slot->eos[i]] = -__builtin_inff();
}

/* The largest logit and the lowest id that has it; NO_TOKEN when a logit is undefined. */
static int32_t largest_logit(const float *logits, uint32_t tokens, float *most) {
  int32_t best = NO_TOKEN;
  float top = -__builtin_inff();
  for (uint32_t i = 0; i < tokens; i++) {
    if (logits[i] != logits[i]) return NO_TOKEN;
    if (logits[i] > top || best == NO_TOKEN) top = logits[i], best = (int32_t)i;
  }
  *most = top;
  return best;
}

KERNEL(sample) {
  const struct sample_parameters *p = parameters;
  FOR_SHARED_ROWS(s, *p->samples) {
    const uint32_t lane = p->sample_lanes[s], row = p->sample_rows[s];
    const uint32_t number = p->slots[lane];
    const struct slot *slot = (const struct slot *)(p->states + (size_t)number * p->slot_stride);
    float *logits = p->logits + (size_t)s * p->stride;
    penalise(logits, p->histograms + (size_t)number * p->histogram_width, p->tokens, slot);
    forbid_early_end(logits, p->tokens, slot);
    float most;
    int32_t token = largest_logit(logits, p->tokens, &most);
    if (token != NO_TOKEN && slot->temperature > 0.0f) {
      struct choice choice = {.weights = logits, .tokens = p->tokens,
                              .work = thread->scratch};
      weigh_tokens(&choice, most, slot->temperature);
      if (slot->top_k) keep_top_k(&choice, slot->top_k);
      if (slot->top_p < 1.0f) keep_top_p(&choice, slot->top_p);
      if (slot->min_p > 0.0f) keep_min_p(&choice, slot->min_p);
      token = draw(&choice, slot->seed, (uint32_t)p->positions[row] + 1);
    }
    p->sampled[lane] = token;
  }
}
