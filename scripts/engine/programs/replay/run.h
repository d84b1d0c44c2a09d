/* A recorded program's file-system calls, made again, as fast as they go: one after the other in the order in which
 * they began, or, as programs/replay-threads.c with THREADS, in as many threads as were recorded. Only the calls are
 * timed; each kind is a histogram of samples. What a file holds follows from the offset, so what is read is compared,
 * outside of the timed parts. A result other than the recorded one fails the replay, but for those that tell of the
 * file system and not of the program (guest/trace.py).
 *
 * The tree of a replay is eight folders below its own: as far as a link of a recording may lead up, and names never do.
 * What the recorded program would have waited for is not waited for: locks are tried, FIFOs are opened at once.
 *
 * The layout of the recording is in scripts/reprofs/guest/trace.py, the kinds in scripts/reprofs/plan/recording.py.
 * Source of the method: Weiss et al., ROOT: Replaying Multithreaded Traces with Resource-Oriented Ordering, SOSP 2013.
 * Which call waits for which is in the recording, after the tree (guest/lanes.py); here it is only waited.
 *
 * The parts are one translation unit: in several its bytes would not be those of published records. */
#ifndef REPROFS_REPLAY_RUN_H
#define REPROFS_REPLAY_RUN_H

#include "after.h"
#include "arguments.h"
#include "before.h"
#include "calls.h"

#include <stdlib.h>
#include <sys/stat.h>

static int run(void) {
    bool makes = p.how == MAKE_TREE || p.how == BOTH;
    if (load() || open_pool() || enter(makes)) return 1;
    files = calloc(handles + 1, sizeof *files), mappings = calloc(handles + 1, sizeof *mappings);
    if (!files || !mappings) return broken("no memory for open files");
    const uint8_t *trees = at;
    umask(0);
    if (makes && make_tree()) return 1;
    if (p.how == MAKE_TREE) return 0;
    at = trees;
    skip_tree();
    return p.how == LOOK ? verify() : make_calls();
}

const struct program program = {
    NAME, "A recorded program's file-system calls, made again.", OPTIONS(options), prepare, check, run};

#endif
