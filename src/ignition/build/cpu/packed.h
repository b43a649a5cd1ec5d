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
 */
#pragma once
#include "simd.h"

#define Q4_0_GROUP 288
#define Q4_1_GROUP 320
#define Q8_0_GROUP 544
#define Q4_K_HEADER 64
#define Q4_K_GROUP 288
#define Q6_K_HEADER 32
#define Q6_K_GROUP 544

/* Eight dwords of 32 columns for W rows, ready for dot products. */
struct columns {
#if W == 16 || !defined(__AVX2__) || defined(__AVXVNNI__)
  vi unsigned_bytes[8];
#else
  __m256i bytes[8];  /* nibbles: 0 to 15; bytes: magnitudes */
  __m256i signs[8];  /* bytes only: the signed weights */
#endif
};

INLINE void load_nibbles(const uint8_t *w, int half, struct columns *out) {
  for (int j = 0; j < 4; j++) {
    const vi v = load_int(w + 64 * j + 4 * W * half);
    const vi low = v & splat_int(0x0f0f0f0f), high = (vi)((vu)v >> 4) & splat_int(0x0f0f0f0f);
#if W == 16 || !defined(__AVX2__) || defined(__AVXVNNI__)
    out->unsigned_bytes[j] = low;
    out->unsigned_bytes[4 + j] = high;
#else
    out->bytes[j] = (__m256i)low;
    out->bytes[4 + j] = (__m256i)high;
#endif
  }
}

INLINE void load_bytes(const uint8_t *w, int half, struct columns *out) {
  for (int j = 0; j < 8; j++) {
    const vi v = load_int(w + 64 * j + 4 * W * half);
#if W == 16 || !defined(__AVX2__) || defined(__AVXVNNI__)
    out->unsigned_bytes[j] = v;
#else
    out->signs[j] = (__m256i)(v ^ splat_int((int32_t)0x80808080));
    out->bytes[j] = _mm256_abs_epi8(out->signs[j]);
#endif
  }
}

INLINE int32_t dword_of(const int8_t *q) {
  int32_t x;
  __builtin_memcpy(&x, q, 4);
  return x;
}

/* sum += 4 unsigned x 4 signed bytes, a lane. */
INLINE vi add_products(vi sum, vi weights, int32_t x) {
#if defined(__AVX512VNNI__) && W == 16
  return (vi)_mm512_dpbusd_epi32((__m512i)sum, (__m512i)weights, _mm512_set1_epi32(x));
#elif defined(__AVXVNNI__) && W == 8
  return (vi)_mm256_dpbusd_avx_epi32((__m256i)sum, (__m256i)weights, _mm256_set1_epi32(x));
#else
  for (int b = 0; b < 4; b++)
    sum += (vi)(((vu)weights >> (8 * b)) & 0xff) * splat_int((int32_t)(int8_t)(x >> (8 * b)));
  return sum;
#endif
}

/* Dot product of 32 nibble columns with one row of activations. */
INLINE vi dot_nibbles(const struct columns *w, const int8_t *q) {
#if W == 8 && defined(__AVX2__) && !defined(__AVXVNNI__)
  /* 8 x 2 x 15 x 127 fits 16 bits. */
  __m256i pairs = _mm256_maddubs_epi16(w->bytes[0], _mm256_set1_epi32(dword_of(q)));
  UNROLL for (int j = 1; j < 8; j++)
    pairs = _mm256_add_epi16(
        pairs, _mm256_maddubs_epi16(w->bytes[j], _mm256_set1_epi32(dword_of(q + 4 * j))));
  return (vi)_mm256_madd_epi16(pairs, _mm256_set1_epi16(1));
#else
  vi sum = splat_int(0);
  UNROLL for (int j = 0; j < 8; j++)
    sum = add_products(sum, w->unsigned_bytes[j], dword_of(q + 4 * j));
  return sum;
#endif
}

/* Dot product of `count` (4 or 8) dwords of byte columns; `bias` undoes the unsigned weights. */
INLINE vi dot_bytes(const struct columns *w, int first, int count, const int8_t *q, int32_t bias) {
#if W == 8 && defined(__AVX2__) && !defined(__AVXVNNI__)
  /* 2 x 128 x 127 fits 16 bits once, not twice. */
  (void)bias;
  __m256i sum = _mm256_setzero_si256();
  UNROLL for (int j = first; j < first + count; j++) {
    const __m256i x = _mm256_sign_epi8(_mm256_set1_epi32(dword_of(q + 4 * j)), w->signs[j]);
    sum = _mm256_add_epi32(
        sum, _mm256_madd_epi16(_mm256_maddubs_epi16(w->bytes[j], x), _mm256_set1_epi16(1)));
  }
  return (vi)sum;
#else
  vi sum = splat_int(bias);
  UNROLL for (int j = first; j < first + count; j++)
    sum = add_products(sum, w->unsigned_bytes[j], dword_of(q + 4 * j));
  return sum;
#endif
}
