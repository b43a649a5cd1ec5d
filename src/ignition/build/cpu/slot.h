/* One request slot's state, as admission writes it and sampling reads it.  The state views of
 * the contract name the same offsets (`preparation/contract.py`). */
#pragma once
#include <stdint.h>

#define MOST_EOS 16
#define MOST_BIAS 512

struct slot {
  uint32_t generation;
  int32_t pending;
  uint32_t consumed;
  uint32_t emitted;
  uint32_t output_limit;
  uint32_t minimum_output;
  uint64_t seed;
  float temperature;
  float top_p;
  float min_p;
  uint32_t top_k;
  float repetition;
  float presence;
  float frequency;
  uint32_t finished; /* finish bits, once set the lane emits no more */
  int32_t eos[MOST_EOS];
  int32_t logprobs; /* alternatives to report of each token; -1: not even its own */
};
