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

INLINE size_t block_nbytes(const int format, uint32_t groups) {
  switch (format) {
    case Q4_0: return (size_t)groups * Q4_0_GROUP;
    case Q4_1: return (size_t)groups * Q4_1_GROUP;
    case Q8_0: return (size_t)groups * Q8_0_GROUP;
    case Q4_K: return (size_t)groups / 8 * Q4_K_HEADER + (size_t)groups * Q4_K_GROUP;
    default: return (size_t)groups / 8 * Q6_K_HEADER + (size_t)groups * Q6_K_GROUP;
  }
}

INLINE vf small_integers(const uint8_t *p, int is_signed) {
  vf out;
  for (int i = 0; i < W; i++) out[i] = is_signed ? (float)(int8_t)p[i] : (float)p[i];
  return out;
}

#if W == 8 && defined(__AVX2__) && !defined(__AVXVNNI__)
INLINE int32_t half_bias(const int8_t *q) { (void)q; return 0; }
#else
INLINE int32_t half_bias(const int8_t *q) {
  int32_t total = 0;
  for (int i = 0; i < 16; i++) total += q[i];
  return -128 * total;
}
#endif

/* Exact integer products of 32 columns: of q alone, or of 256 q + fine. */
INLINE vi nibble_products(const struct columns *w, const int8_t *q, const int8_t *fine) {
  const vi coarse = dot_nibbles(w, q);
  return fine ? (coarse << 8) + dot_nibbles(w, fine) : coarse;
}

INLINE vi byte_products(const struct columns *w, int first, int count, const int8_t *q,
                        const int8_t *fine, int32_t bias) {
  if (!fine) return dot_bytes(w, first, count, q, bias);
  return (dot_bytes(w, first, count, q, 0) << 8) + dot_bytes(w, first, count, fine, bias);
}

/* Add one group's products of `rows` activation rows to sum[row][half], halves [h0, h1). */
INLINE void add_group(const int format, const int fine, const uint8_t *w, const uint8_t *header,
                      const struct activation *x, size_t index, const int rows, const int h0,
                      const int h1, vf sum[][HALVES]) {
  for (int h = h0; h < h1; h++) {
    struct columns columns;
    vf scale, minimum = splat(0.0f), second = splat(0.0f);
    switch (format) {
      case Q4_0:
        load_nibbles(w, h, &columns);
        scale = load_half((const uint16_t *)(w + 256) + W * h);
        break;
      case Q4_1:
        load_nibbles(w, h, &columns);
        scale = load_half((const uint16_t *)(w + 256) + W * h);
        minimum = load_half((const uint16_t *)(w + 288) + W * h);
        break;
      case Q8_0:
        load_bytes(w, h, &columns);
        scale = load_half((const uint16_t *)(w + 512) + W * h);
        break;
      case Q4_K:
        load_nibbles(w, h, &columns);
        scale = load_half((const uint16_t *)header + W * h) * small_integers(w + 256 + W * h, 0);
        minimum =
            -load_half((const uint16_t *)(header + 32) + W * h) * small_integers(w + 272 + W * h, 0);
        break;
      default:
        load_bytes(w, h, &columns);
        second = load_half((const uint16_t *)header + W * h);
        scale = second * small_integers(w + 512 + W * h, 1);
        second = second * small_integers(w + 528 + W * h, 1);
    }
    UNROLL for (int r = 0; r < rows; r++) {
      const int8_t *q = x->q + (index + r) * 32;
      const int8_t *f = fine ? x->fine + (index + r) * 32 : 0;
      const vf xs = splat(x->scale[index + r]);
      vf s = sum[r][h];
      if (format == Q4_1 || format == Q4_K)
        s = multiply_add(minimum, splat(x->sum[index + r]), s);
      if (format == Q6_K) {
        const int32_t first = fine ? 256 * half_bias(q) + half_bias(f) : half_bias(q);
        const int32_t last = fine ? 256 * half_bias(q + 16) + half_bias(f + 16) : half_bias(q + 16);
        const vi a = byte_products(&columns, 0, 4, q, f, first);
        const vi b = byte_products(&columns, 4, 4, q, f, last);
        s = multiply_add(to_float(a), scale * xs, s);
        s = multiply_add(to_float(b), second * xs, s);
      } else if (format == Q8_0) {
        const vi dot = byte_products(&columns, 0, 8, q, f, x->bias[index + r]);
        s = multiply_add(to_float(dot), scale * xs, s);
      } else if (format == Q4_0) {
        /* Weights are q - 8: the bias is -128 x sum of digits, -8 x sum a sixteenth of it. */
        const vi dot = nibble_products(&columns, q, f) + splat_int(x->bias[index + r] / 16);
        s = multiply_add(to_float(dot), scale * xs, s);
      } else {
        s = multiply_add(to_float(nibble_products(&columns, q, f)), scale * xs, s);
      }
      sum[r][h] = s;
    }
  }
}

INLINE void add_block(const int format, const int fine, const uint8_t *w, uint32_t groups,
                      const struct activation *x, size_t index, const int rows, const int h0,
                      const int h1, vf sum[][HALVES]) {
  const uint8_t *header = w;
  for (uint32_t g = 0; g < groups; g++, index += 16) {
    size_t step = Q4_0_GROUP;
    if (format == Q4_1) step = Q4_1_GROUP;
    if (format == Q8_0) step = Q8_0_GROUP;
    if (format == Q4_K || format == Q6_K) {
      step = format == Q4_K ? Q4_K_GROUP : Q6_K_GROUP;
      if (g % 8 == 0) {
        header = w;
        w += format == Q4_K ? Q4_K_HEADER : Q6_K_HEADER;
      }
    }
    add_group(format, fine, w, header, x, index, rows, h0, h1, sum);
    w += step;
  }
}

/* 16 outputs of `rows` activation rows, beginning at `row`, all in one tile. */
INLINE void block_times_rows(const int format, const int fine, const uint8_t *w, uint32_t groups,
                             const struct activation *x, uint32_t row, const int rows,
                             float (*out)[16]) {
  vf sum[MOST_ROWS][HALVES];
  const size_t index = activation_index(row, 0, groups);
  UNROLL for (int r = 0; r < rows; r++)
    for (int h = 0; h < HALVES; h++) sum[r][h] = splat(0.0f);
  if (rows <= 2) { /* the weights come from memory: read each line once */
    add_block(format, fine, w, groups, x, index, rows, 0, HALVES, sum);
  } else { /* they come from the first-level cache: spare registers */
    for (int h = 0; h < HALVES; h++)
      add_block(format, fine, w, groups, x, index, rows, h, h + 1, sum);
  }
  UNROLL for (int r = 0; r < rows; r++)
    for (int h = 0; h < HALVES; h++) store(out[r] + W * h, sum[r][h]);
}

/* The same for any count up to MOST_ROWS; returns how many rows were done. */
INLINE uint32_t block_times(const int format, const int fine, const uint8_t *w, uint32_t groups,
                            const struct activation *x, uint32_t row, uint32_t left,
                            float (*out)[16]) {
  const uint32_t in_tile = 16 - row % 16;
  if (left > in_tile) left = in_tile;
#if MOST_ROWS == 16
  if (left >= 16) return block_times_rows(format, fine, w, groups, x, row, 16, out), 16;
  if (left >= 8) return block_times_rows(format, fine, w, groups, x, row, 8, out), 8;
#endif
  if (left >= 4) return block_times_rows(format, fine, w, groups, x, row, 4, out), 4;
  if (left >= 2) return block_times_rows(format, fine, w, groups, x, row, 2, out), 2;
  return block_times_rows(format, fine, w, groups, x, row, 1, out), 1;
}

INLINE void linear(const int format, const int fine, const struct linear_parameters *p, uint32_t begin,
                   uint32_t end) {
  const struct activation x = {p->q, p->fine, p->scale, p->sum, p->bias};
  const uint32_t rows = *p->rows;
  const size_t nbytes = block_nbytes(format, p->groups);
  float y[MOST_ROWS][16];
  for (uint32_t b = begin; b < end; b++) {
    for (uint32_t row = 0, done; row < rows; row += done) {
      done = block_times(format, fine, p->weights + b * nbytes, p->groups, &x, row, rows - row, y);
      for (uint32_t r = 0; r < done; r++) {
        float *out = p->out + (size_t)(row + r) * p->stride + 16 * (size_t)b;
        for (int i = 0; i < HALVES; i++) {
          const vf value = load(y[r] + W * i);
          store(out + W * i, p->accumulate ? load(out + W * i) + value : value);
        }
      }
    }
  }
}

/* silu(gate) x up, quantised: blocks lie as gate, gate, up, up for 32 columns of the result. */
INLINE void gated_linear(const int format, const int fine,
                         const struct gated_linear_parameters *p, uint32_t begin, uint32_t end) {
  const struct activation x = {p->q, p->fine, p->scale, p->sum, p->bias};
  const struct activation out = {p->out_q, p->out_fine, p->out_scale, p->out_sum, p->out_bias};
  const uint32_t rows = *p->rows;
  const size_t nbytes = block_nbytes(format, p->groups);
  float y[4][MOST_ROWS][16];
  for (uint32_t unit = begin; unit < end; unit++) {
    const uint8_t *w = p->weights + 4 * unit * nbytes;
    for (uint32_t row = 0, done; row < rows; row += done) {
      done = 0;
      for (int b = 0; b < 4; b++)
        done = block_times(format, fine, w + b * nbytes, p->groups, &x, row, rows - row, y[b]);
      for (uint32_t r = 0; r < done; r++) {
        float gated[32];
        for (int b = 0; b < 2; b++)
          for (int i = 0; i < HALVES; i++)
            store(gated + 16 * b + W * i,
                  silu(load(y[b][r] + W * i)) * load(y[2 + b][r] + W * i));
        quantise_group(gated, &out, activation_index(row + r, unit, p->out_groups));
      }
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
