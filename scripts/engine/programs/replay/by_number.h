/* Calls made by their number, in another order than that of the recording. */
#ifndef REPROFS_REPLAY_BY_NUMBER_H
#define REPROFS_REPLAY_BY_NUMBER_H

#include "before.h"
#include "make.h"
#include "measure.h"
#include "results.h"

#include <errno.h>

static const uint8_t **call_at; /* by call: where its text is */

/* Where each call stands; then `at` is behind the tree after. */
static bool find_calls(void) {
    struct call c;
    for (uint64_t i = 0; i < calls && !ends_early; i++) {
        call_at[i] = at;
        if (at >= end || !next_call(&c)) ends_early = true;
    }
    before = after; /* which is skipped alike */
    skip_tree();
    return !ends_early;
}

static int make_one(uint64_t i) {
    struct call c;
    at = call_at[i];
    if (!at || at >= end || !next_call(&c))
        return broken("%s is damaged at call %llu", p.recording, (unsigned long long)i);
    make_ready(&c);
    uint64_t start = now_ns();
    c.result = make(&c);
    uint64_t wall = now_ns() - start;
    if (c.result < 0) c.result = -errno;
    note_file(&c);
    bool data = c.kind == READ || c.kind == PREAD || c.kind == WRITE || c.kind == PWRITE;
    note(c.kind, wall, data && c.result > 0 ? (uint64_t)c.result : 0);
    return judge(&c, i);
}

#endif
