/* The tree after the calls. */
#ifndef REPROFS_REPLAY_AFTER_H
#define REPROFS_REPLAY_AFTER_H

#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static uint64_t found;
static int count(const char *path, const struct stat *s, int kind, struct FTW *where) {
    (void)path, (void)s, (void)kind, (void)where;
    found++;
    return 0;
}

static int same_content(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0) return stream_failed("open", path, errno);
    int64_t from = 0, n, where = -1;
    while (where < 0 && (n = read(fd, buffer, POOL)) > 0) where = moved ? -1 : unlike(buffer, from, n), from += n;
    close(fd);
    return where < 0 ? 0 : broken("%s: wrong content at byte %lld", path, (long long)where);
}

static bool is_as_recorded(char kind, const char *path, const struct stat *s) {
    uint64_t mode, size;
    switch (kind) {
        case 'd':
            mode = read_number();
            return S_ISDIR(s->st_mode) && (!strcmp(path, ".") || (s->st_mode & 01777) == mode);
        case 'f':
            mode = read_number(), size = read_number(), read_number();
            return S_ISREG(s->st_mode) && (s->st_mode & 01777) == mode && (uint64_t)s->st_size == size;
        case 'l': read_string(); return S_ISLNK(s->st_mode);
        default: read_string(); return S_ISREG(s->st_mode);
    }
}

static int verify(void) {
    for (uint64_t i = 0; i < calls; i++) {
        struct call c;
        if (at >= end || !next_call(&c))
            return broken("%s is damaged at call %llu", p.recording, (unsigned long long)i);
    }
    uint64_t wrong_ones = 0;
    for (uint64_t i = 0; i < after && at < end; i++) {
        struct stat s = {0};
        char kind = (char)*at++;
        const char *path = read_string();
        bool there = !lstat(path, &s);
        if (!is_as_recorded(kind, path, &s) || !there) {
            if (wrong_ones++ < SHOWN) fprintf(stderr, "engine: replay: %s is not as it was recorded\n", path);
        } else if (S_ISREG(s.st_mode) && same_content(path)) return 1;
    }
    if (nftw(".", count, 64, FTW_PHYS)) return stream_failed("list", p.folder, errno);
    uint64_t more = found > after ? found - after : 0;
    if (!wrong_ones && !more) return 0;
    return broken("of the tree after the calls %llu entries are not as recorded, and %llu too many",
        (unsigned long long)wrong_ones, (unsigned long long)more);
}

#endif
