/* The entries of the tree: names, kinds, sizes, and what links lead to. */
#ifndef REPROFS_LOOK_ALIKE_NAMES_H
#define REPROFS_LOOK_ALIKE_NAMES_H

#include "distributions.h"
#include "shape.h"
#include "tree.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

static size_t put_name(uint64_t stream, uint64_t i, char *out) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char low[16];
    size_t k = 0, n = 0;
    uint64_t number = i, h = hash3(t.seed, stream, i), length = 4 + (h & 7) + ((h >> 3) & 1);
    do low[k++] = digits[number % 36];
    while (number /= 36);
    if (t.lengths.n) { /* of the whole name; the number that makes it unique has to fit */
        uint64_t most = PATH / 2 / LEVELS, wanted = draw(&t.lengths, 1 << 20, h >> 44);
        if (wanted > most) wanted = most;
        length = wanted > k + 2 ? wanted - k - 1 : 1;
    }
    for (h >>= 4; n < length; h = h >= 36 ? h / 36 : hash3(t.seed, stream, ~i - n)) out[n++] = digits[h % 36];
    out[n++] = '_';
    while (k) out[n++] = low[--k];
    out[n] = 0;
    return n;
}
static size_t put_folder(uint64_t folder, char *out) {
    if (!folder) return out[0] = 0, 0;
    size_t n = put_folder(t.parent[folder], out);
    if (n) out[n++] = '/';
    return n + put_name(DIRECTORY, folder, out + n);
}
struct entry {
    enum kind kind;
    unsigned level;
    uint64_t number, size; /* number: among its kind, of the tree for files, of the level for links */
    char path[PATH];
};
static enum kind kind_of(unsigned l, uint64_t entry, uint64_t *number) {
    const struct level *v = &t.level[l];
    uint64_t k = entry - v->first_entry;
    if (v->count[FILE_] != v->entries) k = permute(hash3(t.seed, KINDS, l), v->entries, k);
    for (int kind = FILE_; kind < SYMBOLIC; kind++) {
        if (k < v->count[kind]) return *number = k, kind;
        k -= v->count[kind];
    }
    return *number = k, SYMBOLIC;
}
static uint64_t folder_of(uint64_t entry) { /* the last folder whose first entry is not behind it */
    uint64_t low = 0, high = t.folders;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (t.first[middle] <= entry) low = middle;
        else high = middle;
    }
    return low;
}
static uint64_t size_of(uint64_t file) {
    uint64_t size = draw(&t.sizes, t.files, permute(hash3(t.seed, SIZE, 0), t.files, file));
    return size < t.size_max ? size : t.size_max;
}

/* Goes over all entries in the order of the tree; the path of a folder is made once. */
struct walk {
    uint64_t at, folder, files;
    unsigned level;
    size_t length;
    char path[PATH];
};
static bool next_entry(struct walk *w, struct entry *e) {
    if (w->at == t.entries) return false;
    bool moved = !w->at;
    while (t.first[w->folder + 1] <= w->at) w->folder++, moved = true;
    while (w->level + 1 < t.levels && t.level[w->level + 1].first_folder <= w->folder)
        w->files += t.level[w->level++].count[FILE_];
    if (moved && (w->length = put_folder(w->folder, w->path))) w->path[w->length++] = '/';
    e->kind = kind_of(w->level, w->at, &e->number);
    e->level = w->level, e->size = 0;
    if (e->kind == FILE_) e->size = size_of(e->number += w->files);
    memcpy(e->path, w->path, w->length);
    put_name(ENTRY, w->at++, e->path + w->length);
    return true;
}

/* What a link leads to: a file at random (tried until one is found; few tries, as levels are chosen by their files). */
static void put_file_at_random(uint64_t h, char *out) {
    uint64_t file = h % t.files, number;
    unsigned l = 0;
    while (file >= t.level[l].count[FILE_]) file -= t.level[l++].count[FILE_];
    const struct level *v = &t.level[l];
    uint64_t entry = v->first_entry + hash3(h, LINK, 0) % v->entries;
    for (uint64_t i = 1; kind_of(l, entry, &number) != FILE_; i++)
        entry = v->first_entry + hash3(h, LINK, i) % v->entries;
    size_t n = put_folder(folder_of(entry), out);
    if (n) out[n++] = '/';
    put_name(ENTRY, entry, out + n);
}
static uint64_t link_hash(const struct entry *e) {
    return hash3(t.seed, LINK, (uint64_t)e->level << 40 | (uint64_t)e->kind << 38 | e->number);
}
/* hard: path below the root; symbolic: relative to the link */
static void put_target(const struct entry *e, char *out) {
    uint64_t h = link_hash(e), before = 0;
    if (e->kind == HARD) return put_file_at_random(h, out);
    for (unsigned l = 0; l < e->level; l++, out += 3) {
        before += t.level[l].count[SYMBOLIC];
        memcpy(out, "../", 3);
    }
    double place = ((double)permute(hash3(t.seed, LINK, 1), t.count[SYMBOLIC], before + e->number) + 0.5) /
        (double)t.count[SYMBOLIC];
    place *= (double)t.symbolic;
    if (place < (double)t.to_folder) {
        if (!put_folder(h % t.folders, out)) strcpy(out, "."); /* the top */
    } else if (place < (double)(t.to_folder + t.to_nothing)) {
        memcpy(out, "missing_", 8);
        put_name(LINK, e->number, out + 8);
    } else put_file_at_random(h, out);
}

#endif
