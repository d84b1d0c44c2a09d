/* The kinds of calls: a name, and arguments as plan/recording.py has them; in its order. */
#ifndef REPROFS_REPLAY_KINDS_H
#define REPROFS_REPLAY_KINDS_H

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

#endif
