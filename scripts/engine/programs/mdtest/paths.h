/* What is asked for, and the paths that follow from it. */
#ifndef REPROFS_MDTEST_PATHS_H
#define REPROFS_MDTEST_PATHS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { TASKS_MAX = 1024, DEPTH_MAX = 100, ITERATIONS_MAX = 10000, CONTENTS = 1000 };
#define ITEMS_MAX 1000000000000u

static struct {
    bool create, stat, read, remove, only_files, only_directories, leaves_only, unique, rename, series, verify;
    const char *dir;
    uint64_t iterations, items_per_dir, depth, branches, items, write_bytes, read_bytes, stride, passes, tasks, seed;
    unsigned deviation;
    /* what follows from them */
    bool files, directories;
    uint64_t dirs, first; /* directories of a tree; the first that holds items (with -L the first leaf) */
} p = {.dir = ".", .iterations = 1, .branches = 1, .passes = 1, .tasks = 1};

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

#endif
