/* The phases of a task: what is done to each item. */
#ifndef REPROFS_MDTEST_ITEMS_H
#define REPROFS_MDTEST_ITEMS_H

#include "clients.h"
#include "measure.h"
#include "paths.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum act { MAKE_TREE, CREATE, STAT, RENAME, READ, REMOVE, REMOVE_TREE };
struct phase {
    enum act act;
    bool dirs; /* the items are directories */
    uint64_t iteration, shift; /* whose items: those of the task `shift` further on */
};

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
        for (uint64_t pass = 0; done && pass < p.passes; pass++)
            for (uint64_t k = p.first; done && k < p.dirs; k++) done = do_items(c, &at, put_way(&at, n, k), f, k);
    if (done) return;
    c->error = errno;
    snprintf(c->where, sizeof c->where, "%s", at.path);
}

#endif
