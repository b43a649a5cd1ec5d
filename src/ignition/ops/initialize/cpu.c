/* Admission: each live row's slot takes its generation, endpoint, limits and sampling.  One unit. */
#include "executor.h"
#include "parameters.h"
#include "slot.h"

KERNEL(initialize) {
  const struct initialize_parameters *p = parameters;
  UNUSED(begin), UNUSED(end), UNUSED(thread);
  for (uint32_t lane = 0; lane < *p->live_rows; lane++) {
    struct slot *slot = (struct slot *)(p->states + (size_t)p->slots[lane] * p->slot_stride);
    slot->generation = p->generations[lane];
    slot->pending = -1;
    slot->consumed = p->consumed[lane];
    slot->emitted = 0;
    slot->output_limit = p->output_limits[lane];
    slot->minimum_output = p->minimum_outputs[lane];
    slot->seed = p->seeds[lane];
    slot->temperature = p->temperatures[lane];
    slot->top_p = p->top_ps[lane];
    slot->min_p = p->min_ps[lane];
    slot->top_k = p->top_ks[lane];
    slot->repetition = p->repetitions[lane];
    slot->presence = p->presences[lane];
    slot->frequency = p->frequencies[lane];
    slot->finished = 0;
    slot->logprobs = p->logprob_counts[lane];
    for (int i = 0; i < MOST_EOS; i++) slot->eos[i] = p->eos_ids[lane * MOST_EOS + i];
  }
}
