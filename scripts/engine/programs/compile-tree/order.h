/* The order in which the files of a set are written: that in which the file system lists them, or by path. */
#ifndef REPROFS_COMPILE_TREE_ORDER_H
#define REPROFS_COMPILE_TREE_ORDER_H

#include "files.h"
#include "samples.h"
#include "states.h"
#include "tree.h"
#include "walk.h"
#include "write.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t native_rank;  /* of the walk that finds the native order */
static uint32_t *native_at; /* rank of each file in the order of the walk */
static const char *visit_native(int fd, const char *name, uint64_t d, struct account *a) {
    (void)fd, (void)d, (void)a;
    uint64_t i;
    if (!name_number(name, &i) || i >= n_files) return "a file that should not be there";
    native_at[i] = (uint32_t)native_rank++;
    return NULL;
}
static int by_native(const void *a, const void *b) {
    uint32_t x = native_at[*(const uint32_t *)a], y = native_at[*(const uint32_t *)b];
    return x < y ? -1 : x > y;
}

/* What is in each of the three lists that are written once to learn the order in which the file system lists them. */
static uint64_t native_list(int list, uint32_t *out) {
    static const struct kernel as[3] = {{.state = UNPATCHED}, {.state = PATCHED, .sources = true},
        {.state = PATCHED_COMPILED, .sources = true, .first = true, .both = 2, .second = true}};
    uint64_t n = 0;
    for (uint64_t i = 0; i < n_files; i++) {
        int v = list && i < files && dropped[i] ? NONE : version(&as[list], i);
        if (v == NONE) continue;
        if (out) out[n] = (uint32_t)i;
        n++;
    }
    return n;
}

/* Writes a list of files into a new directory. */
static int write_native(const char *name, int list) {
    uint32_t *all = room(n_files, sizeof *all);
    uint64_t n = native_list(list, all);
    if (mkdir(name, 0755)) return cannot("make", name, "");
    int root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad = 0;
    if (root < 0) return cannot("open", name, "");
    qsort(all, n, sizeof *all, by_path);
    uint8_t *made = room(n_directories, 1);
    made[0] = 1;
    for (uint64_t j = 0; j < n && !bad; j++) {
        const char *path = file_path(all[j]);
        int v = list && size_at[1][all[j]] != ABSENT_SIZE;
        if (make_directory(root, place[all[j]], made)) bad = cannot("make the directory of", name, path);
        else if (new_file(root, path, 0, size_at[v][all[j]])) bad = cannot("write", name, path);
    }
    free(made), free(all), close(root);
    return bad;
}

static int native_orders(void) {
    static const enum set of[3] = {UNPATCHED_SET, PATCH_SET, COMPILE_PATCHED_SET};
    for (int list = 0; list < 3; list++) {
        char name[32];
        struct account a = {0};
        sprintf(name, "native-%d", list);
        int bad = write_native(name, list);
        if (bad) return bad;
        native_at = room(n_files, sizeof *native_at);
        native_rank = 0;
        if (walk_tree(name, READ, visit_native, &a)) return 1;
        qsort(order[of[list]], member_count[of[list]], sizeof **order, by_native);
        free(native_at);
        if (walk_tree(name, DELETE, visit_delete, &a)) return 1;
        if (rmdir(name)) return cannot("remove", name, "");
    }
    return 0;
}

/* without native directories: sorted; the first compile set is always in a random order */
static void make_orders(void) {
    for (int s = 0; s < SETS; s++) {
        uint64_t n = member_count[s];
        order[s] = room(n, sizeof **order);
        for (uint64_t k = 0; k < n; k++)
            order[s][k] = members[s][s == COMPILE_SET ? permute(hash3(seed, SHUFFLE, 11), n, k) : k];
        if (s != COMPILE_SET) qsort(order[s], n, sizeof **order, by_path);
    }
}

#endif
