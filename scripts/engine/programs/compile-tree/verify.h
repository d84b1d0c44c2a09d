/* Comparing what is there with what was written. */
#ifndef REPROFS_COMPILE_TREE_VERIFY_H
#define REPROFS_COMPILE_TREE_VERIFY_H

#include "files.h"
#include "program.h"
#include "same.h"
#include "samples.h"
#include "sequence.h"
#include "states.h"
#include "walk.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct kernel *verified;
static uint64_t verified_tree;
static uint8_t *seen;
static const char *visit_verify(int fd, const char *name, uint64_t d, struct account *a) {
    uint64_t i;
    char want[NAME_BYTES];
    if (!name_number(name, &i) || i >= n_files || place[i] != d || version(verified, i) == NONE)
        return "a file that should not be there";
    if (file_name(i, want), strcmp(want, name)) return "a file that should not be there";
    int v = version(verified, i), file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return "";
    uint64_t at = 0, start = content_start(verified_tree, i, v), size = size_at[v][i];
    bool same = true;
    ssize_t n;
    while ((n = read(file, buffer, o.buffer)) > 0) {
        same = same && same_bytes(buffer, pool + (start + at) % TURN, (size_t)n) == (size_t)n;
        at += (uint64_t)n;
    }
    int error = errno;
    close(file);
    errno = error;
    if (n < 0) return "";
    seen[i] = 1, a->bytes += at;
    static char why[128];
    snprintf(why, sizeof why, "has %llu bytes, not %llu", (unsigned long long)at, (unsigned long long)size);
    return at != size ? why : same ? NULL : "has other content";
}

static int verify_tree(uint64_t t, struct account *a) {
    char name[64];
    sprintf(name, "kernel-%llu", (unsigned long long)t);
    verified = &kernels[t], verified_tree = t;
    seen = room(n_files, 1);
    if (walk_tree(name, READ, visit_verify, a)) return 1;
    for (uint64_t i = 0; i < n_files; i++)
        if (version(verified, i) != NONE && !seen[i]) return broken("%s/%s: it is not there", name, file_path(i));
    free(seen);
    return 0;
}

/* Nothing is beside the trees. */
static int verify_folder(void) {
    struct listing l = {0};
    int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0 || list_entries(folder, &l)) return cannot("list", ".", "");
    for (size_t p = 0; p < l.used; p += strlen(l.text + p + 1) + 2) {
        const char *entry = l.text + p + 1;
        char name[64];
        uint64_t t = 0;
        if (!strncmp(entry, "kernel-", 7)) (void)parse_number(entry + 7, &t);
        sprintf(name, "kernel-%llu", (unsigned long long)t);
        if (strcmp(name, entry) || t >= kernel_count || kernels[t].state == ABSENT)
            return broken("%s: it should not be there", entry);
    }
    close(folder), free(l.text);
    return 0;
}

static int verify(void) {
    struct account a = {0};
    uint64_t trees = 0;
    make_content();
    begin();
    for (struct step s; next(&s);)
        if (s.possible) advance(&kernels[s.tree], s.op);
    for (uint64_t t = 0; t < kernel_count; t++) {
        if (kernels[t].state == ABSENT) continue;
        trees++;
        if (verify_tree(t, &a)) return 1;
    }
    if (verify_folder()) return 1;
    printf("verified %llu trees, %llu files, %llu bytes\n", (unsigned long long)trees, (unsigned long long)a.items,
        (unsigned long long)a.bytes);
    return 0;
}

#endif
