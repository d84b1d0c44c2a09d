/* The shape of the tree: its levels, its folders, and the entries of each. */
#ifndef REPROFS_LOOK_ALIKE_SHAPE_H
#define REPROFS_LOOK_ALIKE_SHAPE_H

#include "distributions.h"
#include "program.h"
#include "tree.h"

#include <math.h>
#include <stdlib.h>

enum stream { DIRECTORY = 200, ENTRY, SIZE, LENGTH, HEADER, PLACE, FOLDERS, ENTRIES, KINDS, LINK, WORDS, ZEROS };
enum kind { FILE_, HARD, SYMBOLIC };
static const char *kind_name[] = {"file", "hard", "symbolic"};

struct level {
    uint64_t folders, count[3], entries; /* count by kind; entries is their sum */
    uint64_t first_folder, first_entry;
    struct bins subfolders, inside;
};
static struct level level_room[LEVELS];
static struct {
    uint64_t seed, files, size_max, compress, symbolic, to_folder, to_nothing; /* symbolic: links in the profile */
    struct bins sizes, lengths;
    struct level *level;
    unsigned levels;
    uint64_t folders, entries, count[3];
    uint32_t *parent, *first; /* of every folder; its first entry, with one more at the end */
} t = {.seed = 1, .size_max = UINT64_MAX, .compress = 70, .level = level_room}; /* compress: about as source code */

static int shape(void) {
    uint64_t known[3] = {0}, seen[3] = {0};
    for (unsigned l = 0; l < t.levels; l++)
        for (int k = 0; k < 3; k++) known[k] += t.level[l].count[k];
    t.symbolic = known[SYMBOLIC];
    double scale = (double)t.files / (double)known[FILE_];
    for (int k = 0; k < 3; k++) t.count[k] = k == FILE_ ? t.files : (uint64_t)llround((double)known[k] * scale);
    for (unsigned l = 0; l < t.levels; l++) {
        struct level *v = &t.level[l];
        double folders = round((double)v->folders * scale);
        if (folders > MOST_FOLDERS) folders = MOST_FOLDERS + 1.0;
        v->folders = !l || folders < 1 ? 1 : (uint64_t)folders;
        v->entries = 0;
        for (int k = 0; k < 3; k++) { /* the rounded running sums, so that the levels add up */
            uint64_t before = seen[k] ? (uint64_t)((unsigned __int128)seen[k] * t.count[k] / known[k]) : 0;
            seen[k] += v->count[k];
            uint64_t after = seen[k] ? (uint64_t)((unsigned __int128)seen[k] * t.count[k] / known[k]) : 0;
            v->entries += v->count[k] = after - before;
        }
        v->first_folder = t.folders, v->first_entry = t.entries;
        t.folders += v->folders, t.entries += v->entries;
    }
    if (t.folders > MOST_FOLDERS)
        return wrong(
            "%llu files make more than %d folders: ask for fewer files", (unsigned long long)t.files, MOST_FOLDERS);
    if (t.entries >= UINT32_MAX)
        return wrong("%llu entries are too many: at most 4294967294", (unsigned long long)t.entries);
    return 0;
}
static int shape_folders(void) {
    t.parent = malloc((size_t)t.folders * sizeof *t.parent);
    t.first = malloc((size_t)(t.folders + 1) * sizeof *t.first);
    if (!t.parent || !t.first) return broken("no memory for %llu folders", (unsigned long long)t.folders);
    t.parent[0] = 0;
    for (unsigned l = 0; l < t.levels; l++) {
        const struct level *v = &t.level[l];
        struct deal d = deal_begin(&v->inside, hash3(t.seed, ENTRIES, l), v->folders, v->entries);
        uint64_t at = v->first_entry;
        for (uint64_t i = 0; i < v->folders; i++) {
            t.first[v->first_folder + i] = (uint32_t)at;
            at += deal_next(&d);
        }
        if (l + 1 == t.levels) break;
        d = deal_begin(&v->subfolders, hash3(t.seed, FOLDERS, l), v->folders, v[1].folders);
        uint64_t child = v[1].first_folder;
        for (uint64_t i = 0; i < v->folders; i++)
            for (uint64_t n = deal_next(&d); n; n--) t.parent[child++] = (uint32_t)(v->first_folder + i);
    }
    t.first[t.folders] = (uint32_t)t.entries;
    return 0;
}

#endif
