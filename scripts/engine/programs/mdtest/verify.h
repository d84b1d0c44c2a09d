/* Verification: everything that should be there is, with its content, and nothing else. */
#ifndef REPROFS_MDTEST_VERIFY_H
#define REPROFS_MDTEST_VERIFY_H

#include "items.h"
#include "paths.h"
#include "program.h"
#include "same.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

#endif
