/* One thing done to each of many small files, one after the other, with the flushes that make it safe: what mail
 * servers, package managers and editors do (replace), and what backups and attributes need. The files are in one folder
 * and have the same size; `create` makes them, all else finds them there. Every file is a sample. --verify looks at
 * what the last thing left. Sources: rename(2) on atomic replacement, fsync(2) on the folder of a new name,
 * ioctl_ficlone(2), fallocate(2), xattr(7). */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "same.h"
#include "samples.h"
#include "stream.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { RECORD = 1 << 20, NAME = 48, VALUE_MOST = 1 << 16, ATTRIBUTES_MOST = 64 };
enum how { CREATE, REPLACE, APPEND, OVERWRITE, TRUNCATE, PUNCH, ALLOCATE, LINK, SYMLINK, COPY, SET, GET, LIST, UNSET };
enum flush { NOTHING, DATA, FILE_, FOLDER };
static const char *const hows[] = {"create", "replace", "append", "overwrite", "truncate", "punch", "allocate", "link",
    "symlink", "copy", "set-attributes", "get-attributes", "list-attributes", "remove-attributes", NULL};
static const char *const flushes[] = {"nothing", "data", "file", "folder", NULL};
static struct {
    uint64_t files, bytes, seed, attributes, value;
    unsigned how, flush;
    bool verify;
    const char *folder;
} p = {.seed = 1, .attributes = 1, .value = 32};

static const struct option options[] = {
    CHOICE("--how", p.how, hows, "what is done to each file"),
    NUMBER("--files", p.files, 1, UINT32_MAX, "files"),
    NUMBER("--bytes", p.bytes, 0, STREAM_LONGEST, "of one file; as many are appended, overwritten, allocated"),
    CHOICE("--flush", p.flush, flushes, "after each: fdatasync, fsync, or fsync of file and folder"),
    NUMBER("--attributes", p.attributes, 1, ATTRIBUTES_MOST, "extended attributes of a file"),
    NUMBER("--value", p.value, 1, VALUE_MOST, "bytes of an attribute's value"),
    NUMBER("--seed", p.seed, 0, UINT64_MAX, "of the content"),
    FLAG("--verify", p.verify, "whether everything is as that left it"),
    WORD("folder", p.folder, "where the files are"),
};

static int prepare(void) {
    if (!p.files) return wrong("--files must be given");
    bool one_name = p.how >= TRUNCATE && p.how != ALLOCATE && p.how != COPY;
    if (one_name && p.flush == DATA) return wrong("--how %s has no data to flush: choose file", hows[p.how]);
    if (p.how == GET || p.how == LIST)
        if (p.flush) return wrong("--how %s changes nothing: leave --flush out", hows[p.how]);
    if ((p.how == LINK || p.how == SYMLINK) && p.flush == FILE_)
        return wrong("a new name is flushed with its folder: --flush folder");
    if (p.how == PUNCH && p.bytes < 3 * STREAM_BLOCK) return wrong("--how punch needs --bytes 12K at least");
    return 0;
}

static bool makes_names(void) {
    return p.how == CREATE || p.how == REPLACE || p.how == ALLOCATE || p.how == LINK || p.how == SYMLINK ||
        p.how == COPY;
}

static int check(void) {
    bool writes = p.how <= OVERWRITE || p.how == ALLOCATE || p.how == COPY;
    uint64_t values = p.how == SET ? p.files * p.attributes * p.value : 0;
    return needs(writes ? p.files * p.bytes + values : values, makes_names() ? p.files : 0);
}

static void name_of(uint64_t i, const char *kind, char *name) {
    snprintf(name, NAME, "%s-%08llu", kind, (unsigned long long)i);
}
static void attribute_of(uint64_t k, char *name) { snprintf(name, NAME, "user.reprofs-%02llu", (unsigned long long)k); }
static const uint8_t *value_of(uint64_t i, uint64_t k) {
    return stream_content(stream_key(p.seed, i * ATTRIBUTES_MOST + k, 2), 0, p.value);
}

/* Where a punched hole begins and how long it is: the middle third, in whole blocks. */
static uint64_t hole_start(void) { return p.bytes / 3 / STREAM_BLOCK * STREAM_BLOCK; }

static int flushed(int fd) {
    if (p.flush == DATA && fdatasync(fd)) return errno;
    if (p.flush >= FILE_ && fd >= 0 && fsync(fd)) return errno;
    return 0;
}
static int closed(int fd, int error) {
    if (!error) error = flushed(fd);
    if (close(fd) && !error) error = errno;
    return error;
}

static int written(
    int folder, const char *name, int flags, uint64_t i, unsigned generation, uint64_t from, uint64_t to) {
    uint64_t done;
    int fd = openat(folder, name, flags | O_WRONLY | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    return closed(fd, stream_write(fd, stream_key(p.seed, i, generation), from, to, RECORD, &done));
}

/* As cp does since coreutils 9: shared blocks where the file system can, else the content. */
static int copied(int folder, const char *from, const char *to) {
    int in = openat(folder, from, O_RDONLY | O_CLOEXEC), error = 0;
    if (in < 0) return errno;
    int out = openat(folder, to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (out < 0) error = errno;
    else if (ioctl(out, FICLONE, in)) {
        ssize_t n;
        while ((n = copy_file_range(in, NULL, out, NULL, RECORD, 0)) > 0) continue;
        error = n < 0 ? errno : 0;
    }
    close(in);
    return out < 0 ? error : closed(out, error);
}

static int attributes(int folder, const char *name, uint64_t i) {
    static uint8_t value[VALUE_MOST];
    char attribute[NAME];
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC), error = 0;
    if (fd < 0) return errno;
    for (uint64_t k = 0; !error && k < (p.how == LIST ? 1 : p.attributes); k++) {
        attribute_of(k, attribute);
        ssize_t n = p.how == SET ? fsetxattr(fd, attribute, value_of(i, k), p.value, XATTR_CREATE)
            : p.how == GET       ? fgetxattr(fd, attribute, value, sizeof value)
            : p.how == LIST      ? flistxattr(fd, (char *)value, sizeof value)
                                 : fremovexattr(fd, attribute);
        if (n < 0) error = errno;
        if (p.how == GET && n >= 0 && (size_t)n != p.value) error = EIO;
    }
    return closed(fd, error);
}

static int changed_size(int folder, const char *name) {
    int fd = openat(folder, name, O_RDWR | O_CLOEXEC);
    if (fd < 0) return errno;
    int done = p.how == TRUNCATE
        ? ftruncate(fd, (off_t)p.bytes / 2)
        : fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)hole_start(), (off_t)hole_start());
    return closed(fd, done ? errno : 0);
}

static int allocated(int folder, const char *name) {
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    return closed(fd, fallocate(fd, 0, 0, (off_t)p.bytes) ? errno : 0);
}

static int replaced(int folder, const char *name, const char *other, uint64_t i) {
    int error = written(folder, other, O_CREAT | O_EXCL, i, 1, 0, p.bytes);
    return !error && renameat(folder, other, folder, name) ? errno : error;
}

static int linked(int folder, const char *name, const char *other) {
    int done = p.how == LINK ? linkat(folder, name, folder, other, 0) : symlinkat(name, folder, other);
    return done ? errno : 0;
}

/* What is done to one file, but for the flush of its folder. Returns 0 or errno. */
static int done_to(int folder, uint64_t i) {
    char name[NAME], other[NAME];
    name_of(i, "file", name);
    name_of(i, hows[p.how], other);
    switch ((enum how)p.how) {
        case CREATE: return written(folder, name, O_CREAT | O_EXCL, i, 0, 0, p.bytes);
        case REPLACE: return replaced(folder, name, other, i);
        case APPEND: return written(folder, name, O_APPEND, i, 0, p.bytes, 2 * p.bytes);
        case OVERWRITE: return written(folder, name, 0, i, 1, 0, p.bytes);
        case TRUNCATE:
        case PUNCH: return changed_size(folder, name);
        case ALLOCATE: return allocated(folder, other);
        case LINK:
        case SYMLINK: return linked(folder, name, other);
        case COPY: return copied(folder, name, other);
        default: return attributes(folder, name, i);
    }
}

static int do_all(void) {
    char name[NAME];
    if (p.how == CREATE && mkdir(p.folder, 0755) && errno != EEXIST) return stream_failed("make", p.folder, errno);
    int folder = open(p.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return stream_failed("open", p.folder, errno);
    for (uint64_t i = 0; i < p.files; i++) {
        uint64_t start = now_ns();
        int error = done_to(folder, i);
        if (!error && p.flush == FOLDER && fsync(folder)) error = errno;
        uint64_t end = now_ns();
        name_of(i, "file", name);
        if (error) return stream_failed(hows[p.how], name, error);
        sample_put(SAMPLE(.name = hows[p.how], .start_ns = start - program_began, .wall_ns = end - start, .items = 1,
            .bytes = p.how <= OVERWRITE ? p.bytes : 0, .iteration = (int64_t)i));
    }
    return 0;
}

/* ---- what it left --------------------------------------------------------------------------------------------------
 */

static int same_content(const char *name, uint64_t i, unsigned generation, uint64_t size) {
    uint64_t bytes = 0;
    return stream_compare(name, stream_key(p.seed, i, generation), size, false, &bytes);
}

static int is_linked(const char *name, const char *other) {
    struct stat a, b;
    char target[NAME] = "";
    if (p.how == SYMLINK)
        return readlink(other, target, sizeof target - 1) > 0 && !strcmp(target, name)
            ? 0
            : broken("%s does not lead to %s", other, name);
    if (stat(name, &a) || stat(other, &b) || a.st_ino != b.st_ino || a.st_nlink != 2)
        return broken("%s and %s are not two names of one file", name, other);
    return 0;
}

static int has_attributes(const char *name, uint64_t i) {
    static uint8_t value[VALUE_MOST];
    char attribute[NAME];
    for (uint64_t k = 0; k < p.attributes; k++) {
        attribute_of(k, attribute);
        ssize_t n = getxattr(name, attribute, value, sizeof value);
        bool gone = n < 0 && errno == ENODATA;
        bool whole = n == (ssize_t)p.value && same_bytes(value, value_of(i, k), p.value) == p.value;
        if (p.how == UNSET ? !gone : !whole) return broken("%s: %s is not as it was left", name, attribute);
    }
    return 0;
}

static int has_hole(const char *name, uint64_t i) {
    static uint8_t hole[STREAM_BLOCK];
    struct stat s;
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s)) return stream_failed("open", name, errno);
    uint64_t from = hole_start(), at = from;
    bool whole = (uint64_t)s.st_size == p.bytes;
    for (; whole && at < 2 * from; at += sizeof hole) {
        whole = pread(fd, hole, sizeof hole, (off_t)at) == (ssize_t)sizeof hole;
        for (size_t k = 0; k < sizeof hole; k++) whole = whole && !hole[k];
    }
    static uint8_t rest[STREAM_BLOCK];
    uint64_t key = stream_key(p.seed, i, 0);
    for (at = 0; whole && at < p.bytes; at = at + sizeof rest == from ? 2 * from : at + sizeof rest) {
        uint64_t n = p.bytes - at < sizeof rest ? p.bytes - at : sizeof rest;
        whole = pread(fd, rest, n, (off_t)at) == (ssize_t)n && same_bytes(rest, stream_content(key, at, n), n) == n;
    }
    close(fd);
    return whole ? 0 : broken("%s is not what was written with a hole in it", name);
}

static int has_size(const char *name) {
    struct stat s;
    if (stat(name, &s) || (uint64_t)s.st_size != p.bytes) return broken("%s has not the size that was allocated", name);
    return 0;
}

static int as_left(uint64_t i) {
    char name[NAME], other[NAME];
    name_of(i, "file", name);
    name_of(i, hows[p.how], other);
    switch ((enum how)p.how) {
        case CREATE: return same_content(name, i, 0, p.bytes);
        case REPLACE:
        case OVERWRITE: return same_content(name, i, 1, p.bytes);
        case APPEND: return same_content(name, i, 0, 2 * p.bytes);
        case TRUNCATE: return same_content(name, i, 0, p.bytes / 2);
        case PUNCH: return has_hole(name, i);
        case ALLOCATE: return has_size(other);
        case LINK:
        case SYMLINK: return is_linked(name, other);
        case COPY: return same_content(other, i, 0, p.bytes);
        default: return has_attributes(name, i);
    }
}

static int verify(void) {
    int code = stream_enter(p.folder);
    for (uint64_t i = 0; !code && i < p.files; i++) code = as_left(i);
    return code;
}

static int run(void) {
    if (!stream_open_pool(p.seed, RECORD, false)) return broken("no memory for the content of files");
    return p.verify ? verify() : do_all();
}

const struct program program = {
    "file-ops", "One thing done to each of many small files, flushed or not.", OPTIONS(options), prepare, check, run};
