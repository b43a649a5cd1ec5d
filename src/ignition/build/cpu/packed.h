/* Packed weight matrices, and the dot products of one group of 32 columns.
 *
 * Every matrix is blocks of 16 rows; a block is one sequential stream over its groups:
 *
 *   Q4_0   256 bytes nibbles, 16 half scales                       288
 *   Q4_1   256 bytes nibbles, 16 half scales, 16 half minima       320
 *   Q8_0   512 bytes unsigned (q + 128), 16 half scales            544
 *   Q4_K   a header per 8 groups (16 half d, 16 half dmin), then
 *          256 bytes nibbles, 16 scales, 16 minima a group         64 + 8 x 288
 *   Q6_K   a header per 8 groups (16 half d), then 512 bytes
 *          unsigned (q + 128), 2 x 16 signed scales a group        32 + 8 x 544
 *
 * Nibbles: dword j (of 4) of row r is at 64 j + 4 r; its low nibbles are columns 4j to 4j+3,
 * its high nibbles columns 16+4j to 16+4j+3.  Bytes: dword j (of 8) of row r at 64 j + 4 r.
 * Integer sums are exact, so every instruction level and every tile width agree on them.
 *
 * A dot product takes `steps`: each multiplies one dword of every row's weights by one dword of
 * activations, and all activation rows of a tile take a step before the next one, so that a
 * step's weights are unpacked once.  A coarse step is four columns of 8-bit activations; a fine
 * step is two columns of 16-bit ones (bytes 0 and 2 of a dword, or 1 and 3).
 */
#pragma once
#include "activation.h"
#include "simd.h"

#define Q4_0_GROUP 288
#define Q4_1_GROUP 320
#define Q8_0_GROUP 544
#define Q4_K_HEADER 64
#define Q4_K_GROUP 288
#define Q6_K_HEADER 32
#define Q6_K_GROUP 544

/* Without a dot-product instruction, AVX2 sums products of bytes in pairs of 16 bits. */
#if W == 8 && defined(__AVX2__) && !defined(__AVXVNNI__)
#define IN_PAIRS 1
#else
#define IN_PAIRS 0
#endif

enum width { NIBBLES, BYTES };
typedef uint16_t vpairs __attribute__((vector_size(4 * W)));

/* Dwords of weights a group has, and steps each of them gives. */
#define DWORDS(width) ((width) == NIBBLES ? 4 : 8)
#define STEPS(width, fine) (((width) == NIBBLES ? 2 : 1) * ((fine) ? 2 : 1))

/* Which dword of the activations step `s` of weight dword `j` reads. */
INLINE int step_dword(const int width, const int fine, int j, int s) {
  if (!fine) return width == NIBBLES ? j + 4 * s : j;
  return width == NIBBLES ? 2 * j + s % 2 + 8 * (s / 2) : 2 * j + s;
}

/* The weights of a step. */
INLINE vi step_weights(const int width, const int fine, vi v, int s) {
  if (!fine && width == NIBBLES) return (vi)((vu)v >> (4 * s)) & splat_int(0x0f0f0f0f);
  if (!fine) return IN_PAIRS ? v ^ splat_int((int32_t)0x80808080) : v;
  /* What stands highest in its word needs no mask. */
  if (s == STEPS(width, fine) - 1) return (vi)((vpairs)v >> (width == NIBBLES ? 12 : 8));
  if (width == NIBBLES)
    return (vi)((vu)v >> (8 * (s % 2) + 4 * (s / 2))) & splat_int(0x000f000f);
  return v & splat_int(0x00ff00ff);
}

/* sum += 4 unsigned x 4 signed bytes, a lane. */
INLINE vi add_bytes(vi sum, vi weights, vi x) {
#if defined(__AVX512VNNI__) && W == 16
  return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, (__m512i)x);
#elif defined(__AVXVNNI__) && W == 8
  return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)weights, (__m256i)x);
#else
  for (int b = 0; b < 32; b += 8)
    sum += (vi)(((vu)weights >> b) & 0xff) * ((x << (24 - b)) >> 24);
  return sum;
#endif
}

/* sum += 2 x 2 signed words, a lane. */
INLINE vi add_words(vi sum, vi weights, vi x) {
#if defined(__AVX512VNNI__) && W == 16
  return (vi)_mm512_dpwssd_epi32((__m512i)sum, (__m512i)weights, (__m512i)x);
#elif defined(__AVXVNNI__) && W == 8
  return (vi)_mm256_dpwssd_avx_epi32((__m256i)sum, (__m256i)weights, (__m256i)x);
#elif defined(__AVX2__) && W == 8
  return sum + (vi)_mm256_madd_epi16((__m256i)weights, (__m256i)x);
#else
  return sum + ((weights << 16) >> 16) * ((x << 16) >> 16) + (weights >> 16) * (x >> 16);
#endif
}

/* One step for one row of activations. */
INLINE vi take_step(const int width, const int fine, vi sum, vi weights, vi x) {
  if (fine) return add_words(sum, weights, x);
#if IN_PAIRS
  if (width == NIBBLES) /* 8 x 2 x 15 x 127 fits 16 bits */
    return (vi)_mm256_add_epi16((__m256i)sum, _mm256_maddubs_epi16((__m256i)weights, (__m256i)x));
  /* 2 x 128 x 127 fits once, not twice. */
  const __m256i turned = _mm256_sign_epi8((__m256i)x, (__m256i)weights);
  const __m256i pairs = _mm256_maddubs_epi16(_mm256_abs_epi8((__m256i)weights), turned);
  return sum + (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  (void)width;
  return add_bytes(sum, weights, x);
#endif
}

/* What a lane's steps add up to. */
INLINE vi total_of(const int width, const int fine, vi sum) {
#if IN_PAIRS
  const vi total = (vi)_mm256_madd_epi16((__m256i)sum, _mm256_set1_epi16(1));
#else
  const vi total = sum;
#endif
  return width == NIBBLES && !fine ? total : sum;
}

/* Whether byte weights were multiplied as unsigned numbers: their products need the bias. */
#define UNSIGNED_BYTES(fine) ((fine) || !IN_PAIRS)

INLINE int32_t dword_at(const void *p) {
  int32_t x;
  __builtin_memcpy(&x, p, 4);
  return x;
}

/* Nothing before this point moves behind it: compilers otherwise take one row's steps after
 * another's, and keep every step's weights on the stack. */
INLINE void finish_step(vi sums[][HALVES], const int rows) {
#if defined(__AVX2__)
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int h = 0; h < HALVES; h++) __asm__ volatile("" : "+v"(sums[r][h]));
#else
  (void)sums, (void)rows;
#endif
}

/* Dot products of weight dwords [first, last) of 16 rows with `rows` rows of activations. */
INLINE void dot(const int width, const int fine, const uint8_t *w, const int first, const int last,
                const struct activation *x, size_t index, const int rows, vi out[][HALVES]) {
  const char *digits = fine ? (const char *)(x->fine + index * 32) : (const char *)(x->q + index * 32);
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int h = 0; h < HALVES; h++) out[r][h] = splat_int(0);
  UNROLL for (int j = first; j < last; j++) {
    vi v[HALVES];
    UNROLL for (int h = 0; h < HALVES; h++) v[h] = load_int(w + 64 * j + 4 * W * h);
    UNROLL for (int s = 0; s < STEPS(width, fine); s++) {
      vi weights[HALVES];
      UNROLL for (int h = 0; h < HALVES; h++) weights[h] = step_weights(width, fine, v[h], s);
      UNROLL for (int r = 0; r < rows; r++) {
        const vi activations = splat_int(
            dword_at(digits + (fine ? 64 : 32) * r + 4 * step_dword(width, fine, j, s)));
        UNROLL for (int h = 0; h < HALVES; h++)
          out[r][h] = take_step(width, fine, out[r][h], weights[h], activations);
      }
      finish_step(out, rows);
    }
  }
  UNROLL for (int r = 0; r < rows; r++)
    UNROLL for (int h = 0; h < HALVES; h++) out[r][h] = total_of(width, fine, out[r][h]);
}
