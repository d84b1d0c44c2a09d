/* The metadata operations of phases, and the verification of a tree. */
#ifndef REPROFS_OPERATIONS_H
#define REPROFS_OPERATIONS_H

#include <stdbool.h>

#include "measure.h"
#include "tree.h"

struct outcome {
    uint64_t items, bytes, mismatches, digest;
    uint64_t missing, cut_short, extra; /* mismatches: no such file, only the beginning of one, a file too many */
    int error; /* errno, 0 = all done */
    char where[PATH_BYTES];
};
struct operation {
    const char *name;
    bool on_directories, backwards;
    uint64_t (*run)(
        int root, const struct tree *t, uint64_t i, const char *path, const char *path2, const struct content *c);
};
const struct operation *operation_find(const char *name); /* NULL: there is none of that name */
void operation_run(const struct operation *op, struct tree *t, bool random, struct histogram *h, struct outcome *o);
void tree_verify(const struct tree *t, const char *root, struct outcome *o);

#endif
