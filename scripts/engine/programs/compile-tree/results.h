/* Results: of each kind of operation its runs. */
#ifndef REPROFS_COMPILE_TREE_RESULTS_H
#define REPROFS_COMPILE_TREE_RESULTS_H

#include "sequence.h"
#include "states.h"

enum tag {
    INITIAL,
    CREATES,
    PATCHES,
    COMPILES,
    CLEANS,
    READS,
    READS_COMPILED,
    DELETES,
    DELETES_COMPILED,
    STATS,
    STATS_COMPILED,
    TAGS
};
static const struct {
    const char *native, *sample;
    bool rate;
} tags[TAGS] = {
    {"intial create", "initial-create", true},
    {"create", "create", true},
    {"patch", "patch", true},
    {"compile", "compile", true},
    {"clean", "clean", true},
    {"read tree", "read-tree", true},
    {"read compiled tree", "read-compiled-tree", true},
    {"delete tree", "delete-tree", false},
    {"delete compiled tree", "delete-compiled-tree", false},
    {"stat tree", "stat-tree", false},
    {"stat compiled tree", "stat-compiled-tree", false},
};
static struct {
    uint64_t runs;
    double sum, user, system;
} results[TAGS];
static enum tag tag_of(const struct step *s) {
    bool c = compiled(&kernels[s->tree]);
    switch (s->op) {
        case CREATE: return s->initial ? INITIAL : CREATES;
        case PATCH: return PATCHES;
        case COMPILE: return COMPILES;
        case CLEAN: return CLEANS;
        case READ: return c ? READS_COMPILED : READS;
        case STAT: return c ? STATS_COMPILED : STATS;
        default: return c ? DELETES_COMPILED : DELETES;
    }
}

#endif
