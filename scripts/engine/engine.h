/* The load engine: runs a job (a list of steps) inside a lab and prints one JSON object a line. */
#ifndef REPROFS_ENGINE_H
#define REPROFS_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

/* ---- clock ------------------------------------------------------------------------------------------------------- */
static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- histogram: log-linear, 64 sub-buckets an octave, so the midpoint of a bucket is within 0.8 % of any value in it.
 * Histograms of several runs merge by adding counts. (Scheme: HdrHistogram, G. Tene.) ------------------------ */
enum { SUB_BITS = 6, BUCKETS = (64 - SUB_BITS) << SUB_BITS };
struct histogram {
    uint64_t count, sum, min, max;
    uint64_t bucket[BUCKETS];
};
static inline unsigned histogram_index(uint64_t v) {
    if (v < (2u << SUB_BITS)) return (unsigned)v;
    unsigned e = 63u - (unsigned)__builtin_clzll(v) - SUB_BITS;
    return (e << SUB_BITS) + (unsigned)(v >> e);
}
static inline void histogram_add(struct histogram *h, uint64_t v) {
    h->count++;
    h->sum += v;
    if (v < h->min) h->min = v;
    if (v > h->max) h->max = v;
    h->bucket[histogram_index(v)]++;
}

/* ---- tree: every name, size and content follows from (seed, index), so ten million files need no memory ---------- */
enum { PATH_BYTES = 1024 };
struct tree {
    char root[PATH_BYTES];
    uint64_t seed, files, directories, fan_out;
    uint64_t size_max;
    double size_median, size_sigma;
    unsigned generation; /* names change when files are renamed */
};
struct content { /* what a file holds: a header of its own, then a slice of the seeded pool */
    uint64_t header[2], size, offset;
};
void tree_pool(uint64_t seed);                                        /* fill the pool */
const uint8_t *pool_at(uint64_t offset);
enum { POOL_BYTES = 1 << 21, POOL_STEP = 1 << 20 };
uint64_t tree_size(const struct tree *t, uint64_t file);              /* bytes of a file */
struct content tree_content(const struct tree *t, uint64_t file);
size_t tree_directory(const struct tree *t, uint64_t dir, char *out); /* path below root, without trailing slash */
size_t tree_file(const struct tree *t, uint64_t file, char *out);     /* path below root */
uint64_t hash3(uint64_t seed, uint64_t stream, uint64_t i);           /* 64 random bits, a pure function */
uint64_t permute(uint64_t seed, uint64_t n, uint64_t i);              /* bijection of 0..n-1 */

/* ---- operations -------------------------------------------------------------------------------------------------- */
struct outcome {
    uint64_t items, bytes, mismatches, digest;
    uint64_t missing, cut_short, extra; /* mismatches: no such file, only the beginning of one, a file too many */
    int error; /* errno, 0 = all done */
    char where[PATH_BYTES];
};
struct operation {
    const char *name;
    bool on_directories, backwards;
    uint64_t (*run)(
        int root, const struct tree *t, uint64_t i, const char *path, const char *path2, const struct content *c);
};
const struct operation *operation_find(const char *name);
void operation_run(const struct operation *op, struct tree *t, bool random, struct histogram *h, struct outcome *o);
void tree_verify(const struct tree *t, const char *root, struct outcome *o);

/* ---- clients: processes that do the same thing and start together ------------------------------------------------ */
struct client {
    uint64_t start, end, items, bytes; /* times of the monotonic clock */
    int error; /* errno, 0 = all done */
    char where[PATH_BYTES];
    struct histogram latency;
};
typedef void client_work(unsigned number, void *what, struct client *c);
/* Forks n processes, opens the start barrier when all are there, waits for all. Returns n accounts in shared memory, or
 * NULL (errno). A client that dies has error ECHILD. `start` is when a client passed the barrier, `end` when it ended.
 */
struct client *clients_run(unsigned n, client_work *work, void *what);
void clients_free(struct client *clients, unsigned n);

/* ---- programs: `engine NAME ARGUMENTS`, usable by hand on any folder, or as the command of a phase
 * ------------------- All take --check first: the arguments are checked, {"bytes":N,"names":N} says what they will
 * make, nothing is done. Exit: 0 done; 1 one sentence on standard error, what failed; 2 one sentence on standard error,
 * wrong arguments. */
struct program {
    const char *name;
    int (*run)(int argc, char **argv); /* argv[0] is the name */
};
int mdtest(int argc, char **argv);
int walk(int argc, char **argv);
int scratch_dna(int argc, char **argv);
int compile_tree(int argc, char **argv);
int archive(int argc, char **argv);
int stream_fill(int argc, char **argv);
int record_sweep(int argc, char **argv);
int read_while_write(int argc, char **argv);
int age(int argc, char **argv);
int look_alike(int argc, char **argv);
int promise(int argc, char **argv);
int wrong(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says the sentence, returns 2 */
int broken(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says the sentence, returns 1 */
bool parse_number(const char *text, uint64_t *value); /* 12, 4K, 16M, 1G (1024 each) */

/* A sample is one timed part of a program's work. Samples go to the file that $REPROFS_SAMPLES names, a JSON object a
 * line. */
enum { NONE = -1 };
struct sample {
    const char *name; /* what was timed, in words of the workload: "create", "file-stat" */
    uint64_t start_ns, wall_ns, items, bytes;
    int64_t iteration, client, file_bytes, record_bytes; /* NONE when it has none */
};
#pragma clang diagnostic ignored "-Winitializer-overrides" /* defaults first, then what the caller names */
#define SAMPLE(...) \
    (&(struct sample){.iteration = NONE, .client = NONE, .file_bytes = NONE, .record_bytes = NONE, __VA_ARGS__})
void sample_put(const struct sample *s);

/* ---- output ------------------------------------------------------------------------------------------------------ */
void json_text(FILE *f, const char *s, size_t n); /* a JSON string; bytes that are not ASCII become '?' */

#endif
