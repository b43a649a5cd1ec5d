/* y = W x for packed weights and quantised activations.
 *
 * Order of summation, for every level and every number of rows: groups in ascending order;
 * within a group the minimum's product first, then the exact integer dot product times
 * (weight scale x activation scale).  Units are blocks of 16 outputs, or of 32 when gated.
 */
#include "activation.h"
#include "executor.h"
#include "packed.h"
#include "parameters.h"

enum format { Q4_0, Q4_1, Q8_0, Q4_K, Q6_K };

/* Rows taken through a block at once; more would not fit the registers. */
#if W == 16
#define MOST_ROWS 16
#else
#define MOST_ROWS 4
#endif

/* One row waits for memory, and processors read several streams faster than one: so many parts of
 * the weights are read in turn, a group of each (docs/log.md, 2026-11-30). */
#define STREAMS 4

INLINE size_t group_nbytes(const int format) {
  switch (format) {
    case Q4_0: return Q4_0_GROUP;
    case Q4_1: return Q4_1_GROUP;
    case Q8_0: return Q8_0_GROUP;
    case Q4_K: return Q4_K_GROUP;
    default: return Q6_K_GROUP;
  }
}

INLINE size_t block_nbytes(const int format, uint32_t groups) {
  const size_t header = format == Q4_K ? Q4_K_HEADER : format == Q6_K ? Q6_K_HEADER : 0;
  return groups * group_nbytes(format) + groups / 8 * header;
}

INLINE vf small_integers(const uint8_t *p, int is_signed) {
  vf out;
  for (int i = 0; i < W; i++) out[i] = is_signed ? (float)(int8_t)p[i] : (float)p[i];
  return out;
}

/* -128 x sum of the first or the last 16 digits of a group: 6-bit numbers have a scale for each. */
INLINE int32_t half_bias(const int fine, const struct activation *x, size_t index, int last) {
  int32_t total = 0;
  for (int i = 16 * last; i < 16 * last + 16; i++)
    total += fine ? x->fine[index * 32 + i] : x->q[index * 32 + i];
  return -128 * total;
}

INLINE vf scales_of(const int format, const uint8_t *w, const uint8_t *header, int h, int last) {
  switch (format) {
    case Q4_0:
    case Q4_1: return load_half((const uint16_t *)(w + 256) + W * h);
    case Q8_0: return load_half((const uint16_t *)(w + 512) + W * h);
    case Q4_K:
      return load_half((const uint16_t *)header + W * h) * small_integers(w + 256 + W * h, 0);
    default:
      return load_half((const uint16_t *)header + W * h) *
             small_integers(w + (last ? 528 : 512) + W * h, 1);
  }
}

INLINE vf minima_of(const int format, const uint8_t *w, const uint8_t *header, int h) {
  if (format == Q4_1) return load_half((const uint16_t *)(w + 288) + W * h);
  return -load_half((const uint16_t *)(header + 32) + W * h) * small_integers(w + 272 + W * h, 0);
}

/* Add the products of weight dwords [first, last) of one group to sum[row][half]. */
INLINE void add_dwords(const int format, const int fine, const uint8_t *w, const uint8_t *header,
                       const int first, const int last, const struct activation *x, size_t index,
                       const int rows, vf sum[][HALVES]) {
  const int width = format == Q8_0 || format == Q6_K ? BYTES : NIBBLES;
  const int minimum = format == Q4_1 || format == Q4_K;
  vi products[MOST_ROWS][HALVES];
  vf scales[HALVES], minima[HALVES];
  dot(width, fine, w, first, last, x, index, rows, products);
  UNROLL for (int h = 0; h < HALVES; h++) {
    scales[h] = scales_of(format, w, header, h, first > 0);
    if (minimum) minima[h] = minima_of(format, w, header, h);
  }
  UNROLL for (int r = 0; r < rows; r++) {
    int32_t bias = 0;
    if (format == Q4_0) bias = x->bias[index + r] / 16; /* weights are q - 8 */
    if (format == Q8_0 && UNSIGNED_BYTES(fine)) bias = x->bias[index + r];
    if (format == Q6_K && UNSIGNED_BYTES(fine)) bias = half_bias(fine, x, index + r, first > 0);
    const vf scale = splat(x->scale[index + r]), digits = splat(x->sum[index + r]);
    UNROLL for (int h = 0; h < HALVES; h++) {
      if (minimum) sum[r][h] = multiply_add(minima[h], digits, sum[r][h]);
      const vf product = to_float(products[r][h] + splat_int(bias));
      sum[r][h] = multiply_add(product, scales[h] * scale, sum[r][h]);
    }
  }
}

/* The next group of a block whose header, if it has any, is at `header`. */
INLINE void add_group(const int format, const int fine, const uint8_t *w, const uint8_t *header,
                      const struct activation *x, size_t index, const int rows,
                      vf sum[][HALVES]) {
  if (format == Q6_K) {
    add_dwords(format, fine, w, header, 0, 4, x, index, rows, sum);
    add_dwords(format, fine, w, header, 4, 8, x, index, rows, sum);
  } else {
    add_dwords(format, fine, w, header, 0, format == Q8_0 ? 8 : 4, x, index, rows, sum);
  }
}

/* 16 outputs of each of `blocks` blocks, `apart` bytes from one to the next, for `rows`
 * activation rows, beginning at `row`, all in one tile.  out[block x rows + row]. */
INLINE void blocks_times_rows(const int format, const int fine, const uint8_t *w, size_t apart,
                              const int blocks, uint32_t groups, const struct activation *x,
                              uint32_t row, const int rows, float (*out)[16]) {
  vf sum[MOST_ROWS][HALVES];
  const uint8_t *header = w;
  const int eights = format == Q4_K || format == Q6_K;
  size_t index = activation_index(row, 0, groups);
  UNROLL for (int r = 0; r < blocks * rows; r++)
    UNROLL for (int h = 0; h < HALVES; h++) sum[r][h] = splat(0.0f);
  for (uint32_t g = 0; g < groups; g++, index += 16) {
    if (eights && g % 8 == 0) {
      header = w;
      w += format == Q4_K ? Q4_K_HEADER : Q6_K_HEADER;
    }
    UNROLL for (int b = 0; b < blocks; b++)
      add_group(format, fine, w + b * apart, header + b * apart, x, index, rows, sum + b * rows);
    w += group_nbytes(format);
  }
  UNROLL for (int r = 0; r < blocks * rows; r++)
    UNROLL for (int h = 0; h < HALVES; h++) store(out[r] + W * h, sum[r][h]);
}

/* The same of one block for any count up to MOST_ROWS; returns how many rows were done. */
INLINE uint32_t block_times(const int format, const int fine, const uint8_t *w, uint32_t groups,
                            const struct activation *x, uint32_t row, uint32_t left,
                            float (*out)[16]) {
#define TIMES(n) blocks_times_rows(format, fine, w, 0, 1, groups, x, row, n, out), n
  const uint32_t in_tile = 16 - row % 16;
  if (left > in_tile) left = in_tile;
#if MOST_ROWS == 16
  if (left >= 16) return TIMES(16);
  if (left >= 8) return TIMES(8);
#endif
  if (left >= 4) return TIMES(4);
  if (left >= 2) return TIMES(2);
  return TIMES(1);
}

INLINE void put_row(const struct linear_parameters *p, uint32_t row, uint32_t block,
                    const float *y) {
  float *out = p->out + (size_t)row * p->stride + 16 * (size_t)block;
  for (int i = 0; i < HALVES; i++) {
    const vf value = load(y + W * i);
    store(out + W * i, p->accumulate ? load(out + W * i) + value : value);
  }
}

/* One row times as many units as `streams` equal parts of [begin, end) hold; returns the rest's. */
INLINE uint32_t in_streams(const int format, const int fine, const int streams,
                           const struct linear_parameters *p, uint32_t begin, uint32_t end) {
  const struct activation x = {p->q, p->fine, p->scale, p->sum, p->bias};
  const size_t nbytes = block_nbytes(format, p->groups);
  const uint32_t part = (end - begin) / streams;
  float y[MOST_ROWS][16];
  for (uint32_t b = begin; b < begin + part; b++) {
    blocks_times_rows(format, fine, p->weights + b * nbytes, part * nbytes, streams, p->groups, &x,
                      0, 1, y);
    for (int s = 0; s < streams; s++) put_row(p, 0, b + s * part, y[s]);
  }
  return begin + streams * part;
}

INLINE void linear(const int format, const int fine, const struct linear_parameters *p, uint32_t begin,
                   uint32_t end) {
  const struct activation x = {p->q, p->fine, p->scale, p->sum, p->bias};
  const uint32_t rows = *p->rows;
  const size_t nbytes = block_nbytes(format, p->groups);
  float y[MOST_ROWS][16];
  if (rows == 1) {
    begin = in_streams(format, fine, STREAMS, p, begin, end);
    begin = in_streams(format, fine, (STREAMS + 1) / 2, p, begin, end);
  }
  for (uint32_t b = begin; b < end; b++)
    for (uint32_t row = 0, done; row < rows; row += done) {
      done = block_times(format, fine, p->weights + b * nbytes, p->groups, &x, row, rows - row, y);
      for (uint32_t r = 0; r < done; r++) put_row(p, row + r, b, y[r]);
    }
}

/* silu(gate) x up of 32 columns of one row: two blocks of each. */
INLINE void quantise_gated(float (*const gate)[16], float (*const up)[16], size_t apart,
                           const struct activation *out, size_t index) {
  float gated[32];
  for (int b = 0; b < 2; b++)
    for (int i = 0; i < HALVES; i++)
      store(gated + 16 * b + W * i,
            silu(load(gate[b * apart] + W * i)) * load(up[b * apart] + W * i));
  quantise_group(gated, out, index);
}

/* As `in_streams`. */
INLINE uint32_t gated_in_streams(const int format, const int fine, const int streams,
                                 const struct gated_linear_parameters *p, uint32_t begin,
                                 uint32_t end) {
  const struct activation x = {p->q, p->fine, p->scale, p->sum, p->bias};
  const struct activation out = {p->out_q, p->out_fine, p->out_scale, p->out_sum, p->out_bias};
  const size_t nbytes = block_nbytes(format, p->groups);
  const uint32_t part = (end - begin) / streams;
  float y[4][MOST_ROWS][16];
  for (uint32_t unit = begin; unit < begin + part; unit++) {
    for (int b = 0; b < 4; b++)
      blocks_times_rows(format, fine, p->weights + (4 * (size_t)unit + b) * nbytes,
                        4 * part * nbytes, streams, p->groups, &x, 0, 1, y[b]);
    for (int s = 0; s < streams; s++)
      quantise_gated(y[0] + s, y[2] + s, MOST_ROWS, &out,
                     activation_index(0, unit + s * part, p->out_groups));
  }
  return begin + streams * part;
}

/* silu(gate) x up, quantised: blocks lie as gate, gate, up, up for 32 columns of the result. */
INLINE void gated_linear(const int format, const int fine,
                         const struct gated_linear_parameters *p, uint32_t begin, uint32_t end) {
  const struct activation x = {p->q, p->fine, p->scale, p->sum, p->bias};
  const struct activation out = {p->out_q, p->out_fine, p->out_scale, p->out_sum, p->out_bias};
  const uint32_t rows = *p->rows;
  const size_t nbytes = block_nbytes(format, p->groups);
  float y[4][MOST_ROWS][16];
  if (rows == 1) {
    begin = gated_in_streams(format, fine, STREAMS, p, begin, end);
    begin = gated_in_streams(format, fine, (STREAMS + 1) / 2, p, begin, end);
  }
  for (uint32_t unit = begin; unit < end; unit++) {
    const uint8_t *w = p->weights + 4 * unit * nbytes;
    for (uint32_t row = 0, done; row < rows; row += done) {
      done = 0;
      for (int b = 0; b < 4; b++)
        done = block_times(format, fine, w + b * nbytes, p->groups, &x, row, rows - row, y[b]);
      for (uint32_t r = 0; r < done; r++)
        quantise_gated(y[0] + r, y[2] + r, MOST_ROWS, &out,
                       activation_index(row + r, unit, p->out_groups));
    }
  }
}

#define DEFINE(format, name)                                                       \
  KERNEL(linear_##name) {                                                          \
    UNUSED(thread);                                                                \
    const struct linear_parameters *p = parameters;                                \
    if (p->fine)                                                                   \
      linear(format, 1, p, begin, end);                                            \
    else                                                                           \
      linear(format, 0, p, begin, end);                                            \
  }                                                                                \
  KERNEL(gated_linear_##name) {                                                    \
    UNUSED(thread);                                                                \
    const struct gated_linear_parameters *p = parameters;                          \
    if (p->fine)                                                                   \
      gated_linear(format, 1, p, begin, end);                                      \
    else                                                                           \
      gated_linear(format, 0, p, begin, end);                                      \
  }

DEFINE(Q4_0, q4_0)
DEFINE(Q4_1, q4_1)
DEFINE(Q8_0, q8_0)
DEFINE(Q4_K, q4_k)
DEFINE(Q6_K, q6_k)

/* ---- weights kept as numbers ------------------------------------------- */

enum number { FLOAT16, BFLOAT16, FLOAT32 };

INLINE vf load_numbers(const int number, const uint8_t *w, size_t index) {
  if (number == FLOAT16) return load_half((const uint16_t *)w + index);
  if (number == BFLOAT16) return load_bfloat((const uint16_t *)w + index);
  return load((const float *)w + index);
}

/* A block is [column][16]; four running sums take columns 0, 1, 2, 3 modulo 4. */
INLINE void block_times_row(const int number, const uint8_t *w, uint32_t columns, const float *x,
                            vf out[HALVES]) {
  vf sum[4][HALVES];
  for (int i = 0; i < 4; i++)
    for (int h = 0; h < HALVES; h++) sum[i][h] = splat(0.0f);
  for (uint32_t c = 0; c < columns; c += 4)
    for (int i = 0; i < 4; i++)
      for (int h = 0; h < HALVES; h++)
        sum[i][h] = multiply_add(load_numbers(number, w, 16 * (size_t)(c + i) + W * h),
                                 splat(x[c + i]), sum[i][h]);
  for (int h = 0; h < HALVES; h++)
    out[h] = (sum[0][h] + sum[1][h]) + (sum[2][h] + sum[3][h]);
}

INLINE void number_linear(const int number, const struct number_linear_parameters *p,
                          uint32_t begin, uint32_t end) {
  const uint32_t rows = *p->rows;
  const size_t nbytes = (size_t)p->columns * 16 * (number == FLOAT32 ? 4 : 2);
  for (uint32_t b = begin; b < end; b++)
    for (uint32_t row = 0; row < rows; row++) {
      vf y[HALVES];
      block_times_row(number, p->weights + b * nbytes, p->columns,
                      p->x + (size_t)row * p->x_stride, y);
      float *out = p->out + (size_t)row * p->stride + 16 * (size_t)b;
      for (int h = 0; h < HALVES; h++)
        store(out + W * h, p->accumulate ? load(out + W * h) + y[h] : y[h]);
    }
}

/* silu(gate) x up over two halves of one row; units are shares of the rows. */
KERNEL(silu_gate) {
  const struct silu_gate_parameters *p = parameters;
  UNUSED(thread);
  FOR_SHARED_ROWS(row, *p->rows) {
    const float *gate = p->x + (size_t)row * p->stride, *up = gate + p->columns;
    float *out = p->out + (size_t)row * p->out_stride;
    for (uint32_t c = 0; c < p->columns; c += W) store(out + c, silu(load(gate + c)) * load(up + c));
  }
}

#define DEFINE_NUMBER(number, name)                   \
  KERNEL(linear_##name) {                             \
    UNUSED(thread);                                   \
    number_linear(number, parameters, begin, end);    \
  }

DEFINE_NUMBER(FLOAT16, f16)
DEFINE_NUMBER(BFLOAT16, bf16)
DEFINE_NUMBER(FLOAT32, f32)
