/* The tree before the calls. */
#ifndef REPROFS_REPLAY_BEFORE_H
#define REPROFS_REPLAY_BEFORE_H

#include "content.h"
#include "recording.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int make_file(const char *path, mode_t mode, uint64_t size, uint64_t data) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600), error = 0;
    if (fd < 0) return errno;
    for (uint64_t done = 0; !error && done < data;) {
        uint64_t part = data - done < POOL ? data - done : POOL;
        ssize_t n = pwrite(fd, content((int64_t)done, part, false), part, (off_t)done);
        if (n <= 0) error = n ? errno : EIO;
        else done += (uint64_t)n;
    }
    bool whole = data == size; /* where it is, ftruncate has no effect but to flush the file, on XFS and Btrfs */
    if (!error && ((!whole && ftruncate(fd, (off_t)size)) || fchmod(fd, mode))) error = errno;
    if (close(fd) && !error) error = errno;
    return error;
}

static int make_entry(char kind, const char *path) {
    uint64_t mode, size;
    switch (kind) {
        case 'd':
            read_number(); /* its mode comes last, when all is in it */
            return strcmp(path, ".") && mkdir(path, 0700) ? errno : 0;
        case 'f': mode = read_number(), size = read_number(); return make_file(path, (mode_t)mode, size, read_number());
        case 'l': return symlink(read_string(), path) ? errno : 0;
        default: return link(read_string(), path) ? errno : 0;
    }
}

static int set_modes(void) {
    for (uint64_t i = 0; i < before; i++) {
        char kind = (char)*at++;
        const char *path = read_string();
        if (kind != 'd') {
            for (int k = kind == 'f' ? 3 : 1; k; k--) read_number();
            continue;
        }
        if (chmod(path, (mode_t)read_number() | (strcmp(path, ".") ? 0 : 0700)))
            return stream_failed("chmod", path, errno);
    }
    return 0;
}

static int make_tree(void) {
    const uint8_t *from = at;
    for (uint64_t i = 0; i < before && at < end; i++) {
        char kind = (char)*at++;
        const char *path = read_string();
        int error = make_entry(kind, path);
        if (error) return stream_failed("make", path, error);
    }
    at = from;
    if (set_modes()) return 1;
    int top = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (top < 0 || syncfs(top)) return stream_failed("flush", p.folder, errno);
    close(top);
    return 0;
}

static void skip_tree(void) {
    for (uint64_t i = 0; i < before; i++) {
        char kind = (char)*at++;
        for (int k = kind == 'f' ? 4 : 2; k; k--) read_number();
    }
}

#endif
