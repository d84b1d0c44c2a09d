/* For every file size and every record size a new file is written, written again, read, read
 * again, from its beginning to its end in calls of one record (semantics of iozone -i 0 -i 1). Flush and close are
 * outside the times, unless -e and -c take them in; with --evict the file leaves memory before it is read first. A
 * record larger than the file is left out. The last file of every size stays, to be verified. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "stream.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX_MOST = 16 };
static struct {
    struct sizes files, records;
    bool flush, close, direct, evict, verify;
    uint64_t seed;
    const char *folder, *prefix;
    uint8_t *buffer;
} s = {.seed = 1, .prefix = ""};
enum test { WRITE, REWRITE, READ, REREAD, TESTS };
static const char *const names[TESTS] = {"write", "rewrite", "read", "reread"};

static const struct option options[] = {
    SIZES("--file-sizes", s.files, "bytes of the files"),
    SIZES("--record-sizes", s.records, "bytes of a call"),
    FLAG("-e", s.flush, "flush (fsync) in the times of writing"),
    FLAG("-c", s.close, "close in the times"),
    FLAG("-I", s.direct, "past the page cache (O_DIRECT)"),
    FLAG("--evict", s.evict, "the file leaves memory before it is read first"),
    NUMBER("--seed", s.seed, 0, UINT64_MAX, "of the content"),
    FLAG("--verify", s.verify, "compare what is there with what was written"),
    WORD("--prefix", s.prefix, "before the names of the samples"),
    WORD("-d", s.folder, "folder to work in"),
};

static int prepare_records(uint64_t *least) {
    *least = UINT64_MAX;
    for (unsigned i = 0; i < s.records.n; i++) {
        uint64_t record = s.records.at[i];
        if (record < *least) *least = record;
        if (record > STREAM_LONGEST) return wrong("a record is at most 1G");
        if (s.direct && record % STREAM_BLOCK) return wrong("with -I, --record-sizes must be multiples of 4K");
    }
    return 0;
}

static int prepare(void) {
    uint64_t least, total = 0;
    if (!s.files.n || !s.records.n)
        return wrong("--file-sizes and --record-sizes must be given, as in 1M,4M and 4K,64K");
    if (strlen(s.prefix) > PREFIX_MOST || strspn(s.prefix, "abcdefghijklmnopqrstuvwxyz-") != strlen(s.prefix))
        return wrong("--prefix, before the names of the samples, is at most %d letters a to z and '-'", PREFIX_MOST);
    int code = prepare_records(&least);
    if (code) return code;
    for (unsigned i = 0; i < s.files.n; i++) {
        uint64_t size = s.files.at[i];
        if (size < least) return wrong("no record fits into a file of %llu bytes", (unsigned long long)size);
        if (s.direct && size % STREAM_BLOCK) return wrong("with -I, --file-sizes must be multiples of 4K");
        if (size > INT64_MAX || (total += size) > INT64_MAX) return wrong("--file-sizes are too large");
        for (unsigned k = 0; k < i; k++)
            if (s.files.at[k] == size) return wrong("--file-sizes names %llu bytes twice", (unsigned long long)size);
    }
    return 0;
}

static int check(void) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < s.files.n; i++) bytes += s.files.at[i];
    return needs(bytes, s.files.n);
}

static void name_file(uint64_t size, char *name, size_t room) {
    snprintf(name, room, "sweep-%llu", (unsigned long long)size);
}
static uint64_t key_of(uint64_t size, uint64_t record, bool again) {
    return stream_key(s.seed, hash3(0, size, record), again);
}

static int open_for(enum test t, const char *name) {
    int flags = t <= REWRITE ? O_WRONLY : O_RDONLY;
    if (t == WRITE) flags |= O_CREAT | O_EXCL;
    if (s.direct) flags |= O_DIRECT;
    return open(name, flags | O_CLOEXEC, 0644);
}
static int flush_file(int fd) { return fsync(fd) ? errno : 0; }
static int close_file(int fd, int error) { return close(fd) && !error ? errno : error; }

/* One test of one file. Returns 0 or errno; *wall is what counts. */
static int run_test(enum test t, const char *name, uint64_t size, uint64_t record, uint64_t *start, uint64_t *wall) {
    bool writes = t <= REWRITE;
    int fd = open_for(t, name), error = 0;
    if (fd < 0) return errno;
    if (t == READ && s.evict && (error = stream_evict(fd))) return close_file(fd, error);
    uint64_t key = key_of(size, record, t == REWRITE), done;
    *start = now_ns();
    error = writes ? stream_write(fd, key, 0, size, record, &done) : stream_read(fd, s.buffer, size, record, &done);
    if (!error && writes && s.flush) error = flush_file(fd);
    if (s.close) error = close_file(fd, error);
    *wall = now_ns() - *start;
    if (!s.close) {
        if (!error && writes && !s.flush) error = flush_file(fd); /* outside the time, as iozone does */
        error = close_file(fd, error);
    }
    return !error && done < size ? EIO : error; /* EIO: a reader that comes to the end too early */
}

/* All tests of one file and record. */
static int sweep_pair(uint64_t size, uint64_t record) {
    char name[40], sample[PREFIX_MOST + 16];
    name_file(size, name, sizeof name);
    if (unlink(name) && errno != ENOENT) return stream_failed("remove", name, errno);
    printf("%16llu%8llu", (unsigned long long)size / 1024, (unsigned long long)record / 1024);
    for (enum test t = WRITE; t < TESTS; t++) {
        uint64_t start, wall;
        int error = run_test(t, name, size, record, &start, &wall);
        if (error) {
            printf("\n");
            return stream_failed(names[t], name, error);
        }
        snprintf(sample, sizeof sample, "%s%s", s.prefix, names[t]);
        sample_put(SAMPLE(.name = sample, .start_ns = start - program_began, .wall_ns = wall, .items = 1, .bytes = size,
            .file_bytes = (int64_t)size, .record_bytes = (int64_t)record));
        printf(" %8.0f", wall ? (double)size / 1024 * 1e9 / (double)wall : 0.0);
    }
    printf("\n");
    return 0;
}

static int sweep(void) {
    uint64_t longest = 0;
    for (unsigned i = 0; i < s.records.n; i++)
        if (s.records.at[i] > longest) longest = s.records.at[i];
    if (!stream_open_pool(s.seed, longest, false) || !(s.buffer = stream_buffer(longest)))
        return broken("no memory for records of %llu bytes", (unsigned long long)longest);
    printf("%16s%8s%9s%9s%9s%9s\n", "kB", "reclen", "write", "rewrite", "read", "reread");
    int code = 0;
    for (unsigned i = 0; i < s.files.n; i++)
        for (unsigned k = 0; k < s.records.n && !code; k++)
            if (s.records.at[k] <= s.files.at[i]) code = sweep_pair(s.files.at[i], s.records.at[k]);
    return code;
}

static int verify(void) {
    char name[40];
    uint64_t bytes = 0;
    if (!stream_open_pool(s.seed, 0, false)) return broken("no memory");
    for (unsigned i = 0; i < s.files.n; i++) {
        uint64_t size = s.files.at[i], last = 0;
        for (unsigned k = 0; k < s.records.n; k++)
            if (s.records.at[k] <= size) last = s.records.at[k];
        name_file(size, name, sizeof name);
        int code = stream_compare(name, key_of(size, last, true), size, false, &bytes);
        if (code) return code;
    }
    printf("%u files, %llu bytes as written\n", s.files.n, (unsigned long long)bytes);
    return 0;
}

static int run(void) {
    int code = stream_enter(s.folder);
    return code ? code : s.verify ? verify() : sweep();
}

const struct program program = {"record-sweep",
    "Files of every size, written, written again, read and read again in calls of every record size.", OPTIONS(options),
    prepare, check, run};
