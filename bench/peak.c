/* Int8 peak of one processor: dot products of bytes by the best instruction this machine has.
 * Usage: peak PROCESSOR; prints the instruction, GOPS with sums in 32 bits, GOPS with sums in 16.
 * The second differs where a dot product takes several instructions: then short sums may stay in
 * 16 bits for a while, which small factors allow.  A product and its addition count as two. */
#define _GNU_SOURCE
#include <immintrin.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SUMS = 12, STEPS = 2000000, SLICES = 9 };

#if defined(__AVX512VNNI__)
typedef __m512i vector;
static const char *const name = "avx512_vnni";
static inline vector wide(vector s, vector x, vector y) { return _mm512_dpbusd_epi32(s, x, y); }
#define narrow wide
#elif defined(__AVXVNNI__)
typedef __m256i vector;
static const char *const name = "avx_vnni";
static inline vector wide(vector s, vector x, vector y) { return _mm256_dpbusd_avx_epi32(s, x, y); }
#define narrow wide
#elif defined(__AVX2__)
typedef __m256i vector;
static const char *const name = "avx2";
static inline vector wide(vector s, vector x, vector y) {
  const vector pairs = _mm256_madd_epi16(_mm256_maddubs_epi16(x, y), _mm256_set1_epi16(1));
  return _mm256_add_epi32(s, pairs);
}
static inline vector narrow(vector s, vector x, vector y) {
  return _mm256_add_epi16(s, _mm256_maddubs_epi16(x, y));
}
#else
#error "expected AVX2 or better"
#endif

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The empty instruction hides x from the compiler, which would take the product out of the loop. */
#define MEASURE(dot)                                                                        \
  do {                                                                                      \
    vector sums[SUMS] = {0}, x = {0x0102030401020304}, y = x;                               \
    for (int slice = 0; slice < SLICES; slice++) {                                          \
      const double began = seconds();                                                       \
      for (int step = 0; step < STEPS; step++)                                              \
        for (int i = 0; i < SUMS; i++) {                                                    \
          __asm__ volatile("" : "+x"(x));                                                   \
          sums[i] = dot(sums[i], x, y);                                                     \
        }                                                                                   \
      for (int i = 0; i < SUMS; i++) __asm__ volatile("" : "+x"(sums[i]));                  \
      rates[slice] = 2e-9 * sizeof(vector) * SUMS * STEPS / (seconds() - began);            \
    }                                                                                       \
    qsort(rates, SLICES, sizeof *rates, by_size);                                           \
    printf(" %.1f", rates[SLICES / 2]);                                                     \
  } while (0)

int main(int count, char **words) {
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(count > 1 ? atoi(words[1]) : 0, &processors);
  if (sched_setaffinity(0, sizeof processors, &processors)) return 1;
  double rates[SLICES];
  printf("%s", name);
  MEASURE(wide);
  MEASURE(narrow);
  printf("\n");
  return 0;
}
