/* Names of directories, and which directories are entered. */
#ifndef REPROFS_WALK_DIRECTORIES_H
#define REPROFS_WALK_DIRECTORIES_H

#include "found.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

struct entry { /* as the kernel fills it in */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};
static long names_of(int fd, void *buffer, size_t size) { return syscall(SYS_getdents64, fd, buffer, size); }
static bool is_dots(const char *name) { return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])); }

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
/* A directory that is neither counted nor entered. */
static bool is_left_out(const char *name, const char *path) {
    if (o.no_snapshots && !strcmp(name, ".snapshot")) return true;
    return o.excluded_count && bsearch(&path, o.excluded, o.excluded_count, sizeof *o.excluded, compare_names);
}
/* A directory that is counted. depth is its own. */
static bool is_entered(const struct stat *s, int64_t depth) {
    return (uint64_t)depth < o.depth && !(o.one_file_system && s->st_dev != o.device);
}

#endif
