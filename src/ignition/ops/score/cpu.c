/* How likely the model held each row's target, and what it held likelier: log-softmax of the
 * logits as the model gave them.  A row without a target is left alone.  Units are shares of
 * the token rows.
 */
#include "executor.h"
#include "parameters.h"
#include "scores.h"
#include "slot.h"

KERNEL(score) {
  const struct score_parameters *p = parameters;
  UNUSED(thread);
  FOR_SHARED_ROWS(row, *p->rows) {
    const int32_t target = p->targets[row];
    if (target < 0 || (uint32_t)target >= p->tokens) continue;
    const uint32_t number = p->slots[p->lanes[row]];
    const struct slot *slot = (const struct slot *)(p->states + (size_t)number * p->slot_stride);
    const float *logits = p->logits + (size_t)row * p->stride;
    float most = __builtin_nanf("");
    float total = most;
    if (largest_logit(logits, p->tokens, &most, NULL) >= 0) total = log_sum(logits, p->tokens, most);
    p->logprobs[row] = (logits[target] - most) - total;
    top_scores(logits, p->tokens, top_count(slot->logprobs), most, total,
               p->top_ids + (size_t)row * MOST_TOP, p->top_logprobs + (size_t)row * MOST_TOP);
  }
}
