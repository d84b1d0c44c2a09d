/* The life of trees like the Linux kernel's: created, patched, compiled, read, cleaned, deleted.
 * Semantics of compilebench 0.6 (C. Mason, 2008), written anew from its published behaviour; the trees are generated,
 * not listed: numbers of files, bytes and directories, quantiles and depths of its data sets, every name and size
 * following from the seed.
 *
 * Each tree is in one of five states. create: a new tree, unpatched. patch: reads each file of the patch set, then
 * truncates and rewrites it (one in four is unlinked first); files that the new version dropped stay. compile adds the
 * compile set, clean unlinks exactly that set, delete removes the tree bottom up, read and stat walk it. The set
 * depends on the state:
 *
 * - unpatched -> patched: the patch set.
 * - unpatched -> unpatched-compiled: the compile set.
 * - patched -> patched-compiled, and unpatched-compiled -> patched-compiled: the compile-patched set (the original has
 *   one list for both).
 *
 * So clean leaves those objects of a tree that was compiled, then patched, which the patch did not touch. */
#define _GNU_SOURCE
#include "clients.h"
#include "measure.h"
#include "program.h"
#include "same.h"
#include "samples.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the data sets ----------------------------------------------------------------------------------------------- */
enum { FULL = 21280, LEVELS = 7, NAME_BYTES = 32 };
enum set { UNPATCHED_SET, PATCH_SET, COMPILE_SET, COMPILE_PATCHED_SET, SETS };
static const struct {
    unsigned files, zeros;
    double median, p90, max, bend; /* bend: of the tail, so that the bytes sum up to the published total */
} sets[SETS] = {
    {FULL, 0, 4055, 26112, 873603, 0.747664},         /* 233,176,153 bytes */
    {6136, 0, 9620, 44442, 730463, 0.841695},             /* 114,997,799 bytes */
    {3263, 410, 14813, 197944, 64081981, 0.663807},     /* 713,696,760 bytes */
    {2573, 11, 18721, 231520, 65170646, 0.615302}, /* 725,190,942 bytes */
};
/* Directories above a file: mean 2.65, at most 6. 1,263 directories with the top one. */
static const double depth_below[LEVELS] = {0.001, 0.051, 0.475, 0.853, 0.973, 0.996, 1};
static const unsigned depth_directories[LEVELS] = {1, 20, 400, 560, 210, 60, 12};
/* Of the 2,573 files that are compiled anew after the patch 77 are new: the lists grow from 3,263 to 3,340 objects. */
enum { REWRITTEN = 5526, NEW = 610, DROPPED = 266, ONLY_FIRST = 767, BOTH = 2496, ONLY_SECOND = 77 };
enum { PATCH_DIRECTORIES = 913, COMPILE_DIRECTORIES = 398, COMPILE_PATCHED_DIRECTORIES = 152 };
enum stream { SHUFFLE = 300, PARENTS = SHUFFLE + 16, PLACES, DIRECTORY_NAMES, FILE_NAMES, CONTENT, DRAWS, UNLINKS };

static uint64_t seed = 555;
static uint64_t files = FULL; /* of an unpatched tree */
static uint64_t n_new, n_first, n_both, n_second, n_files; /* kinds of files; numbers of files are in this order */
static uint64_t n_directories;
static uint32_t *parent, *place; /* of a directory; of a file */
static char **directory_path;    /* "" or "a/b/" */
static uint32_t *size_at[2];     /* before and after the patch */
enum { ABSENT_SIZE = UINT32_MAX };
static uint8_t *dropped;
static uint32_t *members[SETS], *order[SETS];
static uint64_t member_count[SETS], member_bytes[SETS];

static uint64_t scaled(uint64_t n) { return (n * files + FULL / 2) / FULL; }

/* Size of rank r at full scale: log-logistic through median and p90, above it bent to end at the maximum. */
static uint32_t full_size(enum set s, uint64_t r) {
    if (r < sets[s].zeros) return 0;
    double n = sets[s].files, p = ((double)r + 0.5) / n, l = log(p / (1 - p)), l90 = log(9), v;
    if (l <= l90) v = sets[s].median * exp(log(sets[s].p90 / sets[s].median) / l90 * l);
    else v = sets[s].p90 * pow(sets[s].max / sets[s].p90, pow((l - l90) / (log(2 * n - 1) - l90), sets[s].bend));
    return v < 1 ? 1 : (uint32_t)v;
}

/* Sizes of n files by rank. Fewer than at full scale: means of as many neighbours as each stands for, so the bytes a
 * file stay. */
static void sizes(enum set s, uint64_t n, uint32_t *out) {
    uint64_t full = sets[s].files, next = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = i * full / n, end = (i + 1) * full / n, sum = 0;
        if (n >= full) end = first + 1, next = first;
        for (; next < end; next++) sum += full_size(s, next);
        out[i] = (uint32_t)(sum / (end - first));
    }
}

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
/* Three to ten letters, '_', the number in base 36, the ending. */
static size_t put_name(uint64_t h, uint64_t number, const char *ending, char *out) {
    size_t n = 0, k = 0, length = 3 + (h & 7);
    for (h >>= 3; n < length; h /= 26) out[n++] = digits[10 + h % 26];
    out[n++] = '_';
    char low[16];
    do low[k++] = digits[number % 36];
    while (number /= 36);
    while (k) out[n++] = low[--k];
    return n + (size_t)sprintf(out + n, "%s", ending);
}
static bool name_number(const char *name, uint64_t *number) {
    const char *p = strchr(name, '_');
    if (!p || !p[1]) return false;
    *number = 0;
    for (p++; *p && *p != '.'; p++) {
        const char *digit = strchr(digits, *p);
        if (!digit || *number > UINT32_MAX) return false;
        *number = *number * 36 + (uint64_t)(digit - digits);
    }
    return true;
}
static size_t file_name(uint64_t i, char *out) {
    uint64_t h = hash3(seed, FILE_NAMES, i);
    return put_name(h, i, i >= files + n_new ? ".o" : h >> 63 ? ".h" : ".c", out);
}
static size_t directory_name(uint64_t d, char *out) { return put_name(hash3(seed, DIRECTORY_NAMES, d), d, "", out); }
static const char *file_path(uint64_t i) {
    static char path[PATH_BYTES];
    size_t n = strlen(directory_path[place[i]]);
    memcpy(path, directory_path[place[i]], n);
    file_name(i, path + n);
    return path;
}

static int by_path(const void *a, const void *b) { /* directory by directory */
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (place[i] != place[j]) return strcmp(directory_path[place[i]], directory_path[place[j]]);
    char one[NAME_BYTES], two[NAME_BYTES];
    file_name(i, one), file_name(j, two);
    return strcmp(one, two);
}

static void *room(size_t n, size_t each) {
    void *p = calloc(n ? n : 1, each);
    if (!p) exit(broken("no memory for a tree of %llu files", (unsigned long long)files));
    return p;
}

static void give_sizes(enum set s, uint32_t *into) {
    uint64_t n = member_count[s];
    uint32_t *rank = room(n, sizeof *rank);
    sizes(s, n, rank);
    for (uint64_t k = 0; k < n; k++) {
        uint32_t v = rank[permute(hash3(seed, SHUFFLE, s), n, k)];
        into[members[s][k]] = v;
        member_bytes[s] += v;
    }
    free(rank);
}

/* Directories, level by level, first[l] to first[l + 1]; never more of them than files that go there. */
static void make_levels(uint64_t *first, uint64_t *level_files) {
    uint64_t at = 0;
    for (int l = 0; l < LEVELS; l++) {
        uint64_t until = (uint64_t)(depth_below[l] * (double)files + 0.5), n = l ? scaled(depth_directories[l]) : 1;
        level_files[l] = until - at, at = until;
        if ((l == 1 || l == 2) && !n) n = 1;
        if (l && n > level_files[l]) n = level_files[l];
        if (l && first[l] == first[l - 1]) n = 0; /* nothing above */
        first[l + 1] = first[l] + n;
    }
}

static void make_paths(const uint64_t *first) {
    directory_path[0] = room(1, 1);
    for (int l = 1; l < LEVELS; l++)
        for (uint64_t d = first[l]; d < first[l + 1]; d++) {
            char path[PATH_BYTES];
            parent[d] = (uint32_t)(first[l - 1] + hash3(seed, PARENTS, d) % (first[l] - first[l - 1]));
            size_t n = (size_t)sprintf(path, "%s", directory_path[parent[d]]);
            n += directory_name(d, path + n);
            path[n++] = '/', path[n] = 0;
            memcpy(directory_path[d] = room(n + 1, 1), path, n + 1);
        }
}

/* One file in each directory, the others more in some than in others. */
static void place_files(const uint64_t *first, const uint64_t *level_files) {
    uint64_t i = 0;
    for (int l = 0, deepest = 0; l < LEVELS; l++) {
        if (first[l + 1] > first[l]) deepest = l;
        uint64_t base = first[deepest], n = first[deepest + 1] - base;
        for (uint64_t k = 0; k < level_files[l]; k++, i++) {
            double u = (double)(hash3(seed, PLACES, i) >> 11) / (double)(1ull << 53);
            place[i] = (uint32_t)(base + (k < n && deepest == l ? k : (uint64_t)(u * u * (double)n)));
        }
    }
}

/* Chooses the files that the patch rewrites: one of each of its directories, then any of these directories, then any.
 * taken: of each file; chosen: of each directory, 1 for those of the patch. Returns their number. */
static uint64_t choose_rewritten(uint8_t *taken, uint8_t *chosen) {
    uint64_t m = 0, rewritten = scaled(REWRITTEN);
    for (int pass = 0; pass < 3; pass++)
        for (uint64_t k = 0; k < files && m < rewritten; k++) {
            uint64_t f = permute(hash3(seed, SHUFFLE, 9), files, k);
            if (taken[f] || (pass < 2 && !chosen[place[f]]) || (!pass && chosen[place[f]] == 2)) continue;
            taken[f] = 1, chosen[place[f]] = 2;
            members[PATCH_SET][m++] = (uint32_t)f;
        }
    return m;
}

static void make_patch(void) {
    uint64_t in = scaled(PATCH_DIRECTORIES), drop = scaled(DROPPED);
    if (!in) in = 1;
    if (in > n_directories) in = n_directories;
    uint8_t *chosen = room(n_directories, 1), *taken = room(files, 1);
    for (uint64_t d = 0; d < in; d++) chosen[permute(hash3(seed, SHUFFLE, 8), n_directories, d)] = 1;
    member_count[PATCH_SET] = scaled(REWRITTEN) + n_new;
    members[PATCH_SET] = room(member_count[PATCH_SET], sizeof **members);
    uint64_t m = choose_rewritten(taken, chosen);
    for (uint64_t k = 0; k < files && drop; k++) {
        uint64_t f = permute(hash3(seed, SHUFFLE, 9), files, k);
        if (!taken[f]) dropped[f] = 1, drop--;
    }
    free(chosen), free(taken);
    for (uint64_t i = files; i < files + n_new; i++) {
        place[i] = (uint32_t)permute(hash3(seed, SHUFFLE, 8), n_directories, hash3(seed, PLACES, i) % in);
        members[PATCH_SET][m++] = (uint32_t)i;
    }
}

/* What a compiler makes: the files that change with the patch are in 152 of the 398 directories. */
static void place_objects(void) {
    uint64_t wide = scaled(COMPILE_DIRECTORIES), narrow = scaled(COMPILE_PATCHED_DIRECTORIES), i = files + n_new;
    if (!narrow) narrow = 1;
    if (wide <= narrow) wide = narrow;
    if (wide > n_directories) wide = n_directories;
    if (narrow > wide) narrow = wide;
    for (uint64_t k = 0; k < n_first + n_both + n_second; k++, i++) {
        uint64_t h = hash3(seed, PLACES, i), d;
        if (k < n_first) d = k < wide - narrow ? narrow + k : h % wide;
        else d = k - n_first < narrow ? k - n_first : h % narrow;
        place[i] = (uint32_t)permute(hash3(seed, SHUFFLE, 10), n_directories, d);
    }
}

/* A set of files whose numbers follow one another. */
static void make_set(enum set s, uint64_t from, uint64_t count) {
    member_count[s] = count;
    members[s] = room(count, sizeof **members);
    for (uint64_t k = 0; k < count; k++) members[s][k] = (uint32_t)(from + k);
}

static void make_sets(void) {
    uint64_t first[LEVELS + 1] = {0}, level_files[LEVELS];
    n_new = scaled(NEW), n_first = scaled(ONLY_FIRST), n_both = scaled(BOTH), n_second = scaled(ONLY_SECOND);
    n_files = files + n_new + n_first + n_both + n_second;
    make_levels(first, level_files);
    n_directories = first[LEVELS];
    parent = room(n_directories, sizeof *parent), directory_path = room(n_directories, sizeof *directory_path);
    place = room(n_files, sizeof *place), dropped = room(files, 1);
    for (int v = 0; v < 2; v++) {
        size_at[v] = room(n_files, sizeof **size_at);
        memset(size_at[v], 0xff, n_files * sizeof **size_at);
    }
    make_paths(first);
    place_files(first, level_files);
    make_patch();
    place_objects();
    make_set(UNPATCHED_SET, 0, files);
    make_set(COMPILE_SET, files + n_new, n_first + n_both);
    make_set(COMPILE_PATCHED_SET, files + n_new + n_first, n_both + n_second);
    give_sizes(UNPATCHED_SET, size_at[0]), give_sizes(COMPILE_SET, size_at[0]);
    give_sizes(PATCH_SET, size_at[1]), give_sizes(COMPILE_PATCHED_SET, size_at[1]);
}

/* ---- trees and their states -------------------------------------------------------------------------------------- */
enum state { ABSENT, UNPATCHED, UNPATCHED_COMPILED, PATCHED, PATCHED_COMPILED, STATES };
static const char *const state_name[] = {
    "absent", "unpatched", "unpatched-compiled", "patched", "patched-compiled", NULL};
enum op { CREATE, PATCH, COMPILE, CLEAN, READ, STAT, DELETE, OPS };
static const char *const op_name[OPS] = {"create", "patch", "compile", "clean", "read", "stat", "delete"};
struct kernel {
    uint8_t state;
    bool sources;       /* patched */
    bool first, second; /* it has the objects that only the first or only the second compiler run makes */
    uint8_t both;       /* 0: no such objects, 1: of the first run, 2: of the second */
};

/* What the operation writes or unlinks in a tree of this state; SETS for the walks. */
static enum set set_of(const struct kernel *k, enum op op) {
    if (op == CREATE) return UNPATCHED_SET;
    if (op == PATCH) return k->state == UNPATCHED ? PATCH_SET : COMPILE_PATCHED_SET;
    if (op == COMPILE) return k->state == UNPATCHED ? COMPILE_SET : COMPILE_PATCHED_SET;
    if (op == CLEAN) return k->state == UNPATCHED_COMPILED ? COMPILE_SET : COMPILE_PATCHED_SET;
    return SETS;
}
static bool eligible(const struct kernel *k, enum op op) {
    switch (op) {
        case CREATE: return k->state == ABSENT;
        case PATCH: return k->state == UNPATCHED || k->state == UNPATCHED_COMPILED;
        case COMPILE: return k->state == UNPATCHED || k->state == PATCHED;
        case CLEAN: return k->state == UNPATCHED_COMPILED || k->state == PATCHED_COMPILED;
        default: return k->state != ABSENT;
    }
}
static bool compiled(const struct kernel *k) { return k->state == UNPATCHED_COMPILED || k->state == PATCHED_COMPILED; }
static void advance(struct kernel *k, enum op op) {
    bool second = set_of(k, op) == COMPILE_PATCHED_SET;
    if (op == CREATE) *k = (struct kernel){.state = UNPATCHED};
    else if (op == DELETE) *k = (struct kernel){.state = ABSENT};
    else if (op == PATCH && !second) k->state = PATCHED, k->sources = true;
    else if (op == PATCH) k->state = PATCHED_COMPILED, k->both = 2, k->second = true;
    else if (op == COMPILE && !second) k->state = UNPATCHED_COMPILED, k->first = true, k->both = 1;
    else if (op == COMPILE) k->state = PATCHED_COMPILED, k->both = 2, k->second = true;
    else if (op == CLEAN && !second) k->state = UNPATCHED, k->first = false, k->both = 0;
    else if (op == CLEAN) k->state = PATCHED, k->second = false, k->both = 0;
}
/* The version of a file: 0 before, 1 after the patch, NONE: it is not there. */
static int version(const struct kernel *k, uint64_t i) {
    if (k->state == ABSENT) return NONE;
    if (i < files) return k->sources && size_at[1][i] != ABSENT_SIZE;
    if ((i -= files) < n_new) return k->sources ? 1 : NONE;
    if ((i -= n_new) < n_first) return k->first ? 0 : NONE;
    if ((i -= n_first) < n_both) return (int)k->both - 1;
    return k->second ? 1 : NONE;
}
static void measure(const struct kernel *k, uint64_t *bytes, uint64_t *count) {
    *bytes = *count = 0;
    for (uint64_t i = 0; i < n_files; i++) {
        int v = version(k, i);
        if (v == NONE) continue;
        ++*count, *bytes += size_at[v][i];
    }
}

/* ---- the sequence of operations ---------------------------------------------------------------------------------- */
enum { MOST_ORDERS = 64 };
static const char *const contents[] = {"letter", "random", NULL};
static const char *const set_name[] = {"unpatched", "patch", "compile", "compile-patched", NULL};
static struct {
    uint64_t trees, runs, reads, buffer, orders;
    bool verify, make, no_sync, no_native, trace;
    const char *folder;
    unsigned state, content, list; /* state: STATES, list: SETS, when it is not given */
    enum op order[MOST_ORDERS];
} o = {.trees = 30, .runs = NOT_GIVEN, .reads = NOT_GIVEN, .buffer = 262144, .state = STATES, .list = SETS};
static struct kernel *kernels;
static uint64_t kernel_count, kernel_room;
struct step {
    enum op op;
    uint64_t tree;
    bool initial, sync, settle, possible; /* sync: in its time; settle: write back and drop caches before it */
};
static struct { uint64_t at, done, draws; } sequence;

static uint64_t add_kernel(void) {
    if (kernel_count == kernel_room) {
        kernel_room = 2 * kernel_room + 64;
        kernels = realloc(kernels, kernel_room * sizeof *kernels);
        if (!kernels) exit(broken("no memory for %llu trees", (unsigned long long)kernel_room));
    }
    kernels[kernel_count] = (struct kernel){.state = ABSENT};
    return kernel_count++;
}
static uint64_t draw(uint64_t n) { return hash3(seed, DRAWS, sequence.draws++) % n; }
static void begin(void) {
    memset(&sequence, 0, sizeof sequence);
    kernel_count = 0;
    for (uint64_t i = 0; i < o.trees; i++) {
        uint64_t number = add_kernel(); /* which may move them all */
        struct kernel *k = &kernels[number];
        if (o.state != ABSENT) advance(k, CREATE);
        if (o.state == PATCHED || o.state == PATCHED_COMPILED) advance(k, PATCH);
        if (o.state == UNPATCHED_COMPILED || o.state == PATCHED_COMPILED) advance(k, COMPILE);
    }
}
/* The next step; the caller does it and then advances the tree. Nothing here depends on the file system. */
static bool next(struct step *s) {
    uint64_t at = sequence.at++, t = at % o.trees, turn = at / o.trees;
    *s = (struct step){.op = CREATE, .tree = t, .initial = true, .possible = true};
    if (o.orders) {
        if (turn == o.orders) return false;
        s->op = o.order[turn];
        s->initial = !turn && s->op == CREATE;
        s->sync = s->settle = !s->initial;
        return true;
    }
    if (turn == 0) return true;
    s->initial = false;
    at -= o.trees;
    if (o.make) { /* compile all, read some, delete all; caches are dropped between, nothing is waited for within */
        if (turn == 1) return s->op = COMPILE, true;
        at -= o.trees;
        s->settle = at == 0 || at == o.reads;
        if (at < o.reads) return s->op = READ, s->tree = draw(o.trees), true;
        if ((at -= o.reads) >= o.trees) return false;
        return s->op = DELETE, s->tree = at, true;
    }
    if (sequence.done == o.runs) return false;
    s->sync = s->settle = true;
    s->op = (enum op)draw(OPS);
    if (s->op == CREATE) s->tree = add_kernel();
    else {
        uint64_t n = 0, pick;
        for (uint64_t i = 0; i < kernel_count; i++) n += eligible(&kernels[i], s->op);
        s->possible = n > 0;
        if (!n) return true;
        pick = draw(n);
        for (s->tree = 0; !eligible(&kernels[s->tree], s->op) || pick--; s->tree++) {}
    }
    sequence.done++;
    return true;
}

/* ---- content ----------------------------------------------------------------------------------------------------- */
enum { TURN = 1 << 20 };
static uint8_t *pool, *buffer; /* the content repeats after TURN bytes; the pool goes on for one buffer more */
static void make_content(void) {
    pool = room(TURN + o.buffer, 1), buffer = room(o.buffer, 1);
    if (!o.content) memset(pool, 'a', TURN + o.buffer);
    else {
        uint64_t r = hash3(seed, CONTENT, 0) | 1;
        for (size_t i = 0; i < TURN; i += sizeof r) {
            r ^= r << 13, r ^= r >> 7, r ^= r << 17; /* xorshift64 (G. Marsaglia, 2003) */
            memcpy(pool + i, &r, sizeof r);
        }
        for (size_t i = TURN; i < TURN + o.buffer; i++) pool[i] = pool[i - TURN];
    }
}
static uint64_t content_start(uint64_t tree, uint64_t file, int v) {
    return hash3(seed + tree, CONTENT + 64 + (uint64_t)v, file) % TURN;
}

/* ---- operations on the file system ------------------------------------------------------------------------------- */
static int failure(const char *what, const char *tree, const char *path) {
    return broken("cannot %s %s%s%s: %s", what, tree, *path ? "/" : "", path, reason(errno));
}
static int write_content(int fd, uint64_t at, uint64_t size) {
    for (uint64_t done = 0; done < size;) {
        uint64_t n = size - done < o.buffer ? size - done : o.buffer;
        ssize_t w = write(fd, pool + (at + done) % TURN, n);
        if (w < 0) return -1;
        if ((uint64_t)w != n) return errno = ENOSPC, -1; /* a short write to a regular file */
        done += n;
    }
    return 0;
}
static int new_file(int root, const char *path, uint64_t start, uint64_t size) {
    int fd = openat(root, path, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0) return -1;
    int bad = write_content(fd, start, size), error = errno;
    if (close(fd) && !bad) return -1;
    errno = error;
    return bad;
}
static int rewrite_file(int root, const char *path, uint64_t start, uint64_t size, bool unlink_first) {
    int fd = openat(root, path, O_RDWR | O_APPEND | O_CLOEXEC);
    if (fd < 0) return -1;
    ssize_t n;
    while ((n = read(fd, buffer, o.buffer)) > 0) {}
    int bad = n < 0;
    if (!bad && !unlink_first) bad = ftruncate(fd, 0) || write_content(fd, start, size);
    int error = errno;
    if (close(fd) && !bad) return -1;
    errno = error;
    if (bad || !unlink_first) return bad ? -1 : 0;
    return unlinkat(root, path, 0) ? -1 : new_file(root, path, start, size);
}

static int make_directory(int root, uint32_t d, uint8_t *made) { /* with those above it */
    if (made[d]) return 0;
    made[d] = 1;
    return make_directory(root, parent[d], made) || mkdirat(root, directory_path[d], 0755) ? -1 : 0;
}

struct account { uint64_t items, bytes; };

/* Writes a list of files into a tree that is at `root`. */
static int write_list(int root, const char *name, const uint32_t *list, uint64_t n, const struct kernel *k,
    uint64_t tree, int to, bool fresh, struct account *a) {
    uint8_t *made = fresh ? room(n_directories, 1) : NULL;
    int bad = 0;
    if (made) made[0] = 1;
    for (uint64_t j = 0; j < n && !bad; j++) {
        uint32_t i = list[j];
        const char *path = file_path(i);
        uint32_t size = size_at[to][i];
        uint64_t start = content_start(tree, i, to);
        if (made && make_directory(root, place[i], made)) bad = failure("make the directory of", name, path);
        else if (!fresh && version(k, i) != NONE) {
            if (rewrite_file(root, path, start, size, hash3(seed, UNLINKS, tree << 32 | i) % 4 == 0))
                bad = failure("rewrite", name, path);
        } else if (new_file(root, path, start, size)) bad = failure("write", name, path);
        a->items++, a->bytes += size;
    }
    free(made);
    return bad;
}

/* A directory's entries, in the order in which the file system tells them: a type and a name each. */
struct listing {
    char *text;
    size_t used, room;
};
static int list_entries(int fd, struct listing *l) {
    int copy = dup(fd);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) return -1;
    errno = 0;
    for (struct dirent *e; (e = readdir(d)); errno = 0) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        size_t n = strlen(e->d_name) + 1;
        if (l->used + n + 1 > l->room) {
            l->room = 2 * l->room + n + 1024;
            l->text = realloc(l->text, l->room);
            if (!l->text) exit(broken("no memory for the names of a directory"));
        }
        struct stat s;
        unsigned char type = e->d_type;
        if (type == DT_UNKNOWN && !fstatat(fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW))
            type = S_ISDIR(s.st_mode) ? DT_DIR : S_ISREG(s.st_mode) ? DT_REG : DT_LNK;
        l->text[l->used] = type == DT_DIR ? 'd' : type == DT_REG ? 'f' : 'x';
        memcpy(l->text + l->used + 1, e->d_name, n);
        l->used += n + 1;
    }
    int error = errno;
    closedir(d);
    errno = error;
    return error ? -1 : 0;
}

/* Called for every file of a walk. Returns a sentence about what is wrong with it, or an empty one: then errno tells;
 * NULL: all right. */
typedef const char *visitor(int fd, const char *name, uint64_t directory, struct account *a);

/* The number of a directory that compile-tree made in directory d; 0 if it did not. */
static uint64_t directory_number(const char *name, uint64_t d) {
    uint64_t number;
    char want[NAME_BYTES];
    if (!name_number(name, &number) || !number || number >= n_directories || parent[number] != d) return 0;
    directory_name(number, want);
    return strcmp(want, name) ? 0 : number;
}

/* A walk of a tree: `at` is the path of the directory in which it is. */
struct walk {
    enum op op;
    visitor *visit;
    struct account *account;
    char at[PATH_BYTES];
};
static int walk_below(struct walk *w, int above, const char *name, uint64_t d);

static int walk_directory(struct walk *w, int fd, const char *name, uint64_t d) {
    size_t end = strlen(w->at);
    uint64_t number = directory_number(name, d);
    snprintf(w->at + end, PATH_BYTES - end, "/%s", name);
    int bad = number ? walk_below(w, fd, name, number) : broken("%s: a directory that should not be there", w->at);
    if (!bad && w->op == DELETE && unlinkat(fd, name, AT_REMOVEDIR)) bad = failure("remove", w->at, "");
    w->at[end] = 0;
    return bad;
}

static int walk_file(struct walk *w, int fd, const char *name, uint64_t d) {
    const char *why = w->visit(fd, name, d, w->account);
    w->account->items++;
    if (!why) return 0;
    return *why ? broken("%s/%s: %s", w->at, name, why) : failure(op_name[w->op], w->at, name);
}

/* Files first and then the directories, or (deleting) the other way around. d: the number of the directory. */
static int walk_below(struct walk *w, int above, const char *name, uint64_t d) {
    struct listing l = {0};
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), bad = 0;
    if (strlen(w->at) + NAME_BYTES + 256 > PATH_BYTES)
        bad = broken("%s: directories that compile-tree did not make", w->at);
    else if (fd < 0 || list_entries(fd, &l)) bad = failure("list", w->at, "");
    for (int part = 0; part < 2 && !bad; part++) {
        bool directories = part != (w->op == DELETE);
        for (size_t p = 0; p < l.used && !bad; p += strlen(l.text + p + 1) + 2)
            if ((l.text[p] == 'd') == directories)
                bad = (directories ? walk_directory : walk_file)(w, fd, l.text + p + 1, d);
    }
    if (fd >= 0) close(fd);
    free(l.text);
    return bad;
}

static int walk_tree(const char *name, enum op op, visitor *visit, struct account *a) {
    static struct walk w; /* one at a time */
    w.op = op, w.visit = visit, w.account = a;
    snprintf(w.at, sizeof w.at, "%s", name);
    return walk_below(&w, AT_FDCWD, name, 0);
}

static const char *visit_stat(int fd, const char *name, uint64_t d, struct account *a) {
    struct stat s;
    (void)d, (void)a;
    return fstatat(fd, name, &s, AT_SYMLINK_NOFOLLOW) ? "" : NULL;
}
static const char *visit_delete(int fd, const char *name, uint64_t d, struct account *a) {
    (void)d, (void)a;
    return unlinkat(fd, name, 0) ? "" : NULL;
}
static const char *visit_read(int fd, const char *name, uint64_t d, struct account *a) {
    (void)d;
    int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return "";
    ssize_t n;
    while ((n = read(file, buffer, o.buffer)) > 0) a->bytes += (uint64_t)n;
    int error = errno;
    close(file);
    errno = error;
    return n < 0 ? "" : NULL;
}

static uint64_t native_rank;  /* of the walk that finds the native order */
static uint32_t *native_at; /* rank of each file in the order of the walk */
static const char *visit_native(int fd, const char *name, uint64_t d, struct account *a) {
    (void)fd, (void)d, (void)a;
    uint64_t i;
    if (!name_number(name, &i) || i >= n_files) return "a file that should not be there";
    native_at[i] = (uint32_t)native_rank++;
    return NULL;
}
static int by_native(const void *a, const void *b) {
    uint32_t x = native_at[*(const uint32_t *)a], y = native_at[*(const uint32_t *)b];
    return x < y ? -1 : x > y;
}

/* What is in each of the three lists that are written once to learn the order in which the file system lists them. */
static uint64_t native_list(int list, uint32_t *out) {
    static const struct kernel as[3] = {{.state = UNPATCHED}, {.state = PATCHED, .sources = true},
        {.state = PATCHED_COMPILED, .sources = true, .first = true, .both = 2, .second = true}};
    uint64_t n = 0;
    for (uint64_t i = 0; i < n_files; i++) {
        int v = list && i < files && dropped[i] ? NONE : version(&as[list], i);
        if (v == NONE) continue;
        if (out) out[n] = (uint32_t)i;
        n++;
    }
    return n;
}

/* Writes a list of files into a new directory. */
static int write_native(const char *name, int list) {
    uint32_t *all = room(n_files, sizeof *all);
    uint64_t n = native_list(list, all);
    if (mkdir(name, 0755)) return failure("make", name, "");
    int root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad = 0;
    if (root < 0) return failure("open", name, "");
    qsort(all, n, sizeof *all, by_path);
    uint8_t *made = room(n_directories, 1);
    made[0] = 1;
    for (uint64_t j = 0; j < n && !bad; j++) {
        const char *path = file_path(all[j]);
        int v = list && size_at[1][all[j]] != ABSENT_SIZE;
        if (make_directory(root, place[all[j]], made)) bad = failure("make the directory of", name, path);
        else if (new_file(root, path, 0, size_at[v][all[j]])) bad = failure("write", name, path);
    }
    free(made), free(all), close(root);
    return bad;
}

static int native_orders(void) {
    static const enum set of[3] = {UNPATCHED_SET, PATCH_SET, COMPILE_PATCHED_SET};
    for (int list = 0; list < 3; list++) {
        char name[32];
        struct account a = {0};
        sprintf(name, "native-%d", list);
        int bad = write_native(name, list);
        if (bad) return bad;
        native_at = room(n_files, sizeof *native_at);
        native_rank = 0;
        if (walk_tree(name, READ, visit_native, &a)) return 1;
        qsort(order[of[list]], member_count[of[list]], sizeof **order, by_native);
        free(native_at);
        if (walk_tree(name, DELETE, visit_delete, &a)) return 1;
        if (rmdir(name)) return failure("remove", name, "");
    }
    return 0;
}

/* without native directories: sorted; the first compile set is always in a random order */
static void make_orders(void) {
    for (int s = 0; s < SETS; s++) {
        uint64_t n = member_count[s];
        order[s] = room(n, sizeof **order);
        for (uint64_t k = 0; k < n; k++)
            order[s][k] = members[s][s == COMPILE_SET ? permute(hash3(seed, SHUFFLE, 11), n, k) : k];
        if (s != COMPILE_SET) qsort(order[s], n, sizeof **order, by_path);
    }
}

/* ---- results ----------------------------------------------------------------------------------------------------- */
enum tag {
    INITIAL,
    CREATES,
    PATCHES,
    COMPILES,
    CLEANS,
    READS,
    READS_COMPILED,
    DELETES,
    DELETES_COMPILED,
    STATS,
    STATS_COMPILED,
    TAGS
};
static const struct {
    const char *native, *sample;
    bool rate;
} tags[TAGS] = {
    {"intial create", "initial-create", true},
    {"create", "create", true},
    {"patch", "patch", true},
    {"compile", "compile", true},
    {"clean", "clean", true},
    {"read tree", "read-tree", true},
    {"read compiled tree", "read-compiled-tree", true},
    {"delete tree", "delete-tree", false},
    {"delete compiled tree", "delete-compiled-tree", false},
    {"stat tree", "stat-tree", false},
    {"stat compiled tree", "stat-compiled-tree", false},
};
static struct {
    uint64_t runs;
    double sum, user, system;
} results[TAGS];
static enum tag tag_of(const struct step *s) {
    bool c = compiled(&kernels[s->tree]);
    switch (s->op) {
        case CREATE: return s->initial ? INITIAL : CREATES;
        case PATCH: return PATCHES;
        case COMPILE: return COMPILES;
        case CLEAN: return CLEANS;
        case READ: return c ? READS_COMPILED : READS;
        case STAT: return c ? STATS_COMPILED : STATS;
        default: return c ? DELETES_COMPILED : DELETES;
    }
}
static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static int caches = -1;
static void settle(int folder) {
    syncfs(folder);
    if (caches >= 0 && pwrite(caches, "3", 1, 0) != 1) caches = -1;
}

static int do_step(const struct step *s, struct account *a) {
    struct kernel *k = &kernels[s->tree];
    char name[64];
    sprintf(name, "kernel-%llu", (unsigned long long)s->tree);
    if (s->op == CREATE && mkdir(name, 0755)) return failure("make", name, "");
    if (s->op == READ) return walk_tree(name, READ, visit_read, a);
    if (s->op == STAT) return walk_tree(name, STAT, visit_stat, a);
    if (s->op == DELETE) {
        if (walk_tree(name, DELETE, visit_delete, a)) return 1;
        return rmdir(name) ? failure("remove", name, "") : 0;
    }
    int root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad = 0;
    if (root < 0) return failure("open", name, "");
    enum set set = set_of(k, s->op);
    int to = set == PATCH_SET || set == COMPILE_PATCHED_SET;
    if (s->op != CLEAN) bad = write_list(root, name, order[set], member_count[set], k, s->tree, to, s->op == CREATE, a);
    for (uint64_t j = 0; s->op == CLEAN && j < member_count[set] && !bad; j++) {
        if (unlinkat(root, file_path(order[set][j]), 0)) bad = failure("unlink", name, file_path(order[set][j]));
        a->items++, a->bytes += size_at[to][order[set][j]];
    }
    close(root);
    return bad;
}

static void open_caches(int folder) {
    if (o.no_sync) {
        printf("neither sync nor dropped caches (-n)\n");
        return;
    }
    caches = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    settle(folder); /* the first time shows whether it may */
    if (caches >= 0) printf("caches are dropped\n");
    else printf("caches are NOT dropped: /proc/sys/vm/drop_caches: %s\n", strerror(errno));
}

static void add_result(enum tag tag, const struct account *a, uint64_t start, uint64_t wall,
    const struct rusage *before, const struct rusage *after) {
    double t = (double)(wall ? wall : 1) / 1e9;
    results[tag].runs++;
    results[tag].sum += tags[tag].rate ? (double)a->bytes / 1048576.0 / t : t;
    results[tag].user += seconds(after->ru_utime) - seconds(before->ru_utime);
    results[tag].system += seconds(after->ru_stime) - seconds(before->ru_stime);
    sample_put(SAMPLE(.name = tags[tag].sample, .start_ns = start - program_began, .wall_ns = wall, .items = a->items,
        .bytes = a->bytes, .iteration = (int64_t)results[tag].runs - 1));
}

/* Does a step and takes its time. together: with the other clients, whose steps are the same. */
static int run_step(const struct step *s, int folder, bool together) {
    struct kernel *k = &kernels[s->tree];
    enum tag tag = tag_of(s);
    struct account a = {0};
    uint64_t expected, count;
    measure(k, &expected, &count);
    if (together) meet(); /* nobody drops the caches while another one works */
    if (s->settle && !o.no_sync) settle(folder);
    if (together) meet();
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    int bad = do_step(s, &a);
    if (bad) return bad;
    if (s->sync && !o.no_sync && syncfs(folder)) bad = failure("sync", ".", "");
    uint64_t wall = now_ns() - start;
    getrusage(RUSAGE_SELF, &after);
    if ((s->op == READ && a.bytes != expected) || (set_of(k, s->op) == SETS && a.items != count))
        bad = broken("kernel-%llu has %llu files, %llu bytes read, not %llu files of %llu bytes",
            (unsigned long long)s->tree, (unsigned long long)a.items, (unsigned long long)a.bytes,
            (unsigned long long)count, (unsigned long long)expected);
    add_result(tag, &a, start, wall, &before, &after);
    const char *from = state_name[k->state];
    advance(k, s->op);
    if (o.trace)
        printf("trace %s kernel-%llu %s %s\n", op_name[s->op], (unsigned long long)s->tree, from, state_name[k->state]);
    return bad;
}

static int print_results(void) {
    printf("run complete:\n==========================================================================\n");
    for (int t = 0; t < TAGS; t++) {
        double n = (double)results[t].runs;
        if (!results[t].runs) printf("no runs for %s\n", tags[t].native);
        else
            printf("%s total runs %llu avg %.2f %s (user %.2fs sys %.2fs)\n", tags[t].native,
                (unsigned long long)results[t].runs, results[t].sum / n, tags[t].rate ? "MB/s" : "seconds",
                results[t].user / n, results[t].system / n);
    }
    return fflush(stdout) ? broken("cannot write the results: %s", strerror(errno)) : 0;
}

static int run_all(void) {
    int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad = 0;
    if (folder < 0) return failure("open", ".", "");
    make_content(), make_orders();
    if (!o.no_native && (bad = native_orders())) return bad;
    open_caches(folder);
    begin();
    bool together = o.orders || o.make; /* the random phase has steps of its own in every client */
    for (struct step s; !bad && next(&s);) {
        if (s.possible) bad = run_step(&s, folder, together);
        else if (o.trace) printf("trace %s - - -\n", op_name[s.op]);
    }
    return bad ? bad : print_results();
}

/* ---- verify ------------------------------------------------------------------------------------------------------ */
static const struct kernel *verified;
static uint64_t verified_tree;
static uint8_t *seen;
static const char *visit_verify(int fd, const char *name, uint64_t d, struct account *a) {
    uint64_t i;
    char want[NAME_BYTES];
    if (!name_number(name, &i) || i >= n_files || place[i] != d || version(verified, i) == NONE)
        return "a file that should not be there";
    if (file_name(i, want), strcmp(want, name)) return "a file that should not be there";
    int v = version(verified, i), file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return "";
    uint64_t at = 0, start = content_start(verified_tree, i, v), size = size_at[v][i];
    bool same = true;
    ssize_t n;
    while ((n = read(file, buffer, o.buffer)) > 0) {
        same = same && same_bytes(buffer, pool + (start + at) % TURN, (size_t)n) == (size_t)n;
        at += (uint64_t)n;
    }
    int error = errno;
    close(file);
    errno = error;
    if (n < 0) return "";
    seen[i] = 1, a->bytes += at;
    static char why[128];
    snprintf(why, sizeof why, "has %llu bytes, not %llu", (unsigned long long)at, (unsigned long long)size);
    return at != size ? why : same ? NULL : "has other content";
}

static int verify_tree(uint64_t t, struct account *a) {
    char name[64];
    sprintf(name, "kernel-%llu", (unsigned long long)t);
    verified = &kernels[t], verified_tree = t;
    seen = room(n_files, 1);
    if (walk_tree(name, READ, visit_verify, a)) return 1;
    for (uint64_t i = 0; i < n_files; i++)
        if (version(verified, i) != NONE && !seen[i]) return broken("%s/%s: it is not there", name, file_path(i));
    free(seen);
    return 0;
}

/* Nothing is beside the trees. */
static int verify_folder(void) {
    struct listing l = {0};
    int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || list_entries(folder, &l)) return failure("list", ".", "");
    for (size_t p = 0; p < l.used; p += strlen(l.text + p + 1) + 2) {
        const char *entry = l.text + p + 1;
        char name[64];
        uint64_t t = 0;
        if (!strncmp(entry, "kernel-", 7)) (void)parse_number(entry + 7, &t);
        sprintf(name, "kernel-%llu", (unsigned long long)t);
        if (strcmp(name, entry) || t >= kernel_count || kernels[t].state == ABSENT)
            return broken("%s: it should not be there", entry);
    }
    close(folder), free(l.text);
    return 0;
}

static int verify(void) {
    struct account a = {0};
    uint64_t trees = 0;
    make_content();
    begin();
    for (struct step s; next(&s);)
        if (s.possible) advance(&kernels[s.tree], s.op);
    for (uint64_t t = 0; t < kernel_count; t++) {
        if (kernels[t].state == ABSENT) continue;
        trees++;
        if (verify_tree(t, &a)) return 1;
    }
    if (verify_folder()) return 1;
    printf("verified %llu trees, %llu files, %llu bytes\n", (unsigned long long)trees, (unsigned long long)a.items,
        (unsigned long long)a.bytes);
    return 0;
}

/* ---- what is needed at most -------------------------------------------------------------------------------------- */
struct need { uint64_t bytes, names, most_bytes, most_names; };
static void need_most(struct need *n) {
    if (n->bytes > n->most_bytes) n->most_bytes = n->bytes;
    if (n->names > n->most_names) n->most_names = n->names;
}
static void need_tree(struct need *n, const struct kernel *k, bool more) {
    uint64_t bytes, names;
    measure(k, &bytes, &names);
    names += k->state == ABSENT ? 0 : n_directories;
    n->bytes = more ? n->bytes + bytes : n->bytes - bytes;
    n->names = more ? n->names + names : n->names - names;
}

static int check(void) {
    struct need n = {0};
    if (o.verify || o.list != SETS) return needs(0, 0); /* it makes nothing */
    make_sets();
    if (!o.no_native) { /* the largest of the native directories, removed before the trees are made */
        n.most_names = native_list(2, NULL) + n_directories;
        for (uint64_t i = 0; i < n_files; i++)
            if (i >= files || !dropped[i]) n.most_bytes += size_at[1][i] != ABSENT_SIZE ? size_at[1][i] : size_at[0][i];
    }
    begin();
    for (uint64_t t = 0; t < kernel_count; t++) need_tree(&n, &kernels[t], true);
    need_most(&n);
    for (struct step s; next(&s);) {
        if (!s.possible || s.op == READ || s.op == STAT) continue;
        need_tree(&n, &kernels[s.tree], false);
        advance(&kernels[s.tree], s.op);
        need_tree(&n, &kernels[s.tree], true);
        need_most(&n);
    }
    return needs(n.most_bytes, n.most_names);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static int read_order(const char *name, char *text) {
    if (o.orders) return wrong("%s is given twice", name);
    for (char *word; (word = strsep(&text, ","));) {
        enum op op = 0;
        while (op < OPS && strcmp(word, op_name[op])) op++;
        if (op == OPS && !*word && !text) return wrong("%s ends with a comma", name);
        if (op == OPS)
            return wrong(
                "%s has no operation %s; known are create, patch, compile, clean, read, stat, delete", name, word);
        if (o.orders == MOST_ORDERS) return wrong("%s has more than %d operations", name, MOST_ORDERS);
        o.order[o.orders++] = op;
    }
    return 0;
}

static const struct option options[] = {
    NUMBER("-i", o.trees, 1, 1000, "trees"),
    NUMBER("-r", o.runs, 0, 100000, "operations of the random phase; without it, 100"),
    NUMBER("-b", o.buffer, 1, 16 << 20, "bytes of a call"),
    WORD("-D", o.folder, "folder to work in"),
    FLAG("-n", o.no_sync, "neither sync nor drop caches"),
    FLAG("-m", o.make, "compile all trees, read some, delete all, in the place of the random phase"),
    FLAG("--makej", o.make, "the same"),
    NUMBER("--reads", o.reads, 0, 1000000, "with -m: trees to read; without it, 3"),
    TEXT("--order", read_order, "OPERATION,…: what is done to each tree, in the place of the random phase"),
    CHOICE("--state", o.state, state_name, "with --order: of the trees before"),
    NUMBER("--files", files, 20, 1000000, "of an unpatched tree"),
    NUMBER("--seed", seed, 0, UINT64_MAX, "of names, sizes, places and operations"),
    CHOICE("--content", o.content, contents, "of the files"),
    FLAG("--no-native", o.no_native, "do not learn the order in which the file system lists files"),
    FLAG("--trace", o.trace, "say every operation"),
    CHOICE("--list", o.list, set_name, "only the paths and sizes of this set of files"),
    FLAG("--verify", o.verify, "compare what is there with what was written"),
};

/* Whether every operation of --order can be done where it comes. */
static int prepare_order(void) {
    begin();
    struct kernel k = kernels[0];
    for (uint64_t i = 0; i < o.orders; advance(&k, o.order[i++]))
        if (!eligible(&k, o.order[i]))
            return wrong("--order cannot %s a tree that is %s (operation %llu)", op_name[o.order[i]],
                state_name[k.state], (unsigned long long)i + 1);
    return 0;
}

static int prepare(void) {
    if (o.make && o.orders) return wrong("--makej and --order exclude each other");
    if (o.runs != NOT_GIVEN && (o.make || o.orders))
        return wrong("-r is of the random phase, which --makej and --order do not have");
    if (o.reads != NOT_GIVEN && !o.make) return wrong("--reads needs --makej");
    if (o.state != STATES && !o.orders) return wrong("--state needs --order");
    if (o.runs == NOT_GIVEN) o.runs = 100;
    if (o.reads == NOT_GIVEN) o.reads = 3;
    if (o.state == STATES) o.state = ABSENT;
    return o.orders ? prepare_order() : 0;
}

static int list(void) {
    int v = o.list == PATCH_SET || o.list == COMPILE_PATCHED_SET;
    for (uint64_t k = 0; k < member_count[o.list]; k++)
        printf("%s\t%u\n", file_path(members[o.list][k]), size_at[v][members[o.list][k]]);
    return fflush(stdout) ? broken("cannot write the list: %s", strerror(errno)) : 0;
}

static int run(void) {
    make_sets();
    if (o.list != SETS) return list();
    if (o.folder) {
        if (!o.verify && mkdir(o.folder, 0755) && errno != EEXIST) return failure("make", o.folder, "");
        if (chdir(o.folder)) return failure("enter", o.folder, "");
    }
    return o.verify ? verify() : run_all();
}

const struct program program = {"compile-tree",
    "The life of trees like the Linux kernel's, with the semantics of compilebench 0.6.", OPTIONS(options), prepare,
    check, run};
