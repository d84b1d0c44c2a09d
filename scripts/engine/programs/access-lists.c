/* Access control lists of many small files (acl(5)), made and read as setfacl and getfacl do: through the extended
 * attributes that the kernel shows them as (xattr(7); linux/posix_acl_xattr.h). All files have the same list, as those
 * of a project have: owner, some named users, group, mask. `set`, `get` and `remove` find files that `engine file-ops`
 * made; `create` makes empty ones, `inherit` makes them in a folder with a default list, which they take over.
 * --verify compares each list with what acl(5) says that it is, byte for byte. */
#define _GNU_SOURCE
#include "program.h"
#include "stream.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/posix_acl.h>
#include <linux/posix_acl_xattr.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

enum { NAME = 48, USERS_MOST = 1000, FIRST_USER = 10000, OTHERS = 4 }; /* entries besides those of named users */
enum how { CREATE, INHERIT, SET, GET, REMOVE };
static const char *const hows[] = {"create", "inherit", "set", "get", "remove", NULL};
static const char access_list[] = "system.posix_acl_access", default_list[] = "system.posix_acl_default";
static struct {
    uint64_t files, users;
    unsigned how;
    bool verify;
    const char *folder;
} p = {.users = 2};

static const struct option options[] = {
    CHOICE("--how", p.how, hows, "what is done to each file"),
    NUMBER("--files", p.files, 1, UINT32_MAX, "files"),
    NUMBER("--users", p.users, 1, USERS_MOST, "named users in a list"),
    FLAG("--verify", p.verify, "whether every list is as that left it"),
    WORD("folder", p.folder, "where the files are"),
};

struct list {
    struct posix_acl_xattr_header header;
    struct posix_acl_xattr_entry entry[USERS_MOST + OTHERS];
};

static struct posix_acl_xattr_entry entry(unsigned tag, unsigned allowed, uint32_t id) {
    return (struct posix_acl_xattr_entry){htole16((uint16_t)tag), htole16((uint16_t)allowed), htole32(id)};
}

/* A list in the order in which the kernel keeps it; every other named user may write. Returns its bytes. */
static size_t fill(struct list *list, unsigned owner, unsigned group, unsigned mask) {
    const uint32_t nobody = (uint32_t)ACL_UNDEFINED_ID;
    size_t n = 0;
    list->header.a_version = htole32(POSIX_ACL_XATTR_VERSION);
    list->entry[n++] = entry(ACL_USER_OBJ, owner, nobody);
    for (uint32_t i = 0; i < p.users; i++)
        list->entry[n++] = entry(ACL_USER, ACL_READ | (i % 2 ? ACL_WRITE : 0), FIRST_USER + i);
    list->entry[n++] = entry(ACL_GROUP_OBJ, group, nobody);
    list->entry[n++] = entry(ACL_MASK, mask, nobody);
    list->entry[n++] = entry(ACL_OTHER, 0, nobody);
    return sizeof list->header + n * sizeof *list->entry;
}
static size_t fill_access(struct list *list) {
    return fill(list, ACL_READ | ACL_WRITE, ACL_READ, ACL_READ | ACL_WRITE);
}
static size_t fill_default(struct list *list) { return fill(list, 7, ACL_READ | ACL_EXECUTE, 7); }
/* What a file made with mode 0640 has of the default list: the mode takes away from owner and mask. */
static size_t fill_inherited(struct list *list) {
    return fill(list, ACL_READ | ACL_WRITE, ACL_READ | ACL_EXECUTE, ACL_READ);
}

static int prepare(void) { return p.files ? 0 : wrong("--files must be given"); }
static int check(void) { return needs(0, p.how <= INHERIT ? p.files : 0); }

static int make_folder(void) {
    static struct list list;
    size_t bytes = fill_default(&list);
    if (mkdir(p.folder, 0750)) return stream_failed("make", p.folder, errno);
    if (p.how == INHERIT && setxattr(p.folder, default_list, &list, bytes, 0))
        return stream_failed("set the default list of", p.folder, errno);
    return 0;
}

/* Returns 0 or errno. */
static int done_to(const char *name, const struct list *list, size_t bytes) {
    static struct list found;
    int file;
    switch ((enum how)p.how) {
        case CREATE:
        case INHERIT:
            file = open(name, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0640);
            return file < 0 || close(file) ? errno : 0;
        case SET: return setxattr(name, access_list, list, bytes, 0) ? errno : 0;
        case GET: return getxattr(name, access_list, &found, sizeof found) < 0 ? errno : 0;
        case REMOVE: return removexattr(name, access_list) ? errno : 0;
    }
    return EINVAL;
}

/* Whether the list of a file is as it must be; bytes: 0 for no list. */
static bool as_left(const char *name, const struct list *list, size_t bytes) {
    static struct list found;
    ssize_t n = getxattr(name, access_list, &found, sizeof found);
    if (!bytes) return n < 0 && errno == ENODATA && !access(name, F_OK);
    return n == (ssize_t)bytes && !memcmp(&found, list, bytes);
}

static int run(void) {
    static struct list list;
    bool makes = !p.verify && p.how <= INHERIT;
    int code = makes && p.folder ? make_folder() : 0;
    if (!code) code = stream_enter(p.folder);
    size_t bytes = p.how == INHERIT ? fill_inherited(&list) : fill_access(&list);
    if (p.verify && (p.how == CREATE || p.how == REMOVE)) bytes = 0;
    for (uint64_t i = 0; !code && i < p.files; i++) {
        char name[NAME];
        snprintf(name, sizeof name, "file-%08llu", (unsigned long long)i);
        if (p.verify) {
            if (!as_left(name, &list, bytes)) return broken("the list of %s is not as it was left", name);
            continue;
        }
        int error = done_to(name, &list, bytes);
        if (error) code = stream_failed(hows[p.how], name, error);
    }
    return code;
}

const struct program program = {
    "access-lists", "Access control lists of many small files.", OPTIONS(options), prepare, check, run};
