/* Noise: Philox 4x32-10 (Salmon et al. 2011) and exponential variates of its words.
 *
 * Only the first word of the counters (id, position, 0, 0) is wanted, so that the first two
 * rounds shrink to one product each, and the last two leave out what nothing reads.  A word
 * stands in the low half of 64 bits; what is above it is never read.
 */
#pragma once
#include "simd.h"

#define ROUNDS 10
#define PRODUCT_A 0xD2511F53u
#define PRODUCT_C 0xCD9E8D57u

typedef uint64_t vw __attribute__((vector_size(4 * W))); /* W / 2 words */

/* What every id of a row shares: keys, and the second round's constant parts. */
struct noise {
  vw a_keys[ROUNDS], c_keys[ROUNDS];
};

INLINE vw splat_word(uint64_t x) { return x - (vw){}; }
INLINE vw times(vw x, uint32_t by) { return (x & splat_word(0xffffffff)) * splat_word(by); }

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

/* The words of W / 2 ids. */
INLINE vw philox(const struct noise *noise, vw ids) {
  const vw first = times(ids, PRODUCT_A);
  const vw second = times((first >> 32) ^ noise->c_keys[0], PRODUCT_C);
  vw a = (second >> 32) ^ noise->a_keys[1], b = second;
  vw c = first ^ noise->c_keys[1], d = splat_word(0);
  UNROLL for (int round = 2; round < ROUNDS; round++) {
    const vw m0 = times(a, PRODUCT_A), m1 = times(c, PRODUCT_C);
    a = (m1 >> 32) ^ b ^ noise->a_keys[round];
    c = (m0 >> 32) ^ d ^ noise->c_keys[round];
    b = m1;
    d = m0;
  }
  return a;
}

/* The words of ids first to first + W - 1: even ids and odd ones apart. */
INLINE vu noise_at(const struct noise *noise, uint32_t first) {
  vw even = splat_word(first);
  UNROLL for (uint32_t i = 0; i < W / 2; i++) even[i] += 2 * i;
  const vw low = philox(noise, even), high = philox(noise, even + splat_word(1));
  return (vu)((low & splat_word(0xffffffff)) | (high << 32));
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
