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

#define MOST_ROWS 6
#define MOST_VECTORS 4
#define CHUNK 8 /* blocks of 16 positions whose keys, or values, stay in the first-level cache */

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

/* Compilers otherwise take one row's sums after another's, and run out of registers. */
#if defined(__AVX2__)
#define KEEP(x) __asm__ volatile("" : "+v"(x))
#else
#define KEEP(x) UNUSED(x)
#endif

/* sum[row][vector] += pairs' even members x even[row], then the odd ones'. */
INLINE void add_all(vf sum[][MOST_VECTORS], const vi *pairs, const int rows, const int vectors,
                    const float *const *at, size_t index) {
  UNROLL for (int odd = 0; odd < 2; odd++) {
    vf x[MOST_ROWS], members[MOST_VECTORS];
    if (rows <= 3) /* few rows, many vectors: the rows' numbers stay in registers */
      UNROLL for (int r = 0; r < rows; r++) x[r] = splat(at[r][index + odd]);
    UNROLL for (int v = 0; v < vectors; v++) {
      members[v] = (vf)(odd ? pairs[v] & splat_int((int32_t)0xffff0000) : pairs[v] << 16);
      if (rows <= 3)
        UNROLL for (int r = 0; r < rows; r++) sum[r][v] = multiply_add(members[v], x[r], sum[r][v]);
    }
    if (rows > 3)
      UNROLL for (int r = 0; r < rows; r++) {
        const vf one = splat(at[r][index + odd]);
        UNROLL for (int v = 0; v < vectors; v++)
          sum[r][v] = multiply_add(members[v], one, sum[r][v]);
      }
    UNROLL for (int v = 0; v < vectors; v++)
      UNROLL for (int r = 0; r < rows; r++) KEEP(sum[r][v]);
  }
}

/* Scores of 16 positions for `rows` queries from `first`. */
INLINE void score(const struct run *run, uint32_t block, uint32_t first, const int rows) {
  const vi *keys = (const vi *)keys_of(run, block);
  const uint32_t pairs = run->p->width / 2;
  const float *queries[MOST_ROWS];
  vf sum[MOST_ROWS][MOST_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    queries[r] = run->rows[first + r];
    UNROLL for (int h = 0; h < HALVES; h++) sum[r][h] = splat(0.0f);
  }
  for (uint32_t i = 0; i < pairs; i++)
    add_all(sum, keys + HALVES * i, rows, HALVES, queries, 2 * (size_t)i);
  vi lane;
  for (int l = 0; l < W; l++) lane[l] = l;
  UNROLL for (int r = 0; r < rows; r++) {
    float *scores = run->scores + (size_t)(first + r) * run->stride + 16 * block;
    const int left = (int)run->limits[first + r] - 16 * (int)block;
    UNROLL for (int h = 0; h < HALVES; h++) {
      const vf score = sum[r][h] * splat(run->p->scale * LOG2_E);
      store(scores + W * h,
            choose(lane < splat_int(left - W * h), score, splat(-__builtin_inff())));
    }
  }
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

/* Add weighted values of position blocks [block, end) to `vectors` x W columns from `column`. */
INLINE void gather_columns(const struct run *run, uint32_t block, uint32_t end, uint32_t first,
                           const int rows, uint32_t column, const int vectors,
                           float out[][MOST_WIDTH]) {
  const uint32_t width = run->p->width;
  const float *weights[MOST_ROWS];
  vf sum[MOST_ROWS][MOST_VECTORS];
  UNROLL for (int r = 0; r < rows; r++) {
    weights[r] = run->scores + (size_t)(first + r) * run->stride;
    UNROLL for (int v = 0; v < vectors; v++) sum[r][v] = load(out[first + r] + column + W * v);
  }
  for (; block < end; block++) {
    const uint32_t left = run->positions - 16 * block;
    const uint32_t whole = left >= 16 ? 8 : left / 2;
    const int32_t *values = (const int32_t *)values_of(run, block) + column;
    vi pair[MOST_VECTORS];
    for (uint32_t j = 0; j < whole; j++) {
      UNROLL for (int v = 0; v < vectors; v++) pair[v] = load_int(values + (size_t)j * width + W * v);
      add_all(sum, pair, rows, vectors, weights, 16 * (size_t)block + 2 * j);
    }
    if (left < 16 && left % 2) { /* the pair's other position was never written by this request */
      UNROLL for (int v = 0; v < vectors; v++)
        pair[v] = load_int(values + (size_t)whole * width + W * v) & splat_int(0xffff);
      add_all(sum, pair, rows, vectors, weights, 16 * (size_t)block + 2 * whole);
    }
  }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int v = 0; v < vectors; v++) store(out[first + r] + column + W * v, sum[r][v]);
}

INLINE void gather(const struct run *run, uint32_t block, uint32_t end, uint32_t first,
                   const int rows, float out[][MOST_WIDTH]) {
  const int vectors = W == 16 || rows > 3 ? 2 : 4;
  for (uint32_t column = 0; column < run->p->width; column += vectors * W)
    gather_columns(run, block, end, first, rows, column, vectors, out);
}

#define IN_STEPS(call)                                               \
  for (uint32_t first = 0; first < run->queries;) {                  \
    const uint32_t left = run->queries - first;                      \
    if (left >= 6 && left != 8) { call(6); first += 6; }             \
    else if (left >= 4) { call(4); first += 4; }                     \
    else if (left == 3) { call(3); first += 3; }                     \
    else if (left == 2) { call(2); first += 2; }                     \
    else { call(1); first += 1; }                                    \
  }

static void attend_run(const struct run *run, float out[][MOST_WIDTH]) {
  const uint32_t blocks = (run->positions + 15) / 16;
  for (uint32_t block = 0, end; block < blocks; block = end) {
    end = block + CHUNK < blocks ? block + CHUNK : blocks;
#define SCORE(n) \
  for (uint32_t b = block; b < end; b++) score(run, b, first, n)
    IN_STEPS(SCORE)
  }
  float inverse[MOST_QUERIES];
  for (uint32_t q = 0; q < run->queries; q++) {
    inverse[q] = weigh(run->scores + (size_t)q * run->stride, blocks);
    for (uint32_t c = 0; c < run->p->width; c += W) store(out[q] + c, splat(0.0f));
  }
  for (uint32_t block = 0, end; block < blocks; block = end) {
    end = block + CHUNK < blocks ? block + CHUNK : blocks;
#define GATHER(n) gather(run, block, end, first, n, out)
    IN_STEPS(GATHER)
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
