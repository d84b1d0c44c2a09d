/* Files that a program was told are safe. They are written one after another, each flushed (the file,
 * and the folder that has its name); only then its number goes into a log outside of the file system. After a power cut
 * every file in the log must be there, whole and right: that is what fsync promises.
 * --no-sync, with --pause-ms between the files, logs without flushing: files without a promise. With --count what is
 * left of them is counted, not judged.
 * With --seconds it goes on after errors, with the next file, until that time is over, and says which errors it saw,
 * the longest time of one file, and the longest time in which no file was promised: what a client notices of a lost
 * server. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "same.h"
#include "samples.h"
#include "stream.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { RECORD = 1 << 20 };
static struct {
    uint64_t files, bytes, seed, pause_ms, seconds;
    bool no_sync, verify, count;
    const char *log, *folder;
} p = {.seed = 1};

static const struct option options[] = {
    NUMBER("--files", p.files, 0, UINT64_MAX, "files at most"),
    NUMBER("--bytes", p.bytes, 0, UINT64_MAX, "of one file"),
    NUMBER("--seed", p.seed, 0, UINT64_MAX, "of the content"),
    NUMBER("--pause-ms", p.pause_ms, 0, UINT64_MAX, "milliseconds between two files"),
    NUMBER("--seconds", p.seconds, 0, UINT64_MAX, "go on after errors until this time is over"),
    FLAG("--no-sync", p.no_sync, "log without flushing: files without a promise"),
    FLAG("--verify", p.verify, "whether the promises were kept"),
    FLAG("--count", p.count, "with --verify: what is left is counted, not judged"),
    WORD("log", p.log, "file outside of the file system with the numbers of the promised files"),
    WORD("folder", p.folder, "where the files are"),
};

static int prepare(void) {
    if (!p.files || !p.bytes) return wrong("--files and --bytes, of one file, must be given and above zero");
    if (p.bytes > INT64_MAX / p.files) return wrong("--files times --bytes is too large");
    if (p.pause_ms > 86400000) return wrong("--pause-ms is at most a day, 86400000");
    if (p.seconds > 86400) return wrong("--seconds is at most a day, 86400");
    if (p.count && !p.verify) return wrong("--count goes with --verify");
    return 0;
}

static int check(void) { return needs(p.files * p.bytes, p.files); }

static void name_file(uint64_t i, char *name, size_t room) {
    snprintf(name, room, "promise-%08llu", (unsigned long long)i);
}

/* One file. Returns 0 or errno. */
static int write_file(int folder, uint64_t i, const char *name) {
    uint64_t done;
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) return errno;
    int error = stream_write(fd, stream_key(p.seed, i, 0), 0, p.bytes, RECORD, &done);
    if (!error && !p.no_sync && fsync(fd)) error = errno;
    if (close(fd) && !error) error = errno;
    if (!error && !p.no_sync && fsync(folder)) error = errno;
    return error;
}

/* The folder, made and flushed if it is new. Returns a descriptor, or -1 (errno). */
static int make_folder(const char *path, bool flush) {
    char parent[PATH_BYTES + 4];
    if (mkdir(path, 0755) && errno != EEXIST) return -1;
    snprintf(parent, sizeof parent, "%.*s/..", PATH_BYTES, path);
    int above = open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (above < 0 || (flush && fsync(above))) return -1;
    close(above);
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

/* What a client that goes on after errors saw. last: when a file was last promised, at first when it began. */
enum { ERRORS = 256 };
struct seen { uint64_t longest_ns, gap_ns, last, errors[ERRORS]; /* by errno */ };

static void see(struct seen *seen, int error, uint64_t start, uint64_t end) {
    if (end - start > seen->longest_ns) seen->longest_ns = end - start;
    if (end - seen->last > seen->gap_ns) seen->gap_ns = end - seen->last;
    if (error) seen->errors[error < ERRORS ? error : 0]++;
    else seen->last = end;
}

static void say_seen(const struct seen *seen, uint64_t promised, uint64_t failed) {
    const char *comma = "";
    printf("{\"promised\":%llu,\"failed\":%llu,\"longest_ns\":%llu,\"gap_ns\":%llu,\"errors\":{",
        (unsigned long long)promised, (unsigned long long)failed, (unsigned long long)seen->longest_ns,
        (unsigned long long)seen->gap_ns);
    for (int i = 0; i < ERRORS; i++) {
        if (!seen->errors[i]) continue;
        printf("%s\"%s\":%llu", comma, strerror(i), (unsigned long long)seen->errors[i]);
        comma = ",";
    }
    printf("}}\n");
}

static int promise_files(void) {
    char name[32], line[32];
    /* when the power is cut: a flush that ends later promises nothing */
    const char *cut = getenv("REPROFS_CUT_NS");
    uint64_t until = cut ? strtoull(cut, NULL, 10) : UINT64_MAX, begin = now_ns(), i = 0, failed = 0;
    struct seen seen = {.last = begin};
    int log = open(p.log, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
    if (log < 0) return stream_failed("make", p.log, errno);
    int folder = make_folder(p.folder, !p.no_sync);
    if (folder < 0) return stream_failed("make", p.folder, errno);
    for (; i < p.files; i++) {
        if (p.seconds && now_ns() - begin >= p.seconds * 1000000000u) break;
        struct timespec pause = {(time_t)(p.pause_ms / 1000), (long)(p.pause_ms % 1000 * 1000000)};
        if (i && p.pause_ms) nanosleep(&pause, NULL);
        name_file(i, name, sizeof name);
        uint64_t start = now_ns();
        int error = write_file(folder, i, name);
        uint64_t end = now_ns();
        if (error && !p.seconds) return stream_failed("write", name, error);
        see(&seen, error, start, end);
        failed += error != 0;
        if (error) continue;
        if (end >= until) break;
        int n = snprintf(line, sizeof line, "%llu\n", (unsigned long long)i);
        if (write(log, line, (size_t)n) != n) return stream_failed("write", p.log, errno);
        sample_put(SAMPLE(.name = p.no_sync ? "write" : "promise", .start_ns = start - begin, .wall_ns = end - start,
            .items = 1, .bytes = p.bytes, .iteration = (int64_t)i));
    }
    if (p.seconds) {
        if (now_ns() - seen.last > seen.gap_ns) seen.gap_ns = now_ns() - seen.last; /* nothing came back */
        say_seen(&seen, i - failed, failed);
        return 0;
    }
    printf("%llu files %s before the cut or the end\n", (unsigned long long)i,
        p.no_sync ? "written, not flushed," : "promised");
    return 0;
}

/* What became of a file: as it was written, only a beginning of it, anything else, nothing. */
enum fate { WHOLE, SHORT, WRONG, MISSING, FATES };
static enum fate fate_of(int folder, uint64_t i, const char *name) {
    static uint8_t buffer[1 << 16];
    uint64_t at = 0, key = stream_key(p.seed, i, 0);
    ssize_t n;
    int fd = openat(folder, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return errno == ENOENT ? MISSING : WRONG;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        const uint8_t *written = stream_content(key, at, (size_t)n);
        if (at + (uint64_t)n > p.bytes || same_bytes(buffer, written, (size_t)n) < (size_t)n) break;
        at += (uint64_t)n;
    }
    close(fd);
    return n ? WRONG : at < p.bytes ? SHORT : WHOLE; /* n: content that differs, or that cannot be read */
}

static uint64_t names(int folder) {
    uint64_t n = 0;
    DIR *d = folder < 0 ? NULL : fdopendir(folder);
    for (struct dirent *e; d && (e = readdir(d));) n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..");
    if (d) closedir(d);
    return n;
}

static int verify(void) {
    uint64_t written = 0, fate[FATES] = {0};
    char name[32], worst[64] = "";
    FILE *log = fopen(p.log, "re");
    if (!log) return stream_failed("read", p.log, errno);
    int folder = open(p.folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* that it is gone shows in every file */
    for (unsigned long long i; fscanf(log, "%llu", &i) == 1; written++) {
        name_file(i, name, sizeof name);
        enum fate f = folder < 0 ? MISSING : fate_of(folder, i, name);
        fate[f]++;
        static const char *const what[FATES] = {"", "cut short", "not what was written", "missing"};
        if (f != WHOLE && !*worst) snprintf(worst, sizeof worst, "%s is %s", name, what[f]);
    }
    fclose(log);
    uint64_t lost = written - fate[WHOLE], there = names(folder), known = written - fate[MISSING];
    printf("{\"written\":%llu,\"promised\":%llu,\"kept\":%llu,\"broken\":%llu,\"short\":%llu,\"wrong\":%llu,"
           "\"missing\":%llu,\"extra\":%llu}\n",
        (unsigned long long)written, (unsigned long long)(p.count ? 0 : written), (unsigned long long)fate[WHOLE],
        (unsigned long long)(p.count ? 0 : lost), (unsigned long long)fate[SHORT], (unsigned long long)fate[WRONG],
        (unsigned long long)fate[MISSING], (unsigned long long)(there > known ? there - known : 0));
    fflush(stdout);
    if (p.count || !lost) return 0;
    return broken("%llu of %llu promises are broken, the first: %s", (unsigned long long)lost,
        (unsigned long long)written, worst);
}

static int run(void) {
    if (!stream_open_pool(p.seed, RECORD, false)) return broken("no memory for the content of files");
    return p.verify ? verify() : promise_files();
}

const struct program program = {
    "promise", "Files that a program was told are safe, and whether they are.", OPTIONS(options), prepare, check, run};
