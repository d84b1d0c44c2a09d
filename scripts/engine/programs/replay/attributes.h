/* Calls on extended attributes. */
#ifndef REPROFS_REPLAY_ATTRIBUTES_H
#define REPROFS_REPLAY_ATTRIBUTES_H

#include "call.h"

#include <errno.h>
#include <linux/limits.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/xattr.h>

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

#endif
