/* What the program is asked for. */
#ifndef REPROFS_REPLAY_ARGUMENTS_H
#define REPROFS_REPLAY_ARGUMENTS_H

#include "program.h"

enum { SHOWN = 3 }; /* as many differences are told */

enum how { MAKE_TREE, MAKE_CALLS, BOTH, LOOK };
static const char *const hows[] = {"prepare", "run", "both", "verify", NULL};
static struct {
    const char *recording, *folder;
    uint64_t content, names;
    unsigned how;
    bool differing;
} p = {.how = BOTH};
static const struct option options[] = {
    CHOICE("--how", p.how, hows, "make the tree before the calls; make the calls; both; look at what they left"),
    WORD("--recording", p.recording, "file, or name among the programs of a job"),
    NUMBER("--content", p.content, 0, UINT64_MAX, "bytes that are made at most"),
    NUMBER("--names", p.names, 0, UINT64_MAX, "that are made at most"),
    FLAG("--differing", p.differing, "tell the number of each call whose result is another one, and go on"),
    WORD("folder", p.folder, "to work in, new with prepare and both"),
};
static int prepare(void) { return p.recording ? 0 : wrong("--recording must be given"); }
static int check(void) { return needs(p.how == MAKE_TREE || p.how == BOTH ? p.content : 0, p.names); }

#endif
