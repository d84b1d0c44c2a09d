/* The metadata test of the HPC world, with the semantics of mdtest 1.9.3 (and 4.0 where they differ).
 *
 * One iteration makes a tree of b^0 + … + b^z directories (one tree, or with -u one for each task), does the directory
 * test and the file test, and removes the tree. The children of directory k are b*k+1 … b*k+b; directory k holds the
 * items k*I … k*I+I-1 (with -L only the leaves hold items):
 *
 *     DIR/test-dir.<iteration>-0/mdtest_tree.<task>.0/mdtest_tree.<task>.<k>/file.mdtest.<task>.<item>
 *
 * without -u the directories are mdtest_tree.<k>. Tasks are processes here, not MPI ranks; each phase begins when all
 * of them are ready. The rate of a phase is the items of all tasks over the time of the slowest. Creation and removal
 * go through the tree in preorder, stat and read in the order of the items' numbers.
 *
 * Not of the original: with --series the samples say also how many items ended in each interval of a phase's time. */
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
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/uio.h>
#include <unistd.h>

enum { TASKS_MAX = 1024, DEPTH_MAX = 100, ITERATIONS_MAX = 10000, CONTENTS = 1000 };
#define ITEMS_MAX 1000000000000u

static struct {
    bool create, stat, read, remove, only_files, only_directories, leaves_only, unique, rename, series, verify;
    const char *dir;
    uint64_t iterations, items_per_dir, depth, branches, items, write_bytes, read_bytes, stride, tasks, seed;
    unsigned deviation;
    /* what follows from them */
    bool files, directories;
    uint64_t dirs, first; /* directories of a tree; the first that holds items (with -L the first leaf) */
} p = {.dir = ".", .iterations = 1, .branches = 1, .tasks = 1};

enum { POPULATION, SAMPLE_DEVIATION };
static const char *const deviations[] = {"population", "sample", NULL};

static const struct option options[] = {
    FLAG("-C", p.create, "create what is tested"),
    FLAG("-T", p.stat, "stat it"),
    FLAG("-E", p.read, "read the files"),
    FLAG("-r", p.remove, "remove it; without -C, -T, -E and -r all four"),
    FLAG("-F", p.only_files, "files only"),
    FLAG("-D", p.only_directories, "directories only"),
    WORD("-d", p.dir, "folder to work in"),
    NUMBER("-i", p.iterations, 1, ITERATIONS_MAX, "iterations"),
    NUMBER("-I", p.items_per_dir, 1, ITEMS_MAX, "items for each directory"),
    NUMBER("-z", p.depth, 0, DEPTH_MAX, "depth of the tree"),
    NUMBER("-b", p.branches, 0, 1000000, "children of a directory"),
    FLAG("-L", p.leaves_only, "items in the leaves only"),
    FLAG("-u", p.unique, "a tree for each task"),
    NUMBER("-n", p.items, 1, ITEMS_MAX, "items for each task, in the place of -I"),
    NUMBER("-w", p.write_bytes, 0, 1ull << 40, "bytes to write into a file"),
    NUMBER("-e", p.read_bytes, 0, 1ull << 40, "bytes to read from a file"),
    NUMBER("-N", p.stride, 0, TASKS_MAX - 1, "whose items a task touches next: those of the task so many further on"),
    NUMBER("--tasks", p.tasks, 1, TASKS_MAX, "tasks, processes of their own"),
    FLAG("--rename", p.rename, "rename the directories, too"),
    CHOICE("--std", p.deviation, deviations, "divided by n as in 1.9.3, or by n - 1 as in 4.0"),
    FLAG("--series", p.series, "take samples of the items over time"),
    NUMBER("--seed", p.seed, 0, UINT64_MAX, "of the content"),
    FLAG("--verify", p.verify, "compare what is there with what was written"),
};

enum act { MAKE_TREE, CREATE, STAT, RENAME, READ, REMOVE, REMOVE_TREE };
struct phase {
    enum act act;
    bool dirs; /* the items are directories */
    uint64_t iteration, shift; /* whose items: those of the task `shift` further on */
};
/* The lines of the summary, in its order. */
static const struct row {
    const char *sample, *title;
    struct phase phase;
} rows[] = {
    {"directory-create", "Directory creation:", {CREATE, true, 0, 0}},
    {"directory-stat", "Directory stat    :", {STAT, true, 0, 1}},
    {"directory-rename", "Directory rename  :", {RENAME, true, 0, 0}},
    {"directory-remove", "Directory removal :", {REMOVE, true, 0, 3}},
    {"file-create", "File creation     :", {CREATE, false, 0, 0}},
    {"file-stat", "File stat         :", {STAT, false, 0, 1}},
    {"file-read", "File read         :", {READ, false, 0, 2}},
    {"file-remove", "File removal      :", {REMOVE, false, 0, 3}},
    {"tree-create", "Tree creation     :", {MAKE_TREE, false, 0, 0}},
    {"tree-remove", "Tree removal      :", {REMOVE_TREE, false, 0, 0}},
};
enum { ROWS = sizeof rows / sizeof *rows, FIRST_FILE_ROW = 4, TREE_CREATE = 8, TREE_REMOVE = 9 };

/* ---- paths ------------------------------------------------------------------------------------------------------- */
struct place { /* a path that grows and shrinks, and whose items are meant */
    char path[PATH_MAX];
    uint64_t iteration, rank;
    char item[64]; /* "/file.mdtest.<rank>." */
    size_t item_length;
};

static size_t put_number(char *out, uint64_t v) {
    char digits[20];
    size_t n = 0, k = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) out[k++] = digits[--n];
    out[k] = 0;
    return k;
}

static size_t put_top(struct place *at, uint64_t iteration, uint64_t rank, bool dirs) {
    at->iteration = iteration;
    at->rank = rank;
    at->item_length = (size_t)snprintf(
        at->item, sizeof at->item, "/%s.mdtest.%llu.", dirs ? "dir" : "file", (unsigned long long)rank);
    return (size_t)snprintf(at->path, sizeof at->path, "%s/test-dir.%llu-0", p.dir, (unsigned long long)iteration);
}
static size_t put_directory(struct place *at, size_t n, uint64_t k) {
    static const char name[] = "/mdtest_tree.";
    memcpy(at->path + n, name, sizeof name - 1);
    n += sizeof name - 1;
    if (p.unique) {
        n += put_number(at->path + n, at->rank);
        at->path[n++] = '.';
    }
    return n + put_number(at->path + n, k);
}
/* The whole way down to directory k. */
static size_t put_way(struct place *at, size_t n, uint64_t k) {
    if (k) n = put_way(at, n, (k - 1) / p.branches);
    return put_directory(at, n, k);
}
static void put_item(struct place *at, size_t n, uint64_t item) {
    memcpy(at->path + n, at->item, at->item_length);
    put_number(at->path + n + at->item_length, item);
}

/* ---- one item ---------------------------------------------------------------------------------------------------- */
static struct content content_of(const struct place *at, uint64_t item) {
    uint64_t h = hash3(p.seed, CONTENTS + at->iteration, at->rank << 40 ^ item);
    return (struct content){{h, ~h * 0x9e3779b97f4a7c15u}, p.write_bytes, h % (POOL_BYTES - POOL_STEP)};
}

static bool create_file(const struct place *at, uint64_t item) {
    int fd = open(at->path, O_WRONLY | O_CREAT, 0644);
    if (fd < 0) return false;
    if (p.write_bytes) {
        struct content c = content_of(at, item);
        for (uint64_t left = c.size, head = left < sizeof c.header ? left : sizeof c.header; left; head = 0) {
            uint64_t body = left - head < POOL_STEP ? left - head : POOL_STEP;
            struct iovec v[2] = {{c.header, head}, {(void *)(uintptr_t)pool_at(c.offset), body}};
            ssize_t n = writev(fd, v, 2);
            if (n < 0 || (uint64_t)n != head + body) { /* a short write to a regular file: the space ran out */
                int error = n < 0 ? errno : ENOSPC;
                close(fd);
                errno = error;
                return false;
            }
            left -= head + body;
        }
    }
    return !close(fd);
}

static bool read_file(const char *path) {
    static char buffer[1 << 17];
    int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    ssize_t n = 1;
    for (uint64_t left = p.read_bytes; left && n > 0; left -= (uint64_t)n) {
        n = read(fd, buffer, left < sizeof buffer ? left : sizeof buffer);
        if (n <= 0) {
            int error = n ? errno : EIO; /* the file is shorter than what -e says */
            close(fd);
            errno = error;
            return false;
        }
    }
    return !close(fd);
}

/* An item is done: counts it, and the interval in which it ended. Intervals are 0.1 ms; each time there would be more
 * than INTERVALS of them, neighbours are joined. */
static void client_count(struct client *c) {
    uint64_t at = now_ns() - c->start;
    c->items++;
    if (!c->interval_ns) c->interval_ns = 100000;
    for (; at / c->interval_ns >= INTERVALS; c->interval_ns *= 2)
        for (unsigned i = 0; i < INTERVALS; i++)
            c->over_time[i] = i < INTERVALS / 2 ? c->over_time[2 * i] + c->over_time[2 * i + 1] : 0;
    c->over_time[at / c->interval_ns]++;
}
/* With --series the clock is read after every item. */
static void count(struct client *c) {
    if (p.series) client_count(c);
    else c->items++;
}

/* The items of one directory, whose path ends at n. */
static bool do_items(struct client *c, struct place *at, size_t n, const struct phase *f, uint64_t k) {
    struct stat s;
    for (uint64_t item = k * p.items_per_dir, end = item + p.items_per_dir; item < end; item++) {
        put_item(at, n, item);
        bool done = false;
        switch (f->act) {
            case CREATE: done = f->dirs ? !mkdir(at->path, 0755) : create_file(at, item); break;
            case STAT: done = !stat(at->path, &s); break;
            case READ: done = read_file(at->path); break;
            case REMOVE: done = f->dirs ? !rmdir(at->path) : !unlink(at->path); break;
            default: break;
        }
        if (!done) return false;
        count(c);
    }
    if (!f->dirs && f->act == CREATE) c->bytes += p.items_per_dir * p.write_bytes;
    if (f->act == READ) c->bytes += p.items_per_dir * p.read_bytes;
    return true;
}
/* Every directory of a tree's directory moves on to the next name, the last one by way of a spare name: the names stay
 * the same. */
static bool rename_items(struct client *c, struct place *at, size_t n, uint64_t k) {
    static char to[PATH_MAX + 8];
    uint64_t first = k * p.items_per_dir, last = first + p.items_per_dir - 1;
    put_item(at, n, last);
    snprintf(to, sizeof to, "%s-XX", at->path);
    if (rename(at->path, to)) return false;
    count(c);
    for (uint64_t item = last; item > first; item--) {
        static char next[PATH_MAX];
        put_item(at, n, item);
        memcpy(next, at->path, strlen(at->path) + 1);
        put_item(at, n, item - 1);
        if (rename(at->path, next)) return false;
        count(c);
    }
    put_item(at, n, first);
    if (rename(to, at->path)) return false;
    count(c);
    return true;
}

/* In preorder, as creation and removal go; trees are removed from the leaves up. */
static bool descend(struct client *c, struct place *at, size_t n, const struct phase *f, uint64_t k, uint64_t level) {
    n = put_directory(at, n, k);
    if (f->act == MAKE_TREE) {
        if (mkdir(at->path, 0755)) return false;
        count(c);
    } else if (f->act != REMOVE_TREE && k >= p.first) {
        if (f->act == RENAME ? !rename_items(c, at, n, k) : !do_items(c, at, n, f, k)) return false;
    }
    for (uint64_t child = 1; level < p.depth && child <= p.branches; child++)
        if (!descend(c, at, n, f, p.branches * k + child, level + 1)) return false;
    if (f->act == REMOVE_TREE) {
        at->path[n] = 0;
        if (rmdir(at->path)) return false;
        count(c);
    }
    return true;
}

static void phase_work(unsigned number, void *what, struct client *c) {
    static struct place at;
    const struct phase *f = what;
    size_t n = put_top(&at, f->iteration, (number + f->shift * p.stride) % p.tasks, f->dirs);
    bool done = true;
    if (f->act != STAT && f->act != READ) done = descend(c, &at, n, f, 0, 0);
    else
        for (uint64_t k = p.first; done && k < p.dirs; k++) done = do_items(c, &at, put_way(&at, n, k), f, k);
    if (done) return;
    c->error = errno;
    snprintf(c->where, sizeof c->where, "%s", at.path);
}

/* ---- an iteration ------------------------------------------------------------------------------------------------ */
/* Samples of the intervals up to the client's end. */
static void client_series(const struct client *c, const char *name, unsigned number) {
    char long_name[64];
    snprintf(long_name, sizeof long_name, "%s-over-time", name);
    for (unsigned i = 0; c->interval_ns && i < INTERVALS && c->start + i * c->interval_ns < c->end; i++) {
        uint64_t start = c->start + i * c->interval_ns, left = c->end - start;
        sample_put(SAMPLE(.name = long_name, .start_ns = start - program_began, .items = c->over_time[i],
            .client = number, .wall_ns = left < c->interval_ns ? left : c->interval_ns));
    }
}

static int say_error(unsigned task, enum act act, const struct client *c) {
    static const char *const verbs[] = {"create", "create", "stat", "rename", "read", "remove", "remove"};
    if (c->error == ECHILD) return broken("task %u died", task);
    return broken("cannot %s %s: %s", verbs[act], c->where, reason(c->error));
}

/* Runs one phase in all tasks; the rate goes to *rate. Returns 0, or 1 after saying what failed. */
static int run_phase(const struct row *row, uint64_t iteration, double *rate) {
    struct phase f = row->phase;
    f.iteration = iteration;
    bool tree = f.act == MAKE_TREE || f.act == REMOVE_TREE;
    unsigned tasks = tree && !p.unique ? 1 : (unsigned)p.tasks; /* one tree: made by one task */
    struct client *c = clients_run(tasks, phase_work, &f);
    if (!c) return broken("cannot start %u tasks: %s", tasks, strerror(errno));
    uint64_t slowest = 0, items = 0;
    int code = 0;
    for (unsigned i = 0; i < tasks && !code; i++) {
        if (c[i].error) code = say_error(i, f.act, &c[i]);
        uint64_t wall = c[i].end - c[i].start;
        if (wall > slowest) slowest = wall;
        items += c[i].items;
    }
    for (unsigned i = 0; i < tasks && !code; i++) {
        sample_put(SAMPLE(.name = row->sample, .start_ns = c[i].start - program_began, .wall_ns = c[i].end - c[i].start,
            .items = c[i].items, .bytes = c[i].bytes, .iteration = (int64_t)iteration, .client = i));
        client_series(c + i, row->sample, i);
    }
    clients_free(c, tasks);
    if (tree) items = p.dirs; /* the rate of trees is that of one tree */
    *rate = slowest ? (double)items * 1e9 / (double)slowest : 0;
    return code;
}

static bool wanted(const struct row *row) {
    if (row->phase.dirs ? !p.directories : row < rows + TREE_CREATE && !p.files) return false;
    switch (row->phase.act) {
        case MAKE_TREE:
        case CREATE: return p.create;
        case STAT: return p.stat;
        case READ: return p.read;
        case RENAME: return p.rename;
        default: return p.remove;
    }
}

static int run_iteration(uint64_t iteration, double *rates) {
    struct place at;
    put_top(&at, iteration, 0, false);
    if (p.create && mkdir(at.path, 0755)) {
        if (errno == EEXIST) return broken("%s is already there; remove it or run with -r first", at.path);
        return broken("cannot create %s: %s", at.path, reason(errno));
    }
    if (wanted(rows + TREE_CREATE) && run_phase(rows + TREE_CREATE, iteration, rates + TREE_CREATE)) return 1;
    for (unsigned i = 0; i < TREE_CREATE; i++)
        if (wanted(rows + i) && run_phase(rows + i, iteration, rates + i)) return 1;
    if (!p.remove) return 0;
    if (run_phase(rows + TREE_REMOVE, iteration, rates + TREE_REMOVE)) return 1;
    if (rmdir(at.path)) return broken("cannot remove %s: %s", at.path, strerror(errno));
    return 0;
}

/* ---- verification: everything that should be there is, with its content, and nothing else ------------------------ */
static int64_t count_names(const char *path) {
    DIR *d = opendir(path);
    if (!d) return -1;
    int64_t n = -2;
    while (readdir(d)) n++;
    closedir(d);
    return n;
}

/* How many bytes from `at` on, at most n, are as in the content. */
static size_t same_as(const struct content *c, uint64_t at, const uint8_t *data, size_t n) {
    size_t done = 0;
    while (done < n && at + done < c->size) {
        uint64_t p = at + done, inside = (p - sizeof c->header) % POOL_STEP, left = c->size - p;
        bool head = p < sizeof c->header;
        const uint8_t *want = head ? (const uint8_t *)c->header + p : pool_at(c->offset + inside);
        uint64_t run = head ? sizeof c->header - p : POOL_STEP - inside;
        if (run > left) run = left;
        if (run > n - done) run = n - done;
        size_t same = same_bytes(data + done, want, run);
        done += same;
        if (same < run) break;
    }
    return done;
}

/* Returns the offset of the first byte that differs, or -1 when all are the same, or -2 (errno). */
static int64_t first_difference(const struct place *at, uint64_t item) {
    static uint8_t buffer[1 << 16];
    struct content c = content_of(at, item);
    int fd = open(at->path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) return -2;
    uint64_t done = 0;
    bool same = true;
    ssize_t n = 0;
    while (same && (n = read(fd, buffer, sizeof buffer)) > 0) {
        size_t run = same_as(&c, done, buffer, (size_t)n);
        done += run;
        same = run == (size_t)n;
    }
    int error = errno;
    close(fd);
    errno = error;
    if (n < 0) return -2;
    return same && done == c.size ? -1 : (int64_t)done;
}

static int verify_item(const struct place *at, uint64_t item, bool dirs) {
    struct stat s;
    if (lstat(at->path, &s)) return broken("%s should be there: %s", at->path, strerror(errno));
    if (dirs && S_ISDIR(s.st_mode)) return 0;
    if (dirs || !S_ISREG(s.st_mode)) return broken("%s is not a %s", at->path, dirs ? "directory" : "file");
    int64_t byte = first_difference(at, item);
    if (byte == -2) return broken("cannot read %s: %s", at->path, strerror(errno));
    if (byte >= 0) return broken("%s is not what was written, from byte %lld on", at->path, (long long)byte);
    return 0;
}

/* A tree with the items of the ranks from..to-1. */
static int verify_tree(uint64_t iteration, uint64_t from, uint64_t to) {
    static struct place at;
    uint64_t kinds = (uint64_t)p.files + (uint64_t)p.directories;
    for (uint64_t k = 0; k < p.dirs; k++) {
        uint64_t want = k >= p.first ? p.items_per_dir * kinds * (to - from) : 0;
        size_t n = put_way(&at, put_top(&at, iteration, from, false), k);
        if (p.branches * k + 1 < p.dirs) want += p.branches;
        int64_t there = count_names(at.path);
        if (there < 0) return broken("%s should be there: %s", at.path, strerror(errno));
        for (uint64_t rank = from; k >= p.first && rank < to; rank++)
            for (int dirs = 0; dirs < 2; dirs++) {
                if (dirs ? !p.directories : !p.files) continue;
                n = put_way(&at, put_top(&at, iteration, rank, dirs), k);
                for (uint64_t i = 0; i < p.items_per_dir; i++) {
                    put_item(&at, n, k * p.items_per_dir + i);
                    if (verify_item(&at, k * p.items_per_dir + i, dirs)) return 1;
                }
            }
        at.path[n] = 0;
        if ((uint64_t)there != want)
            return broken("%s has %lld names, not %llu", at.path, (long long)there, (unsigned long long)want);
    }
    return 0;
}

static int verify(void) {
    struct place at;
    struct stat s;
    for (uint64_t i = 0; i < p.iterations; i++) {
        put_top(&at, i, 0, false);
        if (p.remove) {
            if (!lstat(at.path, &s)) return broken("%s should have been removed", at.path);
        } else if (p.unique) {
            for (uint64_t rank = 0; rank < p.tasks; rank++)
                if (verify_tree(i, rank, rank + 1)) return 1;
        } else if (verify_tree(i, 0, p.tasks)) return 1;
    }
    printf("%llu tasks, %llu iterations: as written\n", (unsigned long long)p.tasks, (unsigned long long)p.iterations);
    return 0;
}

/* ---- output in the original's layout ----------------------------------------------------------------------------- */
static void print_time(const char *word) {
    char text[32];
    time_t now = time(NULL);
    strftime(text, sizeof text, "%m/%d/%Y %H:%M:%S", gmtime(&now));
    printf("-- %s at %s --\n", word, text);
}

static void print_space(void) {
    struct statvfs v;
    if (statvfs(p.dir, &v)) return;
    double bytes = (double)v.f_blocks * (double)v.f_frsize, gib = bytes / (1 << 30);
    printf("Path: %s\nFS: %.1f %s   Used FS: %.1f%%   Inodes: %.1f Mi   Used Inodes: %.1f%%\n", p.dir,
        gib >= 1024 ? gib / 1024 : gib, gib >= 1024 ? "TiB" : "GiB",
        v.f_blocks ? 100 * (1 - (double)v.f_bfree / (double)v.f_blocks) : 0, (double)v.f_files / (1 << 20),
        v.f_files ? 100 * (1 - (double)v.f_ffree / (double)v.f_files) : 0);
}

static void print_summary(const double *rates) {
    uint64_t n = p.iterations;
    printf("\nSUMMARY rate: (of %llu iterations)\n", (unsigned long long)n);
    printf("   Operation                      Max            Min           Mean        Std Dev\n");
    printf("   ---------                      ---            ---           ----        -------\n");
    for (unsigned r = 0; r < ROWS; r++) {
        const struct row *row = rows + r;
        if (row->phase.dirs ? !p.directories : r >= FIRST_FILE_ROW && r < TREE_CREATE && !p.files) continue;
        if (row->phase.act == RENAME && !p.rename) continue;
        double most = rates[r], least = rates[r], sum = 0, squares = 0;
        for (uint64_t i = 0; i < n; i++) {
            double v = rates[i * ROWS + r];
            if (v > most) most = v;
            if (v < least) least = v;
            sum += v;
        }
        double mean = sum / (double)n;
        for (uint64_t i = 0; i < n; i++) squares += (rates[i * ROWS + r] - mean) * (rates[i * ROWS + r] - mean);
        uint64_t divisor = p.deviation == SAMPLE_DEVIATION ? n - 1 : n; /* 4.0: n - 1; 1.9.3: n */
        printf("   %s %14.3f %14.3f %14.3f %14.3f\n", row->title, most, least, mean,
            divisor ? sqrt(squares / (double)divisor) : 0.0);
    }
    printf("\n");
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* Directories of the tree, and the first that holds items. */
static int prepare_tree(void) {
    uint64_t level = 1;
    p.dirs = 1;
    for (uint64_t i = 0; i < p.depth; i++) {
        level *= p.branches;
        p.dirs += level;
        if (p.dirs > 1000000000)
            return wrong("-b %llu and -z %llu make more than 1000000000 directories", (unsigned long long)p.branches,
                (unsigned long long)p.depth);
    }
    p.first = p.leaves_only ? p.dirs - level : 0;
    return 0;
}

static int prepare_items(void) {
    uint64_t holders = p.dirs - p.first;
    if (p.items && p.items < holders)
        return wrong("-n %llu gives no item to each of the %llu directories that hold items",
            (unsigned long long)p.items, (unsigned long long)holders);
    if (p.items) p.items_per_dir = p.items / holders;
    unsigned __int128 items = (unsigned __int128)p.items_per_dir * p.dirs;
    if (items > ITEMS_MAX) return wrong("more than %llu items for a task", (unsigned long long)ITEMS_MAX);
    p.items = p.items_per_dir * holders;
    return 0;
}

static int prepare(void) {
    if (p.only_files && p.only_directories)
        return wrong("-F (files only) and -D (directories only) exclude each other; without both, both are tested");
    p.files = !p.only_directories, p.directories = !p.only_files;
    if (p.rename && !p.directories) return wrong("--rename renames directories, which -F leaves out");
    if (!p.create && !p.stat && !p.read && !p.remove) p.create = p.stat = p.read = p.remove = true;
    if (!p.items_per_dir == !p.items)
        return wrong("give either -I (items for each directory) or -n (items for each task)");
    if (p.depth && !p.branches)
        return wrong("-b 0 makes no tree of depth %llu; -b must be 1 or more", (unsigned long long)p.depth);
    if (p.read_bytes > p.write_bytes)
        return wrong("-e %llu reads more than the %llu bytes that -w writes", (unsigned long long)p.read_bytes,
            (unsigned long long)p.write_bytes);
    if (p.stride >= p.tasks && p.stride)
        return wrong("-N %llu needs more than %llu tasks; see --tasks", (unsigned long long)p.stride,
            (unsigned long long)p.stride);
    int code = prepare_tree();
    if (!code) code = prepare_items();
    if (!code && strlen(p.dir) + 40 + (p.depth + 1) * 30 + 40 > PATH_MAX)
        return wrong(
            "paths of depth %llu below %.60s… are longer than %d bytes", (unsigned long long)p.depth, p.dir, PATH_MAX);
    return code;
}

static int check(void) {
    uint64_t trees = p.unique ? p.tasks : 1, kept = p.remove ? 1 : p.iterations;
    uint64_t kinds = p.remove ? 1 : (uint64_t)p.files + (uint64_t)p.directories; /* one test after the other */
    unsigned __int128 names = (unsigned __int128)kept *
        (1 + trees * p.dirs + p.tasks * (unsigned __int128)p.items * kinds);
    unsigned __int128 bytes = p.files ? (unsigned __int128)kept * p.tasks * p.items * p.write_bytes : 0;
    if (names > INT64_MAX || bytes > INT64_MAX) return wrong("the items need more than 2^63 bytes");
    return needs((uint64_t)bytes, (uint64_t)names);
}

static void print_head(void) {
    print_time("started");
    printf("\nmdtest-%s+reprofs was launched with %llu total task(s) on 1 node(s)\nCommand line used: mdtest",
        p.deviation == SAMPLE_DEVIATION ? "4.0.0" : "1.9.3", (unsigned long long)p.tasks);
    for (char **word = program_words + 1; *word; word++) printf(" \"%s\"", *word);
    printf("\n");
    print_space();
    printf("\n%llu tasks, %llu %s\n", (unsigned long long)p.tasks, (unsigned long long)(p.tasks * p.items),
        !p.directories ? "files"
            : !p.files ? "directories"
                       : "files/directories");
}

static int run(void) {
    if (p.write_bytes) tree_pool(p.seed);
    if (p.verify) return verify();
    if (p.create && mkdir(p.dir, 0755) && errno != EEXIST) return broken("cannot create %s: %s", p.dir, reason(errno));
    double *rates = calloc(p.iterations * ROWS, sizeof *rates);
    if (!rates) return broken("no memory for %llu iterations", (unsigned long long)p.iterations);
    print_head();
    int code = 0;
    for (uint64_t i = 0; i < p.iterations && !code; i++) code = run_iteration(i, rates + i * ROWS);
    if (!code) {
        print_summary(rates);
        print_time("finished");
    }
    free(rates);
    return code;
}

const struct program program = {"mdtest",
    "The metadata test of the HPC world, with the semantics of mdtest 1.9.3 (and 4.0 where they differ).",
    OPTIONS(options), prepare, check, run};
