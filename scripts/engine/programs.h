/* Programs: `engine NAME ARGUMENTS`, usable by hand on any folder, or as the command of a phase; and what they share.
 *
 * All take --check first: the arguments are checked, {"bytes":N,"names":N} says what they will make, nothing is done.
 * Exit: 0 done; 1 one sentence on standard error, what failed; 2 one sentence on standard error, wrong arguments. */
#ifndef REPROFS_PROGRAMS_H
#define REPROFS_PROGRAMS_H

#include <stdbool.h>
#include <stdint.h>

#include "measure.h"
#include "tree.h"

/* A program: the first word after `engine`, and its function, whose argv[0] is that word. Each file declares its own;
 * the linker puts them side by side, in the order of the files' names. */
struct program {
    const char *name;
    int (*run)(int argc, char **argv);
};
#define PROGRAM(name, function) \
    static const struct program function##_program __attribute__((section("programs"), used, retain)) = {name, function}

int wrong(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says the sentence, returns 2 */
int broken(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says the sentence, returns 1 */
bool parse_number(const char *text, uint64_t *value); /* 12, 4K, 16M, 1G (1024 each) */

/* A sample is one timed part of a program's work. Samples go to the file that $REPROFS_SAMPLES names, one JSON object a
 * line. */
enum { NONE = -1 };
struct sample {
    const char *name; /* what was timed, in words of the workload: "create", "file-stat" */
    uint64_t start_ns, wall_ns, items, bytes;
    int64_t iteration, client, file_bytes, record_bytes; /* NONE when it has none */
    int64_t extents, blocks, contiguous; /* of a layout: age.c has what they mean */
};
#pragma clang diagnostic ignored "-Winitializer-overrides" /* defaults first, then what the caller names */
#define SAMPLE(...) \
    (&(struct sample){.iteration = NONE, \
        .client = NONE, \
        .file_bytes = NONE, \
        .record_bytes = NONE, \
        .extents = NONE, \
        .blocks = NONE, \
        .contiguous = NONE, \
        __VA_ARGS__})
void sample_put(const struct sample *s);
/* The origin of start_ns. Of the command of one of several clients: when that client passed the start barrier, which
 * the engine says in $REPROFS_BEGAN and reports, so that samples of all clients are on one clock. Else now. */
uint64_t program_began(void);

/* ---- clients: processes that do the same thing and start together ------------------------------------------------ */
enum { INTERVALS = 64 };
struct client {
    uint64_t start, end, items, bytes; /* times of the monotonic clock */
    int error; /* errno, 0 = all done */
    char where[PATH_BYTES];
    struct histogram latency;
    uint64_t interval_ns; /* of `over_time`, see client_count */
    uint32_t over_time[INTERVALS]; /* items done in each interval after the start */
};
/* An item is done: counts it, and the interval in which it ended. Intervals are 0.1 ms; each time there would be more
 * than INTERVALS of them, neighbours are joined. */
void client_count(struct client *c);
/* Samples of the intervals up to the client's end, `name`-over-time, after `begin`. */
void client_series(const struct client *c, const char *name, unsigned number, uint64_t begin);
typedef void client_work(unsigned number, void *what, struct client *c);
/* Forks n processes, opens the start barrier when all are there, waits for all. Returns n accounts in shared memory, or
 * NULL (errno). A client that dies has error ECHILD. `start`: when a client passed the barrier, `end`: when it ended.
 */
struct client *clients_run(unsigned n, client_work *work, void *what);
void clients_free(struct client *clients, unsigned n);

/* ---- commands of clients: programs of their own, which may wait for one another ---------------------------------- */
/* In the engine: a place where the commands of n clients meet, named by $REPROFS_MEETING. Returns its descriptor, to be
 * closed after them, or -1 (errno). */
int meeting_open(unsigned n);
/* In the engine: the command of a client has ended; nobody waits for it any more. */
void meeting_leave(void);
/* In a program: waits until the programs of all other clients are here, too, or have ended. A program that is not the
 * command of one of several clients, or whose clients are on machines of their own, goes on at once. */
void meet(void);

#endif
