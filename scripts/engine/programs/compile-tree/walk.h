/* Walks of a tree: to read, to stat, to delete. */
#ifndef REPROFS_COMPILE_TREE_WALK_H
#define REPROFS_COMPILE_TREE_WALK_H

#include "files.h"
#include "program.h"
#include "sequence.h"
#include "states.h"
#include "tree.h"
#include "write.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A directory's entries, in the order in which the file system tells them: a type and a name each. */
struct listing {
    char *text;
    size_t used, room;
};
static int list_entries(int fd, struct listing *l) {
    int copy = dup(fd);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d) return -1;
    errno = 0;
    for (struct dirent *e; (e = readdir(d)); errno = 0) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        size_t n = strlen(e->d_name) + 1;
        if (l->used + n + 1 > l->room) {
            l->room = 2 * l->room + n + 1024;
            l->text = realloc(l->text, l->room);
            if (!l->text) exit(broken("no memory for the names of a directory"));
        }
        struct stat s;
        unsigned char type = e->d_type;
        if (type == DT_UNKNOWN && !fstatat(fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW))
            type = S_ISDIR(s.st_mode) ? DT_DIR : S_ISREG(s.st_mode) ? DT_REG : DT_LNK;
        l->text[l->used] = type == DT_DIR ? 'd' : type == DT_REG ? 'f' : 'x';
        memcpy(l->text + l->used + 1, e->d_name, n);
        l->used += n + 1;
    }
    int error = errno;
    closedir(d);
    errno = error;
    return error ? -1 : 0;
}

/* Called for every file of a walk. Returns a sentence about what is wrong with it, or an empty one: then errno tells;
 * NULL: all right. */
typedef const char *visitor(int fd, const char *name, uint64_t directory, struct account *a);

/* The number of a directory that compile-tree made in directory d; 0 if it did not. */
static uint64_t directory_number(const char *name, uint64_t d) {
    uint64_t number;
    char want[NAME_BYTES];
    if (!name_number(name, &number) || !number || number >= n_directories || parent[number] != d) return 0;
    directory_name(number, want);
    return strcmp(want, name) ? 0 : number;
}

/* A walk of a tree: `at` is the path of the directory in which it is. */
struct walk {
    enum op op;
    visitor *visit;
    struct account *account;
    char at[PATH_BYTES];
};
static int walk_below(struct walk *w, int above, const char *name, uint64_t d);

static int walk_directory(struct walk *w, int fd, const char *name, uint64_t d) {
    size_t end = strlen(w->at);
    uint64_t number = directory_number(name, d);
    snprintf(w->at + end, PATH_BYTES - end, "/%s", name);
    int bad = number ? walk_below(w, fd, name, number) : broken("%s: a directory that should not be there", w->at);
    if (!bad && w->op == DELETE && unlinkat(fd, name, AT_REMOVEDIR)) bad = cannot("remove", w->at, "");
    w->at[end] = 0;
    return bad;
}

static int walk_file(struct walk *w, int fd, const char *name, uint64_t d) {
    const char *why = w->visit(fd, name, d, w->account);
    w->account->items++;
    if (!why) return 0;
    return *why ? broken("%s/%s: %s", w->at, name, why) : cannot(op_name[w->op], w->at, name);
}

/* Files first and then the directories, or (deleting) the other way around. d: the number of the directory. */
static int walk_below(struct walk *w, int above, const char *name, uint64_t d) {
    struct listing l = {0};
    int fd = openat(above, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), bad = 0;
    if (strlen(w->at) + NAME_BYTES + 256 > PATH_BYTES)
        bad = broken("%s: directories that compile-tree did not make", w->at);
    else if (fd < 0 || list_entries(fd, &l)) bad = cannot("list", w->at, "");
    for (int part = 0; part < 2 && !bad; part++) {
        bool directories = part != (w->op == DELETE);
        for (size_t p = 0; p < l.used && !bad; p += strlen(l.text + p + 1) + 2)
            if ((l.text[p] == 'd') == directories)
                bad = (directories ? walk_directory : walk_file)(w, fd, l.text + p + 1, d);
    }
    if (fd >= 0) close(fd);
    free(l.text);
    return bad;
}

static int walk_tree(const char *name, enum op op, visitor *visit, struct account *a) {
    static struct walk w; /* one at a time */
    w.op = op, w.visit = visit, w.account = a;
    snprintf(w.at, sizeof w.at, "%s", name);
    return walk_below(&w, AT_FDCWD, name, 0);
}

static const char *visit_stat(int fd, const char *name, uint64_t d, struct account *a) {
    struct stat s;
    (void)d, (void)a;
    return fstatat(fd, name, &s, AT_SYMLINK_NOFOLLOW) ? "" : NULL;
}
static const char *visit_delete(int fd, const char *name, uint64_t d, struct account *a) {
    (void)d, (void)a;
    return unlinkat(fd, name, 0) ? "" : NULL;
}
static const char *visit_read(int fd, const char *name, uint64_t d, struct account *a) {
    (void)d;
    int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (file < 0) return "";
    ssize_t n;
    while ((n = read(file, buffer, o.buffer)) > 0) a->bytes += (uint64_t)n;
    int error = errno;
    close(file);
    errno = error;
    return n < 0 ? "" : NULL;
}

#endif
