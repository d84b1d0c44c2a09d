/* What is asked for, and what is found. */
#ifndef REPROFS_WALK_FOUND_H
#define REPROFS_WALK_FOUND_H

#include "program.h"

#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

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
    uint64_t depth, threads, passes, seed; /* seed: nothing here is random */
    const char *top, *exclude, *output;
    size_t top_length; /* of the top as a prefix of paths: 0 for / */
    char **excluded;
    size_t excluded_count;
    dev_t device;
    int out; /* -1: no rows */
} o = {.threads = 1, .passes = 1, .depth = NOT_GIVEN, .out = -1};

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

#endif
