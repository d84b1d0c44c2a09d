/* The four sets of files: which directories there are, which files are in them, which are patched and compiled. */
#ifndef REPROFS_COMPILE_TREE_SETS_H
#define REPROFS_COMPILE_TREE_SETS_H

#include "files.h"
#include "tree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Directories, level by level, first[l] to first[l + 1]; never more of them than files that go there. */
static void make_levels(uint64_t *first, uint64_t *level_files) {
    uint64_t at = 0;
    for (int l = 0; l < LEVELS; l++) {
        uint64_t until = (uint64_t)(depth_below[l] * (double)files + 0.5), n = l ? scaled(depth_directories[l]) : 1;
        level_files[l] = until - at, at = until;
        if ((l == 1 || l == 2) && !n) n = 1;
        if (l && n > level_files[l]) n = level_files[l];
        if (l && first[l] == first[l - 1]) n = 0; /* nothing above */
        first[l + 1] = first[l] + n;
    }
}

static void make_paths(const uint64_t *first) {
    directory_path[0] = room(1, 1);
    for (int l = 1; l < LEVELS; l++)
        for (uint64_t d = first[l]; d < first[l + 1]; d++) {
            char path[PATH_BYTES];
            parent[d] = (uint32_t)(first[l - 1] + hash3(seed, PARENTS, d) % (first[l] - first[l - 1]));
            size_t n = (size_t)sprintf(path, "%s", directory_path[parent[d]]);
            n += directory_name(d, path + n);
            path[n++] = '/', path[n] = 0;
            memcpy(directory_path[d] = room(n + 1, 1), path, n + 1);
        }
}

/* One file in each directory, the others more in some than in others. */
static void place_files(const uint64_t *first, const uint64_t *level_files) {
    uint64_t i = 0;
    for (int l = 0, deepest = 0; l < LEVELS; l++) {
        if (first[l + 1] > first[l]) deepest = l;
        uint64_t base = first[deepest], n = first[deepest + 1] - base;
        for (uint64_t k = 0; k < level_files[l]; k++, i++) {
            double u = (double)(hash3(seed, PLACES, i) >> 11) / (double)(1ull << 53);
            place[i] = (uint32_t)(base + (k < n && deepest == l ? k : (uint64_t)(u * u * (double)n)));
        }
    }
}

/* Chooses the files that the patch rewrites: one of each of its directories, then any of these directories, then any.
 * taken: of each file; chosen: of each directory, 1 for those of the patch. Returns their number. */
static uint64_t choose_rewritten(uint8_t *taken, uint8_t *chosen) {
    uint64_t m = 0, rewritten = scaled(REWRITTEN);
    for (int pass = 0; pass < 3; pass++)
        for (uint64_t k = 0; k < files && m < rewritten; k++) {
            uint64_t f = permute(hash3(seed, SHUFFLE, 9), files, k);
            if (taken[f] || (pass < 2 && !chosen[place[f]]) || (!pass && chosen[place[f]] == 2)) continue;
            taken[f] = 1, chosen[place[f]] = 2;
            members[PATCH_SET][m++] = (uint32_t)f;
        }
    return m;
}

static void make_patch(void) {
    uint64_t in = scaled(PATCH_DIRECTORIES), drop = scaled(DROPPED);
    if (!in) in = 1;
    if (in > n_directories) in = n_directories;
    uint8_t *chosen = room(n_directories, 1), *taken = room(files, 1);
    for (uint64_t d = 0; d < in; d++) chosen[permute(hash3(seed, SHUFFLE, 8), n_directories, d)] = 1;
    member_count[PATCH_SET] = scaled(REWRITTEN) + n_new;
    members[PATCH_SET] = room(member_count[PATCH_SET], sizeof **members);
    uint64_t m = choose_rewritten(taken, chosen);
    for (uint64_t k = 0; k < files && drop; k++) {
        uint64_t f = permute(hash3(seed, SHUFFLE, 9), files, k);
        if (!taken[f]) dropped[f] = 1, drop--;
    }
    free(chosen), free(taken);
    for (uint64_t i = files; i < files + n_new; i++) {
        place[i] = (uint32_t)permute(hash3(seed, SHUFFLE, 8), n_directories, hash3(seed, PLACES, i) % in);
        members[PATCH_SET][m++] = (uint32_t)i;
    }
}

/* What a compiler makes: the files that change with the patch are in 152 of the 398 directories. */
static void place_objects(void) {
    uint64_t wide = scaled(COMPILE_DIRECTORIES), narrow = scaled(COMPILE_PATCHED_DIRECTORIES), i = files + n_new;
    if (!narrow) narrow = 1;
    if (wide <= narrow) wide = narrow;
    if (wide > n_directories) wide = n_directories;
    if (narrow > wide) narrow = wide;
    for (uint64_t k = 0; k < n_first + n_both + n_second; k++, i++) {
        uint64_t h = hash3(seed, PLACES, i), d;
        if (k < n_first) d = k < wide - narrow ? narrow + k : h % wide;
        else d = k - n_first < narrow ? k - n_first : h % narrow;
        place[i] = (uint32_t)permute(hash3(seed, SHUFFLE, 10), n_directories, d);
    }
}

/* A set of files whose numbers follow one another. */
static void make_set(enum set s, uint64_t from, uint64_t count) {
    member_count[s] = count;
    members[s] = room(count, sizeof **members);
    for (uint64_t k = 0; k < count; k++) members[s][k] = (uint32_t)(from + k);
}

static void make_sets(void) {
    uint64_t first[LEVELS + 1] = {0}, level_files[LEVELS];
    n_new = scaled(NEW), n_first = scaled(ONLY_FIRST), n_both = scaled(BOTH), n_second = scaled(ONLY_SECOND);
    n_files = files + n_new + n_first + n_both + n_second;
    make_levels(first, level_files);
    n_directories = first[LEVELS];
    parent = room(n_directories, sizeof *parent), directory_path = room(n_directories, sizeof *directory_path);
    place = room(n_files, sizeof *place), dropped = room(files, 1);
    for (int v = 0; v < 2; v++) {
        size_at[v] = room(n_files, sizeof **size_at);
        memset(size_at[v], 0xff, n_files * sizeof **size_at);
    }
    make_paths(first);
    place_files(first, level_files);
    make_patch();
    place_objects();
    make_set(UNPATCHED_SET, 0, files);
    make_set(COMPILE_SET, files + n_new, n_first + n_both);
    make_set(COMPILE_PATCHED_SET, files + n_new + n_first, n_both + n_second);
    give_sizes(UNPATCHED_SET, size_at[0]), give_sizes(COMPILE_SET, size_at[0]);
    give_sizes(PATCH_SET, size_at[1]), give_sizes(COMPILE_PATCHED_SET, size_at[1]);
}

#endif
