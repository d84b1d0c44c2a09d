/* Trees and their states. */
#ifndef REPROFS_COMPILE_TREE_STATES_H
#define REPROFS_COMPILE_TREE_STATES_H

#include "files.h"
#include "samples.h"

enum state { ABSENT, UNPATCHED, UNPATCHED_COMPILED, PATCHED, PATCHED_COMPILED, STATES };
static const char *const state_name[] = {
    "absent", "unpatched", "unpatched-compiled", "patched", "patched-compiled", NULL};
enum op { CREATE, PATCH, COMPILE, CLEAN, READ, STAT, DELETE, OPS };
static const char *const op_name[OPS] = {"create", "patch", "compile", "clean", "read", "stat", "delete"};
struct kernel {
    uint8_t state;
    bool sources;       /* patched */
    bool first, second; /* it has the objects that only the first or only the second compiler run makes */
    uint8_t both;       /* 0: no such objects, 1: of the first run, 2: of the second */
};

/* What the operation writes or unlinks in a tree of this state; SETS for the walks. */
static enum set set_of(const struct kernel *k, enum op op) {
    if (op == CREATE) return UNPATCHED_SET;
    if (op == PATCH) return k->state == UNPATCHED ? PATCH_SET : COMPILE_PATCHED_SET;
    if (op == COMPILE) return k->state == UNPATCHED ? COMPILE_SET : COMPILE_PATCHED_SET;
    if (op == CLEAN) return k->state == UNPATCHED_COMPILED ? COMPILE_SET : COMPILE_PATCHED_SET;
    return SETS;
}
static bool eligible(const struct kernel *k, enum op op) {
    switch (op) {
        case CREATE: return k->state == ABSENT;
        case PATCH: return k->state == UNPATCHED || k->state == UNPATCHED_COMPILED;
        case COMPILE: return k->state == UNPATCHED || k->state == PATCHED;
        case CLEAN: return k->state == UNPATCHED_COMPILED || k->state == PATCHED_COMPILED;
        default: return k->state != ABSENT;
    }
}
static bool compiled(const struct kernel *k) { return k->state == UNPATCHED_COMPILED || k->state == PATCHED_COMPILED; }
static void advance(struct kernel *k, enum op op) {
    bool second = set_of(k, op) == COMPILE_PATCHED_SET;
    if (op == CREATE) *k = (struct kernel){.state = UNPATCHED};
    else if (op == DELETE) *k = (struct kernel){.state = ABSENT};
    else if (op == PATCH && !second) k->state = PATCHED, k->sources = true;
    else if (op == PATCH) k->state = PATCHED_COMPILED, k->both = 2, k->second = true;
    else if (op == COMPILE && !second) k->state = UNPATCHED_COMPILED, k->first = true, k->both = 1;
    else if (op == COMPILE) k->state = PATCHED_COMPILED, k->both = 2, k->second = true;
    else if (op == CLEAN && !second) k->state = UNPATCHED, k->first = false, k->both = 0;
    else if (op == CLEAN) k->state = PATCHED, k->second = false, k->both = 0;
}
/* The version of a file: 0 before, 1 after the patch, NONE: it is not there. */
static int version(const struct kernel *k, uint64_t i) {
    if (k->state == ABSENT) return NONE;
    if (i < files) return k->sources && size_at[1][i] != ABSENT_SIZE;
    if ((i -= files) < n_new) return k->sources ? 1 : NONE;
    if ((i -= n_new) < n_first) return k->first ? 0 : NONE;
    if ((i -= n_first) < n_both) return (int)k->both - 1;
    return k->second ? 1 : NONE;
}
static void measure(const struct kernel *k, uint64_t *bytes, uint64_t *count) {
    *bytes = *count = 0;
    for (uint64_t i = 0; i < n_files; i++) {
        int v = version(k, i);
        if (v == NONE) continue;
        ++*count, *bytes += size_at[v][i];
    }
}

#endif
