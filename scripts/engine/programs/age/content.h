/* What a file holds: it follows from its slot. */
#ifndef REPROFS_AGE_CONTENT_H
#define REPROFS_AGE_CONTENT_H

#include "tree.h"

#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum {
    IN_FOLDER = 256,
    CHUNK = 1 << 17,
    POOL = 1 << 20,
    SPARE = 1 << 16,
    CHANGES_MAX = 255,
    GENERATIONS = 1 << 15,
    PATH = 4096
};
#define SLOTS_MAX (1ull << 28)
enum stream { SIZES = 300, CHANGES, CONTENT, CHOICES };

struct header { /* of aged/state; the slots follow */
    char magic[16];
    uint64_t seed, slots, size_max;
    double size_median, size_sigma;
};
static struct header h = {.magic = "reprofs age 1", .seed = 1, .size_max = 64 << 20, .size_sigma = 1.5};
static uint32_t *slot; /* alive << 31 | changes << 16 | generation */
static bool alive(uint64_t s) { return slot[s] >> 31; }
static unsigned changes(uint64_t s) { return (slot[s] >> 16) & CHANGES_MAX; }
static unsigned generation(uint64_t s) { return slot[s] & (GENERATIONS - 1); }
static uint64_t identity(uint64_t s) { return s << 15 | generation(s); }

static uint64_t lognormal(uint64_t bits) { /* the normal deviate is the sum of twelve uniforms minus six */
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++, bits = hash3(bits, SIZES, 1))
        sum += (bits & 0xfffff) + ((bits >> 20) & 0xfffff) + ((bits >> 40) & 0xfffff);
    double size = h.size_median * exp(h.size_sigma * ((double)sum / 0x100000 - 6.0));
    return size >= (double)h.size_max ? h.size_max : size < 1 ? 1 : (uint64_t)size;
}
struct change { /* bytes [from, to) are written; beyond the old size it is an append */
    uint64_t from, to;
};
static struct change change_of(uint64_t s, unsigned number, uint64_t size) {
    uint64_t r = hash3(h.seed, CHANGES, identity(s) << 8 | number);
    if (r & 1) { /* an append, a quarter of the usual size */
        uint64_t more = lognormal(r) / 4 + 1;
        return (struct change){size, size + (more < h.size_max ? more : h.size_max)};
    }
    uint64_t blocks = (size + 4095) / 4096, first = (r >> 8) % blocks, many = 1 + (r >> 40) % (blocks - first),
             end = (first + many) * 4096;
    return (struct change){first * 4096, end < size ? end : size};
}
/* of a file after that many changes; number 0 is its creation */
static uint64_t size_after(uint64_t s, unsigned number) {
    uint64_t size = lognormal(hash3(h.seed, SIZES, identity(s)));
    for (unsigned i = 1; i <= number; i++) {
        struct change c = change_of(s, i, size);
        if (c.to > size) size = c.to;
    }
    return size;
}
static uint8_t pool[2 * POOL];
static void make_pool(void) { /* words of eight bytes, half of them repeats of one of 64: like text to a compressor */
    for (uint64_t i = 0; i < POOL / 8; i++) {
        uint64_t x = hash3(h.seed, CONTENT, i);
        if (x & 1) x = hash3(h.seed, CONTENT, (x >> 58) | 1ull << 40);
        memcpy(pool + 8 * i, &x, 8);
    }
    memcpy(pool + POOL, pool, POOL); /* so that it goes on where it ends */
}
/* Where in the pool byte p of what change `number` writes comes from; at least POOL bytes follow. */
static const uint8_t *bytes_at(uint64_t s, unsigned number, uint64_t p) {
    return pool + (hash3(h.seed, CHANGES, ~(identity(s) << 8 | number)) + p) % POOL;
}
static size_t put_path(uint64_t s, char *out) {
    return (size_t)sprintf(
        out, "d%llx/f%llx.%x", (unsigned long long)(s / IN_FOLDER), (unsigned long long)s, generation(s));
}

#endif
