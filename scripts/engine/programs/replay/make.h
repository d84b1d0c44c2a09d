/* Making a call. */
#ifndef REPROFS_REPLAY_MAKE_H
#define REPROFS_REPLAY_MAKE_H

#include "attributes.h"
#include "call.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifdef LISTED
#include "listing.h"
#else
#define keep_listing(f, n) (void)0
#endif

static int64_t list(const struct call *c) {
    int64_t n = syscall(SYS_getdents64, c->file[0]->fd, buffer, (size_t)c->n[0]);
    keep_listing(c->file[0], n);
    /* Where the recorded one had come to the end, this one goes there: another system lists in other portions. */
    while (!c->want && n > 0) {
        n = syscall(SYS_getdents64, c->file[0]->fd, buffer, (size_t)c->n[0]);
        keep_listing(c->file[0], n);
    }
    return n;
}

/* What a program does where blocks cannot be shared: it copies. */
static int64_t clone_file(const struct call *c) {
    ssize_t n;
    int out = c->file[0]->fd, in = c->file[1]->fd;
    if (!ioctl(out, FICLONE, in) || c->want < 0) return 0;
    off_t from = 0, to = 0;
    while ((n = copy_file_range(in, &from, out, &to, LARGEST, 0)) > 0) continue;
    return n;
}

static int64_t copy(const struct call *c) {
    const int64_t *n = c->n;
    off_t from = n[1], to = c->kind == COPY ? n[2] : 0;
    int in = c->file[0]->fd, out = c->file[1]->fd;
    if (c->kind == SEND) return sendfile(out, in, n[1] < 0 ? NULL : &from, (size_t)n[0]);
    return copy_file_range(in, n[1] < 0 ? NULL : &from, out, n[2] < 0 ? NULL : &to, (size_t)n[0], 0);
}

static int64_t lock(const struct call *c) { /* tried, never waited for */
    struct flock l = {.l_type = (short)c->n[0], .l_whence = (short)c->n[1], .l_start = c->n[2], .l_len = c->n[3]};
    return fcntl(c->file[0]->fd, F_SETLK, &l);
}

static int64_t truncate_at(const struct call *c) {
    int fd = openat(c->file[0]->fd, c->path[0], O_WRONLY | O_CLOEXEC);
    int64_t done = fd < 0 ? -1 : ftruncate(fd, c->n[0]);
    if (fd >= 0) close(fd);
    return done;
}

static int64_t statfs_at(const struct call *c) {
    struct statfs s;
    int fd = openat(c->file[0]->fd, c->path[0], O_PATH | O_CLOEXEC);
    int64_t done = fd < 0 ? -1 : fstatfs(fd, &s);
    if (fd >= 0) close(fd);
    return done;
}

/* ---- on a name */
/* Makes a name, or takes one away. */
static int64_t on_name(const struct call *c) {
    int fd = c->file[0]->fd, to = c->file[1] ? c->file[1]->fd : -1;
    const char *path = c->path[0], *other = c->path[1];
    const int64_t *n = c->n;
    switch (c->kind) {
        case MKDIR: return mkdirat(fd, path, (mode_t)n[0]);
        case RMDIR: return unlinkat(fd, path, AT_REMOVEDIR);
        case UNLINK: return unlinkat(fd, path, 0);
        case LINK: return linkat(fd, path, to, other, (int)n[0]);
        case SYMLINK: return symlinkat(path, fd, other);
        case RENAME: return syscall(SYS_renameat2, fd, path, to, other, (unsigned)n[0]);
        default: return mknodat(fd, path, (mode_t)n[0], 0);
    }
}

static int64_t on_path(const struct call *c) {
    struct stat s;
    int fd = c->file[0]->fd;
    const char *path = c->path[0];
    const int64_t *n = c->n;
    switch (c->kind) {
        case OPEN: return openat(fd, path, (int)n[0] | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, (mode_t)n[1]);
        case ENTER: return openat(fd, path, O_PATH | O_DIRECTORY | O_CLOEXEC);
        case TRUNCATE: return truncate_at(c);
        case STAT: return fstatat(fd, path, &s, (int)n[0]);
        case ACCESS: return faccessat(fd, path, (int)n[0], 0);
        case READLINK: return readlinkat(fd, path, (char *)buffer, n[0] < PATH_BYTES ? (size_t)n[0] : PATH_BYTES);
        case CHMOD: return fchmodat(fd, path, (mode_t)n[0], 0);
        case CHOWN: return fchownat(fd, path, (uid_t)-1, (gid_t)-1, (int)n[0]);
        case SET_TIMES: return utimensat(fd, path, NULL, (int)n[0]);
        case STATFS: return statfs_at(c);
        default: return c->kind >= GETXATTR ? on_attribute(c) : on_name(c);
    }
}

/* ---- on an open file */
/* Reads, writes or flushes. */
static int64_t on_data(const struct call *c) {
    int fd = c->file[0] ? c->file[0]->fd : -1;
    const int64_t *n = c->n;
    switch (c->kind) {
        case CLOSE: return close(fd);
        case READ: return read(fd, buffer, (size_t)n[0]);
        case PREAD: return pread(fd, buffer, (size_t)n[0], n[1]);
        case WRITE: return write(fd, c->from, (size_t)n[0]);
        case PWRITE: return pwrite(fd, c->from, (size_t)n[0], n[1]);
        case SEEK: return lseek(fd, n[0], (int)n[1]);
        case FSYNC: return fsync(fd);
        case FDATASYNC: return fdatasync(fd);
        case SYNCFS: return syncfs(fd);
        case SYNC: return syncfs(files[0].fd); /* of this file system only */
        case SYNC_RANGE: return sync_file_range(fd, n[0], n[1], (unsigned)n[2]);
        case FTRUNCATE: return ftruncate(fd, n[0]);
        default: return fallocate(fd, (int)n[0], n[1], n[2]);
    }
}

static int64_t on_file(const struct call *c) {
    struct stat s;
    struct statfs system;
    int fd = c->file[0] ? c->file[0]->fd : -1;
    const int64_t *n = c->n;
    switch (c->kind) {
        case FSTAT: return fstat(fd, &s);
        case LIST: return list(c);
        case FCHMOD: return fchmod(fd, (mode_t)n[0]);
        case FCHOWN: return fchown(fd, (uid_t)-1, (gid_t)-1);
        case FSET_TIMES: return futimens(fd, NULL);
        case FSTATFS: return fstatfs(fd, &system);
        case FLOCK: return flock(fd, (int)n[0] | LOCK_NB);
        case LOCK: return lock(c);
        case COPY:
        case SEND: return copy(c);
        case CLONE: return clone_file(c);
        case ADVISE: return errno = posix_fadvise(fd, n[0], n[1], (int)n[2]), errno ? -1 : 0;
        case READAHEAD: return readahead(fd, n[0], (size_t)n[1]);
        default: return c->kind >= GETXATTR ? on_attribute(c) : on_data(c);
    }
}

/* ---- on memory */
static int64_t map(const struct call *c) {
    const int64_t *n = c->n;
    struct stat s;
    int protection = (int)n[2] & (PROT_READ | PROT_WRITE);
    bool shared = (n[3] & MAP_TYPE) != MAP_PRIVATE;
    void *memory = mmap(NULL, (size_t)n[1], protection, shared ? MAP_SHARED : MAP_PRIVATE, c->file[0]->fd, n[0]);
    if (memory == MAP_FAILED) return -1;
    if (c->opens < 0) return munmap(memory, (size_t)n[1]);
    uint64_t size = fstat(c->file[0]->fd, &s) ? 0 : (uint64_t)s.st_size;
    uint64_t inside = size > (uint64_t)n[0] ? size - (uint64_t)n[0] : 0;
    if (!(protection & PROT_READ) || inside > (uint64_t)n[1]) inside = protection & PROT_READ ? (uint64_t)n[1] : 0;
    mappings[c->opens] = (struct mapping){memory, (uint64_t)n[1], inside, shared && protection & PROT_WRITE};
    return 0;
}

static int64_t touch(const struct call *c) {
    const struct mapping *m = c->mapping;
    uint64_t from = (uint64_t)c->n[0] * STREAM_BLOCK, until = from + (uint64_t)c->n[1] * STREAM_BLOCK;
    for (uint64_t k = from; m->memory && k < until && k < m->inside; k += STREAM_BLOCK) {
        volatile uint8_t *byte = m->memory + k;
        uint8_t value = *byte;
        if (m->shared && c->n[2]) *byte = value;
    }
    return 0;
}

static int64_t on_memory(const struct call *c) {
    struct mapping *m = c->mapping;
    uint64_t from = (uint64_t)c->n[0];
    if (c->kind == MAP) return map(c);
    if (c->kind == TOUCH) return touch(c);
    if (!m->memory) return errno = EINVAL, -1;
    if (c->kind == MSYNC)
        return from < m->bytes ? msync(m->memory + from, (size_t)c->n[1], (int)c->n[2]) : (errno = EINVAL, -1);
    int64_t done = munmap(m->memory, m->bytes);
    m->memory = NULL;
    return done;
}

static int64_t make(const struct call *c) {
    if (c->kind >= MAP) return on_memory(c);
    return c->path[0] ? on_path(c) : on_file(c);
}

#endif
