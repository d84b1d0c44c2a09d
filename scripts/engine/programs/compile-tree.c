/* The life of trees like the Linux kernel's: created, patched, compiled, read, cleaned, deleted.
 * Semantics of compilebench 0.6 (C. Mason, 2008), written anew from its published behaviour; the trees are generated,
 * not listed: numbers of files, bytes and directories, quantiles and depths of its data sets, every name and size
 * following from the seed.
 *
 * Each tree is in one of five states. create: a new tree, unpatched. patch: reads each file of the patch set, then
 * truncates and rewrites it (one in four is unlinked first); files that the new version dropped stay. compile adds the
 * compile set, clean unlinks exactly that set, delete removes the tree bottom up, read and stat walk it. The set
 * depends on the state:
 *
 * - unpatched -> patched: the patch set.
 * - unpatched -> unpatched-compiled: the compile set.
 * - patched -> patched-compiled, and unpatched-compiled -> patched-compiled: the compile-patched set (the original has
 *   one list for both).
 *
 * So clean leaves those objects of a tree that was compiled, then patched, which the patch did not touch.
 *
 * The parts are one translation unit: in several its bytes would not be those of published records. */
#define _GNU_SOURCE
#include "compile-tree/files.h"
#include "compile-tree/order.h"
#include "compile-tree/run.h"
#include "compile-tree/sequence.h"
#include "compile-tree/sets.h"
#include "compile-tree/states.h"
#include "compile-tree/verify.h"
#include "compile-tree/write.h"
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is needed at most -------------------------------------------------------------------------------------- */
struct need { uint64_t bytes, names, most_bytes, most_names; };
static void need_most(struct need *n) {
    if (n->bytes > n->most_bytes) n->most_bytes = n->bytes;
    if (n->names > n->most_names) n->most_names = n->names;
}
static void need_tree(struct need *n, const struct kernel *k, bool more) {
    uint64_t bytes, names;
    measure(k, &bytes, &names);
    names += k->state == ABSENT ? 0 : n_directories;
    n->bytes = more ? n->bytes + bytes : n->bytes - bytes;
    n->names = more ? n->names + names : n->names - names;
}

static int check(void) {
    struct need n = {0};
    if (o.verify || o.list != SETS) return needs(0, 0); /* it makes nothing */
    make_sets();
    if (!o.no_native) { /* the largest of the native directories, removed before the trees are made */
        n.most_names = native_list(2, NULL) + n_directories;
        for (uint64_t i = 0; i < n_files; i++)
            if (i >= files || !dropped[i]) n.most_bytes += size_at[1][i] != ABSENT_SIZE ? size_at[1][i] : size_at[0][i];
    }
    begin();
    for (uint64_t t = 0; t < kernel_count; t++) need_tree(&n, &kernels[t], true);
    need_most(&n);
    for (struct step s; next(&s);) {
        if (!s.possible || s.op == READ || s.op == STAT) continue;
        need_tree(&n, &kernels[s.tree], false);
        advance(&kernels[s.tree], s.op);
        need_tree(&n, &kernels[s.tree], true);
        need_most(&n);
    }
    return needs(n.most_bytes, n.most_names);
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static int read_order(const char *name, char *text) {
    if (o.orders) return wrong("%s is given twice", name);
    for (char *word; (word = strsep(&text, ","));) {
        enum op op = 0;
        while (op < OPS && strcmp(word, op_name[op])) op++;
        if (op == OPS && !*word && !text) return wrong("%s ends with a comma", name);
        if (op == OPS)
            return wrong(
                "%s has no operation %s; known are create, patch, compile, clean, read, stat, delete", name, word);
        if (o.orders == MOST_ORDERS) return wrong("%s has more than %d operations", name, MOST_ORDERS);
        o.order[o.orders++] = op;
    }
    return 0;
}

static const struct option options[] = {
    NUMBER("-i", o.trees, 1, 1000, "trees"),
    NUMBER("-r", o.runs, 0, 100000, "operations of the random phase; without it, 100"),
    NUMBER("-b", o.buffer, 1, 16 << 20, "bytes of a call"),
    WORD("-D", o.folder, "folder to work in"),
    FLAG("-n", o.no_sync, "neither sync nor drop caches"),
    FLAG("-m", o.make, "compile all trees, read some, delete all, in the place of the random phase"),
    FLAG("--makej", o.make, "the same"),
    NUMBER("--reads", o.reads, 0, 1000000, "with -m: trees to read; without it, 3"),
    TEXT("--order", read_order, "OPERATION,…: what is done to each tree, in the place of the random phase"),
    CHOICE("--state", o.state, state_name, "with --order: of the trees before"),
    NUMBER("--files", files, 20, 1000000, "of an unpatched tree"),
    NUMBER("--seed", seed, 0, UINT64_MAX, "of names, sizes, places and operations"),
    CHOICE("--content", o.content, contents, "of the files"),
    FLAG("--no-native", o.no_native, "do not learn the order in which the file system lists files"),
    FLAG("--trace", o.trace, "say every operation"),
    CHOICE("--list", o.list, set_name, "only the paths and sizes of this set of files"),
    FLAG("--verify", o.verify, "compare what is there with what was written"),
};

/* Whether every operation of --order can be done where it comes. */
static int prepare_order(void) {
    begin();
    struct kernel k = kernels[0];
    for (uint64_t i = 0; i < o.orders; advance(&k, o.order[i++]))
        if (!eligible(&k, o.order[i]))
            return wrong("--order cannot %s a tree that is %s (operation %llu)", op_name[o.order[i]],
                state_name[k.state], (unsigned long long)i + 1);
    return 0;
}

static int prepare(void) {
    if (o.make && o.orders) return wrong("--makej and --order exclude each other");
    if (o.runs != NOT_GIVEN && (o.make || o.orders))
        return wrong("-r is of the random phase, which --makej and --order do not have");
    if (o.reads != NOT_GIVEN && !o.make) return wrong("--reads needs --makej");
    if (o.state != STATES && !o.orders) return wrong("--state needs --order");
    if (o.runs == NOT_GIVEN) o.runs = 100;
    if (o.reads == NOT_GIVEN) o.reads = 3;
    if (o.state == STATES) o.state = ABSENT;
    return o.orders ? prepare_order() : 0;
}

static int list(void) {
    int v = o.list == PATCH_SET || o.list == COMPILE_PATCHED_SET;
    for (uint64_t k = 0; k < member_count[o.list]; k++)
        printf("%s\t%u\n", file_path(members[o.list][k]), size_at[v][members[o.list][k]]);
    return fflush(stdout) ? broken("cannot write the list: %s", strerror(errno)) : 0;
}

static int run(void) {
    make_sets();
    if (o.list != SETS) return list();
    if (o.folder) {
        if (!o.verify && mkdir(o.folder, 0755) && errno != EEXIST) return cannot("make", o.folder, "");
        if (chdir(o.folder)) return cannot("enter", o.folder, "");
    }
    return o.verify ? verify() : run_all();
}

const struct program program = {"compile-tree",
    "The life of trees like the Linux kernel's, with the semantics of compilebench 0.6.", OPTIONS(options), prepare,
    check, run};
