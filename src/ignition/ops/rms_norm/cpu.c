/* Root-mean-square norm of rows, then quantised or kept as floats.
 *
 * The sum of squares runs over 16 lanes in ascending blocks, then over the lanes in a fixed
 * tree.  Units are shares of the result's rows; `picks`, when given, says which input row each one is.
 */
#include "activation.h"
#include "executor.h"
#include "parameters.h"

static float scale_of(const float *x, uint32_t columns, float epsilon) {
  vf sum[HALVES];
  for (int h = 0; h < HALVES; h++) sum[h] = splat(0.0f);
  for (uint32_t c = 0; c < columns; c += 16)
    for (int h = 0; h < HALVES; h++) {
      const vf v = load(x + c + W * h);
      sum[h] = multiply_add(v, v, sum[h]);
    }
  return 1.0f / __builtin_sqrtf(sum16(sum) / (float)columns + epsilon);
}

KERNEL(rms_norm_quantise) {
  const struct rms_norm_quantise_parameters *p = parameters;
  const struct activation out = {p->q, p->fine, p->scale, p->sum, p->bias};
  const uint32_t groups = p->columns / 32;
  UNUSED(thread);
  FOR_SHARED_ROWS(row, *p->rows) {
    const float *x = p->x + (size_t)(p->picks ? p->picks[row] : row) * p->stride;
    const vf scale = splat(scale_of(x, p->columns, p->epsilon));
    for (uint32_t g = 0; g < groups; g++) {
      float y[32];
      for (int i = 0; i < 32; i += W)
        store(y + i, load(x + 32 * g + i) * scale * load(p->weight + 32 * g + i));
      quantise_group(y, &out, activation_index(row, g, groups));
    }
  }
}

KERNEL(rms_norm) {
  const struct rms_norm_parameters *p = parameters;
  UNUSED(thread);
  FOR_SHARED_ROWS(row, *p->rows) {
    const float *x = p->x + (size_t)(p->picks ? p->picks[row] : row) * p->stride;
    const vf scale = splat(scale_of(x, p->columns, p->epsilon));
    for (uint32_t c = 0; c < p->columns; c += W)
      store(p->out + (size_t)row * p->out_stride + c, load(x + c) * scale * load(p->weight + c));
  }
}

/* Quantise rows of floats. */
KERNEL(quantise) {
  const struct quantise_parameters *p = parameters;
  const struct activation out = {p->q, p->fine, p->scale, p->sum, p->bias};
  const uint32_t groups = p->columns / 32;
  UNUSED(thread);
  FOR_SHARED_ROWS(row, *p->rows)
    for (uint32_t g = 0; g < groups; g++)
      quantise_group(p->x + (size_t)row * p->stride + 32 * g, &out,
                     activation_index(row, g, groups));
}
