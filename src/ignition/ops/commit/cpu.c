/* What a submission leaves behind: the slots' state, and the completion record.  One unit.
 *
 * Each lane's endpoint moves over the rows it contributed.  A sampled token becomes pending and
 * is emitted, unless the lane had finished before; it finishes when the token ends the sequence
 * or the output limit is reached.  A lane that may sample nothing fails alone, and emits no more.
 * An undefined logit fails the record (status 1).
 */
#include "executor.h"
#include "parameters.h"
#include "slot.h"

#define END_OF_SEQUENCE 1u
#define OUTPUT_LIMIT 2u
#define NOTHING_ALLOWED_BIT 4u
#define NO_TOKEN (-1)
#define NOTHING_ALLOWED (-2)

static int ends_sequence(const struct slot *slot, int32_t token) {
  for (int i = 0; i < MOST_EOS; i++)
    if (slot->eos[i] == token) return 1;
  return 0;
}

KERNEL(commit) {
  const struct commit_parameters *p = parameters;
  UNUSED(begin), UNUSED(end), UNUSED(thread);
  const uint32_t lanes = *p->live_rows;
  uint32_t status = 0, sample = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    const uint32_t number = p->slots[lane];
    struct slot *slot = (struct slot *)(p->states + (size_t)number * p->slot_stride);
    uint32_t emitted = 0;
    slot->consumed += p->query_lengths ? p->query_lengths[lane] : p->moves;
    p->lane_tokens[lane] = NO_TOKEN;
    if (p->sampled && sample < p->counts[2] && p->sample_lanes[sample] == lane) {
      const int32_t token = p->sampled[lane];
      sample++;
      if (token == NO_TOKEN) {
        status = 1;
      } else if (token == NOTHING_ALLOWED) {
        if (!slot->finished) slot->finished = NOTHING_ALLOWED_BIT;
      } else if (!slot->finished) {
        emitted = 1;
        slot->pending = token;
        slot->emitted++;
        p->lane_tokens[lane] = token;
        uint16_t *seen = p->histograms + (size_t)number * p->histogram_width + token;
        if (*seen != 0xffff) ++*seen;
        if (ends_sequence(slot, token)) slot->finished |= END_OF_SEQUENCE;
        if (slot->emitted >= slot->output_limit) slot->finished |= OUTPUT_LIMIT;
      }
    }
    p->lane_slot[lane] = number;
    p->lane_generation[lane] = slot->generation;
    p->lane_consumed[lane] = slot->consumed;
    p->lane_emitted[lane] = emitted;
    p->lane_offered[lane] = 0;
    p->lane_accepted[lane] = 0;
    p->lane_cursor[lane] = -1;
    p->lane_reserved[lane] = -1;
    p->lane_finish[lane] = slot->finished;
  }
  *p->record_sequence = *p->sequence;
  *p->record_frame = *p->frame;
  *p->record_program = *p->program;
  *p->record_rows = lanes;
  *p->record_status = status;
}
