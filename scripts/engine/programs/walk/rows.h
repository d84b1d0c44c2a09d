/* Rows of the CSV file. */
#ifndef REPROFS_WALK_ROWS_H
#define REPROFS_WALK_ROWS_H

#include "found.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>
#include <unistd.h>

static char *put_number(char *out, int64_t v) {
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    char digits[20];
    size_t n = 0;
    if (v < 0) *out++ = '-';
    do digits[n++] = (char)('0' + u % 10);
    while (u /= 10);
    while (n) *out++ = digits[--n];
    *out++ = ',';
    return out;
}
/* In quotes, which are doubled inside; all other bytes as they are (RFC 4180). */
static char *put_text(char *out, const char *s, size_t n) {
    *out++ = '"';
    for (size_t i = 0; i < n; i++)
        if ((*out++ = s[i]) == '"') *out++ = '"';
    *out++ = '"';
    *out++ = ',';
    return out;
}
/* What follows the last dot of a name that does not begin with that dot; directories have none. */
static size_t extension(const char *path, size_t n, bool directory) {
    for (size_t i = n; !directory && i > 1 && path[i - 1] != '/'; i--)
        if (path[i - 1] == '.') return path[i - 2] == '/' ? 0 : n - i;
    return 0;
}
/* At most 4 * length + 400 bytes. */
static char *put_row(char *out, const char *path, size_t length, const struct stat *s, uint64_t parent, int64_t depth,
    int64_t files, uint64_t bytes) {
    size_t ending = extension(path, length, S_ISDIR(s->st_mode));
    out = put_number(out, (int64_t)s->st_ino);
    out = put_number(out, (int64_t)parent);
    out = put_number(out, depth);
    out = put_text(out, path, length);
    out = put_text(out, path + length - ending, ending);
    out = put_number(out, s->st_uid);
    out = put_number(out, s->st_gid);
    out = put_number(out, s->st_size);
    out = put_number(out, (int64_t)s->st_dev);
    out = put_number(out, s->st_blocks);
    out = put_number(out, (int64_t)s->st_nlink);
    *out++ = '"';
    for (int shift = 18; shift >= 0; shift -= 3) *out++ = (char)('0' + (s->st_mode >> shift & 7));
    *out++ = '"';
    *out++ = ',';
    out = put_number(out, s->st_atime);
    out = put_number(out, s->st_mtime);
    out = put_number(out, s->st_ctime);
    out = put_number(out, files);
    out = put_number(out, (int64_t)bytes);
    out[-1] = '\n';
    return out;
}

struct rows {
    size_t used;
    char text[ROWS_BYTES + 4 * PATHS_BYTES + 512];
};
static void rows_write(struct rows *r, bool locked) {
    if (!r->used) return;
    if (!locked) pthread_mutex_lock(&lock);
    for (size_t done = 0; done < r->used && !write_error;) {
        ssize_t n = write(o.out, r->text + done, r->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) write_error = n ? errno : ENOSPC;
        else done += (size_t)n;
    }
    if (!locked) pthread_mutex_unlock(&lock);
    r->used = 0;
}

#endif
