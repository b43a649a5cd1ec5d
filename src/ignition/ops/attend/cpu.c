/* Causal attention of packed rows over paged keys and values.
 *
 * An item is `tile` consecutive token rows and one key head with all its query heads; units are
 * shares of the items.  Each
 * query row is computed alone in this order, whatever the tile: scores of 16 positions at a
 * time over ascending column pairs; the maximum; exponentials summed over 16 lanes in ascending
 * blocks, then over the lanes in a fixed tree; values over ascending pairs of positions.
 * A position past a row's own contributes an exact zero.
 */
#include "activation.h"
#include "executor.h"
#include "parameters.h"

#define MOST_WIDTH 256
#define MOST_QUERIES 16 /* rows x heads of a run: what a unit keeps scores for */

#if W == 16
#define SCORE_ROWS 6
#define VALUE_ROWS 6
#else
#define SCORE_ROWS 4
#define VALUE_ROWS 3
#endif
#define VALUE_VECTORS (W == 16 ? 4 : 4)

struct run {
  const struct attend_parameters *p;
  const uint32_t *pages;    /* of the lane's slot */
  size_t history;           /* offset of layer and head within a page */
  uint32_t positions;       /* most any query sees */
  uint32_t queries;
  uint32_t limits[MOST_QUERIES];        /* positions each query sees */
  const float *rows[MOST_QUERIES];      /* its numbers */
  float *scores;                        /* [query][stride] */
  uint32_t stride;
};

/* Where the history of position block `block` (16 positions) lies. */
INLINE const uint8_t *keys_of(const struct run *run, uint32_t block) {
  const struct attend_parameters *p = run->p;
  const uint32_t blocks = p->page_tokens / 16;
  return p->keys + (size_t)run->pages[block / blocks] * p->page_stride + run->history +
         (size_t)(block % blocks) * p->width * 32;
}

INLINE const uint8_t *values_of(const struct run *run, uint32_t block) {
  const struct attend_parameters *p = run->p;
  const uint32_t blocks = p->page_tokens / 16;
  return p->values + (size_t)run->pages[block / blocks] * p->page_stride + run->history +
         (size_t)(block % blocks) * p->width * 32;
}

/* Scores of 16 positions for `rows` queries from `first`. */
INLINE void score_block(const struct run *run, uint32_t block, uint32_t first, const int rows) {
  const vi *keys = (const vi *)keys_of(run, block);
  const uint32_t pairs = run->p->width / 2;
  vf sum[SCORE_ROWS][HALVES];
  UNROLL for (int r = 0; r < rows; r++)
    for (int h = 0; h < HALVES; h++) sum[r][h] = splat(0.0f);
  for (uint32_t i = 0; i < pairs; i++)
    for (int h = 0; h < HALVES; h++) {
      const vi pair = keys[HALVES * i + h];
      UNROLL for (int r = 0; r < rows; r++) {
        const float *q = run->rows[first + r] + 2 * i;
        sum[r][h] = add_pairs(sum[r][h], pair, q[0], q[1]);
      }
    }
  UNROLL for (int r = 0; r < rows; r++) {
    const int left = (int)run->limits[first + r] - 16 * (int)block;
    for (int h = 0; h < HALVES; h++) {
      vi lane;
      for (int l = 0; l < W; l++) lane[l] = W * h + l;
      const vf score = sum[r][h] * splat(run->p->scale * LOG2_E);
      store(run->scores + (size_t)(first + r) * run->stride + 16 * block + W * h,
            choose(lane < splat_int(left), score, splat(-__builtin_inff())));
    }
  }
}

INLINE void score(const struct run *run, uint32_t first, const int rows) {
  for (uint32_t block = 0; block < (run->positions + 15) / 16; block++)
    score_block(run, block, first, rows);
}

/* Scores to weights; returns one over their sum. */
static float weigh(float *scores, uint32_t blocks) {
  vf top[HALVES], sum[HALVES];
  for (int h = 0; h < HALVES; h++) top[h] = load(scores + W * h), sum[h] = splat(0.0f);
  for (uint32_t i = 1; i < blocks; i++)
    for (int h = 0; h < HALVES; h++) top[h] = largest(top[h], load(scores + 16 * i + W * h));
  const vf most = splat(max16(top));
  for (uint32_t i = 0; i < blocks; i++)
    for (int h = 0; h < HALVES; h++) {
      float *s = scores + 16 * i + W * h;
      const vf x = load(s);
      const vf e = choose(x > splat(-__builtin_inff()), exp2_of(x - most), splat(0.0f));
      sum[h] += e;
      store(s, e);
    }
  return 1.0f / sum16(sum);
}

/* Weighted values: `vectors` x W columns from `column` for `rows` queries from `first`. */
INLINE void gather(const struct run *run, uint32_t first, const int rows, uint32_t column,
                   float out[][MOST_WIDTH]) {
  vf sum[VALUE_ROWS][VALUE_VECTORS];
  const uint32_t width = run->p->width;
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < VALUE_VECTORS; v++) sum[r][v] = splat(0.0f);
  for (uint32_t block = 0; 16 * block < run->positions; block++) {
    const uint32_t left = run->positions - 16 * block;
    const uint32_t whole = left >= 16 ? 8 : left / 2;
    const int32_t *values = (const int32_t *)values_of(run, block) + column;
    for (uint32_t j = 0; j < whole; j++)
      UNROLL for (int v = 0; v < VALUE_VECTORS; v++) {
        const vi pair = load_int(values + (size_t)j * width + W * v);
        UNROLL for (int r = 0; r < rows; r++) {
          const float *w = run->scores + (size_t)(first + r) * run->stride + 16 * block + 2 * j;
          sum[r][v] = add_pairs(sum[r][v], pair, w[0], w[1]);
        }
      }
    if (left < 16 && left % 2) /* the pair's other position was never written by this request */
      UNROLL for (int v = 0; v < VALUE_VECTORS; v++) {
        const vi pair = load_int(values + (size_t)whole * width + W * v) & splat_int(0xffff);
        UNROLL for (int r = 0; r < rows; r++) {
          const float *w = run->scores + (size_t)(first + r) * run->stride + 16 * block + 2 * whole;
          sum[r][v] = add_pairs(sum[r][v], pair, w[0], 0.0f);
        }
      }
  }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < VALUE_VECTORS; v++) store(out[first + r] + column + W * v, sum[r][v]);
}

#define IN_STEPS(most, call)                                              \
  for (uint32_t first = 0; first < run->queries;) {                       \
    const uint32_t left = run->queries - first;                           \
    if (left >= 6 && (most) >= 6) { call(6); first += 6; }                \
    else if (left >= 4 && (most) >= 4) { call(4); first += 4; }           \
    else if (left >= 3 && (most) >= 3) { call(3); first += 3; }           \
    else if (left >= 2) { call(2); first += 2; }                          \
    else { call(1); first += 1; }                                         \
  }

static void attend_run(const struct run *run, float out[][MOST_WIDTH]) {
#define SCORE(n) score(run, first, n < SCORE_ROWS ? n : SCORE_ROWS)
  IN_STEPS(SCORE_ROWS, SCORE)
  float inverse[MOST_QUERIES];
  for (uint32_t q = 0; q < run->queries; q++)
    inverse[q] = weigh(run->scores + (size_t)q * run->stride, (run->positions + 15) / 16);
  for (uint32_t column = 0; column < run->p->width; column += VALUE_VECTORS * W) {
#define GATHER(n) gather(run, first, n < VALUE_ROWS ? n : VALUE_ROWS, column, out)
    IN_STEPS(VALUE_ROWS, GATHER)
  }
  for (uint32_t q = 0; q < run->queries; q++)
    for (uint32_t c = 0; c < run->p->width; c += W)
      store(out[q] + c, load(out[q] + c) * splat(inverse[q]));
}

static void write_row(const struct attend_parameters *p, uint32_t row, uint32_t head,
                      const float *y) {
  if (p->out) {
    float *out = p->out + (size_t)row * p->out_stride + (size_t)head * p->width;
    for (uint32_t c = 0; c < p->width; c += W) store(out + c, load(y + c));
    return;
  }
  const struct activation out = {p->q, 0, p->activation_scale, p->sum, p->bias};
  const uint32_t groups = p->query_heads * p->width / 32;
  for (uint32_t g = 0; g < p->width / 32; g++)
    quantise_group(y + 32 * g, &out,
                   activation_index(row, head * (p->width / 32) + g, groups));
}

/* Consecutive rows of one lane that share a key head, as many as fit. */
static uint32_t take_run(const struct attend_parameters *p, uint32_t row, uint32_t end,
                         uint32_t head, float *scratch) {
  const uint32_t group = p->query_heads / p->key_heads, lane = p->lanes[row];
  _Alignas(64) float out[MOST_QUERIES][MOST_WIDTH];
  struct run run = {.p = p, .scores = scratch, .stride = p->score_stride};
  run.pages = p->pages + (size_t)p->slots[lane] * p->row_pages;
  run.history = p->layer_offset + (size_t)head * p->page_tokens * p->width * 2;
  uint32_t taken = 0;
  for (; row + taken < end && p->lanes[row + taken] == lane; taken++) {
    if (run.queries + group > MOST_QUERIES) break;
    const uint32_t limit = (uint32_t)p->positions[row + taken] + 1;
    if (limit > run.positions) run.positions = limit;
    for (uint32_t g = 0; g < group; g++, run.queries++) {
      run.limits[run.queries] = limit;
      run.rows[run.queries] =
          p->queries + ((size_t)(row + taken) * p->query_heads + head * group + g) * p->width;
    }
  }
  attend_run(&run, out);
  for (uint32_t q = 0; q < run.queries; q++)
    write_row(p, row + q / group, head * group + q % group, out[q]);
  return taken;
}

KERNEL(attend) {
  const struct attend_parameters *p = parameters;
  const uint32_t rows = *p->rows;
  FOR_SHARED_ROWS(item, (rows + p->tile - 1) / p->tile * p->key_heads) {
    const uint32_t head = item % p->key_heads;
    uint32_t row = item / p->key_heads * p->tile, last = row + p->tile;
    if (last > rows) last = rows;
    while (row < last) row += take_run(p, row, last, head, thread->scratch);
  }
}
