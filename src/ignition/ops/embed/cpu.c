/* Rows of a packed matrix, as floats.  Units are shares of the tokens. */
#include "executor.h"
#include "packed.h"
#include "parameters.h"

enum format { Q4_0, Q4_1, Q8_0, Q4_K, Q6_K, FLOAT16, BFLOAT16, FLOAT32 };

INLINE float half_at(const uint8_t *p, uint32_t r) {
  return half_to_float(((const uint16_t *)p)[r]);
}

INLINE float bfloat_at(const uint8_t *p, uint32_t r) {
  union { uint32_t u; float f; } x = {.u = (uint32_t)((const uint16_t *)p)[r] << 16};
  return x.f;
}

INLINE int nibble(const uint8_t *w, uint32_t r, int c) {
  const uint8_t byte = w[64 * (c % 16 / 4) + 4 * r + c % 4];
  return c < 16 ? byte & 15 : byte >> 4;
}

INLINE int byte(const uint8_t *w, uint32_t r, int c) {
  return (int)w[64 * (c / 4) + 4 * r + c % 4] - 128;
}

INLINE const uint8_t *embed_group(const int format, const uint8_t *w, const uint8_t *header,
                                  uint32_t r, float *out) {
  switch (format) {
    case Q4_0:
      for (int c = 0; c < 32; c++) out[c] = half_at(w + 256, r) * (float)(nibble(w, r, c) - 8);
      return w + Q4_0_GROUP;
    case Q4_1:
      for (int c = 0; c < 32; c++)
        out[c] = half_at(w + 256, r) * (float)nibble(w, r, c) + half_at(w + 288, r);
      return w + Q4_1_GROUP;
    case Q8_0:
      for (int c = 0; c < 32; c++) out[c] = half_at(w + 512, r) * (float)byte(w, r, c);
      return w + Q8_0_GROUP;
    case Q4_K:
      for (int c = 0; c < 32; c++)
        out[c] = half_at(header, r) * (float)w[256 + r] * (float)nibble(w, r, c) -
                 half_at(header + 32, r) * (float)w[272 + r];
      return w + Q4_K_GROUP;
    default:
      for (int c = 0; c < 32; c++)
        out[c] = half_at(header, r) * (float)(int8_t)w[(c < 16 ? 512 : 528) + r] *
                 (float)byte(w, r, c);
      return w + Q6_K_GROUP;
  }
}

INLINE void embed(const int format, const struct embed_parameters *p, uint32_t begin,
                  uint32_t end) {
  FOR_SHARED_ROWS(t, *p->rows) {
    const uint32_t id = (uint32_t)p->tokens[t], r = id % 16;
    float *out = p->out + (size_t)t * p->stride;
    const uint8_t *w = p->weights + (size_t)(id / 16) * p->block_nbytes, *header = w;
    if (format >= FLOAT16) {
      for (uint32_t c = 0; c < p->columns; c++)
        out[c] = format == FLOAT32    ? ((const float *)w)[16 * (size_t)c + r]
                 : format == FLOAT16 ? half_at(w, 16 * c + r)
                                     : bfloat_at(w, 16 * c + r);
      continue;
    }
    for (uint32_t g = 0; g < p->columns / 32; g++) {
      if (g % 8 == 0 && (format == Q4_K || format == Q6_K)) {
        header = w;
        w += format == Q4_K ? Q4_K_HEADER : Q6_K_HEADER;
      }
      w = embed_group(format, w, header, r, out + 32 * (size_t)g);
    }
  }
}

#define DEFINE(format, name)                \
  KERNEL(embed_##name) {                    \
    UNUSED(thread);                         \
    embed(format, parameters, begin, end);  \
  }

DEFINE(Q4_0, q4_0)
DEFINE(Q4_1, q4_1)
DEFINE(Q8_0, q8_0)
DEFINE(Q4_K, q4_k)
DEFINE(Q6_K, q6_k)
DEFINE(FLOAT16, f16)
DEFINE(BFLOAT16, bf16)
DEFINE(FLOAT32, f32)
