/* engine record-sweep: for every file size and every record size a new file is written, written again, read, read
 * again, from its beginning to its end in calls of one record (semantics of iozone -i 0 -i 1). Flush and close are
 * outside the times, unless -e and -c take them in; with --evict the file leaves memory before it is read first. A
 * record larger than the file is left out. The last file of every size stays, to be verified. */
#define _GNU_SOURCE
#include "programs.h"
#include "stream.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { PREFIX_MOST = 16 };
struct sweep {
    struct stream_list files, records;
    bool flush, close, direct, evict, verify, check;
    uint64_t seed, begin;
    const char *folder, *prefix;
    uint8_t *buffer;
};
enum test { WRITE, REWRITE, READ, REREAD, TESTS };
static const char *const names[TESTS] = {"write", "rewrite", "read", "reread"};

static int arguments(int argc, char **argv, struct sweep *s) {
    const struct stream_option known[] = {
        {"--file-sizes", STREAM_LIST, &s->files},
        {"--record-sizes", STREAM_LIST, &s->records},
        {"-e", STREAM_FLAG, &s->flush},
        {"-c", STREAM_FLAG, &s->close},
        {"-I", STREAM_FLAG, &s->direct},
        {"--evict", STREAM_FLAG, &s->evict},
        {"--seed", STREAM_NUMBER, &s->seed},
        {"--verify", STREAM_FLAG, &s->verify},
        {"--check", STREAM_FLAG, &s->check},
        {"--prefix", STREAM_TEXT, &s->prefix},
        {"-d", STREAM_TEXT, &s->folder},
    };
    int code = stream_arguments(argc, argv, known, sizeof known / sizeof *known);
    if (code) return code;
    if (!s->files.n || !s->records.n)
        return wrong("record-sweep: --file-sizes and --record-sizes must be given, as in 1M,4M and 4K,64K");
    if (strlen(s->prefix) > PREFIX_MOST || strspn(s->prefix, "abcdefghijklmnopqrstuvwxyz-") != strlen(s->prefix))
        return wrong("record-sweep: --prefix, before the names of the samples, is at most %d letters a to z and '-'",
            PREFIX_MOST);
    uint64_t least = UINT64_MAX;
    for (unsigned i = 0; i < s->records.n; i++) {
        uint64_t record = s->records.at[i];
        if (record < least) least = record;
        if (record > STREAM_LONGEST) return wrong("record-sweep: a record is at most 1G");
        if (s->direct && record % STREAM_BLOCK)
            return wrong("record-sweep: with -I, --record-sizes must be multiples of 4K");
    }
    uint64_t total = 0;
    for (unsigned i = 0; i < s->files.n; i++) {
        uint64_t size = s->files.at[i];
        if (size < least)
            return wrong("record-sweep: no record fits into a file of %llu bytes", (unsigned long long)size);
        if (s->direct && size % STREAM_BLOCK)
            return wrong("record-sweep: with -I, --file-sizes must be multiples of 4K");
        if (size > INT64_MAX || (total += size) > INT64_MAX) return wrong("record-sweep: --file-sizes are too large");
        for (unsigned k = 0; k < i; k++)
            if (s->files.at[k] == size)
                return wrong("record-sweep: --file-sizes names %llu bytes twice", (unsigned long long)size);
    }
    return 0;
}

static void name_file(uint64_t size, char *name, size_t room) {
    snprintf(name, room, "sweep-%llu", (unsigned long long)size);
}
static uint64_t key_of(const struct sweep *s, uint64_t size, uint64_t record, bool again) {
    return stream_key(s->seed, hash3(0, size, record), again);
}

/* One test of one file. Returns 0 or errno; *wall is what counts. */
static int run_test(const struct sweep *s, enum test t, const char *name, uint64_t size, uint64_t record,
    uint64_t *start, uint64_t *wall) {
    bool writes = t <= REWRITE;
    int flags = (writes ? O_WRONLY : O_RDONLY) | (t == WRITE ? O_CREAT | O_EXCL : 0) | (s->direct ? O_DIRECT : 0) |
        O_CLOEXEC;
    int fd = open(name, flags, 0644), error = 0;
    if (fd < 0) return errno;
    if (t == READ && s->evict && (error = stream_evict(fd))) {
        close(fd);
        return error;
    }
    uint64_t key = key_of(s, size, record, t == REWRITE), done;
    *start = now_ns();
    error = writes ? stream_write(fd, key, 0, size, record, &done) : stream_read(fd, s->buffer, size, record, &done);
    if (!error && writes && s->flush && fsync(fd)) error = errno;
    if (s->close && close(fd) && !error) error = errno;
    *wall = now_ns() - *start;
    if (!s->close) {
        if (!error && writes && !s->flush && fsync(fd)) error = errno; /* outside the time, as iozone does */
        if (close(fd) && !error) error = errno;
    }
    if (!error && done < size) error = EIO; /* a reader that comes to the end too early */
    return error;
}

static int sweep(struct sweep *s) {
    uint64_t longest = 0;
    char name[40];
    for (unsigned i = 0; i < s->records.n; i++)
        if (s->records.at[i] > longest) longest = s->records.at[i];
    if (!stream_open_pool(s->seed, longest, false) || !(s->buffer = stream_buffer(longest)))
        return broken("record-sweep: no memory for records of %llu bytes", (unsigned long long)longest);
    printf("%16s%8s%9s%9s%9s%9s\n", "kB", "reclen", "write", "rewrite", "read", "reread");
    for (unsigned i = 0; i < s->files.n; i++)
        for (unsigned k = 0; k < s->records.n; k++) {
            uint64_t size = s->files.at[i], record = s->records.at[k];
            if (record > size) continue;
            name_file(size, name, sizeof name);
            if (unlink(name) && errno != ENOENT) return stream_failed("record-sweep", "remove", name, errno);
            printf("%16llu%8llu", (unsigned long long)size / 1024, (unsigned long long)record / 1024);
            for (enum test t = WRITE; t < TESTS; t++) {
                uint64_t start, wall;
                int error = run_test(s, t, name, size, record, &start, &wall);
                if (error) {
                    printf("\n");
                    return stream_failed("record-sweep", names[t], name, error);
                }
                char sample[PREFIX_MOST + 16];
                snprintf(sample, sizeof sample, "%s%s", s->prefix, names[t]);
                sample_put(SAMPLE(.name = sample, .start_ns = start - s->begin, .wall_ns = wall, .items = 1,
                    .bytes = size, .file_bytes = (int64_t)size, .record_bytes = (int64_t)record));
                printf(" %8.0f", wall ? (double)size / 1024 * 1e9 / (double)wall : 0.0);
            }
            printf("\n");
        }
    return 0;
}

static int verify(const struct sweep *s) {
    char name[40];
    uint64_t bytes = 0;
    if (!stream_open_pool(s->seed, 0, false)) return broken("record-sweep: no memory");
    for (unsigned i = 0; i < s->files.n; i++) {
        uint64_t size = s->files.at[i], last = 0;
        for (unsigned k = 0; k < s->records.n; k++)
            if (s->records.at[k] <= size) last = s->records.at[k];
        name_file(size, name, sizeof name);
        int code = stream_compare("record-sweep", name, key_of(s, size, last, true), size, false, &bytes);
        if (code) return code;
    }
    printf("%u files, %llu bytes as written\n", s->files.n, (unsigned long long)bytes);
    return 0;
}

static int record_sweep(int argc, char **argv) {
    struct sweep s = {.seed = 1, .prefix = "", .begin = program_began()};
    int code = arguments(argc, argv, &s);
    if (code) return code;
    if (s.check) {
        uint64_t bytes = 0;
        for (unsigned i = 0; i < s.files.n; i++) bytes += s.files.at[i];
        printf("{\"bytes\":%llu,\"names\":%u}\n", (unsigned long long)bytes, s.files.n);
        return 0;
    }
    if ((code = stream_enter("record-sweep", s.folder))) return code;
    return s.verify ? verify(&s) : sweep(&s);
}

PROGRAM("record-sweep", record_sweep);
