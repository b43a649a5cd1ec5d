/* Which token rows a submission has: their ids, positions and lanes, and which rows sample.
 *
 * One unit.  Without `prompt_tokens` every lane contributes its pending token at the endpoint
 * its slot has consumed; with them, lanes contribute their prompt tokens, packed one after
 * another, except lanes whose query length is zero.  With `prefill_row` only that lane takes
 * prompt tokens; what is packed for the others' rows is not looked at.
 */
#include "executor.h"
#include "parameters.h"

KERNEL(lay_rows) {
  const struct lay_rows_parameters *p = parameters;
  UNUSED(begin), UNUSED(end), UNUSED(thread);
  const uint32_t lanes = *p->live_rows;
  uint32_t row = 0, samples = 0;
  for (uint32_t lane = 0; lane < lanes; lane++) {
    const uint32_t slot = p->slots[lane];
    const uint32_t length = p->query_lengths ? p->query_lengths[lane] : 1;
    const int prompt = p->prompt_tokens && (!p->prefill_row || *p->prefill_row == lane);
    for (uint32_t i = 0; i < length; i++, row++) {
      if (prompt) {
        p->tokens[row] = p->prompt_tokens[row];
        p->positions[row] = p->prompt_positions[row];
      } else {
        p->tokens[row] = p->pending[(size_t)slot * p->slot_stride / 4];
        p->positions[row] = p->consumed[(size_t)slot * p->slot_stride / 4];
      }
      p->lanes[row] = lane;
      if (p->every_row) p->every_row[row] = row;
    }
    if (length && (!p->sampling || p->sampling[lane])) {
      p->sample_rows[samples] = row - 1;
      p->sample_lanes[samples] = lane;
      samples++;
    }
  }
  p->counts[0] = row;
  p->counts[1] = lanes;
  p->counts[2] = samples;
}
