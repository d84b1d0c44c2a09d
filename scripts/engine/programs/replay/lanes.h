/* Calls of several threads. */
#ifndef REPROFS_REPLAY_LANES_H
#define REPROFS_REPLAY_LANES_H

#include "by_number.h"

#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct lane {
    uint64_t count;
    uint32_t *numbers;               /* of its calls, in their order */
    _Atomic uint32_t done, watchers; /* calls that are made; threads that sleep until there are more */
};
enum { LANES = 16 };
static struct lane lanes[LANES];
static uint64_t lane_count;
static const uint8_t **waits_at; /* by call: what it waits for */
static pthread_mutex_t summing = PTHREAD_MUTEX_INITIALIZER;
static struct spent sum[KINDS][64 * UNITS];
static uint64_t sum_differing;

/* Which calls each lane makes. */
static void find_lanes(void) {
    for (uint64_t i = 0; i < calls && !ends_early; i++) {
        uint64_t own = read_number();
        if (own >= lane_count) ends_early = true;
        else lanes[own].numbers[lanes[own].count++] = (uint32_t)i;
        waits_at[i] = at;
        for (uint64_t n = read_number(); n && !ends_early; n--)
            ends_early = read_number() >= lane_count || read_number() > calls;
    }
}

/* What is behind the tree after; false where the recording does not say, or not wholly. `at` stays. */
static bool read_lanes(void) {
    const uint8_t *from = at;
    waits_at = calloc(calls + 1, sizeof *waits_at);
    if (!waits_at) return false;
    lane_count = find_calls() && at < end ? read_number() : 0;
    if (lane_count > LANES) lane_count = 0;
    for (uint64_t l = 0; l < lane_count; l++)
        if (!(lanes[l].numbers = calloc(calls + 1, sizeof *lanes[l].numbers))) return false;
    if (lane_count) find_lanes();
    bool found = lane_count && !ends_early;
    at = from, ends_early = false;
    return found;
}

static void wait_for(struct lane *l, uint32_t count) {
    for (uint32_t done; (done = atomic_load(&l->done)) < count;) {
        atomic_fetch_add(&l->watchers, 1);
        if (atomic_load(&l->done) == done) syscall(SYS_futex, &l->done, FUTEX_WAIT_PRIVATE, done, NULL, NULL, 0);
        atomic_fetch_sub(&l->watchers, 1);
    }
}

static void *make_lane(void *which) {
    struct lane *l = which;
    /* A failure ends all: others would wait for ever. */
    if (posix_memalign((void **)&buffer, STREAM_BLOCK, LARGEST)) _exit(broken("no memory for the content of files"));
    memset(buffer, 0, POOL);
    for (uint64_t k = 0; k < l->count; k++) {
        uint64_t i = l->numbers[k];
        at = waits_at[i];
        for (uint64_t n = read_number(); n; n--) {
            struct lane *other = &lanes[read_number()];
            wait_for(other, (uint32_t)read_number());
        }
        if (make_one(i)) _exit(1);
        atomic_fetch_add(&l->done, 1);
        if (atomic_load(&l->watchers)) syscall(SYS_futex, &l->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    pthread_mutex_lock(&summing);
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < 64 * UNITS; i++) {
            sum[k][i].count += spent[k][i].count, sum[k][i].wall += spent[k][i].wall;
            sum[k][i].bytes += spent[k][i].bytes;
        }
    sum_differing += differing;
    pthread_mutex_unlock(&summing);
    free(buffer);
    return NULL;
}

static bool several_processors(void) {
    cpu_set_t set;
    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1;
}

static int make_in_order(void) {
    for (uint64_t i = 0; i < calls; i++)
        if (make_one(i)) return 1;
    return 0;
}

static int make_lanes(void) {
    pthread_t threads[LANES];
    for (uint64_t l = 0; l < lane_count; l++)
        if ((errno = pthread_create(&threads[l], NULL, make_lane, &lanes[l])))
            _exit(broken("no thread: %s", strerror(errno)));
    for (uint64_t l = 0; l < lane_count; l++) pthread_join(threads[l], NULL);
    memcpy(spent, sum, sizeof sum);
    differing = sum_differing;
    return 0;
}

#endif
