/* Goes through a tree and writes a CSV row for every entry, with the semantics of pwalk (Fred Hutch).
 *
 * Columns: inode, parent-inode, directory-depth, "filename", "fileExtension", UID, GID, st_size, st_dev, st_blocks,
 * st_nlink, "st_mode" (octal), st_atime, st_mtime, st_ctime, pw_fcount, pw_dirsum. The top has depth -1 and parent 0,
 * what is in it depth 0. pw_fcount is the number of entries of a directory that are no directories, pw_dirsum the sum
 * of their sizes; -1 and 0 in other rows. A directory's row comes after its contents (after those of them that its own
 * thread went through). Symbolic links are entries, never followed.
 *
 * Two ways:
 *
 * - pwalk's: a directory gets a thread of its own while one is free, else the thread that found it goes in; full paths,
 *   lstat of every entry, one row at a time under a lock.
 * - --fast: threads with stacks of directories, which give work away when others have none; every call is relative to
 *   an open directory, names come in buffers of 128 KiB, rows are collected by thread. --count looks at types instead
 *   of stat. Only one buffer of a directory's names is held at a time, so a directory of ten million names needs no
 *   more memory. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum {
    THREADS_MAX = 32,
    NAMES_BYTES = 1 << 17,
    ROWS_BYTES = 1 << 18,
    PATHS_BYTES = 1 << 16,
    GIFT = 64,
    STACK_BYTES = 1 << 21
};

static struct {
    bool no_snapshots, one_file_system, header, fast, count;
    uint64_t depth, threads, seed; /* seed: nothing here is random */
    const char *top, *exclude, *output;
    size_t top_length; /* of the top as a prefix of paths: 0 for / */
    char **excluded;
    size_t excluded_count;
    dev_t device;
    int out; /* -1: no rows */
} o = {.threads = 1, .depth = NOT_GIVEN, .out = -1};

static const struct option options[] = {
    FLAG("--NoSnap", o.no_snapshots, "leave out directories named .snapshot"),
    NUMBER("--depth", o.depth, 0, UINT64_MAX, "levels below the top to go into"),
    WORD("--exclude", o.exclude, "file with paths of directories to leave out, one a line"),
    FLAG("--one-file-system", o.one_file_system, "stay on the file system of the top"),
    FLAG("-x", o.one_file_system, "the same"),
    FLAG("--header", o.header, "the names of the columns before the rows"),
    NUMBER("--threads", o.threads, 1, THREADS_MAX, "threads at most"),
    FLAG("--fast", o.fast, "the other way of going through"),
    FLAG("--count", o.count, "with --fast: only the number of entries, by their types"),
    WORD("--output", o.output, "file for the rows"),
    NUMBER("--seed", o.seed, 0, UINT64_MAX, "taken as by other programs; nothing here is random"),
    WORD("folder", o.top, "to go through"),
};

/* ---- what is found ----------------------------------------------------------------------------------------------- */
struct tally { uint64_t entries, directories, bytes, unread; };
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of everything below */
static struct tally all;
static char first_unread[256];
static int first_error, write_error;

static void add_tally(const struct tally *t) {
    pthread_mutex_lock(&lock);
    all.entries += t->entries, all.directories += t->directories, all.bytes += t->bytes, all.unread += t->unread;
    pthread_mutex_unlock(&lock);
}
static void unread(struct tally *t, const char *path, int error) {
    t->unread++;
    pthread_mutex_lock(&lock);
    if (!first_error) {
        first_error = error;
        snprintf(first_unread, sizeof first_unread, "%s", path);
    }
    pthread_mutex_unlock(&lock);
}

/* ---- rows -------------------------------------------------------------------------------------------------------- */
static char *put_number(char *out, int64_t v) {
    uint64_t u = v < 0 ? -(uint64_t)v : (uint64_t)v;
    char digits[20];
    size_t n = 0;
    if (v < 0) *out++ = '-';
    do digits[n++] = (char)('0' + u % 10);
    while (u /= 10);
    while (n) *out++ = digits[--n];
    *out++ = ',';
    return out;
}
/* In quotes, which are doubled inside; all other bytes as they are (RFC 4180). */
static char *put_text(char *out, const char *s, size_t n) {
    *out++ = '"';
    for (size_t i = 0; i < n; i++)
        if ((*out++ = s[i]) == '"') *out++ = '"';
    *out++ = '"';
    *out++ = ',';
    return out;
}
/* What follows the last dot of a name that does not begin with that dot; directories have none. */
static size_t extension(const char *path, size_t n, bool directory) {
    for (size_t i = n; !directory && i > 1 && path[i - 1] != '/'; i--)
        if (path[i - 1] == '.') return path[i - 2] == '/' ? 0 : n - i;
    return 0;
}
/* At most 4 * length + 400 bytes. */
static char *put_row(char *out, const char *path, size_t length, const struct stat *s, uint64_t parent, int64_t depth,
    int64_t files, uint64_t bytes) {
    size_t ending = extension(path, length, S_ISDIR(s->st_mode));
    out = put_number(out, (int64_t)s->st_ino);
    out = put_number(out, (int64_t)parent);
    out = put_number(out, depth);
    out = put_text(out, path, length);
    out = put_text(out, path + length - ending, ending);
    out = put_number(out, s->st_uid);
    out = put_number(out, s->st_gid);
    out = put_number(out, s->st_size);
    out = put_number(out, (int64_t)s->st_dev);
    out = put_number(out, s->st_blocks);
    out = put_number(out, (int64_t)s->st_nlink);
    *out++ = '"';
    for (int shift = 18; shift >= 0; shift -= 3) *out++ = (char)('0' + (s->st_mode >> shift & 7));
    *out++ = '"';
    *out++ = ',';
    out = put_number(out, s->st_atime);
    out = put_number(out, s->st_mtime);
    out = put_number(out, s->st_ctime);
    out = put_number(out, files);
    out = put_number(out, (int64_t)bytes);
    out[-1] = '\n';
    return out;
}

struct rows {
    size_t used;
    char text[ROWS_BYTES + 4 * PATHS_BYTES + 512];
};
static void rows_write(struct rows *r, bool locked) {
    if (!r->used) return;
    if (!locked) pthread_mutex_lock(&lock);
    for (size_t done = 0; done < r->used && !write_error;) {
        ssize_t n = write(o.out, r->text + done, r->used - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) write_error = n ? errno : ENOSPC;
        else done += (size_t)n;
    }
    if (!locked) pthread_mutex_unlock(&lock);
    r->used = 0;
}

/* ---- directories ------------------------------------------------------------------------------------------------- */
struct entry { /* as the kernel fills it in */
    uint64_t inode;
    int64_t offset;
    uint16_t length;
    uint8_t type;
    char name[];
};
static long names_of(int fd, void *buffer, size_t size) { return syscall(SYS_getdents64, fd, buffer, size); }
static bool is_dots(const char *name) { return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2])); }

static int compare_names(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }
/* A directory that is neither counted nor entered. */
static bool is_left_out(const char *name, const char *path) {
    if (o.no_snapshots && !strcmp(name, ".snapshot")) return true;
    return o.excluded_count && bsearch(&path, o.excluded, o.excluded_count, sizeof *o.excluded, compare_names);
}
/* A directory that is counted. depth is its own. */
static bool is_entered(const struct stat *s, int64_t depth) {
    return (uint64_t)depth < o.depth && !(o.one_file_system && s->st_dev != o.device);
}

/* ---- pwalk's way ------------------------------------------------------------------------------------------------- */
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

/* ---- the fast way ------------------------------------------------------------------------------------------------ */
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
    struct node *n = new_node(workers[0], NULL, o.top, strlen(o.top));
    if (!n) return broken("no memory");
    n->length = (uint32_t)o.top_length;
    n->status = *top;
    push(&workers[0]->todo, n);
    workers[0]->t = (struct tally){.entries = 1, .directories = 1};
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

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static int read_excluded(void) {
    FILE *f = fopen(o.exclude, "re");
    if (!f) return broken("cannot read %s: %s", o.exclude, strerror(errno));
    char *line = NULL;
    size_t room = 0;
    for (ssize_t n; (n = getline(&line, &room, f)) > 0;) {
        if (line[n - 1] == '\n') line[--n] = 0;
        while (n > 1 && line[n - 1] == '/') line[--n] = 0;
        char **more = n ? realloc(o.excluded, (o.excluded_count + 1) * sizeof *more) : NULL;
        if (!n) continue;
        if (!more || !((o.excluded = more)[o.excluded_count++] = strdup(line)))
            return broken("no memory for %s", o.exclude);
    }
    free(line);
    fclose(f);
    qsort(o.excluded, o.excluded_count, sizeof *o.excluded, compare_names);
    return 0;
}

static int prepare(void) {
    if (strlen(o.top) + 1 > PATH_MAX) return wrong("the folder's path is longer than %d bytes", PATH_MAX);
    if (o.count && o.output) return wrong("--count makes no rows for --output %s", o.output);
    if (o.count && !o.fast) return wrong("--count is a way of --fast; give both");
    if (o.header && !o.output) return wrong("--header is for the rows of --output");
    return 0;
}

static int check(void) { return needs(0, o.output ? 1 : 0); } /* how long the rows get is not known before */

/* ---- the walk ---------------------------------------------------------------------------------------------------- */
static int begin(struct stat *s) {
    static char top[PATH_MAX];
    struct rlimit files;
    int code = 0;
    strcpy(top, o.top);
    size_t n = strlen(top);
    while (n > 1 && top[n - 1] == '/') top[--n] = 0;
    o.top = top, o.top_length = strcmp(top, "/") ? n : 0;
    if (o.exclude && (code = read_excluded())) return code;
    if (lstat(top, s)) return broken("cannot read %s: %s", top, strerror(errno));
    if (!S_ISDIR(s->st_mode)) return broken("%s is not a directory", top);
    o.device = s->st_dev;
    if (o.output && (o.out = open(o.output, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644)) < 0)
        return broken("cannot write %s: %s", o.output, strerror(errno));
    if (!getrlimit(RLIMIT_NOFILE, &files)) { /* a directory stays open until all below it is done */
        files.rlim_cur = files.rlim_max;
        setrlimit(RLIMIT_NOFILE, &files);
    }
    return 0;
}

static void put_header(void) {
    static const char head[] =
        "inode,parent-inode,directory-depth,\"filename\",\"fileExtension\",UID,GID,st_size,st_dev,st_blocks,st_nlink,"
        "\"st_mode\",st_atime,st_mtime,st_ctime,pw_fcount,pw_dirsum\n";
    if (write(o.out, head, sizeof head - 1) != sizeof head - 1) write_error = errno;
}

static int run(void) {
    struct stat s;
    int code = begin(&s);
    if (code) return code;
    uint64_t start = now_ns();
    if (o.header) put_header();
    if (!o.fast) walk_as_pwalk(&s);
    else if ((code = walk_fast(&s))) return code;
    if (o.out >= 0 && close(o.out) && !write_error) write_error = errno;
    uint64_t wall = now_ns() - start;
    if (write_error) return broken("cannot write %s: %s", o.output, reason(write_error));
    if (all.unread)
        return broken("%llu entries could not be read, the first is %s: %s", (unsigned long long)all.unread,
            first_unread, strerror(first_error));
    sample_put(SAMPLE(.name = "walk", .start_ns = start - program_began, .wall_ns = wall, .items = all.entries));
    if (o.count) printf("%llu\n", (unsigned long long)all.entries);
    else
        printf("entries %llu directories %llu bytes %llu seconds %.6f\n", (unsigned long long)all.entries,
            (unsigned long long)all.directories, (unsigned long long)all.bytes, (double)wall / 1e9);
    return 0;
}

const struct program program = {"walk", "Goes through a tree, with the semantics of pwalk (Fred Hutch), or faster.",
    OPTIONS(options), prepare, check, run};
