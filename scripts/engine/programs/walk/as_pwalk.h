/* pwalk's way. */
#ifndef REPROFS_WALK_AS_PWALK_H
#define REPROFS_WALK_AS_PWALK_H

#include "directories.h"
#include "found.h"
#include "rows.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

struct errand { /* a directory to go through */
    struct stat status;
    uint64_t parent;
    int64_t depth;
    size_t length;
    char path[PATH_MAX];
};
static atomic_uint running; /* threads */
static pthread_cond_t ended = PTHREAD_COND_INITIALIZER;
static struct rows shared_rows;
static pthread_attr_t thread_attributes;

static void row_locked(const char *path, size_t length, const struct stat *s, uint64_t parent, int64_t depth,
    int64_t files, uint64_t bytes) {
    if (o.out < 0) return;
    pthread_mutex_lock(&lock);
    shared_rows.used = (size_t)(put_row(
                                    shared_rows.text + shared_rows.used, path, length, s, parent, depth, files, bytes) -
        shared_rows.text);
    if (shared_rows.used >= ROWS_BYTES) rows_write(&shared_rows, true);
    pthread_mutex_unlock(&lock);
}

static void go_through(
    struct tally *t, char *path, size_t length, const struct stat *self, uint64_t parent, int64_t depth);

static void *thread_run(void *what) {
    struct errand *e = what;
    struct tally t = {0};
    go_through(&t, e->path, e->length, &e->status, e->parent, e->depth);
    free(e);
    add_tally(&t);
    pthread_mutex_lock(&lock);
    atomic_fetch_sub(&running, 1);
    pthread_cond_signal(&ended);
    pthread_mutex_unlock(&lock);
    return NULL;
}

/* True when a thread of its own goes through the directory. */
static bool sent(const char *path, size_t length, const struct stat *s, uint64_t parent, int64_t depth) {
    if (o.threads == 1 || atomic_load(&running) >= o.threads) return false;
    if (atomic_fetch_add(&running, 1) < o.threads) {
        struct errand *e = malloc(sizeof *e);
        pthread_t thread;
        if (e) {
            e->status = *s, e->parent = parent, e->depth = depth, e->length = length;
            memcpy(e->path, path, length + 1);
            if (!pthread_create(&thread, &thread_attributes, thread_run, e)) return true;
            free(e);
        }
    }
    atomic_fetch_sub(&running, 1);
    return false;
}

static void go_through(
    struct tally *t, char *path, size_t length, const struct stat *self, uint64_t parent, int64_t depth) {
    enum { BUFFER = 32768 };
    uint64_t files = 0, bytes = 0;
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    char *buffer = fd < 0 ? NULL : malloc(BUFFER);
    long n = -1;
    size_t prefix = length == 1 && path[0] == '/' ? 0 : length;
    while (buffer && (n = names_of(fd, buffer, BUFFER)) > 0)
        for (struct entry *e = (void *)buffer; (char *)e < buffer + n; e = (void *)((char *)e + e->length)) {
            if (is_dots(e->name)) continue;
            size_t all_of_it = prefix + 1 + strlen(e->name);
            path[prefix] = '/';
            if (all_of_it >= PATH_MAX) {
                path[prefix] = 0;
                unread(t, prefix ? path : "/", ENAMETOOLONG);
                continue;
            }
            memcpy(path + prefix + 1, e->name, all_of_it - prefix);
            struct stat s;
            if (lstat(path, &s)) {
                unread(t, path, errno);
                continue;
            }
            if (S_ISDIR(s.st_mode)) {
                if (is_left_out(e->name, path)) continue;
                t->entries++;
                t->directories++;
                if (!is_entered(&s, depth + 1)) row_locked(path, all_of_it, &s, self->st_ino, depth + 1, 0, 0);
                else if (!sent(path, all_of_it, &s, self->st_ino, depth + 1))
                    go_through(t, path, all_of_it, &s, self->st_ino, depth + 1);
            } else {
                t->entries++;
                files++;
                bytes += (uint64_t)s.st_size;
                row_locked(path, all_of_it, &s, self->st_ino, depth + 1, -1, 0);
            }
        }
    int error = errno;
    path[prefix] = 0;
    if (!prefix) strcpy(path, "/");
    if (n < 0) unread(t, path, error);
    free(buffer);
    if (fd >= 0) close(fd);
    t->bytes += bytes;
    row_locked(path, length, self, parent, depth, (int64_t)files, bytes);
}

static void walk_as_pwalk(const struct stat *top) {
    static char path[PATH_MAX];
    struct tally t = {.entries = 1, .directories = 1};
    pthread_attr_init(&thread_attributes);
    pthread_attr_setdetachstate(&thread_attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&thread_attributes, STACK_BYTES);
    atomic_store(&running, 1);
    memcpy(path, o.top, strlen(o.top) + 1);
    go_through(&t, path, strlen(path), top, 0, -1);
    add_tally(&t);
    pthread_mutex_lock(&lock);
    while (atomic_load(&running) > 1) pthread_cond_wait(&ended, &lock);
    pthread_mutex_unlock(&lock);
    rows_write(&shared_rows, false);
}

#endif
