/* Files of one size, written one after another with a pause between them, a given number or until
 * the device is full. The time of a file: open, write, with --sync-each fsync, close. It stops at the first ENOSPC, as
 * dd does. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "stream.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

static struct {
    uint64_t size, count, buffer, pause_ms, seed;
    bool until_full, direct, sync_each, zeros, verify;
    const char *folder;
} f = {.buffer = 1 << 20, .seed = 1};

static const struct option options[] = {
    NUMBER("--size", f.size, 0, UINT64_MAX, "bytes of a file"),
    NUMBER("--count", f.count, 0, UINT64_MAX, "files"),
    FLAG("--until-full", f.until_full, "as many files as fit, in the place of --count"),
    NUMBER("--buffer", f.buffer, 0, UINT64_MAX, "bytes of a call"),
    NUMBER("--pause-ms", f.pause_ms, 0, UINT64_MAX, "milliseconds between two files"),
    FLAG("--direct", f.direct, "past the page cache (O_DIRECT)"),
    FLAG("--sync-each", f.sync_each, "flush each file, in its time"),
    NUMBER("--seed", f.seed, 0, UINT64_MAX, "of the content"),
    FLAG("--zeros", f.zeros, "content of zeros"),
    FLAG("--verify", f.verify, "compare what is there with what was written"),
    WORD("-d", f.folder, "folder to work in"),
};

static int prepare(void) {
    if (!f.size) return wrong("--size, the bytes of a file, must be given and above zero");
    if (!f.buffer || f.buffer > STREAM_LONGEST) return wrong("--buffer must be above zero and at most 1G");
    if (f.until_full == (f.count > 0)) return wrong("give either --count above zero or --until-full");
    if (f.count && f.size > INT64_MAX / f.count) return wrong("--size times --count is too large");
    if (f.size > INT64_MAX) return wrong("--size is too large");
    if (f.pause_ms > 86400000) return wrong("--pause-ms is at most a day, 86400000");
    if (f.direct && (f.size % STREAM_BLOCK || f.buffer % STREAM_BLOCK))
        return wrong("with --direct, --size and --buffer must be multiples of 4K");
    return 0;
}

/* until it is full: one file has to fit at least */
static int check(void) {
    uint64_t files = f.until_full ? 1 : f.count;
    return needs(files * f.size, files);
}

static void name_file(uint64_t i, char *name, size_t room) {
    snprintf(name, room, "stream-%08llu", (unsigned long long)i);
}

/* One file. Returns 0 or errno; *done: its bytes, also when the space ran out. */
static int write_file(uint64_t i, const char *name, uint64_t *done) {
    *done = 0;
    int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | (f.direct ? O_DIRECT : 0), 0644);
    if (fd < 0) return errno;
    int full = stream_write(fd, stream_key(f.seed, i, 0), 0, f.size, f.buffer, done);
    int error = !full || full == ENOSPC ? 0 : full;
    if (!error && f.sync_each && fsync(fd)) error = errno;
    if (close(fd) && !error) error = errno;
    if (error) *done = 0; /* what was accepted and then lost is not content */
    if (error == ENOSPC) unlink(name);
    return error ? error : full;
}

static int fill(void) {
    char name[32];
    struct statvfs v;
    if (statvfs(".", &v)) return broken("cannot inspect the file system: %s", strerror(errno));
    uint64_t capacity = (uint64_t)v.f_blocks * v.f_frsize, total = 0, files = 0, begin = now_ns();
    sample_put(SAMPLE(.name = "capacity", .items = 1, .bytes = capacity));
    double slowest = 0, fastest = 0;
    for (uint64_t i = 0; f.until_full || i < f.count; i++) {
        struct timespec pause = {(time_t)(f.pause_ms / 1000), (long)(f.pause_ms % 1000 * 1000000)};
        if (i && f.pause_ms) nanosleep(&pause, NULL);
        name_file(i, name, sizeof name);
        uint64_t done, start = now_ns();
        int error = write_file(i, name, &done);
        uint64_t end = now_ns();
        if (error && (error != ENOSPC || !f.until_full)) return stream_failed("write", name, error);
        double rate = stream_mb_s(done, end - start);
        if (!error && (!files || rate < slowest)) slowest = rate;
        if (!error && rate > fastest) fastest = rate;
        total += done, files += done > 0;
        if (done)
            sample_put(SAMPLE(.name = "write", .start_ns = start - program_began, .wall_ns = end - start, .items = 1,
                .bytes = done, .iteration = (int64_t)i, .file_bytes = (int64_t)f.size,
                .record_bytes = (int64_t)f.buffer));
        if (error) {
            sample_put(SAMPLE(.name = "full", .wall_ns = end - begin, .items = files, .bytes = total,
                .file_bytes = (int64_t)f.size));
            printf("full: no space left on the device in file %llu\n", (unsigned long long)i);
            break;
        }
    }
    printf("%llu files, %llu bytes, %.2f %% of the capacity of %llu bytes; whole files %.2f to %.2f MB/s\n",
        (unsigned long long)files, (unsigned long long)total, capacity ? 100.0 * (double)total / (double)capacity : 0.0,
        (unsigned long long)capacity, slowest, fastest);
    return 0;
}

/* Every file is compared. The last file on a filled device may be short; its length was not recorded. */
static int verify(void) {
    char name[32];
    uint64_t i = 0, bytes = 0, there = 0;
    DIR *folder = opendir(".");
    if (!folder) return broken("cannot list the folder: %s", strerror(errno));
    for (struct dirent *e; (e = readdir(folder));) there += !strncmp(e->d_name, "stream-", 7);
    closedir(folder);
    uint64_t files = f.count ? f.count : there;
    if (there != files || !there)
        return broken(
            "there are %llu files, not the %llu written", (unsigned long long)there, (unsigned long long)files);
    for (; i < files; i++) {
        name_file(i, name, sizeof name);
        int code = stream_compare(name, stream_key(f.seed, i, 0), f.size, f.until_full && i == files - 1, &bytes);
        if (code) return code;
    }
    printf("%llu files, %llu bytes as written\n", (unsigned long long)files, (unsigned long long)bytes);
    return 0;
}

static int run(void) {
    int code = stream_enter(f.folder);
    if (code) return code;
    if (!stream_open_pool(f.seed, f.verify ? 0 : f.buffer, f.zeros))
        return broken("no memory for a buffer of %llu bytes", (unsigned long long)f.buffer);
    return f.verify ? verify() : fill();
}

const struct program program = {"stream-fill",
    "Files of one size, written one after another until a number or the device is full.", OPTIONS(options), prepare,
    check, run};
