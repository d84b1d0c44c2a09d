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
 *   more memory.
 *
 * The parts are one translation unit: in several its bytes would not be those of published records. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "walk/as_pwalk.h"
#include "walk/directories.h"
#include "walk/fast.h"
#include "walk/found.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const struct option options[] = {
    FLAG("--NoSnap", o.no_snapshots, "leave out directories named .snapshot"),
    NUMBER("--depth", o.depth, 0, UINT64_MAX, "levels below the top to go into"),
    WORD("--exclude", o.exclude, "file with paths of directories to leave out, one a line"),
    FLAG("--one-file-system", o.one_file_system, "stay on the file system of the top"),
    FLAG("-x", o.one_file_system, "the same"),
    FLAG("--header", o.header, "the names of the columns before the rows"),
    NUMBER("--threads", o.threads, 1, THREADS_MAX, "threads at most"),
    FLAG("--fast", o.fast, "the other way of going through"),
    NUMBER("--passes", o.passes, 1, 10000, "with --fast: times to go through the tree, at once"),
    FLAG("--count", o.count, "with --fast: only the number of entries, by their types"),
    WORD("--output", o.output, "file for the rows"),
    NUMBER("--seed", o.seed, 0, UINT64_MAX, "taken as by other programs; nothing here is random"),
    WORD("folder", o.top, "to go through"),
};

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
    if (o.passes > 1 && !o.fast) return wrong("--passes is a way of --fast; give both");
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
