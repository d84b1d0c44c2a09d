#define _GNU_SOURCE
/* The metadata operations. Names are made a chunk ahead, so that between two clock readings there is only the
 * operation. */
#include "operations.h"
#include "same.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { CHUNK = 256 };
#define FAILED UINT64_MAX /* returned by an operation; errno says why */

static uint64_t op_mkdir(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)to, (void)c;
    return mkdirat(root, path, 0755) ? FAILED : 0;
}
static uint64_t op_rmdir(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)to, (void)c;
    return unlinkat(root, path, AT_REMOVEDIR) ? FAILED : 0;
}
static uint64_t op_create(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)to;
    int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0) return FAILED;
    uint64_t left = c->size, head = left < sizeof c->header ? left : sizeof c->header;
    struct iovec v[2] = {{(void *)(uintptr_t)c->header, head}, {(void *)(uintptr_t)pool_at(c->offset), 0}};
    for (int first = 1; left; first = 0) {
        uint64_t body = left - (first ? head : 0);
        v[1].iov_len = body < POOL_STEP ? body : POOL_STEP;
        uint64_t want = v[1].iov_len + (first ? head : 0);
        ssize_t n = first ? writev(fd, v, 2) : write(fd, v[1].iov_base, v[1].iov_len);
        if (n < 0 || (uint64_t)n != want) { /* a short write to a regular file means that the space ran out */
            int error = n < 0 ? errno : ENOSPC;
            close(fd);
            errno = error;
            return FAILED;
        }
        left -= want;
    }
    return close(fd) ? FAILED : c->size;
}
static uint64_t op_stat(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)to, (void)c;
    struct stat s;
    return fstatat(root, path, &s, AT_SYMLINK_NOFOLLOW) ? FAILED : 0;
}
static uint8_t read_buffer[1 << 17];
static uint64_t op_read(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)to, (void)c;
    int fd = openat(root, path, O_RDONLY);
    if (fd < 0) return FAILED;
    uint64_t bytes = 0;
    ssize_t n;
    while ((n = read(fd, read_buffer, sizeof read_buffer)) > 0) bytes += (uint64_t)n;
    int error = errno;
    close(fd);
    errno = error;
    return n < 0 ? FAILED : bytes;
}
static uint64_t op_rename(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)c;
    return renameat(root, path, root, to) ? FAILED : 0;
}
static uint64_t op_unlink(
    int root, const struct tree *t, uint64_t i, const char *path, const char *to, const struct content *c) {
    (void)t, (void)i, (void)to, (void)c;
    return unlinkat(root, path, 0) ? FAILED : 0;
}

static const struct operation operations[] = {
    {"make-tree", true, false, op_mkdir},
    {"create", false, false, op_create},
    {"stat", false, false, op_stat},
    {"read", false, false, op_read},
    {"rename", false, false, op_rename},
    {"remove", false, false, op_unlink},
    {"remove-tree", true, true, op_rmdir},
};
const struct operation *operation_find(const char *name) {
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (!strcmp(operations[i].name, name)) return &operations[i];
    return NULL;
}

static void fail(struct outcome *o, int error, const char *path) {
    o->error = error;
    snprintf(o->where, sizeof o->where, "%s", path);
}

/* One name after the other: at distances of a power of two they would fall into the same few lines of the cache. */
static char names[CHUNK * PATH_BYTES], new_names[CHUNK * PATH_BYTES], *paths[CHUNK], *targets[CHUNK];
static struct content contents[CHUNK];
static uint64_t clock_at[CHUNK + 1];

/* The order in which the items of a tree are taken. */
struct turn {
    const struct operation *op;
    const struct tree *tree, *renamed;
    bool random;
    uint64_t first, n; /* numbers of the items */
};
static uint64_t item_of(const struct turn *t, uint64_t turn) {
    uint64_t i = t->op->backwards ? t->n - 1 - (turn - t->first) : turn;
    return t->random ? permute(t->tree->seed, t->n, i) : i;
}

/* Names and contents of the next items. Returns their number. */
static unsigned make_chunk(const struct turn *t, uint64_t done) {
    bool create = t->op->run == op_create, rename = t->op->run == op_rename;
    char *at = names, *new_at = new_names;
    unsigned k = 0;
    for (; k < CHUNK && done + k < t->n; k++) {
        uint64_t i = item_of(t, done + k);
        paths[k] = at;
        at += (t->op->on_directories ? tree_directory(t->tree, i, at) : tree_file(t->tree, i, at)) + 1;
        targets[k] = new_at;
        if (rename) new_at += tree_file(t->renamed, i, new_at) + 1;
        if (create) contents[k] = tree_content(t->tree, i, tree_size(t->tree, i));
    }
    return k;
}

/* Does the operation on k items. Returns how many succeeded. */
static unsigned run_chunk(const struct turn *t, int root, uint64_t done, unsigned k, struct outcome *o) {
    clock_at[0] = now_ns();
    for (unsigned j = 0; j < k; j++) {
        uint64_t bytes = t->op->run(root, t->tree, done + j, paths[j], targets[j], &contents[j]);
        clock_at[j + 1] = now_ns();
        if (__builtin_expect(bytes == FAILED, 0)) return fail(o, errno, paths[j]), j;
        o->bytes += bytes;
    }
    return k;
}

/* Runs op on every file (or directory) of the tree; random: in the seeded random order, else in the tree's order. */
void operation_run(const struct operation *op, struct tree *t, bool random, struct histogram *h, struct outcome *o) {
    struct tree renamed = *t;
    renamed.generation++;
    /* directory 0 is the root itself: made first, removed last */
    struct turn turn = {op, t, &renamed, random, op->on_directories, op->on_directories ? t->directories : t->files};
    if (op->on_directories && !op->backwards && mkdir(t->root, 0755)) return fail(o, errno, t->root);
    int root = open(t->root, O_RDONLY | O_DIRECTORY);
    if (root < 0) return fail(o, errno, t->root);
    for (uint64_t done = turn.first; done < turn.n && !o->error;) {
        unsigned k = run_chunk(&turn, root, done, make_chunk(&turn, done), o);
        for (unsigned j = 0; j < k; j++) histogram_add(h, clock_at[j + 1] - clock_at[j]);
        done += k;
        o->items += k;
    }
    close(root);
    if (op->on_directories && !o->error) {
        o->items++;
        if (op->backwards && rmdir(t->root)) fail(o, errno, t->root);
    }
    if (op->run == op_rename && !o->error) t->generation++;
}

/* Opens what is only checked: its time of last access stays, which relatime writes at the first read. Of somebody
 * else's file this is refused, open(2). */
static int open_to_check(int parent, const char *name, int flags) {
    int fd = openat(parent, name, O_RDONLY | O_NOFOLLOW | O_NOATIME | flags);
    return fd < 0 && errno == EPERM ? openat(parent, name, O_RDONLY | O_NOFOLLOW | flags) : fd;
}

/* Reads every file below `root` and compares it with what the generator says; also looks for files that should not be
 * there. */
static uint64_t count_names(int parent, const char *name, const char *skip) {
    int fd = open_to_check(parent, name, O_DIRECTORY);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) return 0;
    uint64_t n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || !strcmp(e->d_name, skip)) continue;
        struct stat s;
        if (fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW)) continue;
        n += S_ISDIR(s.st_mode) ? count_names(dirfd(d), e->d_name, skip) : 1;
    }
    closedir(d);
    return n;
}

static uint64_t digest_add(uint64_t h, const uint8_t *p, size_t n) { /* FNV-1a over 64-bit words, the rest bytewise */
    for (uint64_t w; n >= sizeof w; p += sizeof w, n -= sizeof w) {
        memcpy(&w, p, sizeof w);
        h = (h ^ w) * 0x100000001b3u;
    }
    for (; n; p++, n--) h = (h ^ *p) * 0x100000001b3u;
    return h;
}

static bool same_at(const struct content *c, uint64_t at, const uint8_t *data, size_t n) {
    while (n) {
        const uint8_t *want;
        size_t run;
        if (at < sizeof c->header) {
            want = (const uint8_t *)c->header + at;
            run = sizeof c->header - at;
        } else {
            uint64_t inside = (at - sizeof c->header) % POOL_STEP;
            want = pool_at(c->offset + inside);
            run = POOL_STEP - inside;
        }
        if (run > n) run = n;
        if (same_bytes(data, want, run) < run) return false;
        at += run, data += run, n -= run;
    }
    return true;
}

static bool same_content(int fd, const struct content *c, struct outcome *o) {
    uint64_t at = 0;
    bool same = true;
    ssize_t n;
    while ((n = read(fd, read_buffer, sizeof read_buffer)) > 0) {
        same = same && same_at(c, at, read_buffer, (size_t)n);
        o->digest = digest_add(o->digest, read_buffer, (size_t)n);
        at += (uint64_t)n;
    }
    o->bytes += at;
    o->cut_short += n == 0 && same && at < c->size;
    return n == 0 && same && at == c->size;
}

void tree_verify(const struct tree *t, const char *where, struct outcome *o) {
    char path[PATH_BYTES];
    uint64_t found = 0;
    int root = open(where, O_RDONLY | O_DIRECTORY);
    if (root < 0 && errno != ENOENT) return fail(o, errno, where); /* without the folder all of its files are missing */
    for (uint64_t i = 0; i < t->files; i++) {
        size_t n = tree_file(t, i, path);
        struct content c = tree_content(t, i, tree_size(t, i));
        o->digest = digest_add(o->digest, (const uint8_t *)path, n);
        int fd = root < 0 ? -1 : open_to_check(root, path, 0);
        bool missing = root < 0 || (fd < 0 && errno == ENOENT);
        o->missing += missing;
        found += !missing;
        if (fd < 0 || !same_content(fd, &c, o)) {
            if (!o->mismatches++) snprintf(o->where, sizeof o->where, "%s", path);
        }
        if (fd >= 0) close(fd);
        o->items++;
    }
    if (root < 0) return;
    uint64_t there = count_names(root, ".", ".git"); /* a clone brings its repository along */
    uint64_t extra = there > found ? there - found : 0;
    o->extra += extra;
    o->mismatches += extra;
    close(root);
}
