/* Calls that follow listings: guest/listed.py says what a pass and its parts are. */
#ifndef REPROFS_REPLAY_PASSES_H
#define REPROFS_REPLAY_PASSES_H

#include "by_number.h"
#include "listing.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

struct part {
    const char *name;
    uint64_t first, calls, pass, rank; /* pass: the number of the first one that is not before it */
};
struct pass {
    uint64_t first, calls, inner, parts;
    struct part *part;
    struct listing *listing;
};
static struct pass *passes;
static uint64_t pass_count;

static bool read_pass(struct pass *a, uint64_t own) {
    a->first = read_number();
    uint64_t file = read_number(), call = a->first, inner = own + 1;
    a->parts = read_number();
    if (file >= handles || call > calls || a->parts > calls) return false;
    if (!(a->part = calloc(a->parts + 1, sizeof *a->part))) return false;
    a->listing = &listings[file], a->listing->wanted = true;
    for (struct part *b = a->part; b < a->part + a->parts; b++) {
        b->name = read_string(), b->first = call, b->pass = inner;
        b->calls = read_number();
        uint64_t within = read_number();
        if (ends_early || b->calls > calls - call || within > pass_count - inner) return false;
        call += b->calls, inner += within;
    }
    a->calls = call - a->first, a->inner = inner - own - 1;
    return a->calls;
}

/* What is behind the tree after; false where that is damaged. `at` is behind it then. */
static bool read_passes(void) {
    if (!find_calls() || read_number() != 0) return false; /* no lanes */
    pass_count = read_number();
    listings = calloc(handles + 1, sizeof *listings);
    if (pass_count > calls || !listings || !(passes = calloc(pass_count + 1, sizeof *passes))) return false;
    for (uint64_t k = 0; k < pass_count; k++)
        if (!read_pass(&passes[k], k)) return false;
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(struct part *const *)a)->name, (*(struct part *const *)b)->name);
}
static int by_rank(const void *a, const void *b) {
    const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
    uint64_t left = x->rank == y->rank ? x->first : x->rank, right = x->rank == y->rank ? y->first : y->rank;
    return left < right ? -1 : left > right;
}

/* The parts in the order in which their names were listed. */
static struct part **in_order(struct pass *a) {
    struct part **order = calloc(a->parts + 1, sizeof *order);
    if (!order) return NULL;
    for (uint64_t k = 0; k < a->parts; k++) order[k] = &a->part[k], order[k]->rank = UINT64_MAX;
    qsort(order, a->parts, sizeof *order, by_name);
    const struct listing *l = a->listing;
    for (size_t k = 0; k < l->used;) {
        const struct dirent *entry = (const struct dirent *)(const void *)(l->entries + k);
        struct part wanted = {.name = entry->d_name}, *key = &wanted;
        struct part **found = bsearch(&key, order, a->parts, sizeof *order, by_name);
        if (found && (*found)->rank == UINT64_MAX) (*found)->rank = k;
        k += entry->d_reclen;
    }
    qsort(order, a->parts, sizeof *order, by_rank);
    return order;
}

static int make_part(struct part part);

static int make_pass(struct pass *a) {
    struct part **order = in_order(a);
    if (!order) return broken("no memory for the order of names");
    int failed = 0;
    for (uint64_t k = 0; k < a->parts && !failed; k++) failed = make_part(*order[k]);
    free(order);
    return failed;
}

static int make_part(struct part part) {
    while (part.calls) {
        struct pass *a = part.pass < pass_count ? &passes[part.pass] : NULL;
        if (a && (a->first != part.first || a->calls > part.calls)) a = NULL;
        if (a ? make_pass(a) : make_one(part.first)) return 1;
        uint64_t made = a ? a->calls : 1;
        part.first += made, part.calls -= made, part.pass += a ? 1 + a->inner : 0;
    }
    return 0;
}

#endif
