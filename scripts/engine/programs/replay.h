/* A recorded program's file-system calls, made again, as fast as they go: one after the other in the order in which
 * they began, or, as programs/replay-threads.c with THREADS, in as many threads as were recorded. Only the calls are
 * timed; each kind is a histogram of samples. What a file holds follows from the offset, so what is read is compared,
 * outside of the timed parts. A result other than the recorded one fails the replay, but for those that tell of the
 * file system and not of the program (guest/trace.py).
 *
 * The tree of a replay is eight folders below its own: as far as a link of a recording may lead up, and names never do.
 * What the recorded program would have waited for is not waited for: locks are tried, FIFOs are opened at once.
 *
 * The layout of the recording is in scripts/reprofs/guest/trace.py, the kinds in scripts/reprofs/plan/recording.py.
 * Source of the method: Weiss et al., ROOT: Replaying Multithreaded Traces with Resource-Oriented Ordering, SOSP 2013.
 * Which call waits for which is in the recording, after the tree (guest/order.py); here it is only waited. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <linux/limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/xattr.h>
#include <unistd.h>

#ifdef THREADS
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#define NAME "replay-threads"
#define OWN static _Thread_local /* what each thread of a replay has of its own */
#else
#ifdef LISTED
#define NAME "replay-listed"
#else
#define NAME "replay"
#endif
#define OWN static
#endif

/* name, arguments as plan/recording.py has them; in its order */
/* clang-format off */
#define CALLS(X) \
    X(OPEN, "open", "pnnH") X(ENTER, "enter", "pH") X(CLOSE, "close", "h") X(READ, "read", "hn") \
    X(PREAD, "pread", "hnn") X(WRITE, "write", "hn") X(PWRITE, "pwrite", "hnn") X(SEEK, "seek", "hnn") \
    X(FSYNC, "fsync", "h") X(FDATASYNC, "fdatasync", "h") X(SYNCFS, "syncfs", "h") X(SYNC, "sync", "") \
    X(SYNC_RANGE, "sync-range", "hnnn") X(FTRUNCATE, "ftruncate", "hn") X(TRUNCATE, "truncate", "pn") \
    X(ALLOCATE, "allocate", "hnnn") X(STAT, "stat", "pn") X(FSTAT, "fstat", "h") X(ACCESS, "access", "pn") \
    X(READLINK, "readlink", "pn") X(LIST, "list", "hn") X(MKDIR, "mkdir", "pn") X(RMDIR, "rmdir", "p") \
    X(UNLINK, "unlink", "p") X(LINK, "link", "ppn") X(SYMLINK, "symlink", "tp") X(RENAME, "rename", "ppn") \
    X(MKNOD, "mknod", "pn") X(CHMOD, "chmod", "pn") X(FCHMOD, "fchmod", "hn") X(CHOWN, "chown", "pn") \
    X(FCHOWN, "fchown", "h") X(SET_TIMES, "set-times", "pn") X(FSET_TIMES, "fset-times", "h") \
    X(STATFS, "statfs", "p") X(FSTATFS, "fstatfs", "h") X(FLOCK, "flock", "hn") X(LOCK, "lock", "hnnnn") \
    X(COPY, "copy", "hhnnn") X(SEND, "send", "hhnn") X(CLONE, "clone", "hh") X(ADVISE, "advise", "hnnn") \
    X(READAHEAD, "readahead", "hnn") X(GETXATTR, "getxattr", "pnnn") X(FGETXATTR, "fgetxattr", "hnn") \
    X(LISTXATTR, "listxattr", "pnn") X(FLISTXATTR, "flistxattr", "hn") X(SETXATTR, "setxattr", "pnnnn") \
    X(FSETXATTR, "fsetxattr", "hnnn") X(REMOVEXATTR, "removexattr", "pnn") X(FREMOVEXATTR, "fremovexattr", "hn") \
    X(MAP, "map", "hnnnnM") X(TOUCH, "touch", "mnnn") X(UNMAP, "unmap", "m") X(MSYNC, "msync", "mnnn")
/* clang-format on */
#define AS_KIND(k, name, arguments) k,
#define AS_NAME(k, name, arguments) {name, arguments},
enum kind { CALLS(AS_KIND) FINAL, KINDS };
static const struct { const char *name, *arguments; } kinds[] = {CALLS(AS_NAME){"final-sync", ""}};

enum how { MAKE_TREE, MAKE_CALLS, BOTH, LOOK };
static const char *const hows[] = {"prepare", "run", "both", "verify", NULL};
static struct {
    const char *recording, *folder;
    uint64_t content, names;
    unsigned how;
    bool differing;
} p = {.how = BOTH};
static const struct option options[] = {
    CHOICE("--how", p.how, hows, "make the tree before the calls; make the calls; both; look at what they left"),
    WORD("--recording", p.recording, "file, or name among the programs of a job"),
    NUMBER("--content", p.content, 0, UINT64_MAX, "bytes that are made at most"),
    NUMBER("--names", p.names, 0, UINT64_MAX, "that are made at most"),
    FLAG("--differing", p.differing, "tell the number of each call whose result is another one, and go on"),
    WORD("folder", p.folder, "to work in, new with prepare and both"),
};
static int prepare(void) { return p.recording ? 0 : wrong("--recording must be given"); }
static int check(void) { return needs(p.how == MAKE_TREE || p.how == BOTH ? p.content : 0, p.names); }

/* ---- the recording ---------------------------------------------------------------------------------------------- */
enum { LARGEST = 1 << 24, PATH_BYTES = 4096, UP = 8, SHOWN = 3, ARGUMENTS = 7, UNITS = 4 };
OWN const uint8_t *at;
static const uint8_t *end;
OWN bool ends_early;
static const char **strings;
static uint64_t moved, handles, string_count, blob, before, calls, after;

static uint64_t number(void) {
    uint64_t value = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        value |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128)) return value;
    }
    ends_early = true;
    return value;
}
static int64_t folded(void) {
    uint64_t value = number();
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}
static const char *string(void) {
    uint64_t i = number();
    return i < string_count ? strings[i] : "";
}

static int load(void) {
    char path[PATH_BYTES];
    const char *folder = getenv("REPROFS_PROGRAMS");
    snprintf(path, sizeof path, "%s/%s", folder && !strchr(p.recording, '/') ? folder : ".", p.recording);
    struct stat s;
    int fd = open(*p.recording == '/' ? p.recording : path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s)) return stream_failed("open", p.recording, errno);
    /* Wholly in memory before anything is timed. */
    uint8_t *data = mmap(NULL, (size_t)s.st_size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return broken("no memory for %s", p.recording);
    ssize_t n = 0, part;
    while ((part = read(fd, data + n, (size_t)(s.st_size - n))) > 0) n += part;
    close(fd);
    at = data, end = data + n;
    if (n < 16 || memcmp(at, "REPLAY\0\1", 8)) return broken("%s is no recording for this program", p.recording);
    at += 8;
    moved = number(), handles = number(), string_count = number(), blob = number(), before = number();
    calls = number(), after = number();
    if (blob > (uint64_t)(end - at) || string_count > blob) return broken("%s is damaged", p.recording);
    strings = calloc(string_count + 1, sizeof *strings);
    if (!strings) return broken("no memory for %s", p.recording);
    const uint8_t *text = at;
    for (uint64_t i = 0; i < string_count && text < at + blob; i++)
        strings[i] = (const char *)text, text += strlen((const char *)text) + 1;
    at += blob;
    return 0;
}

/* Changes into the tree, which is eight folders below p.folder. */
static int enter(bool make) {
    if (make && mkdir(p.folder, 0755)) return stream_failed("make", p.folder, errno);
    if (chdir(p.folder)) return stream_failed("enter", p.folder, errno);
    for (int i = 0; i < UP; i++)
        if ((make && mkdir("0", 0755)) || chdir("0")) return stream_failed("enter", p.folder, errno);
    return 0;
}

/* ---- content: of the offset alone ---------------------------------------------------------------------------------
 */
enum { POOL = 1 << 20 };
static uint8_t *pool;
OWN uint8_t *buffer; /* two pools, one after the other: any piece of up to POOL bytes is in one place */

static int open_pool(void) {
    if (posix_memalign((void **)&pool, STREAM_BLOCK, 2 * POOL) ||
        posix_memalign((void **)&buffer, STREAM_BLOCK, LARGEST))
        return broken("no memory for the content of files");
    uint64_t x = 88172645463325252u; /* xorshift64: Marsaglia, 2003 */
    for (size_t i = 0; i < POOL; i += sizeof x) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        memcpy(pool + i, &x, sizeof x);
    }
    memcpy(pool + POOL, pool, POOL);
    memset(buffer, 0, LARGEST);
    return 0;
}

/* n bytes of content from an offset; aligned like the buffer, where `aligned` or longer than the pool. */
static const uint8_t *content(int64_t from, size_t n, bool aligned) {
    const uint8_t *found = pool + (uint64_t)from % POOL;
    if (n <= POOL && !aligned) return found;
    for (size_t k = 0, part; k < n; k += part) {
        part = n - k < POOL ? n - k : POOL;
        memcpy(buffer + k, found, part);
    }
    return buffer;
}

/* Where the bytes are neither the content nor zeros, as in holes: that offset; else -1. */
static int64_t unlike(const uint8_t *b, int64_t from, int64_t n) {
    for (int64_t i = 0; i < n;) {
        const uint8_t *want = pool + (uint64_t)(from + i) % POOL;
        int64_t part = n - i < POOL ? n - i : POOL;
        if (memcmp(b + i, want, (size_t)part))
            for (int64_t k = 0; k < part; k++)
                if (b[i + k] && b[i + k] != want[k]) return from + i + k;
        i += part;
    }
    return -1;
}

/* ---- the tree before ----------------------------------------------------------------------------------------------
 */
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
            number(); /* its mode comes last, when all is in it */
            return strcmp(path, ".") && mkdir(path, 0700) ? errno : 0;
        case 'f': mode = number(), size = number(); return make_file(path, (mode_t)mode, size, number());
        case 'l': return symlink(string(), path) ? errno : 0;
        default: return link(string(), path) ? errno : 0;
    }
}

static int set_modes(void) {
    for (uint64_t i = 0; i < before; i++) {
        char kind = (char)*at++;
        const char *path = string();
        if (kind != 'd') {
            for (int k = kind == 'f' ? 3 : 1; k; k--) number();
            continue;
        }
        if (chmod(path, (mode_t)number() | (strcmp(path, ".") ? 0 : 0700))) return stream_failed("chmod", path, errno);
    }
    return 0;
}

static int make_tree(void) {
    const uint8_t *from = at;
    for (uint64_t i = 0; i < before && at < end; i++) {
        char kind = (char)*at++;
        const char *path = string();
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
        for (int k = kind == 'f' ? 4 : 2; k; k--) number();
    }
}

/* ---- calls
 * ----------------------------------------------------------------------------------------------------------- */
struct file {
    int fd;
    bool append, direct;
    int64_t position;
};
struct mapping {
    uint8_t *memory;
    uint64_t bytes, inside; /* inside: of the file, beyond which no page may be touched */
    bool shared;
};
struct call {
    enum kind kind;
    unsigned check;
    int64_t result, want, offset; /* offset: of what is read or written */
    struct file *file[2];
    struct mapping *mapping;
    int64_t opens; /* the number of the file or mapping that it makes; -1 */
    const char *path[2];
    int64_t n[ARGUMENTS];
    const uint8_t *from;
};
static struct file *files;
static struct mapping *mappings;
struct spent { uint64_t count, wall, bytes; };
OWN struct spent spent[KINDS][64 * UNITS];
OWN uint64_t differing;

/* A path that is empty means the open file itself, as C libraries do with files opened by O_PATH. */
static void name_itself(struct call *c, unsigned f, unsigned s) {
    OWN char path[2][32];
    OWN struct file none = {.fd = AT_FDCWD};
    snprintf(path[s], sizeof path[s], "/proc/self/fd/%d", c->file[f]->fd);
    c->path[s] = path[s], c->file[f] = &none;
}

static bool next_call(struct call *c) {
    unsigned kind = *at++, f = 0, s = 0, k = 0;
    if (kind >= FINAL) return false;
    *c = (struct call){.kind = kind, .opens = -1};
    c->check = *at++;
    c->want = folded();
    for (const char *a = kinds[kind].arguments; *a; a++) {
        int64_t value = *a == 't' ? 0 : folded();
        bool good = value >= 0 && (uint64_t)value < handles;
        switch (*a) {
            case 'n': c->n[k++] = value; break;
            case 't': c->path[s++] = string(); break;
            case 'H':
            case 'M': c->opens = good ? value : -1; break;
            case 'm': c->mapping = &mappings[good ? value : 0]; break;
            default: c->file[f++] = &files[good ? value : 0]; break;
        }
        if (*a != 'p') continue;
        c->path[s++] = string();
        if (!*c->path[s - 1]) name_itself(c, f - 1, s - 1);
    }
    return !ends_early;
}

/* What the call needs and the recorded program had ready. */
static void make_ready(struct call *c) {
    struct stat s;
    struct file *f = c->file[0];
    bool writes = c->kind == WRITE || c->kind == PWRITE;
    if ((writes || c->kind == READ || c->kind == PREAD || c->kind == LIST) && c->n[0] > LARGEST) c->n[0] = LARGEST;
    if (c->kind == READ || c->kind == WRITE) c->offset = f->position;
    if (c->kind == PREAD || c->kind == PWRITE) c->offset = c->n[1];
    if (writes && f->append) c->offset = fstat(f->fd, &s) ? 0 : s.st_size;
    if (writes) c->from = content(c->offset, (size_t)c->n[0], f->direct);
}

enum { ACCESS_LIST = 2 };
static const char *attribute_name(int64_t i) {
    static const char *const known[] = {"security.selinux", "security.capability", "system.posix_acl_access",
        "system.posix_acl_default", "security.ima", "trusted.overlay.opaque"};
    OWN char name[32];
    if (i >= 0 && (size_t)i < sizeof known / sizeof *known) return known[i];
    snprintf(name, sizeof name, "user.%08lld", (long long)i);
    return name;
}

/* An attribute of a path is asked through the descriptor of its folder: there are no calls for that on old kernels. A
 * list has room for names of another length. */
static const char *through(const struct call *c) {
    OWN char path[PATH_BYTES + 64];
    if (c->file[0]->fd == AT_FDCWD) return c->path[0];
    snprintf(path, sizeof path, "/proc/self/fd/%d/%s", c->file[0]->fd, c->path[0]);
    return path;
}

/* Sets the mode as cp -a does: by an access list of owner, group and others, or where there are none by chmod. */
static int64_t set_access_list(const struct call *c) {
    mode_t mode = (mode_t)c->n[1];
    struct {
        uint32_t version;
        struct {
            uint16_t tag, permissions;
            uint32_t id;
        } entry[3];
    } list = {2, {{1, mode >> 6 & 7, UINT32_MAX}, {4, mode >> 3 & 7, UINT32_MAX}, {32, mode & 7, UINT32_MAX}}};
    const char *name = attribute_name(ACCESS_LIST);
    int64_t done = c->kind == FSETXATTR ? fsetxattr(c->file[0]->fd, name, &list, sizeof list, (int)c->n[2])
                                        : setxattr(through(c), name, &list, sizeof list, (int)c->n[2]);
    if (done >= 0 || errno != EOPNOTSUPP) return done;
    return c->kind == FSETXATTR ? fchmod(c->file[0]->fd, mode) : fchmodat(c->file[0]->fd, c->path[0], mode, 0);
}

static int64_t on_attribute(const struct call *c) {
    const int64_t *n = c->n;
    int fd = c->file[0]->fd;
    const char *name = attribute_name(n[0]);
    if ((c->kind == SETXATTR || c->kind == FSETXATTR) && n[0] == ACCESS_LIST) return set_access_list(c);
    switch (c->kind) {
        case GETXATTR: return (n[2] ? lgetxattr : getxattr)(through(c), name, buffer, (size_t)n[1]);
        case FGETXATTR: return fgetxattr(fd, name, buffer, (size_t)n[1]);
        case LISTXATTR: return (n[1] ? llistxattr : listxattr)(through(c), (char *)buffer, n[0] ? XATTR_LIST_MAX : 0);
        case FLISTXATTR: return flistxattr(fd, (char *)buffer, n[0] ? XATTR_LIST_MAX : 0);
        case SETXATTR: return (n[3] ? lsetxattr : setxattr)(through(c), name, pool, (size_t)n[1], (int)n[2]);
        case FSETXATTR: return fsetxattr(fd, name, pool, (size_t)n[1], (int)n[2]);
        case REMOVEXATTR: return (n[1] ? lremovexattr : removexattr)(through(c), name);
        default: return fremovexattr(fd, name);
    }
}

#ifdef LISTED
static void keep_listing(const struct file *f, int64_t n);
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

/* ---- calls on a name
 * ------------------------------------------------------------------------------------------------- */
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

/* ---- calls on an open file
 * --------------------------------------------------------------------------------------------- */
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

/* ---- calls on memory
 * --------------------------------------------------------------------------------------------------- */
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

/* ---- all calls -----------------------------------------------------------------------------------------------------
 */

/* A quarter of an octave: what is in one place differs by a fifth at most. */
static void note(enum kind kind, uint64_t wall, uint64_t bytes) {
    unsigned octave = wall ? 63u - (unsigned)__builtin_clzll(wall) : 0;
    unsigned quarter = octave < 2 ? 0 : (unsigned)(wall >> (octave - 2)) & 3;
    spent[kind][octave * UNITS + quarter].count++;
    spent[kind][octave * UNITS + quarter].wall += wall;
    spent[kind][octave * UNITS + quarter].bytes += bytes;
}

static void note_file(struct call *c) {
    bool opened = c->kind == OPEN || c->kind == ENTER;
    if (opened && c->result >= 0) {
        if (c->opens < 0) close((int)c->result);
        else
            files[c->opens] = (struct file){.fd = (int)c->result,
                .append = c->kind == OPEN && c->n[0] & O_APPEND,
                .direct = c->kind == OPEN && c->n[0] & O_DIRECT};
        c->result = 0;
    }
    if (c->kind == CLOSE) c->file[0]->fd = -1;
    if (c->kind == READ && c->result > 0) c->file[0]->position += c->result;
    if (c->kind == WRITE && c->result > 0) c->file[0]->position = c->offset + c->result;
    if (c->kind == SEEK && c->result >= 0) c->file[0]->position = c->result;
    if (c->kind == COPY || c->kind == SEND)
        for (int i = 0; i < 2; i++)
            if (c->result > 0 && (i ? c->kind == SEND || c->n[2] < 0 : c->n[1] < 0)) c->file[i]->position += c->result;
}

static bool as_recorded(const struct call *c) {
    if (c->check == 2) return true;
    return c->check ? (c->result < 0) == (c->want < 0) : c->result == c->want;
}

static int judge(const struct call *c, uint64_t i) {
    if (!moved && (c->kind == READ || c->kind == PREAD) && c->result > 0) {
        int64_t where = unlike(buffer, c->offset, c->result);
        if (where >= 0) return broken("call %llu: wrong content at byte %lld", (unsigned long long)i, (long long)where);
    }
    if (as_recorded(c)) return 0;
    if (p.differing) printf("%llu\n", (unsigned long long)i);
    else if (differing < SHOWN)
        fprintf(stderr, "engine: replay: call %llu, %s %s: %lld (%s), recorded %lld (%s)\n", (unsigned long long)i,
            kinds[c->kind].name, c->path[0] ? c->path[0] : "", (long long)c->result,
            c->result < 0 ? strerror((int)-c->result) : "done", (long long)c->want,
            c->want < 0 ? strerror((int)-c->want) : "done");
    differing++;
    return 0;
}

static void put_samples(uint64_t start) {
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < 64 * UNITS; i++) {
            if (!spent[k][i].count) continue;
            sample_put(SAMPLE(.name = kinds[k].name, .start_ns = start, .wall_ns = spent[k][i].wall,
                .items = spent[k][i].count, .bytes = spent[k][i].bytes));
            start += spent[k][i].wall; /* one after the other, as the calls were */
        }
}

#if defined THREADS || defined LISTED
static const uint8_t **call_at; /* by call: where its text is */

/* Where each call stands; then `at` is behind the tree after. */
static bool find_calls(void) {
    struct call c;
    for (uint64_t i = 0; i < calls && !ends_early; i++) {
        call_at[i] = at;
        if (at >= end || !next_call(&c)) ends_early = true;
    }
    before = after; /* which is skipped alike */
    skip_tree();
    return !ends_early;
}

static int make_one(uint64_t i) {
    struct call c;
    at = call_at[i];
    if (!at || at >= end || !next_call(&c))
        return broken("%s is damaged at call %llu", p.recording, (unsigned long long)i);
    make_ready(&c);
    uint64_t start = now_ns();
    c.result = make(&c);
    uint64_t wall = now_ns() - start;
    if (c.result < 0) c.result = -errno;
    note_file(&c);
    bool data = c.kind == READ || c.kind == PREAD || c.kind == WRITE || c.kind == PWRITE;
    note(c.kind, wall, data && c.result > 0 ? (uint64_t)c.result : 0);
    return judge(&c, i);
}

#endif

#ifdef THREADS
/* ---- calls of several threads ----------------------------------------------------------------------------------- */
struct lane {
    uint64_t count;
    uint32_t *numbers;               /* of its calls, in their order */
    _Atomic uint32_t done, watchers; /* calls that are made; threads that sleep until there are more */
};
enum { LANES = 16 };
static struct lane lanes[LANES];
static uint64_t lane_count;
static const uint8_t **waits_at; /* by call: what it waits for */
static pthread_mutex_t summing = PTHREAD_MUTEX_INITIALIZER;
static struct spent sum[KINDS][64 * UNITS];
static uint64_t sum_differing;

/* Which calls each lane makes. */
static void find_lanes(void) {
    for (uint64_t i = 0; i < calls && !ends_early; i++) {
        uint64_t own = number();
        if (own >= lane_count) ends_early = true;
        else lanes[own].numbers[lanes[own].count++] = (uint32_t)i;
        waits_at[i] = at;
        for (uint64_t n = number(); n && !ends_early; n--) ends_early = number() >= lane_count || number() > calls;
    }
}

/* What is behind the tree after; false where the recording does not say, or not wholly. `at` stays. */
static bool read_lanes(void) {
    const uint8_t *from = at;
    waits_at = calloc(calls + 1, sizeof *waits_at);
    if (!waits_at) return false;
    lane_count = find_calls() && at < end ? number() : 0;
    if (lane_count > LANES) lane_count = 0;
    for (uint64_t l = 0; l < lane_count; l++)
        if (!(lanes[l].numbers = calloc(calls + 1, sizeof *lanes[l].numbers))) return false;
    if (lane_count) find_lanes();
    bool found = lane_count && !ends_early;
    at = from, ends_early = false;
    return found;
}

static void wait_for(struct lane *l, uint32_t count) {
    for (uint32_t done; (done = atomic_load(&l->done)) < count;) {
        atomic_fetch_add(&l->watchers, 1);
        if (atomic_load(&l->done) == done) syscall(SYS_futex, &l->done, FUTEX_WAIT_PRIVATE, done, NULL, NULL, 0);
        atomic_fetch_sub(&l->watchers, 1);
    }
}

static void *make_lane(void *which) {
    struct lane *l = which;
    /* A failure ends all: others would wait for ever. */
    if (posix_memalign((void **)&buffer, STREAM_BLOCK, LARGEST)) _exit(broken("no memory for the content of files"));
    memset(buffer, 0, POOL);
    for (uint64_t k = 0; k < l->count; k++) {
        uint64_t i = l->numbers[k];
        at = waits_at[i];
        for (uint64_t n = number(); n; n--) {
            struct lane *other = &lanes[number()];
            wait_for(other, (uint32_t)number());
        }
        if (make_one(i)) _exit(1);
        atomic_fetch_add(&l->done, 1);
        if (atomic_load(&l->watchers)) syscall(SYS_futex, &l->done, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
    }
    pthread_mutex_lock(&summing);
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < 64 * UNITS; i++) {
            sum[k][i].count += spent[k][i].count, sum[k][i].wall += spent[k][i].wall;
            sum[k][i].bytes += spent[k][i].bytes;
        }
    sum_differing += differing;
    pthread_mutex_unlock(&summing);
    free(buffer);
    return NULL;
}

static bool several_processors(void) {
    cpu_set_t set;
    return !sched_getaffinity(0, sizeof set, &set) && CPU_COUNT(&set) > 1;
}

static int make_in_order(void) {
    for (uint64_t i = 0; i < calls; i++)
        if (make_one(i)) return 1;
    return 0;
}

static int make_lanes(void) {
    pthread_t threads[LANES];
    for (uint64_t l = 0; l < lane_count; l++)
        if ((errno = pthread_create(&threads[l], NULL, make_lane, &lanes[l])))
            _exit(broken("no thread: %s", strerror(errno)));
    for (uint64_t l = 0; l < lane_count; l++) pthread_join(threads[l], NULL);
    memcpy(spent, sum, sizeof sum);
    differing = sum_differing;
    return 0;
}

#endif

#ifdef LISTED
/* ---- calls that follow listings --------------------------------------------------------------------------------- */
/* guest/listed.py says what a pass and its parts are. */
struct part {
    const char *name;
    uint64_t first, calls, pass, rank; /* pass: the number of the first one that is not before it */
};
struct pass {
    uint64_t first, calls, inner, parts;
    struct part *part;
    struct listing *listing;
};
static struct listing {
    uint8_t *entries; /* as getdents64 gives them; room for `room` bytes, where parts of a pass follow it */
    size_t used, room;
    bool wanted;
} *listings;
static struct pass *passes;
static uint64_t pass_count;

static void keep_listing(const struct file *f, int64_t n) {
    struct listing *l = &listings[f - files];
    if (!l->wanted || n <= 0) return;
    if (l->used + (size_t)n > l->room) {
        size_t room = 2 * l->room + (size_t)n;
        uint8_t *more = realloc(l->entries, room);
        if (!more) return; /* names that are not known come last, as they were recorded */
        l->entries = more, l->room = room;
    }
    memcpy(l->entries + l->used, buffer, (size_t)n);
    l->used += (size_t)n;
}

static bool read_pass(struct pass *a, uint64_t own) {
    a->first = number();
    uint64_t file = number(), call = a->first, inner = own + 1;
    a->parts = number();
    if (file >= handles || call > calls || a->parts > calls) return false;
    if (!(a->part = calloc(a->parts + 1, sizeof *a->part))) return false;
    a->listing = &listings[file], a->listing->wanted = true;
    for (struct part *b = a->part; b < a->part + a->parts; b++) {
        b->name = string(), b->first = call, b->pass = inner;
        b->calls = number();
        uint64_t within = number();
        if (ends_early || b->calls > calls - call || within > pass_count - inner) return false;
        call += b->calls, inner += within;
    }
    a->calls = call - a->first, a->inner = inner - own - 1;
    return a->calls;
}

/* What is behind the tree after; false where that is damaged. `at` is behind it then. */
static bool read_passes(void) {
    if (!find_calls() || number() != 0) return false; /* no lanes */
    pass_count = number();
    listings = calloc(handles + 1, sizeof *listings);
    if (pass_count > calls || !listings || !(passes = calloc(pass_count + 1, sizeof *passes))) return false;
    for (uint64_t k = 0; k < pass_count; k++)
        if (!read_pass(&passes[k], k)) return false;
    return true;
}

static int by_name(const void *a, const void *b) {
    return strcmp((*(struct part *const *)a)->name, (*(struct part *const *)b)->name);
}
static int by_rank(const void *a, const void *b) {
    const struct part *x = *(struct part *const *)a, *y = *(struct part *const *)b;
    uint64_t left = x->rank == y->rank ? x->first : x->rank, right = x->rank == y->rank ? y->first : y->rank;
    return left < right ? -1 : left > right;
}

/* The parts in the order in which their names were listed. */
static struct part **in_order(struct pass *a) {
    struct part **order = calloc(a->parts + 1, sizeof *order);
    if (!order) return NULL;
    for (uint64_t k = 0; k < a->parts; k++) order[k] = &a->part[k], order[k]->rank = UINT64_MAX;
    qsort(order, a->parts, sizeof *order, by_name);
    const struct listing *l = a->listing;
    for (size_t k = 0; k < l->used;) {
        const struct dirent *entry = (const struct dirent *)(const void *)(l->entries + k);
        struct part wanted = {.name = entry->d_name}, *key = &wanted;
        struct part **found = bsearch(&key, order, a->parts, sizeof *order, by_name);
        if (found && (*found)->rank == UINT64_MAX) (*found)->rank = k;
        k += entry->d_reclen;
    }
    qsort(order, a->parts, sizeof *order, by_rank);
    return order;
}

static int make_part(struct part part);

static int make_pass(struct pass *a) {
    struct part **order = in_order(a);
    if (!order) return broken("no memory for the order of names");
    int failed = 0;
    for (uint64_t k = 0; k < a->parts && !failed; k++) failed = make_part(*order[k]);
    free(order);
    return failed;
}

static int make_part(struct part part) {
    while (part.calls) {
        struct pass *a = part.pass < pass_count ? &passes[part.pass] : NULL;
        if (a && (a->first != part.first || a->calls > part.calls)) a = NULL;
        if (a ? make_pass(a) : make_one(part.first)) return 1;
        uint64_t made = a ? a->calls : 1;
        part.first += made, part.calls -= made, part.pass += a ? 1 + a->inner : 0;
    }
    return 0;
}
#endif

#if defined THREADS || defined LISTED
static int make_calls(void) {
    struct rlimit limit;
    for (uint64_t i = 0; i <= handles; i++) files[i].fd = -1;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = limit.rlim_max, setrlimit(RLIMIT_NOFILE, &limit);
    files[0].fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files[0].fd < 0) return stream_failed("open", p.folder, errno);
    umask(0);
    if (!(call_at = calloc(calls + 1, sizeof *call_at))) return broken("no memory for calls");
#ifdef LISTED
    if (!read_passes()) return broken("%s is damaged", p.recording);
    uint64_t began = now_ns();
    if (make_part((struct part){.calls = calls})) return 1;
#else
    bool several = read_lanes() && several_processors();
    uint64_t began = now_ns();
    if (several ? make_lanes() : make_in_order()) return 1;
#endif
    uint64_t start = now_ns();
    if (syncfs(files[0].fd)) return stream_failed("flush", p.folder, errno);
    note(FINAL, now_ns() - start, 0);
    put_samples(began - program_began);
    if (!differing || p.differing) return 0;
    return broken("%llu of %llu calls had another result", (unsigned long long)differing, (unsigned long long)calls);
}

#else /* The same in one function: as it is compiled, so the exact lab counts. */
static int make_calls(void) {
    struct rlimit limit;
    for (uint64_t i = 0; i <= handles; i++) files[i].fd = -1;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = limit.rlim_max, setrlimit(RLIMIT_NOFILE, &limit);
    files[0].fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files[0].fd < 0) return stream_failed("open", p.folder, errno);
    umask(0);
    uint64_t began = now_ns(), start;
    for (uint64_t i = 0; i < calls; i++) {
        struct call c;
        if (at >= end || !next_call(&c))
            return broken("%s is damaged at call %llu", p.recording, (unsigned long long)i);
        make_ready(&c);
        start = now_ns();
        c.result = make(&c);
        uint64_t wall = now_ns() - start;
        if (c.result < 0) c.result = -errno;
        note_file(&c);
        bool data = c.kind == READ || c.kind == PREAD || c.kind == WRITE || c.kind == PWRITE;
        note(c.kind, wall, data && c.result > 0 ? (uint64_t)c.result : 0);
        if (judge(&c, i)) return 1;
    }
    start = now_ns();
    if (syncfs(files[0].fd)) return stream_failed("flush", p.folder, errno);
    note(FINAL, now_ns() - start, 0);
    put_samples(began - program_began);
    if (!differing || p.differing) return 0;
    return broken("%llu of %llu calls had another result", (unsigned long long)differing, (unsigned long long)calls);
}
#endif

/* ---- the tree after
 * -------------------------------------------------------------------------------------------------- */
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
        case 'd': mode = number(); return S_ISDIR(s->st_mode) && (!strcmp(path, ".") || (s->st_mode & 01777) == mode);
        case 'f':
            mode = number(), size = number(), number();
            return S_ISREG(s->st_mode) && (s->st_mode & 01777) == mode && (uint64_t)s->st_size == size;
        case 'l': string(); return S_ISLNK(s->st_mode);
        default: string(); return S_ISREG(s->st_mode);
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
        const char *path = string();
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

static int run(void) {
    bool makes = p.how == MAKE_TREE || p.how == BOTH;
    if (load() || open_pool() || enter(makes)) return 1;
    files = calloc(handles + 1, sizeof *files), mappings = calloc(handles + 1, sizeof *mappings);
    if (!files || !mappings) return broken("no memory for open files");
    const uint8_t *trees = at;
    umask(0);
    if (makes && make_tree()) return 1;
    if (p.how == MAKE_TREE) return 0;
    at = trees;
    skip_tree();
    return p.how == LOOK ? verify() : make_calls();
}

const struct program program = {
    NAME, "A recorded program's file-system calls, made again.", OPTIONS(options), prepare, check, run};
