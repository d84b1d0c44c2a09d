/* What is in a file: each sector says which file, call and place it belongs to, so that nothing must be kept to compare
 * with. */
#ifndef REPROFS_CRASH_CONTENT_H
#define REPROFS_CRASH_CONTENT_H

#include "world.h"

#include <stdbool.h>

static const uint64_t MARK = 0x5346525052ull, OLD = 0xeeeeeeeeeeeeeeeeull; /* OLD: of scripts/guest/crashdisk.c */
enum { LEFT = 0xfffd, GARBAGE = 0xfffe }; /* as tags: what the disk had before; what nobody wrote */

static void fill_sector(uint8_t *to, int node, int tag, int place) {
    uint64_t *word = (uint64_t *)(void *)to;
    uint64_t x = 0x9e3779b97f4a7c15ull * ((uint64_t)node * 1000003 + (uint64_t)tag * 5003 + (uint64_t)place + 1);
    word[0] = MARK << 16 | (uint64_t)node;
    word[1] = (uint64_t)tag << 32 | (uint64_t)place;
    for (int i = 2; i < SECTOR / 8; i++) { /* xorshift64 (Marsaglia 2003) */
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        word[i] = x;
    }
}

/* Which call wrote a sector that was read at this place, and of which node. */
static int tag_of(const uint8_t *read, int place, int *node) {
    const uint64_t *word = (const uint64_t *)(const void *)read;
    uint8_t whole[SECTOR] __attribute__((aligned(8)));
    bool zeros = true, old = true;
    for (int i = 0; i < SECTOR / 8; i++) {
        zeros = zeros && !word[i];
        old = old && word[i] == OLD;
    }
    *node = NOTHING;
    if (zeros || old) return zeros ? 0 : LEFT;
    if (word[0] >> 16 != MARK) return GARBAGE;
    fill_sector(whole, (int)(word[0] & 0xffff), (int)(word[1] >> 32), place);
    if (memcmp(whole, read, SECTOR)) return GARBAGE;
    *node = (int)(word[0] & 0xffff);
    return (int)(word[1] >> 32);
}
#endif
