/* calibrate ROUNDS [PATH]: what wake-ups, or flushes of the disk of PATH, cost here, in ns. Of each round a line: a
 * JSON object.
 *
 * A round of wake-ups is the quickest tenth of its short runs: a busy neighbour only adds. Of flushes it is the median:
 * a block is written and flushed (fdatasync), in sequence and at random. PATH is a folder, where a file of no name is
 * made, or a block device that nobody uses: blocks are written there with what they have. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, RUNS = 300, FLUSHES = 101, MOST = 64 << 20 };

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

/* ---- flushes ----------------------------------------------------------------------------------------------------- */
struct file {
    int fd;
    uint64_t blocks, next;
    int random;
};

static double flush(void *with) { /* wall time until a block is on the disk: the write is part of it */
    struct file *f = with;
    char block[PAGE];
    off_t at = (off_t)((f->random ? draw() : f->next++) % f->blocks * PAGE);
    if (pread(f->fd, block, PAGE, at) != PAGE) fail("it cannot be read");
    double t = now(CLOCK_MONOTONIC);
    if (pwrite(f->fd, block, PAGE, at) != PAGE || fdatasync(f->fd)) fail("it cannot be written");
    return now(CLOCK_MONOTONIC) - t;
}

static struct file opened(const char *path) {
    struct stat about;
    if (stat(path, &about)) fail(path);
    int device = S_ISBLK(about.st_mode);
    struct file f = {open(path, (device ? O_EXCL : O_TMPFILE) | O_RDWR, 0600), MOST / PAGE, 0, 0};
    if (f.fd < 0) fail(path);
    if (device) {
        off_t size = lseek(f.fd, 0, SEEK_END);
        if (size < MOST) f.blocks = (uint64_t)size / PAGE;
        if (!f.blocks) errno = ENOSPC, fail(path);
        return f;
    }
    char block[PAGE];
    for (uint64_t i = 0; i < f.blocks; i++) {
        memset(block, (int)draw(), sizeof block);
        if (pwrite(f.fd, block, PAGE, (off_t)(i * PAGE)) != PAGE) fail(path);
    }
    if (fsync(f.fd)) fail(path);
    return f;
}

int main(int words, char **word) {
    int rounds = words > 1 ? atoi(word[1]) : 0;
    if (rounds < 1 || words > 3) return fprintf(stderr, "calibrate ROUNDS [PATH]\n"), 2;
    struct file f = {0};
    if (words == 3) f = opened(word[2]);
    for (int i = 0; i < rounds; i++) {
        if (words == 3) {
            f.random = 0;
            printf("{\"sequential\":%.6g", of_runs(flush, &f, FLUSHES, FLUSHES / 2));
            f.random = 1;
            printf(",\"random\":%.6g}\n", of_runs(flush, &f, FLUSHES, FLUSHES / 2));
        } else printf("{\"wake_up\":%.6g}\n", wake_up());
        fflush(stdout);
    }
    return 0;
}
