/* What a folder listed, kept where calls follow it. */
#ifndef REPROFS_REPLAY_LISTING_H
#define REPROFS_REPLAY_LISTING_H

#include "call.h"

#include <stdlib.h>
#include <string.h>

static struct listing {
    uint8_t *entries; /* as getdents64 gives them; room for `room` bytes, where parts of a pass follow it */
    size_t used, room;
    bool wanted;
} *listings;

static void keep_listing(const struct file *f, int64_t n) {
    struct listing *l = &listings[f - files];
    if (!l->wanted || n <= 0) return;
    if (l->used + (size_t)n > l->room) {
        size_t room = 2 * l->room + (size_t)n;
        uint8_t *more = realloc(l->entries, room);
        if (!more) return; /* names that are not known come last, as they were recorded */
        l->entries = more, l->room = room;
    }
    memcpy(l->entries + l->used, buffer, (size_t)n);
    l->used += (size_t)n;
}

#endif
