/* The files of a tree: how many, of which sizes and names, before and after the patch. */
#ifndef REPROFS_COMPILE_TREE_FILES_H
#define REPROFS_COMPILE_TREE_FILES_H

#include "program.h"
#include "tree.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FULL = 21280, LEVELS = 7, NAME_BYTES = 32 };
enum set { UNPATCHED_SET, PATCH_SET, COMPILE_SET, COMPILE_PATCHED_SET, SETS };
static const struct {
    unsigned files, zeros;
    double median, p90, max, bend; /* bend: of the tail, so that the bytes sum up to the published total */
} sets[SETS] = {
    {FULL, 0, 4055, 26112, 873603, 0.747664},         /* 233,176,153 bytes */
    {6136, 0, 9620, 44442, 730463, 0.841695},             /* 114,997,799 bytes */
    {3263, 410, 14813, 197944, 64081981, 0.663807},     /* 713,696,760 bytes */
    {2573, 11, 18721, 231520, 65170646, 0.615302}, /* 725,190,942 bytes */
};
/* Directories above a file: mean 2.65, at most 6. 1,263 directories with the top one. */
static const double depth_below[LEVELS] = {0.001, 0.051, 0.475, 0.853, 0.973, 0.996, 1};
static const unsigned depth_directories[LEVELS] = {1, 20, 400, 560, 210, 60, 12};
/* Of the 2,573 files that are compiled anew after the patch 77 are new: the lists grow from 3,263 to 3,340 objects. */
enum { REWRITTEN = 5526, NEW = 610, DROPPED = 266, ONLY_FIRST = 767, BOTH = 2496, ONLY_SECOND = 77 };
enum { PATCH_DIRECTORIES = 913, COMPILE_DIRECTORIES = 398, COMPILE_PATCHED_DIRECTORIES = 152 };
enum stream { SHUFFLE = 300, PARENTS = SHUFFLE + 16, PLACES, DIRECTORY_NAMES, FILE_NAMES, CONTENT, DRAWS, UNLINKS };

static uint64_t seed = 555;
static uint64_t files = FULL; /* of an unpatched tree */
static uint64_t n_new, n_first, n_both, n_second, n_files; /* kinds of files; numbers of files are in this order */
static uint64_t n_directories;
static uint32_t *parent, *place; /* of a directory; of a file */
static char **directory_path;    /* "" or "a/b/" */
static uint32_t *size_at[2];     /* before and after the patch */
enum { ABSENT_SIZE = UINT32_MAX };
static uint8_t *dropped;
static uint32_t *members[SETS], *order[SETS];
static uint64_t member_count[SETS], member_bytes[SETS];

static uint64_t scaled(uint64_t n) { return (n * files + FULL / 2) / FULL; }

/* Size of rank r at full scale: log-logistic through median and p90, above it bent to end at the maximum. */
static uint32_t full_size(enum set s, uint64_t r) {
    if (r < sets[s].zeros) return 0;
    double n = sets[s].files, p = ((double)r + 0.5) / n, l = log(p / (1 - p)), l90 = log(9), v;
    if (l <= l90) v = sets[s].median * exp(log(sets[s].p90 / sets[s].median) / l90 * l);
    else v = sets[s].p90 * pow(sets[s].max / sets[s].p90, pow((l - l90) / (log(2 * n - 1) - l90), sets[s].bend));
    return v < 1 ? 1 : (uint32_t)v;
}

/* Sizes of n files by rank. Fewer than at full scale: means of as many neighbours as each stands for, so the bytes a
 * file stay. */
static void sizes(enum set s, uint64_t n, uint32_t *out) {
    uint64_t full = sets[s].files, next = 0;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t first = i * full / n, end = (i + 1) * full / n, sum = 0;
        if (n >= full) end = first + 1, next = first;
        for (; next < end; next++) sum += full_size(s, next);
        out[i] = (uint32_t)(sum / (end - first));
    }
}

static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
/* Three to ten letters, '_', the number in base 36, the ending. */
static size_t put_name(uint64_t h, uint64_t number, const char *ending, char *out) {
    size_t n = 0, k = 0, length = 3 + (h & 7);
    for (h >>= 3; n < length; h /= 26) out[n++] = digits[10 + h % 26];
    out[n++] = '_';
    char low[16];
    do low[k++] = digits[number % 36];
    while (number /= 36);
    while (k) out[n++] = low[--k];
    return n + (size_t)sprintf(out + n, "%s", ending);
}
static bool name_number(const char *name, uint64_t *number) {
    const char *p = strchr(name, '_');
    if (!p || !p[1]) return false;
    *number = 0;
    for (p++; *p && *p != '.'; p++) {
        const char *digit = strchr(digits, *p);
        if (!digit || *number > UINT32_MAX) return false;
        *number = *number * 36 + (uint64_t)(digit - digits);
    }
    return true;
}
static size_t file_name(uint64_t i, char *out) {
    uint64_t h = hash3(seed, FILE_NAMES, i);
    return put_name(h, i, i >= files + n_new ? ".o" : h >> 63 ? ".h" : ".c", out);
}
static size_t directory_name(uint64_t d, char *out) { return put_name(hash3(seed, DIRECTORY_NAMES, d), d, "", out); }
static const char *file_path(uint64_t i) {
    static char path[PATH_BYTES];
    size_t n = strlen(directory_path[place[i]]);
    memcpy(path, directory_path[place[i]], n);
    file_name(i, path + n);
    return path;
}

static int by_path(const void *a, const void *b) { /* directory by directory */
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (place[i] != place[j]) return strcmp(directory_path[place[i]], directory_path[place[j]]);
    char one[NAME_BYTES], two[NAME_BYTES];
    file_name(i, one), file_name(j, two);
    return strcmp(one, two);
}

static void *room(size_t n, size_t each) {
    void *p = calloc(n ? n : 1, each);
    if (!p) exit(broken("no memory for a tree of %llu files", (unsigned long long)files));
    return p;
}

static void give_sizes(enum set s, uint32_t *into) {
    uint64_t n = member_count[s];
    uint32_t *rank = room(n, sizeof *rank);
    sizes(s, n, rank);
    for (uint64_t k = 0; k < n; k++) {
        uint32_t v = rank[permute(hash3(seed, SHUFFLE, s), n, k)];
        into[members[s][k]] = v;
        member_bytes[s] += v;
    }
    free(rank);
}

#endif
