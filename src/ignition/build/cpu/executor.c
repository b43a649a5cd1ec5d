/* Replays programs: lists of launches, each split into units that threads claim.
 *
 * Threads are the caller's: each calls `executor_thread` once and stays.  A submission is put
 * into a ring; every thread walks every submission's launches in order, claims chunks of a
 * launch's units until none are left, and waits until all of them are done before the next
 * launch.  Counters only grow: run r of an instance claims chunks [r * chunks, (r + 1) * chunks)
 * of a launch, so a thread that was away finds its old launches already claimed and done, and
 * skips submissions that finished without it.
 *
 * Waiting spins first, for the next launch is microseconds away, and sleeps on a futex when
 * nothing was submitted for a while.
 *
 * A thread that something else preempts in the middle of a chunk holds up everybody, for what
 * units write cannot be written twice.  So each asks now and then for how long it was kept from
 * running, and when that costs the others more than it brings, it rests: longer each time that
 * the first milliseconds afterwards are no better.  One thread always stays.  Who does a chunk
 * never changes what the chunk computes.
 */
#include "executor.h"

#include <stdatomic.h>
#include <stddef.h>

#define EXPORT __attribute__((visibility("default")))
#define RING 4u /* submissions in flight; two frames use two */
#define YIELD_SPINS 4096u /* about 0.1 ms */

struct launch {
  kernel_function *function;
  const void *parameters;
  uint32_t units;
  uint32_t chunks;
  _Alignas(64) _Atomic uint32_t claimed;
  _Alignas(64) _Atomic uint32_t done;
};

struct instance {
  struct launch *launches;
  uint32_t count;
  uint32_t runs; /* submissions so far; written before publication only */
};

/* Read while it may be overwritten; what was read counts only if the submission is unfinished. */
struct submission {
  struct instance *_Atomic instance;
  _Atomic uint32_t run;
};

struct executor {
  uint32_t threads;
  uint32_t spins;
  struct submission ring[RING];
  _Alignas(64) _Atomic uint32_t submitted; /* futex of sleeping threads */
  _Alignas(64) _Atomic uint32_t completed; /* futex of a sleeping waiter */
  _Alignas(64) _Atomic uint32_t sleepers;
  _Alignas(64) _Atomic uint32_t waiters;
  _Alignas(64) _Atomic uint32_t resting;
  _Alignas(64) _Atomic uint32_t stopping; /* futex of resting threads */
};

EXPORT const uint64_t executor_nbytes = sizeof(struct executor);
EXPORT const uint64_t launch_nbytes = sizeof(struct launch);
EXPORT const uint64_t instance_nbytes = sizeof(struct instance);

/* ---- the kernel's two words of the operating system -------------------- */

#if defined(__x86_64__)
static long system_call6(long n, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
  return result;
}
#define FUTEX_CALL 202
#define YIELD_CALL 24
#define CLOCK_CALL 228
#define MONOTONIC 1
#define THREAD_CPU 3
#define ticks() __builtin_ia32_rdtsc()
#define relax() __builtin_ia32_pause()
#else
#error "no system calls for this processor yet"
#endif

struct span { int64_t seconds, nanoseconds; };

static void sleep_while(_Atomic uint32_t *word, uint32_t value, const struct span *most) {
  system_call6(FUTEX_CALL, (long)word, 0 /* FUTEX_WAIT */, value, (long)most, 0, 0);
}

static void wake_all(_Atomic uint32_t *word) {
  system_call6(FUTEX_CALL, (long)word, 1 /* FUTEX_WAKE */, 0x7fffffff, 0, 0, 0);
}

static void yield(void) { system_call6(YIELD_CALL, 0, 0, 0, 0, 0, 0); }

static int64_t clock_of(long clock) {
  struct span now = {0, 0};
  system_call6(CLOCK_CALL, clock, (long)&now, 0, 0, 0, 0);
  return now.seconds * 1000000000 + now.nanoseconds;
}

/* ---- setting up -------------------------------------------------------- */

EXPORT void executor_open(struct executor *executor, uint32_t threads, uint32_t spins) {
  executor->threads = threads;
  executor->spins = spins;
}

EXPORT void instance_open(struct instance *instance, struct launch *launches, uint32_t count) {
  instance->launches = launches;
  instance->count = count;
}

/* Chunks are what threads claim: a few a thread, so that a slow thread's share goes to others. */
EXPORT void launch_open(struct launch *launch, kernel_function *function, const void *parameters,
                        uint32_t units, uint32_t threads) {
  uint32_t chunks = threads == 1 ? 1 : threads * 4;
  launch->function = function;
  launch->parameters = parameters;
  launch->units = units;
  launch->chunks = units < chunks ? units : chunks;
}

/* ---- being kept from running ------------------------------------------- */

#define LOOK_TICKS (1u << 21) /* between two looks; under a millisecond */
#define KEPT_LEAST 1000000    /* nanoseconds: what interrupts take is no reason to rest */
#define WORTH 8               /* times as long as it was kept must it have run, to be of use */
#define REST_LEAST 16000000
#define REST_MOST 128000000

/* What a thread knows of the time it got; nanoseconds but for ticks. */
struct presence {
  uint64_t looked;   /* when it last looked, in ticks */
  int64_t wall, ran; /* the clocks then */
  int64_t since;     /* how much it had run when it was last kept */
  int64_t rest;      /* for how long it rested then */
};

static void look(struct presence *presence) {
  presence->looked = ticks();
  presence->wall = clock_of(MONOTONIC);
  presence->ran = clock_of(THREAD_CPU);
}

/* Whether this thread holds the others up for longer than it helps; asked between chunks. */
static int should_rest(struct presence *presence) {
  if (ticks() - presence->looked < LOOK_TICKS) return 0;
  const int64_t away = presence->wall - presence->ran;
  look(presence);
  const int64_t kept = presence->wall - presence->ran - away;
  if (kept < KEPT_LEAST) return 0;
  const int64_t between = presence->ran - presence->since, twice = 2 * presence->rest;
  presence->since = presence->ran;
  if (between >= WORTH * kept) {
    presence->rest = 0;
  } else if (twice < REST_LEAST) {
    presence->rest = REST_LEAST;
  } else {
    presence->rest = twice < REST_MOST ? twice : REST_MOST;
  }
  return presence->rest != 0;
}

/* Stay away, so that the others need not wait; not if nobody would be left. */
static void rest(struct executor *executor, int64_t nanoseconds) {
  if (atomic_fetch_add(&executor->resting, 1) + 1 < executor->threads) {
    const struct span most = {nanoseconds / 1000000000, nanoseconds % 1000000000};
    sleep_while(&executor->stopping, 0, &most);
  }
  atomic_fetch_sub(&executor->resting, 1);
}

/* ---- running ----------------------------------------------------------- */

/* Wait for chunks that others do; what is lost meanwhile holds nobody up. */
static void await_chunks(struct launch *launch, uint32_t goal, struct presence *presence) {
  for (uint32_t spun = 1;
       (int32_t)(atomic_load_explicit(&launch->done, memory_order_acquire) - goal) < 0; spun++) {
    relax();
    if (spun % YIELD_SPINS) continue;
    yield(); /* another thread may need this very core */
    look(presence);
  }
}

/* Do chunks of a launch until none are left, and wait for the others'; false when this thread
 * should rest instead, which it may after any chunk. */
static int run_launch(struct launch *launch, uint32_t run, const struct thread *thread,
                      struct presence *presence) {
  const uint32_t chunks = launch->chunks, base = run * chunks;
  uint32_t next = atomic_load_explicit(&launch->claimed, memory_order_relaxed);
  while ((int32_t)(next - (base + chunks)) < 0) {
    if (!atomic_compare_exchange_weak_explicit(&launch->claimed, &next, next + 1,
                                               memory_order_acq_rel, memory_order_relaxed))
      continue;
    const uint64_t chunk = next - base;
    const uint32_t begin = (uint32_t)(launch->units * chunk / chunks);
    const uint32_t end = (uint32_t)(launch->units * (chunk + 1) / chunks);
    launch->function(launch->parameters, begin, end, thread);
    atomic_fetch_add_explicit(&launch->done, 1, memory_order_acq_rel);
    if (should_rest(presence)) return 0;
    next = atomic_load_explicit(&launch->claimed, memory_order_relaxed);
  }
  await_chunks(launch, base + chunks, presence);
  return 1;
}

/* Take part in a submission; false when this thread should rest before all of it is done. */
static int run_instance(struct instance *instance, uint32_t run, const struct thread *thread,
                        struct presence *presence) {
  look(presence);
  for (uint32_t i = 0; i < instance->count; i++)
    if (!run_launch(&instance->launches[i], run, thread, presence)) return 0;
  return 1;
}

/* Sleep until submission `sequence` exists; false when the executor stops. */
static int await_submission(struct executor *executor, uint32_t sequence) {
  for (uint32_t spun = 1;
       atomic_load_explicit(&executor->submitted, memory_order_acquire) == sequence; spun++) {
    if (atomic_load_explicit(&executor->stopping, memory_order_acquire)) return 0;
    relax();
    if (spun % executor->spins) continue;
    atomic_fetch_add(&executor->sleepers, 1);
    if (atomic_load(&executor->submitted) == sequence && !atomic_load(&executor->stopping))
      sleep_while(&executor->submitted, sequence, NULL);
    atomic_fetch_sub(&executor->sleepers, 1);
  }
  return 1;
}

/* The body of one thread; returns when the executor stops. */
EXPORT void executor_thread(struct executor *executor, uint32_t index, void *scratch) {
  const struct thread thread = {index, scratch};
  struct presence presence = {0};
  uint32_t sequence = 0;
  while (await_submission(executor, sequence)) {
    const struct submission *slot = &executor->ring[sequence % RING];
    struct instance *instance = atomic_load_explicit(&slot->instance, memory_order_relaxed);
    const uint32_t run = atomic_load_explicit(&slot->run, memory_order_relaxed);
    /* A slot is overwritten only after its submission has finished. */
    const uint32_t finished = atomic_load(&executor->completed);
    if ((int32_t)(finished - sequence) > 0) {
      sequence = finished;
      continue;
    }
    if (!run_instance(instance, run, &thread, &presence)) {
      rest(executor, presence.rest);
      continue; /* what went on meanwhile is found claimed and done */
    }
    /* The first to see the last launch done says so: all of the submission's work is finished. */
    uint32_t before = sequence++;
    if (atomic_compare_exchange_strong(&executor->completed, &before, sequence) &&
        atomic_load(&executor->waiters))
      wake_all(&executor->completed);
  }
}

/* Hand a bound program to the threads.  At most RING - 1 may be unfinished. */
EXPORT void executor_submit(struct executor *executor, struct instance *instance) {
  const uint32_t sequence = atomic_load_explicit(&executor->submitted, memory_order_relaxed);
  struct submission *slot = &executor->ring[sequence % RING];
  atomic_store_explicit(&slot->instance, instance, memory_order_relaxed);
  atomic_store_explicit(&slot->run, instance->runs++, memory_order_relaxed);
  atomic_store(&executor->submitted, sequence + 1);
  if (atomic_load(&executor->sleepers)) wake_all(&executor->submitted);
}

/* Submissions finished so far. */
EXPORT uint32_t executor_completed(struct executor *executor) {
  return atomic_load_explicit(&executor->completed, memory_order_acquire);
}

/* Wait until more than `finished` submissions are complete, at most `nanoseconds`. */
EXPORT uint32_t executor_wait(struct executor *executor, uint32_t finished, int64_t nanoseconds) {
  const struct span most = {nanoseconds / 1000000000, nanoseconds % 1000000000};
  uint32_t now = executor_completed(executor);
  if ((int32_t)(now - finished) > 0 || nanoseconds <= 0) return now;
  atomic_fetch_add(&executor->waiters, 1);
  now = atomic_load(&executor->completed);
  if ((int32_t)(now - finished) <= 0) sleep_while(&executor->completed, now, &most);
  atomic_fetch_sub(&executor->waiters, 1);
  return executor_completed(executor);
}

EXPORT void executor_stop(struct executor *executor) {
  atomic_store(&executor->stopping, 1);
  wake_all(&executor->submitted);
  wake_all(&executor->stopping);
}

/* Freestanding code still needs these two: compilers call them for copies and fills. */
void *memcpy(void *restrict to, const void *restrict from, size_t nbytes) {
  void *result = to;
  __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(nbytes) : : "memory");
  return result;
}

void *memset(void *to, int value, size_t nbytes) {
  void *result = to;
  __asm__ volatile("rep stosb" : "+D"(to), "+c"(nbytes) : "a"(value) : "memory");
  return result;
}
