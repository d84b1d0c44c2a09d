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
 * Not of the original: with --series the samples say also how many items ended in each interval of a phase's time; with
 * --passes stat and read go through a task's items several times in one phase, which else would be too short to time.
 *
 * The parts are one translation unit: in several its bytes would not be those of published records. */
#define _GNU_SOURCE
#include "clients.h"
#include "mdtest/items.h"
#include "mdtest/paths.h"
#include "mdtest/verify.h"
#include "program.h"
#include "samples.h"
#include "tree.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

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
    NUMBER("--passes", p.passes, 1, 1000000, "times that stat and read go through the items, in one phase"),
    NUMBER("--tasks", p.tasks, 1, TASKS_MAX, "tasks, processes of their own"),
    FLAG("--rename", p.rename, "rename the directories, too"),
    CHOICE("--std", p.deviation, deviations, "divided by n as in 1.9.3, or by n - 1 as in 4.0"),
    FLAG("--series", p.series, "take samples of the items over time"),
    NUMBER("--seed", p.seed, 0, UINT64_MAX, "of the content"),
    FLAG("--verify", p.verify, "compare what is there with what was written"),
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
