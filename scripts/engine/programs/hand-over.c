/* How long it takes from one processor to another: what a model of several processors is held against.
 *
 * Two threads, each on a processor of its own, take turns `n` times; a sample each, whose time is that of all turns:
 *   line       one waits for a word in memory that the other writes; waiting, it says so to the processor (pause)
 *   lock       both take the same spin lock, add to a counter and let go; a turn is one of these
 *   futex      one sleeps until the other wakes it, by futex(2)
 *   pipe       the same by a byte through a pipe
 *   interrupt  one computes, the other interrupts it and waits until that is done, by membarrier(2)
 * A turn of line, futex and pipe is one way, not there and back. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"

#include <errno.h>
#include <linux/futex.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static uint64_t turns;
static const struct option options[] = {
    NUMBER("-n", turns, 2, 100000000, "turns of each kind"),
};

static _Atomic uint32_t turn __attribute__((aligned(64)));
static atomic_flag lock __attribute__((aligned(64))) = ATOMIC_FLAG_INIT;
static uint64_t counter;
static int pipes[2][2];
static pthread_barrier_t start;
static int place[2]; /* a processor each */

static void pause_here(void) {
#ifdef __x86_64__
    __builtin_ia32_pause();
#endif
}
static void by_line(uint32_t me) {
    for (uint64_t i = me; i < turns; i += 2) {
        while (atomic_load_explicit(&turn, memory_order_acquire) != i) pause_here();
        atomic_store_explicit(&turn, (uint32_t)i + 1, memory_order_release);
    }
}
static void by_lock(uint32_t me) {
    for (uint64_t i = me; i < turns; i += 2) {
        while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire)) pause_here();
        counter++;
        atomic_flag_clear_explicit(&lock, memory_order_release);
    }
}
static void by_futex(uint32_t me) {
    for (uint64_t i = me; i < turns; i += 2) {
        for (uint32_t seen; (seen = atomic_load(&turn)) != i;)
            syscall(SYS_futex, &turn, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
        atomic_store(&turn, (uint32_t)i + 1);
        syscall(SYS_futex, &turn, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
}
static void by_pipe(uint32_t me) {
    char byte = 0;
    for (uint64_t i = me; i < turns; i += 2) {
        if (i && read(pipes[me][0], &byte, 1) != 1) return;
        if (i + 1 < turns && write(pipes[!me][1], &byte, 1) != 1) return;
    }
}
static void by_interrupt(uint32_t me) {
    if (me) {
        while (atomic_load_explicit(&turn, memory_order_relaxed) == 0) continue;
        return;
    }
    for (uint64_t i = 0; i < turns; i++) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
    atomic_store(&turn, 1);
}

static const struct way {
    const char *name;
    void (*run)(uint32_t me);
} ways[] = {{"line", by_line}, {"lock", by_lock}, {"futex", by_futex}, {"pipe", by_pipe}, {"interrupt", by_interrupt}};
static const struct way *way;

static void *thread(void *number) {
    uint32_t me = (uint32_t)(uintptr_t)number;
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET((size_t)place[me], &own);
    sched_setaffinity(0, sizeof own, &own);
    pthread_barrier_wait(&start);
    uint64_t began = now_ns();
    way->run(me);
    pthread_barrier_wait(&start);
    if (!me) {
        uint64_t wall = now_ns() - began;
        printf("%s %.0f ns\n", way->name, (double)wall / (double)turns);
        sample_put(SAMPLE(.name = way->name, .start_ns = began - program_began, .wall_ns = wall, .items = turns));
    }
    return NULL;
}

static int check(void) { return needs(0, 0); }

static int run(void) {
    cpu_set_t all;
    int found = 0;
    if (sched_getaffinity(0, sizeof all, &all)) return broken("no list of processors: %s", reason(errno));
    for (int i = 0; i < CPU_SETSIZE && found < 2; i++)
        if (CPU_ISSET((size_t)i, &all)) place[found++] = i;
    if (found < 2) return broken("two processors are needed, and there is one");
    if (pipe(pipes[0]) || pipe(pipes[1])) return broken("no pipe: %s", reason(errno));
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0))
        return broken("the kernel has no membarrier: %s", reason(errno));
    pthread_barrier_init(&start, NULL, 2);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        pthread_t other;
        way = &ways[i];
        atomic_store(&turn, 0);
        if (pthread_create(&other, NULL, thread, (void *)1)) return broken("no second thread");
        thread(NULL);
        pthread_join(other, NULL);
    }
    return 0;
}

const struct program program = {
    "hand-over", "Measures how long it takes from one processor to another.", OPTIONS(options), NULL, check, run};
