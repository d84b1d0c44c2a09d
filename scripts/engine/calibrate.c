/* calibrate ROUNDS [FOLDER]: what wake-ups and flushes cost here, in ns. A line for each round: a JSON object.
 *
 * A round of wake-ups is the quickest tenth of its short runs: a busy neighbour only adds. Of flushes it is the median.
 * FOLDER: its disk's flush is measured, with a file of no name. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, RUNS = 30 };

static void fail(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static double now(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return t.tv_sec * 1e9 + t.tv_nsec;
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
    double found = of_runs(hand_over, pipes, RUNS, RUNS / 10);
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
    for (int i = 0; i < rounds; i++) {
        printf("{\"wake_up\":%.6g", wake_up());
        if (file >= 0) printf(",\"flush\":%.6g", of_runs(flush, &file, 21, 10));
        puts("}");
        fflush(stdout);
    }
    return 0;
}
