/* The content of files: of the offset alone. */
#ifndef REPROFS_REPLAY_CONTENT_H
#define REPROFS_REPLAY_CONTENT_H

#include "program.h"
#include "stream.h"

#include <stdlib.h>
#include <string.h>

enum { POOL = 1 << 20, LARGEST = 1 << 24 };
static uint8_t *pool; /* twice, one after the other: any piece of up to POOL bytes is in one place */
OWN uint8_t *buffer;

static int open_pool(void) {
    if (posix_memalign((void **)&pool, STREAM_BLOCK, 2 * POOL) ||
        posix_memalign((void **)&buffer, STREAM_BLOCK, LARGEST))
        return broken("no memory for the content of files");
    uint64_t x = 88172645463325252u; /* xorshift64: Marsaglia, 2003 */
    for (size_t i = 0; i < POOL; i += sizeof x) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(pool + i, &x, sizeof x);
    }
    memcpy(pool + POOL, pool, POOL);
    memset(buffer, 0, LARGEST);
    return 0;
}

/* n bytes of content from an offset; aligned like the buffer, where `aligned` or longer than the pool. */
static const uint8_t *content(int64_t from, size_t n, bool aligned) {
    const uint8_t *found = pool + (uint64_t)from % POOL;
    if (n <= POOL && !aligned) return found;
    for (size_t k = 0, part; k < n; k += part) {
        part = n - k < POOL ? n - k : POOL;
        memcpy(buffer + k, found, part);
    }
    return buffer;
}

/* Where the bytes are neither the content nor zeros, as in holes: that offset; else -1. */
static int64_t unlike(const uint8_t *b, int64_t from, int64_t n) {
    for (int64_t i = 0; i < n;) {
        const uint8_t *want = pool + (uint64_t)(from + i) % POOL;
        int64_t part = n - i < POOL ? n - i : POOL;
        if (memcmp(b + i, want, (size_t)part))
            for (int64_t k = 0; k < part; k++)
                if (b[i + k] && b[i + k] != want[k]) return from + i + k;
        i += part;
    }
    return -1;
}

#endif
