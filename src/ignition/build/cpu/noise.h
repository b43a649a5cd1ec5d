/* Noise: Philox 4x32-10 (Salmon et al. 2011) and exponential variates of its words.
 *
 * Only the first word of the counters (id, position, 0, 0) is wanted, so that the first two
 * rounds shrink to one product each, and the last two leave out what nothing reads.
 */
#pragma once
#include "simd.h"

#define ROUNDS 10
#define PRODUCT_A 0xD2511F53u
#define PRODUCT_C 0xCD9E8D57u

/* What every id of a row shares: keys, and the second round's constant parts. */
struct noise {
  vu a_keys[ROUNDS], c_keys[ROUNDS];
};

INLINE vu splat_word(uint32_t x) { return x - (vu){}; }

static struct noise noise_of(uint64_t seed, uint32_t position) {
  struct noise noise;
  uint32_t a = (uint32_t)seed, c = (uint32_t)(seed >> 32);
  const uint64_t shared = (uint64_t)(position ^ a) * PRODUCT_A;
  for (int round = 0; round < ROUNDS; round++) {
    /* The second round's product of `a` is the same for all: its halves join the keys. */
    const uint32_t more = round == 1 ? (uint32_t)(shared >> 32) : round == 2 ? (uint32_t)shared : 0;
    noise.a_keys[round] = splat_word(a);
    noise.c_keys[round] = splat_word(c ^ more);
    a += 0x9E3779B9u;
    c += 0xBB67AE85u;
  }
  return noise;
}

/* The high halves of products.  Those of even lanes come first in each quarter of eight, which
 * is one shuffle; done twice, every lane stands where it was. */
INLINE vu high_of(vu x, uint32_t by) {
  typedef uint64_t vw __attribute__((vector_size(4 * W)));
  const vw low = (vw){} + 0xffffffff, factor = (vw){} + by;
  const vu even = (vu)(((vw)x & low) * factor), odd = (vu)(((vw)x >> 32) * factor);
#if W == 16
  return __builtin_shufflevector(even, odd, 1, 3, 17, 19, 5, 7, 21, 23, 9, 11, 25, 27, 13, 15, 29, 31);
#else
  return __builtin_shufflevector(even, odd, 1, 3, 9, 11, 5, 7, 13, 15);
#endif
}

/* Words of ids, in place.  Two vectors take each round in turn, for a round waits for its
 * products. */
#define PAIR 2

INLINE void make_words(const struct noise *noise, vu *a) {
  vu b[PAIR], c[PAIR], d[PAIR];
  UNROLL for (int i = 0; i < PAIR; i++) {
    const vu first = high_of(a[i], PRODUCT_A) ^ noise->c_keys[0];
    c[i] = a[i] * splat_word(PRODUCT_A) ^ noise->c_keys[1];
    a[i] = high_of(first, PRODUCT_C) ^ noise->a_keys[1];
    b[i] = first * splat_word(PRODUCT_C);
    d[i] = splat_word(0);
  }
  UNROLL for (int round = 2; round < ROUNDS; round++) {
    UNROLL for (int i = 0; i < PAIR; i++) {
      const vu was_a = a[i], was_c = c[i];
      a[i] = high_of(was_c, PRODUCT_C) ^ b[i] ^ noise->a_keys[round];
      c[i] = high_of(was_a, PRODUCT_A) ^ d[i] ^ noise->c_keys[round];
      b[i] = was_c * splat_word(PRODUCT_C);
      d[i] = was_a * splat_word(PRODUCT_A);
    }
  }
}

/* Exponential variates: -log(1 - v) with v = (word + 1/2) / 2^32, exact in relative terms for
 * the small ones, which win. */
INLINE vf exponential(vu word) {
  const vf wide = to_float((vi)(word >> 8)) * splat(256.0f) + to_float((vi)(word & 0xff));
  vf v = (wide + splat(0.5f)) * splat(0x1p-32f);
  const vf y = splat(1.0f) - v;
  const vf from_log = -log_of(choose(y > splat(0.0f), y, splat(0x1p-25f)));
  const vf corrected = from_log * v / (splat(1.0f) - y);
  return choose(v < splat(0x1p-24f), v, choose(y > splat(0.0f), corrected, from_log));
}
