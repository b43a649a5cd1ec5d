/* Read bandwidth: every thread reads its own part of one buffer, in huge pages where they can be had.
 * Usage: probe THREADS MEGABYTES REPETITIONS; prints the median in GB/s. */
#define _GNU_SOURCE
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

typedef uint64_t vector __attribute__((vector_size(32)));
enum { MOST_THREADS = 64, HUGE_NBYTES = 2 << 20 };

static char *buffer;
static size_t nbytes;
static int threads, repetitions;
static pthread_barrier_t together;
static double *rates;
static volatile uint64_t kept[MOST_THREADS * 8];

static double seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void *read_part(void *argument) {
  const intptr_t index = (intptr_t)argument;
  cpu_set_t processors;
  CPU_ZERO(&processors);
  CPU_SET(index, &processors);
  pthread_setaffinity_np(pthread_self(), sizeof processors, &processors);
  const size_t part = nbytes / (size_t)threads;
  for (int r = 0; r < repetitions; r++) {
    pthread_barrier_wait(&together);
    const double began = seconds();
    const vector *from = (const vector *)(buffer + (size_t)index * part), *end = from + part / 32;
    vector a = {0}, b = a, c = a, d = a;
    for (; from < end; from += 4) a ^= from[0], b ^= from[1], c ^= from[2], d ^= from[3];
    a ^= b ^ c ^ d;
    kept[index * 8] = a[0] ^ a[1] ^ a[2] ^ a[3];
    pthread_barrier_wait(&together);
    if (index == 0) rates[r] = (double)nbytes / (seconds() - began) / 1e9;
  }
  return NULL;
}

static int by_size(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int count, char **words) {
  threads = count > 1 ? atoi(words[1]) : 1;
  nbytes = (size_t)(count > 2 ? atoi(words[2]) : 256) << 20;
  repetitions = count > 3 ? atoi(words[3]) : 9;
  if (threads < 1 || threads > MOST_THREADS || !nbytes || repetitions < 1) return 2;
  rates = calloc((size_t)repetitions, sizeof *rates);
  char *memory = mmap(NULL, nbytes + HUGE_NBYTES, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 1;
  buffer = (char *)(((uintptr_t)memory + HUGE_NBYTES - 1) & ~(uintptr_t)(HUGE_NBYTES - 1));
  madvise(buffer, nbytes, MADV_HUGEPAGE);
  memset(buffer, 1, nbytes);
  pthread_barrier_init(&together, NULL, (unsigned)threads);
  pthread_t started[MOST_THREADS];
  for (intptr_t i = 0; i < threads; i++)
    pthread_create(&started[i], NULL, read_part, (void *)i);
  for (int i = 0; i < threads; i++) pthread_join(started[i], NULL);
  qsort(rates, (size_t)repetitions, sizeof *rates, by_size);
  printf("%.2f\n", rates[repetitions / 2]);
  return 0;
}
