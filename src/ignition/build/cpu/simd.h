/* Vectors of W lanes, and the few operations on them that kernels need.
 *
 * W is 16 with AVX-512 and 8 otherwise.  Every kernel walks blocks of 16 rows, positions
 * or columns as 16 / W vectors, so layouts are the same at every level.  A result's order
 * of summation is fixed by its own row: nothing here depends on how many rows are live.
 *
 * Built freestanding: no libc, no allocation, no errno.
 */
#pragma once
#include <stddef.h>
#include <stdint.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")

#if defined(__AVX512F__) && defined(__AVX512BW__) && defined(__AVX512VL__) && defined(__AVX512DQ__)
#define W 16
#else
#define W 8
#endif
#define HALVES (16 / W)

typedef float vf __attribute__((vector_size(4 * W)));
typedef float vf_any __attribute__((vector_size(4 * W), aligned(4)));
typedef int32_t vi __attribute__((vector_size(4 * W)));
typedef int32_t vi_any __attribute__((vector_size(4 * W), aligned(4)));
typedef uint32_t vu __attribute__((vector_size(4 * W)));
typedef uint16_t vh __attribute__((vector_size(2 * W), aligned(2)));

INLINE vf splat(float x) { return x - (vf){}; }
INLINE vi splat_int(int32_t x) { return x - (vi){}; }
INLINE vf load(const float *p) { return *(const vf_any *)p; }
INLINE void store(float *p, vf x) { *(vf_any *)p = x; }
INLINE vi load_int(const void *p) { return *(const vi_any *)p; }
INLINE vf to_float(vi x) { return __builtin_convertvector(x, vf); }
INLINE vf choose(vi mask, vf yes, vf no) { return (vf)((mask & (vi)yes) | (~mask & (vi)no)); }

/* a * b + c, rounded once where the machine can. */
INLINE vf multiply_add(vf a, vf b, vf c) {
#if defined(__FMA__)
  return __builtin_elementwise_fma(a, b, c);
#else
  return a * b + c;
#endif
}

INLINE float multiply_add_one(float a, float b, float c) {
#if defined(__FMA__)
  return __builtin_fmaf(a, b, c);
#else
  return a * b + c;
#endif
}

/* The larger; b where a number is undefined. */
INLINE vf largest(vf a, vf b) {
#if W == 16
  return (vf)_mm512_max_ps((__m512)a, (__m512)b);
#elif defined(__AVX__)
  return (vf)_mm256_max_ps((__m256)a, (__m256)b);
#else
  return choose(a > b, a, b);
#endif
}

/* Whether a lane of a comparison holds. */
INLINE int any(vi mask) {
#if W == 16
  return _mm512_movepi32_mask((__m512i)mask) != 0;
#elif defined(__AVX__)
  return _mm256_movemask_ps((__m256)mask) != 0;
#else
  return __builtin_reduce_or(mask) != 0;
#endif
}

/* Stores the lanes that a mask names, packed to the front, and says how many they are.  A whole
 * vector is written, whatever stands behind them. */
INLINE uint32_t store_packed(float *p, vf x, vi mask) {
#if W == 16
  const __mmask16 lanes = _mm512_movepi32_mask((__m512i)mask);
  _mm512_storeu_ps(p, _mm512_maskz_compress_ps(lanes, (__m512)x));
  return (uint32_t)__builtin_popcount(lanes);
#elif defined(__AVX__)
  static const int32_t order[16][4] = {
      {0}, {0}, {1}, {0, 1}, {2}, {0, 2}, {1, 2}, {0, 1, 2},
      {3}, {0, 3}, {1, 3}, {0, 1, 3}, {2, 3}, {0, 2, 3}, {1, 2, 3}, {0, 1, 2, 3}};
  const uint32_t lanes = (uint32_t)_mm256_movemask_ps((__m256)mask);
  const uint32_t low = lanes & 15, high = lanes >> 4, before = (uint32_t)__builtin_popcount(low);
  const __m128i *orders = (const __m128i *)order;
  const __m128 first = _mm256_castps256_ps128((__m256)x), second = _mm256_extractf128_ps((__m256)x, 1);
  _mm_storeu_ps(p, _mm_permutevar_ps(first, _mm_loadu_si128(orders + low)));
  _mm_storeu_ps(p + before, _mm_permutevar_ps(second, _mm_loadu_si128(orders + high)));
  return before + (uint32_t)__builtin_popcount(high);
#else
  uint32_t count = 0;
  for (int i = 0; i < W; i++) {
    p[count] = x[i];
    count += mask[i] != 0;
  }
  return count;
#endif
}

INLINE vf magnitude(vf x) { return (vf)((vi)x & splat_int(0x7fffffff)); }

/* Sums and maxima across 16 lanes, pairwise in a fixed tree, whatever W is. */
typedef float v8f __attribute__((vector_size(32)));

INLINE v8f fold(const vf *x, int take_largest) {
#if W == 16
  const v8f low = __builtin_shufflevector(x[0], x[0], 0, 1, 2, 3, 4, 5, 6, 7);
  const v8f high = __builtin_shufflevector(x[0], x[0], 8, 9, 10, 11, 12, 13, 14, 15);
#else
  const v8f low = x[0], high = x[1];
#endif
  typedef int32_t v8i __attribute__((vector_size(32)));
  const v8i above = low > high;
  return take_largest ? (v8f)((above & (v8i)low) | (~above & (v8i)high)) : low + high;
}

INLINE float sum16(const vf *x) {
  const v8f a = fold(x, 0);
  const v8f b = a + __builtin_shufflevector(a, a, 4, 5, 6, 7, 4, 5, 6, 7);
  const v8f c = b + __builtin_shufflevector(b, b, 2, 3, 2, 3, 2, 3, 2, 3);
  return c[0] + c[1];
}

INLINE float max16(const vf *x) {
  float lanes[8];
  const v8f folded = fold(x, 1);
  __builtin_memcpy(lanes, &folded, 32);
  for (int step = 4; step; step /= 2)
    for (int i = 0; i < step; i++) lanes[i] = lanes[i] > lanes[i + step] ? lanes[i] : lanes[i + step];
  return lanes[0];
}

/* The smaller; b where a number is undefined. */
INLINE vf smallest(vf a, vf b) { return -largest(-a, -b); }

/* To the nearest integer, ties to even, for |x| < 2^22. */
INLINE vf round_nearest(vf x) { return (x + splat(12582912.0f)) - splat(12582912.0f); }

/* ---- half-width numbers ------------------------------------------------ */

INLINE float half_to_float(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude_bits = h & 0x7fff;
  union { uint32_t u; float f; } x;
  if (magnitude_bits >= 0x7c00) { /* infinite or undefined */
    x.u = sign | 0x7f800000 | (magnitude_bits << 13);
    return x.f;
  }
  x.u = magnitude_bits << 13;
  x.f *= 0x1p112f; /* exact: rebias the exponent, subnormals included */
  x.u |= sign;
  return x.f;
}

INLINE vf load_half(const uint16_t *p) {
#if W == 16
  return (vf)_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
#elif defined(__F16C__)
  return (vf)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
  vf out;
  for (int i = 0; i < W; i++) out[i] = half_to_float(p[i]);
  return out;
#endif
}

INLINE vf load_bfloat(const uint16_t *p) {
  return (vf)(__builtin_convertvector(*(const vh *)p, vu) << 16);
}

/* To bfloat16, to nearest, ties to even. */
INLINE uint16_t to_bfloat(float x) {
  union { float f; uint32_t u; } bits = {.f = x};
  if ((bits.u & 0x7fffffff) > 0x7f800000) return 0x7fc0;
  return (uint16_t)((bits.u + 0x7fff + ((bits.u >> 16) & 1)) >> 16);
}

INLINE float round_to_bfloat(float x) {
  union { uint32_t u; float f; } bits = {.u = (uint32_t)to_bfloat(x) << 16};
  return bits.f;
}

/* ---- functions --------------------------------------------------------- */

/* 2^x for x in [-126, 127], below that 2^-126; error under 2e-7 relative. */
INLINE vf exp2_of(vf x) {
  x = largest(x, splat(-126.0f));
  vf n = round_nearest(x), f = x - n;
  vf p = splat(1.535336188319500e-4f);
  p = multiply_add(p, f, splat(1.339887440266574e-3f));
  p = multiply_add(p, f, splat(9.618437357674640e-3f));
  p = multiply_add(p, f, splat(5.550332471162809e-2f));
  p = multiply_add(p, f, splat(2.402264791363012e-1f));
  p = multiply_add(p, f, splat(6.931472028550421e-1f));
  p = multiply_add(p, f, splat(1.0f));
  vi scale = (__builtin_convertvector(n, vi) + splat_int(127)) << 23;
  return p * (vf)scale;
}

#define LOG2_E 1.44269504088896341f

INLINE vf silu(vf x) {
  /* Bounded so that 1 + 2^y stays finite; beyond it the quotient is zero to working precision. */
  vf y = x * splat(-LOG2_E);
  y = choose(y > splat(120.0f), splat(120.0f), y);
  return x / (splat(1.0f) + exp2_of(y));
}

/* Natural logarithm of positive normal numbers; error under 3e-7 relative to max(1, |log x|). */
INLINE vf log_of(vf x) {
  vi bits = (vi)x;
  /* x = 2^e * m with m in [sqrt(1/2), sqrt(2)) */
  vi e = (bits - splat_int(0x3f3504f3)) >> 23;
  vf m = (vf)(bits - (e << 23));
  vf t = m - splat(1.0f);
  vf p = splat(7.0376836292e-2f);
  p = multiply_add(p, t, splat(-1.1514610310e-1f));
  p = multiply_add(p, t, splat(1.1676998740e-1f));
  p = multiply_add(p, t, splat(-1.2420140846e-1f));
  p = multiply_add(p, t, splat(1.4249322787e-1f));
  p = multiply_add(p, t, splat(-1.6668057665e-1f));
  p = multiply_add(p, t, splat(2.0000714765e-1f));
  p = multiply_add(p, t, splat(-2.4999993993e-1f));
  p = multiply_add(p, t, splat(3.3333331174e-1f));
  vf t2 = t * t, ef = to_float(e);
  vf y = p * t2 * t;
  y = multiply_add(ef, splat(-2.12194440e-4f), y);
  y = multiply_add(splat(-0.5f), t2, y);
  return multiply_add(ef, splat(0.693359375f), y + t);
}
