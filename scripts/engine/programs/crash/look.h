/* What is there: every name that a sequence knows, with its content, and what the folders list. */
#ifndef REPROFS_CRASH_LOOK_H
#define REPROFS_CRASH_LOOK_H

#include "calls.h"

#include <dirent.h>

struct seen {
    char type; /* f, d, l, ? another; e: an error; 0: nothing */
    int error, attribute; /* attribute: a call, 0: none */
    long bytes;
    unsigned links;
    ino_t inode;
    bool listed;
    uint16_t tag[SECTORS];
    int16_t node[SECTORS];
    char target[LETTERS];
};
static struct seen seen[NAMES];
static char odd[96]; /* the first thing in which folders and files contradict each other */

static void see_bytes(struct seen *s, const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC), node;
    ssize_t n = 0, got = 0;
    if (fd >= 0) {
        while (got < (ssize_t)sizeof buffer && (n = pread(fd, buffer + got, sizeof buffer - (size_t)got, got)) > 0)
            got += n;
    }
    if (fd < 0 || n < 0) {
        s->type = 'e';
        s->error = errno;
    }
    memset(buffer + got, 0, sizeof buffer - (size_t)got);
    for (int i = 0; i * SECTOR < got; i++) {
        s->tag[i] = (uint16_t)tag_of(buffer + i * SECTOR, i, &node);
        s->node[i] = (int16_t)node;
    }
    if (fd >= 0) close(fd);
}

static void see(int n) {
    struct seen *s = &seen[n];
    struct stat st;
    char room[PATH_MAX], value[16] = "";
    const char *path = path_of(names[n], room);
    memset(s, 0, sizeof *s);
    if (lstat(path, &st)) {
        s->type = errno == ENOENT || errno == ENOTDIR ? 0 : 'e';
        s->error = errno;
        return;
    }
    s->type = S_ISREG(st.st_mode) ? 'f' : S_ISDIR(st.st_mode) ? 'd' : S_ISLNK(st.st_mode) ? 'l' : '?';
    s->bytes = st.st_size;
    s->links = (unsigned)st.st_nlink;
    s->inode = st.st_ino;
    if (s->type == 'f') {
        see_bytes(s, path);
        if (getxattr(path, ATTRIBUTE, value, sizeof value - 1) > 0) s->attribute = atoi(value);
    } else if (s->type == 'l' && readlink(path, s->target, LETTERS - 1) < 0) {
        s->type = 'e';
        s->error = errno;
    }
}

static void contradiction(const char *what, const char *name) {
    if (!*odd) snprintf(odd, sizeof odd, "%.48s %s", name, what);
}

static void list(const char *folder) {
    char room[PATH_MAX], name[300];
    bool is_top = !strcmp(folder, ".");
    DIR *d = opendir(path_of(folder, room));
    if (!d) return contradiction("cannot be listed", folder);
    errno = 0;
    int entries = 0;
    for (struct dirent *e; (e = readdir(d)); errno = 0) {
        int n = 0;
        if (entries++ > 4 * NAMES) { /* a damaged folder may have no end */
            contradiction("is listed without an end", folder);
            break;
        }
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        snprintf(name, sizeof name, "%s%s%s", is_top ? "" : folder, is_top ? "" : "/", e->d_name);
        while (n < n_names && strcmp(names[n], name)) n++;
        if (n == n_names) contradiction("is a name that nobody made", name);
        else if (!seen[n].type) contradiction("is listed, but not there", name);
        else if (seen[n].listed) contradiction("is listed twice", name);
        if (n < n_names) seen[n].listed = true;
    }
    if (errno) contradiction("cannot be listed to its end", folder);
    closedir(d);
}

static void look(void) {
    *odd = 0;
    for (int n = 0; n < n_names; n++) see(n);
    list(".");
    for (int n = 0; n < n_names; n++)
        if (seen[n].type == 'd') list(names[n]);
    for (int n = 0; n < n_names; n++) {
        unsigned links = 0;
        if (seen[n].type && seen[n].type != 'e' && !seen[n].listed) contradiction("is there, but not listed", names[n]);
        for (int m = 0; m < n_names; m++) links += seen[m].type == 'f' && seen[m].inode == seen[n].inode;
        if (seen[n].type == 'f' && links != seen[n].links)
            contradiction("has another number of names than it says", names[n]);
    }
}
#endif
