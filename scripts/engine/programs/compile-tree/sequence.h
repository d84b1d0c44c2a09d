/* The sequence of operations. Nothing here depends on the file system. */
#ifndef REPROFS_COMPILE_TREE_SEQUENCE_H
#define REPROFS_COMPILE_TREE_SEQUENCE_H

#include "files.h"
#include "program.h"
#include "states.h"
#include "tree.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_ORDERS = 64 };
static const char *const contents[] = {"letter", "random", NULL};
static const char *const set_name[] = {"unpatched", "patch", "compile", "compile-patched", NULL};
static struct {
    uint64_t trees, runs, reads, buffer, orders;
    bool verify, make, no_sync, no_native, trace;
    const char *folder;
    unsigned state, content, list; /* state: STATES, list: SETS, when it is not given */
    enum op order[MOST_ORDERS];
} o = {.trees = 30, .runs = NOT_GIVEN, .reads = NOT_GIVEN, .buffer = 262144, .state = STATES, .list = SETS};

static struct kernel *kernels;
static uint64_t kernel_count, kernel_room;
struct step {
    enum op op;
    uint64_t tree;
    bool initial, sync, settle, possible; /* sync: in its time; settle: write back and drop caches before it */
};
static struct { uint64_t at, done, draws; } sequence;

static uint64_t add_kernel(void) {
    if (kernel_count == kernel_room) {
        kernel_room = 2 * kernel_room + 64;
        kernels = realloc(kernels, kernel_room * sizeof *kernels);
        if (!kernels) exit(broken("no memory for %llu trees", (unsigned long long)kernel_room));
    }
    kernels[kernel_count] = (struct kernel){.state = ABSENT};
    return kernel_count++;
}
static uint64_t draw(uint64_t n) { return hash3(seed, DRAWS, sequence.draws++) % n; }
static void begin(void) {
    memset(&sequence, 0, sizeof sequence);
    kernel_count = 0;
    for (uint64_t i = 0; i < o.trees; i++) {
        uint64_t number = add_kernel(); /* which may move them all */
        struct kernel *k = &kernels[number];
        if (o.state != ABSENT) advance(k, CREATE);
        if (o.state == PATCHED || o.state == PATCHED_COMPILED) advance(k, PATCH);
        if (o.state == UNPATCHED_COMPILED || o.state == PATCHED_COMPILED) advance(k, COMPILE);
    }
}
/* The next step; the caller does it and then advances the tree. Nothing here depends on the file system. */
static bool next(struct step *s) {
    uint64_t at = sequence.at++, t = at % o.trees, turn = at / o.trees;
    *s = (struct step){.op = CREATE, .tree = t, .initial = true, .possible = true};
    if (o.orders) {
        if (turn == o.orders) return false;
        s->op = o.order[turn];
        s->initial = !turn && s->op == CREATE;
        s->sync = s->settle = !s->initial;
        return true;
    }
    if (turn == 0) return true;
    s->initial = false;
    at -= o.trees;
    if (o.make) { /* compile all, read some, delete all; caches are dropped between, nothing is waited for within */
        if (turn == 1) return s->op = COMPILE, true;
        at -= o.trees;
        s->settle = at == 0 || at == o.reads;
        if (at < o.reads) return s->op = READ, s->tree = draw(o.trees), true;
        if ((at -= o.reads) >= o.trees) return false;
        return s->op = DELETE, s->tree = at, true;
    }
    if (sequence.done == o.runs) return false;
    s->sync = s->settle = true;
    s->op = (enum op)draw(OPS);
    if (s->op == CREATE) s->tree = add_kernel();
    else {
        uint64_t n = 0, pick;
        for (uint64_t i = 0; i < kernel_count; i++) n += eligible(&kernels[i], s->op);
        s->possible = n > 0;
        if (!n) return true;
        pick = draw(n);
        for (s->tree = 0; !eligible(&kernels[s->tree], s->op) || pick--; s->tree++) {}
    }
    sequence.done++;
    return true;
}

#endif
