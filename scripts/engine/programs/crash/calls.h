/* The calls, done for real in the folder `top`. */
#ifndef REPROFS_CRASH_CALLS_H
#define REPROFS_CRASH_CALLS_H

#include "content.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <time.h>
#include <unistd.h>

static char top[PATH_MAX];
static uint8_t buffer[SECTORS * SECTOR] __attribute__((aligned(4096)));
static const char *const ATTRIBUTE = "user.crash";

static const char *path_of(const char *name, char *room) {
    snprintf(room, PATH_MAX, "%s/%s", top, name);
    return room;
}

/* The C library has no words for what file systems say of what they find damaged. */
static inline const char *words_for(int error) {
    return error == EUCLEAN ? "Structure needs cleaning" : strerror(error);
}

static int failed_as(int result) { return result < 0 ? errno : 0; }

static int write_bytes(int fd, const char *verb, int node, int tag, int from, int n) {
    for (int i = 0; i < n / SECTOR; i++) fill_sector(buffer + i * SECTOR, node, tag, from / SECTOR + i);
    if (*verb != 'm') {
        ssize_t done = pwrite(fd, buffer, (size_t)n, from);
        return done == n ? 0 : done < 0 ? errno : EIO;
    }
    struct stat st;
    if (fstat(fd, &st) || (st.st_size < from + n && ftruncate(fd, from + n))) return errno;
    uint8_t *memory = mmap(NULL, (size_t)(from + n), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (memory == MAP_FAILED) return errno;
    memcpy(memory + from, buffer, (size_t)n);
    return failed_as(munmap(memory, (size_t)(from + n)));
}

/* A call on an open file. Returns 0 or errno. */
static int on_file(const struct call *c, const char *path, int node, int tag) {
    const char *verb = c->word[0];
    int from = atoi(c->word[2]), n = atoi(c->word[3]), error;
    int how = c->persists ? O_RDONLY : !strcmp(verb, "dwrite") ? O_RDWR | O_DIRECT : O_RDWR;
    int fd = open(path, how | O_CLOEXEC);
    if (fd < 0) return errno;
    if (strstr(verb, "write")) error = write_bytes(fd, verb, node, tag, from, n);
    else if (!strcmp(verb, "fdatasync")) error = failed_as(fdatasync(fd));
    else if (c->persists) error = failed_as(fsync(fd));
    else { /* fallocate(2) */
        int mode = !strcmp(verb, "keep") ? 1 : !strcmp(verb, "punch") ? 3 : !strcmp(verb, "zero") ? 0x10 : 0;
        error = failed_as(fallocate(fd, mode, from, n));
    }
    if (close(fd) && !error) error = errno;
    return error;
}

static int create(const char *path) {
    int fd = open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644);
    return fd < 0 ? errno : failed_as(close(fd));
}

static void drop_caches(void) {
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "3", 1) != 1) exit(broken("caches cannot be dropped: %s", reason(errno)));
    close(fd);
}

/* Returns 0 or errno. node: that its first name has. */
static int do_call(const struct call *c, int node, int tag) {
    char room[PATH_MAX], other[PATH_MAX], value[16];
    const char *verb = c->word[0], *a = path_of(c->word[1], room), *b = path_of(c->word[2], other);
    if (!strcmp(verb, "create")) return create(a);
    if (!strcmp(verb, "mkdir")) return failed_as(mkdir(a, 0755));
    if (!strcmp(verb, "link")) return failed_as(link(a, b));
    if (!strcmp(verb, "symlink")) return failed_as(symlink(c->word[1], b));
    if (!strcmp(verb, "rename")) return failed_as(rename(a, b));
    if (!strcmp(verb, "unlink")) return failed_as(unlink(a));
    if (!strcmp(verb, "rmdir")) return failed_as(rmdir(a));
    if (!strcmp(verb, "truncate")) return failed_as(truncate(a, atoi(c->word[2])));
    if (!strcmp(verb, "setxattr")) {
        snprintf(value, sizeof value, "%08d", tag);
        return failed_as(setxattr(a, ATTRIBUTE, value, 8, 0));
    }
    if (!strcmp(verb, "sync")) return sync(), 0;
    if (!strcmp(verb, "drop")) return drop_caches(), 0;
    if (!strcmp(verb, "wait")) {
        struct timespec t = {atoi(c->word[1]), 0};
        return failed_as(nanosleep(&t, NULL));
    }
    return on_file(c, a, node, tag);
}

/* The node that the first name of a call has in a world before it. */
static int node_before(const struct call *c, const struct world *w) {
    return c->words > 1 && c->persists != FOLDER ? w->at[name_of(c->word[1])] : NOTHING;
}
#endif
