/* Writing files, whose content follows from seed, tree, file and version. */
#ifndef REPROFS_COMPILE_TREE_WRITE_H
#define REPROFS_COMPILE_TREE_WRITE_H

#include "files.h"
#include "program.h"
#include "samples.h"
#include "sequence.h"
#include "states.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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

static int cannot(const char *what, const char *tree, const char *path) {
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
        if (made && make_directory(root, place[i], made)) bad = cannot("make the directory of", name, path);
        else if (!fresh && version(k, i) != NONE) {
            if (rewrite_file(root, path, start, size, hash3(seed, UNLINKS, tree << 32 | i) % 4 == 0))
                bad = cannot("rewrite", name, path);
        } else if (new_file(root, path, start, size)) bad = cannot("write", name, path);
        a->items++, a->bytes += size;
    }
    free(made);
    return bad;
}

#endif
