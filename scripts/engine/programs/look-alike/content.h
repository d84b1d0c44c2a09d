/* Content: a header of the file's own, then slices of a pool that is as compressible as asked. */
#ifndef REPROFS_LOOK_ALIKE_CONTENT_H
#define REPROFS_LOOK_ALIKE_CONTENT_H

#include "distributions.h"
#include "names.h"
#include "same.h"
#include "shape.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

static uint8_t pool[2 * POOL], buffer[1 << 17];

static void make_pool(void) {
    /* Words of eight bytes: fresh random ones, and repeats of one of the last 64. zlib and zstd store a repeat in a
     * fifth of the room of a fresh one, so repeats are 122 % of the share to be saved. More than 80 % are not to be had
     * so: then a part of the pages is zeros. */
    uint64_t words[64], w, repeats = (t.compress < 80 ? t.compress : 80) * 122;
    for (uint64_t i = 0; i < 64; i++) words[i] = hash3(t.seed, WORDS, i);
    for (size_t i = 0; i < sizeof pool / 8; i++) {
        uint64_t h = hash3(t.seed, WORDS, 64 + i);
        if (h % 10000 < repeats) w = words[(h >> 32) & 63];
        else w = words[(h >> 32) & 63] = hash3(h, WORDS, i);
        memcpy(pool + 8 * i, &w, 8);
    }
    for (uint64_t i = 0; t.compress > 80 && i < sizeof pool / PAGE; i++)
        if (hash3(t.seed, ZEROS, i) % 20 < t.compress - 80) memset(pool + i * PAGE, 0, PAGE);
}
static struct content content_of(const struct entry *e) {
    uint64_t h = hash3(t.seed, HEADER, e->number);
    return (struct content){{h, h * 0x9e3779b97f4a7c15u}, e->size, hash3(t.seed, PLACE, e->number) % POOL};
}
static const char *create(int root, const struct entry *e) { /* NULL or the call that failed, with errno */
    struct content c = content_of(e);
    int fd = openat(root, e->path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0) return "create";
    for (uint64_t at = 0; at < c.size;) {
        uint64_t head = at ? 0 : c.size < sizeof c.header ? c.size : sizeof c.header, body = c.size - at - head;
        if (body > POOL) body = POOL;
        struct iovec v[2] = {{c.header, head}, {pool + c.offset, body}};
        ssize_t n = at ? write(fd, v[1].iov_base, body) : writev(fd, v, 2);
        if (n < 0 || (uint64_t)n != head + body) { /* a short write to a regular file means that the space ran out */
            int error = n < 0 ? errno : ENOSPC;
            close(fd);
            return errno = error, "write";
        }
        at += head + body;
    }
    return close(fd) ? "close" : NULL;
}
/* *differs: the first byte that is not as written */
static bool same(int fd, const struct content *c, uint64_t *differs) {
    ssize_t n;
    *differs = 0;
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        for (uint64_t i = 0; i < (uint64_t)n;) {
            uint64_t p = *differs, run = (uint64_t)n - i, inside = (p - sizeof c->header) % POOL;
            bool head = p < sizeof c->header;
            const uint8_t *want = head ? (const uint8_t *)c->header + p : pool + c->offset + inside;
            uint64_t there = head ? sizeof c->header - p : POOL - inside, left = p < c->size ? c->size - p : 0;
            if (run > there) run = there;
            uint64_t alike = same_bytes(buffer + i, want, run < left ? run : left);
            *differs += alike;
            if (alike < run) return false;
            i += run;
        }
    return !n && *differs == c->size;
}

#endif
