/* A lane whose history is complete takes its pending token from the host.  One unit. */
#include "executor.h"
#include "parameters.h"

KERNEL(resume) {
  const struct resume_parameters *p = parameters;
  UNUSED(begin), UNUSED(end), UNUSED(thread);
  for (uint32_t lane = 0; lane < *p->live_rows; lane++)
    p->pending[(size_t)p->slots[lane] * p->slot_stride / 4] = p->pending_tokens[lane];
}
