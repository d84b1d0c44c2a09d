/* calibrate ROUNDS [FOLDER]: what things cost on this machine, in ns. A line for each round: a JSON object.
 *
 * A round of a constant is the quickest tenth of its short runs: a busy neighbour only adds. All
 * but wake-ups and flushes (of which it is the median) is processor time of this thread. FOLDER: its disk's flush is
 * measured, with a file of no name. x86-64 only. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LINE = 64, PAGE = 4096, RUNS = 100 };
enum { L2_BYTES = 256 << 10, LLC_BYTES = 4 << 20, HUGE = 2 << 20 };

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
}
static double spent(void) { return now(CLOCK_THREAD_CPUTIME_ID); }

static double root(double square) { /* without libm; of less than nothing: nothing */
    if (square <= 0) return 0;
    double x = square > 1 ? square : 1;
    for (int i = 0; i < 100; i++) x = (x + square / x) / 2;
    return x;
}

static uint64_t draw(void) {
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7;
    return x ^= x << 17;
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}
static double of_runs(double (*run)(void *), void *with, int runs, int at) {
    double found[RUNS];
    for (int i = 0; i < runs; i++) found[i] = run(with);
    qsort(found, runs, sizeof *found, by_size);
    return found[at];
}
static double best(double (*run)(void *), void *with, int runs) { return of_runs(run, with, runs, runs / 10); }

static char *memory(size_t bytes) { /* in pages of 2 MiB where there are some */
    size_t room = bytes + HUGE;
    char *at = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) fail("no memory");
    at += HUGE - (uintptr_t)at % HUGE;
    madvise(at, bytes, MADV_HUGEPAGE);
    memset(at, 1, bytes);
    return at;
}

static uint64_t *shuffled(uint64_t n) {
    uint64_t *order = malloc(n * sizeof *order);
    if (!order) fail("no memory");
    for (uint64_t i = 0; i < n; i++) order[i] = i;
    for (uint64_t i = n - 1; i; i--) {
        uint64_t j = draw() % i, kept = order[i];
        order[i] = order[j], order[j] = kept;
    }
    return order;
}

/* ---- the core ---------------------------------------------------------------------------------------------------- */
static uint64_t few[512];

static double parallel(void *with) { /* loads, stores, arithmetic and branches that hardly wait for each other */
    (void)with;
    uint64_t x = 1, y = 2, z, i = 0, n = 200000;
    double t = spent();
    __asm__ volatile(
        "1: mov (%[b],%[i],8), %[z]\n add %[z], %[x]\n mov %[x], %[y]\n and $63, %[y]\n lea 1(%[y],%[z]), %[z]\n"
        "mov %[z], 64(%[b])\n xor %[y], %[x]\n test %[x], %[i]\n nop\n inc %[i]\n and $255, %[i]\n"
        "mov 8(%[b]), %[z]\n cmp $77, %[z]\n je 2f\n dec %[n]\n jnz 1b\n 2:"
        : [x] "+r"(x), [y] "+r"(y), [i] "+r"(i), [n] "+r"(n), [z] "=&r"(z)
        : [b] "r"(few)
        : "memory", "cc");
    return (spent() - t) / (200000 * 16.0);
}

static double chained(void *with) { /* each waits for the one before, a load among them */
    (void)with;
    uint64_t n = 200000;
    void *p = &few[0];
    few[0] = (uint64_t)p;
    double t = spent();
    __asm__ volatile("1: mov (%[p]), %[p]\n add $0, %[p]\n lea (%[p]), %[p]\n test %[p], %[p]\n je 2f\n dec %[n]\n"
                     "jnz 1b\n2:"
        : [p] "+r"(p), [n] "+r"(n)::"memory", "cc");
    return (spent() - t) / (200000 * 7.0);
}

static uint8_t taken[1 << 16];
static double branches(void *with) {
    uint64_t x = 0, i = 0;
    double t = spent();
    __asm__ volatile("1: cmpb $0, (%[b],%[i])\n je 2f\n add $3, %[x]\n 2: inc %[i]\n cmp $65536, %[i]\n jne 1b"
        : [x] "+r"(x), [i] "+r"(i)
        : [b] "r"(with)
        : "cc", "memory");
    return (spent() - t) / sizeof taken;
}
static double mispredict(void) { /* half of the branches of a coin are predicted wrongly */
    memset(taken, 1, sizeof taken);
    double right = best(branches, taken, 100);
    for (unsigned i = 0; i < sizeof taken; i++) taken[i] = draw() >> 40 & 1;
    return 2 * (best(branches, taken, 100) - right);
}

#define REPEATED(name, times, what) \
    static double name(void *with) { \
        (void)with; \
        double t = spent(); \
        for (int i = 0; i < times; i++) what; \
        return (spent() - t) / times; \
    }
REPEATED(system_call, 5000, syscall(SYS_getppid))
REPEATED(locked, 20000, __asm__ volatile("lock incq %0" : "+m"(few[8])))

/* ---- caches ------------------------------------------------------------------------------------------------------ */
struct lines {
    char *at;
    uint64_t bytes;
    void *next;
};

static double dependent(void *with) { /* each load says where the next is */
    struct lines *l = with;
    enum { LOADS = 30000 };
    double t = spent();
    for (int i = 0; i < LOADS; i++) l->next = *(void *volatile *)l->next;
    return (spent() - t) / LOADS;
}

static double independent(void *with) { /* a core has several such loads under way */
    struct lines *l = with;
    enum { LOADS = 30000 };
    uint64_t k = draw(), sum = 0;
    double t = spent();
    for (int i = 0; i < LOADS; i++) {
        k = k * 6364136223846793005u + 1442695040888963407u;
        sum += *(volatile uint64_t *)(l->at + (k >> 20 & (l->bytes - LINE) & ~(uint64_t)(LINE - 1)));
    }
    t = spent() - t;
    few[100] += sum;
    return t / LOADS;
}

static struct lines chain(uint64_t bytes) {
    struct lines l = {memory(bytes), bytes, NULL};
    uint64_t n = bytes / LINE, *order = shuffled(n);
    for (uint64_t i = 0; i < n; i++) *(char **)(l.at + order[i] * LINE) = l.at + order[(i + 1) % n] * LINE;
    l.next = l.at;
    free(order);
    return l;
}

/* What a load from there costs beyond one from the first level. A program's loads are neither all dependent nor all
 * independent: the geometric mean of both. */
static double load(struct lines *from, struct lines *first) {
    double after = best(dependent, from, 40) - best(dependent, first, 20);
    return root(after * best(independent, from, 40));
}

static double copy(void *with) { /* page by page, as the kernel does, from the second level */
    char *block = with;
    enum { BYTES = 1 << 20, HALF = L2_BYTES / 2 };
    double t = spent();
    for (uint64_t i = 0; i < BYTES; i += PAGE) {
        uint64_t n = PAGE;
        char *from = block + i % HALF, *to = from + HALF;
        __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(n)::"memory");
    }
    return (spent() - t) / BYTES;
}

/* ---- the kernel -------------------------------------------------------------------------------------------------- */
static double hand_over(void *with) { /* a byte to a process on another processor, and one back: wall time of one way */
    enum { TIMES = 10 };
    int *pipes = with;
    char c = 0;
    double t = now(CLOCK_MONOTONIC);
    for (int i = 0; i < TIMES; i++)
        if (write(pipes[1], &c, 1) != 1 || read(pipes[2], &c, 1) != 1) fail("a pipe");
    return (now(CLOCK_MONOTONIC) - t) / TIMES / 2;
}

static double wake_up(void) { /* of another processor that sleeps; with one processor: of another process */
    int to[2], back[2], cpus[2], n = 0;
    cpu_set_t old, one;
    if (pipe(to) || pipe(back) || sched_getaffinity(0, sizeof old, &old)) fail("a pipe");
    for (int i = 0; i < CPU_SETSIZE && n < 2; i++)
        if (CPU_ISSET(i, &old)) cpus[n++] = i;
    pid_t child = fork();
    if (child < 0) fail("fork");
    CPU_ZERO(&one);
    CPU_SET(cpus[child ? 0 : n - 1], &one);
    sched_setaffinity(0, sizeof one, &one);
    if (!child) {
        char c;
        close(to[1]);
        while (read(to[0], &c, 1) == 1 && write(back[1], &c, 1) == 1) {}
        _exit(0);
    }
    int pipes[] = {to[0], to[1], back[0], back[1]};
    double found = best(hand_over, pipes, 30);
    for (int i = 0; i < 4; i++) close(pipes[i]);
    waitpid(child, NULL, 0);
    sched_setaffinity(0, sizeof old, &old);
    return found;
}

static double flush(void *with) { /* wall time until a block of a file is on the disk: the write is part of it */
    char block[PAGE];
    memset(block, (int)draw(), sizeof block);
    double t = now(CLOCK_MONOTONIC);
    if (pwrite(*(int *)with, block, sizeof block, 0) != PAGE || fdatasync(*(int *)with)) fail("the file to flush");
    return now(CLOCK_MONOTONIC) - t;
}

int main(int words, char **word) {
    int rounds = words > 1 ? atoi(word[1]) : 0, file = -1;
    if (rounds < 1 || words > 3) return fprintf(stderr, "calibrate ROUNDS [FOLDER]\n"), 2;
    if (words == 3 && (file = open(word[2], O_TMPFILE | O_RDWR, 0600)) < 0) fail(word[2]);
    struct lines first = chain(16 << 10), l2 = chain(L2_BYTES), llc = chain(LLC_BYTES);
    char *block = memory(L2_BYTES);
    for (int i = 0; i < rounds; i++) {
        printf("{\"instruction\":%.6g", root(best(parallel, NULL, 60) * best(chained, NULL, 60)));
        printf(",\"copy\":%.6g", best(copy, block, 60));
        printf(",\"l2\":%.6g,\"llc\":%.6g", load(&l2, &first), load(&llc, &first));
        printf(",\"mispredict\":%.6g", mispredict());
        printf(",\"locked\":%.6g", best(locked, NULL, 60));
        printf(",\"system_call\":%.6g", best(system_call, NULL, 60));
        printf(",\"wake_up\":%.6g", wake_up());
        if (file >= 0) printf(",\"flush\":%.6g", of_runs(flush, &file, 21, 10));
        puts("}");
        fflush(stdout);
    }
    return 0;
}
