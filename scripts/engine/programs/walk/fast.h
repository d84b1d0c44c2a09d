/* The fast way. */
#ifndef REPROFS_WALK_FAST_H
#define REPROFS_WALK_FAST_H

#include "directories.h"
#include "found.h"
#include "program.h"
#include "rows.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct node { /* a directory that is not finished: waiting, being read, or with such below it */
    struct node *parent, *up, *down; /* neighbours in a stack */
    atomic_uint holds;               /* its own reading and every child that is not finished */
    int fd;                          /* -1: not open yet */
    uint32_t length;
    int64_t depth;
    uint64_t files, bytes;
    struct stat status; /* unless counting */
    char name[];
};
struct stack {
    struct node *top, *bottom;
    size_t count;
};
enum { SHORT_NAME = 40 };
struct worker {
    pthread_t thread;
    struct tally t;
    struct stack todo;
    struct node *spare; /* nodes for short names, to be used again */
    uint64_t names[NAMES_BYTES / 8];
    char path[PATHS_BYTES];
    struct rows rows;
};
static struct stack gifts; /* under the lock */
static pthread_cond_t given = PTHREAD_COND_INITIALIZER;
static unsigned busy;       /* workers that have something, under the lock */
static atomic_uint waiting; /* workers that have nothing */
static atomic_bool offered; /* some thread has given work away */

static void push(struct stack *s, struct node *n) {
    n->down = s->top, n->up = NULL;
    if (s->top) s->top->up = n;
    else s->bottom = n;
    s->top = n;
    s->count++;
}
static struct node *pop(struct stack *s) {
    struct node *n = s->top;
    if (!n) return NULL;
    s->top = n->down;
    if (s->top) s->top->up = NULL;
    else s->bottom = NULL;
    s->count--;
    return n;
}
static struct node *pop_bottom(struct stack *s) {
    struct node *n = s->bottom;
    s->bottom = n->up;
    if (s->bottom) s->bottom->down = NULL;
    else s->top = NULL;
    s->count--;
    return n;
}

static struct node *new_node(struct worker *w, struct node *parent, const char *name, size_t length) {
    struct node *n = length < SHORT_NAME ? w->spare : NULL;
    if (n) w->spare = n->down;
    else if (!(n = malloc(sizeof *n + (length < SHORT_NAME ? SHORT_NAME : length + 1)))) return NULL;
    n->parent = parent;
    if (parent) atomic_fetch_add_explicit(&parent->holds, 1, memory_order_relaxed);
    atomic_store_explicit(&n->holds, 1, memory_order_relaxed);
    n->fd = -1, n->length = (uint32_t)length, n->depth = parent ? parent->depth + 1 : -1, n->files = n->bytes = 0;
    memcpy(n->name, name, length + 1);
    return n;
}

/* The path of a directory without a slash at its end ("" for /), in w->path. SIZE_MAX when there is no room. */
static size_t put_path(struct worker *w, const struct node *n) {
    size_t length = 0;
    for (const struct node *i = n; i; i = i->parent) length += i->length + (i->parent ? 1 : 0);
    if (length + NAME_MAX + 2 > PATHS_BYTES) return SIZE_MAX;
    size_t at = length;
    for (const struct node *i = n; i; i = i->parent) {
        at -= i->length;
        memcpy(w->path + at, i->name, i->length);
        if (i->parent) w->path[--at] = '/';
    }
    w->path[length] = 0;
    return length;
}
static void fast_row(struct worker *w, size_t length, const struct stat *s, uint64_t parent, int64_t depth,
    int64_t files, uint64_t bytes) {
    if (o.out < 0) return;
    w->rows.used = (size_t)(put_row(w->rows.text + w->rows.used, w->path, length, s, parent, depth, files, bytes) -
        w->rows.text);
    if (w->rows.used >= ROWS_BYTES) rows_write(&w->rows, false);
}

/* One hold less; the last writes the directory's row and lets go of its parent. */
static void release(struct worker *w, struct node *n) {
    while (n && atomic_fetch_sub_explicit(&n->holds, 1, memory_order_acq_rel) == 1) {
        struct node *parent = n->parent;
        if (o.out >= 0) {
            size_t length = put_path(w, n);
            if (length == 0) length = 1, strcpy(w->path, "/");
            if (length != SIZE_MAX)
                fast_row(
                    w, length, &n->status, parent ? parent->status.st_ino : 0, n->depth, (int64_t)n->files, n->bytes);
        }
        if (n->fd >= 0) close(n->fd);
        w->t.bytes += n->bytes;
        if (n->length < SHORT_NAME) {
            n->down = w->spare;
            w->spare = n;
        } else free(n);
        n = parent;
    }
}

/* The directory cannot be read, or read on: its path, as far as there is room for it, and why. */
static void give_up(struct worker *w, struct node *n, int error) {
    if (put_path(w, n) == SIZE_MAX) strcpy(w->path, "a path of more than 64 KiB");
    unread(&w->t, *w->path ? w->path : "/", error);
}

/* Inspects an entry, unless its type is enough. */
static bool inspect(struct worker *w, struct node *n, const struct entry *e, struct stat *s, bool *directory) {
    *directory = e->type == DT_DIR;
    if (o.count && e->type != DT_UNKNOWN && !(*directory && o.one_file_system)) return true;
    if (fstatat(n->fd, e->name, s, AT_SYMLINK_NOFOLLOW)) {
        int error = errno;
        if (put_path(w, n) == SIZE_MAX) *w->path = 0;
        strcat(strcat(w->path, "/"), e->name);
        unread(&w->t, w->path, error);
        return false;
    }
    *directory = S_ISDIR(s->st_mode);
    return true;
}

/* s: only filled in when it is not counted alone, or when it decides whether a directory is entered. */
static void found_directory(struct worker *w, struct node *n, const char *name, size_t length, size_t whole,
    const struct stat *s, struct stack *found) {
    struct node *child = NULL;
    w->t.directories++;
    if (!is_entered(s, n->depth + 1)) {
        if (!o.count) fast_row(w, whole, s, n->status.st_ino, n->depth + 1, 0, 0);
    } else if (!(child = new_node(w, n, name, length))) unread(&w->t, name, ENOMEM);
    else {
        if (!o.count) child->status = *s;
        push(found, child);
    }
}

/* One name of a directory. length: of the directory's path in w->path, if paths are needed. */
static void read_entry(
    struct worker *w, struct node *n, const struct entry *e, bool paths, size_t length, struct stack *found) {
    struct stat s;
    bool directory;
    if (!inspect(w, n, e, &s, &directory)) return;
    size_t name = 0, whole = 0;
    if (directory || paths) {
        name = strlen(e->name), whole = length + 1 + name;
        if (paths) {
            w->path[length] = '/';
            memcpy(w->path + length + 1, e->name, name + 1);
        }
        if (directory && is_left_out(e->name, w->path)) return;
    }
    w->t.entries++;
    if (directory) return found_directory(w, n, e->name, name, whole, &s, found);
    if (o.count) return;
    n->files++;
    n->bytes += (uint64_t)s.st_size;
    if (paths) fast_row(w, whole, &s, n->status.st_ino, n->depth + 1, -1, 0);
}

/* Reads one buffer of names of a directory. */
static void read_directory(struct worker *w, struct node *n) {
    bool paths = o.out >= 0 || o.excluded_count;
    size_t length = paths ? put_path(w, n) : 0;
    if (n->fd < 0)
        n->fd = openat(n->parent ? n->parent->fd : AT_FDCWD, n->length ? n->name : "/",
            O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (length == SIZE_MAX) errno = ENAMETOOLONG;
    long got = n->fd < 0 || length == SIZE_MAX ? -1 : names_of(n->fd, w->names, sizeof w->names);
    if (got <= 0) {
        if (got < 0) give_up(w, n, errno);
        return release(w, n);
    }
    char *buffer = (char *)w->names;
    struct stack found = {0};
    for (struct entry *e = (void *)buffer; (char *)e < buffer + got; e = (void *)((char *)e + e->length))
        if (!is_dots(e->name)) read_entry(w, n, e, paths, length, &found);
    push(&w->todo, n); /* the next buffer, after what this one brought */
    while (found.top) push(&w->todo, pop(&found)); /* the first found on top */
}

/* The next directory of this worker, or of another; NULL when all is done. */
static struct node *next_node(struct worker *w) {
    struct node *n = pop(&w->todo);
    if (n || o.threads == 1) return n;
    pthread_mutex_lock(&lock);
    busy--;
    atomic_fetch_add(&waiting, 1);
    while (!gifts.count && busy) pthread_cond_wait(&given, &lock);
    atomic_fetch_sub(&waiting, 1);
    if (gifts.count) {
        busy++;
        for (size_t share = (gifts.count + 1) / 2; share; share--) push(&w->todo, pop_bottom(&gifts));
        n = pop(&w->todo);
        atomic_store(&offered, gifts.count > 0);
        if (gifts.count) pthread_cond_signal(&given); /* the rest is for the next */
    } else pthread_cond_broadcast(&given); /* no thread has work left: the end */
    pthread_mutex_unlock(&lock);
    return n;
}
/* Gives away the older half, which is nearest to the top of the tree. */
static void give(struct worker *w) {
    size_t share = w->todo.count / 2;
    if (share > GIFT) share = GIFT;
    pthread_mutex_lock(&lock);
    for (; share; share--) push(&gifts, pop_bottom(&w->todo));
    atomic_store(&offered, true);
    pthread_cond_signal(&given); /* one at a time: a crowd would only fight for the lock */
    pthread_mutex_unlock(&lock);
}

static void *worker_run(void *what) {
    struct worker *w = what;
    for (struct node *n; (n = next_node(w));) {
        read_directory(w, n);
        if (w->todo.count > 1 && atomic_load_explicit(&waiting, memory_order_relaxed) &&
            !atomic_load_explicit(&offered, memory_order_relaxed))
            give(w);
    }
    rows_write(&w->rows, false);
    add_tally(&w->t);
    return NULL;
}

static int walk_fast(const struct stat *top) {
    static struct worker *workers[THREADS_MAX];
    /* untouched pages cost nothing, which calloc does not promise */
    for (uint64_t i = 0; i < o.threads; i++) {
        workers[i] = mmap(NULL, sizeof **workers, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (workers[i] == MAP_FAILED) return broken("no memory for %llu threads", (unsigned long long)o.threads);
    }
    for (uint64_t pass = 0; pass < o.passes; pass++) {
        struct node *n = new_node(workers[0], NULL, o.top, strlen(o.top));
        if (!n) return broken("no memory");
        n->length = (uint32_t)o.top_length;
        n->status = *top;
        push(&workers[0]->todo, n);
        workers[0]->t.entries++, workers[0]->t.directories++;
    }
    busy = (unsigned)o.threads;
    uint64_t started = 1;
    for (; started < o.threads; started++)
        if (pthread_create(&workers[started]->thread, NULL, worker_run, workers[started])) break;
    if (started < o.threads) { /* fewer than wanted: work with those */
        pthread_mutex_lock(&lock);
        busy -= (unsigned)(o.threads - started);
        pthread_mutex_unlock(&lock);
    }
    worker_run(workers[0]);
    for (uint64_t i = 1; i < started; i++) pthread_join(workers[i]->thread, NULL);
    return 0;
}

#endif
