/* What a kernel and the executor know of each other. */
#pragma once
#include <stddef.h>
#include <stdint.h>

/* The thread that runs a kernel, and memory that is its own. */
struct thread {
  uint32_t index;
  void *scratch;
};

/* Do units [begin, end) of the launch whose parameters these are.  Units of one launch may run
 * at once and in any order; launches of a program run one after another. */
typedef void kernel_function(const void *parameters, uint32_t begin, uint32_t end,
                             const struct thread *thread);

/* Kernels over rows have a fixed number of units, each a share of whatever rows are live, so that
 * work is even for any count and a launch is the same at every capacity. */
#define SHARES 64u

static inline uint32_t first_of_share(uint32_t rows, uint32_t share) {
  return (uint32_t)((uint64_t)rows * share / SHARES);
}

#define FOR_SHARED_ROWS(row, rows)                                       \
  for (uint32_t row = first_of_share(rows, begin), row##_end = first_of_share(rows, end); \
       row < row##_end; row++)

#define KERNEL(name)                                                                      \
  __attribute__((visibility("default"))) void name(const void *parameters, uint32_t begin, \
                                                   uint32_t end, const struct thread *thread)
#define UNUSED(x) (void)(x)
