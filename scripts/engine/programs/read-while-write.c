/* A writer alone, beside a reader of earlier files, alone again. Three windows in which the
 * writer writes the same amount (--count files of --size bytes), so that the need of space is known before. It never
 * waits: the reader, a process of its own, begins with the second window, reads the earlier files over and over, each
 * cold, and stops at the end of a call when the third window begins. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WINDOWS = 3, BESIDE = 1 };
static struct {
    uint64_t size, prepare, count, chunk, buffer, seed;
    bool direct, sync_each, verify;
    const char *folder;
} m = {.buffer = 1 << 20, .seed = 1};
struct shared { /* between writer and reader */
    atomic_bool stop;
    int error; /* of the reader */
    uint64_t bytes, start, end;
};
static const char *const windows[WINDOWS] = {"alone", "beside-reader", "alone-again"};

static const struct option options[] = {
    NUMBER("--size", m.size, 0, UINT64_MAX, "bytes of a file"),
    NUMBER("--prepare", m.prepare, 0, UINT64_MAX, "files to read"),
    NUMBER("--count", m.count, 0, UINT64_MAX, "files to write in each window"),
    NUMBER("--chunk", m.chunk, 0, UINT64_MAX, "bytes of a sample; without it, as --buffer"),
    NUMBER("--buffer", m.buffer, 0, UINT64_MAX, "bytes of a call"),
    FLAG("--direct", m.direct, "past the page cache (O_DIRECT)"),
    FLAG("--sync-each", m.sync_each, "flush each chunk, in its time"),
    NUMBER("--seed", m.seed, 0, UINT64_MAX, "of the content"),
    FLAG("--verify", m.verify, "compare what is there with what was written"),
    WORD("-d", m.folder, "folder to work in"),
};

static int prepare(void) {
    if (!m.chunk) m.chunk = m.buffer;
    if (!m.size || !m.prepare || !m.count)
        return wrong("--size, --prepare (files to read) and --count (files to write in each window) must be above "
                     "zero");
    if (!m.buffer || m.buffer > STREAM_LONGEST) return wrong("--buffer must be above zero and at most 1G");
    if (m.chunk % m.buffer || m.size % m.chunk)
        return wrong("--chunk must be a multiple of --buffer, and --size one of --chunk");
    if (m.direct && m.buffer % STREAM_BLOCK) return wrong("with --direct, --buffer must be a multiple of 4K");
    if (m.count > UINT32_MAX || m.prepare > UINT32_MAX || m.size > INT64_MAX / (m.prepare + WINDOWS * m.count))
        return wrong("--size times the number of files is too large");
    return 0;
}

static int check(void) {
    uint64_t files = m.prepare + WINDOWS * m.count;
    return needs(files * m.size, files);
}

/* Files 0 to prepare - 1 are the earlier ones, the rest are written in the windows. */
static void name_file(uint64_t i, char *name, size_t room) {
    bool early = i < m.prepare;
    snprintf(name, room, "%s-%08llu", early ? "early" : "late", (unsigned long long)(early ? i : i - m.prepare));
}
static int open_new(const char *name) {
    return open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | (m.direct ? O_DIRECT : 0), 0644);
}

/* ---- the reader -------------------------------------------------------------------------------------------------- */
static int read_file(struct shared *s, uint64_t i, uint8_t *buffer, int64_t *chunk) {
    char name[32];
    name_file(i, name, sizeof name);
    int fd = open(name, O_RDONLY | O_CLOEXEC | (m.direct ? O_DIRECT : 0)), error = 0;
    if (fd < 0) return errno;
    for (uint64_t at = 0; at < m.size && !error && !atomic_load(&s->stop);) {
        uint64_t start = now_ns(), got = 0, n;
        while (got < m.chunk && !error && !atomic_load(&s->stop)) {
            error = stream_read(fd, buffer, m.buffer, m.buffer, &n);
            if (!error && n < m.buffer) error = EIO; /* an earlier file that ends too early */
            got += n;
        }
        s->end = now_ns();
        s->bytes += got;
        at += got;
        if (got)
            sample_put(SAMPLE(.name = "read", .start_ns = start - program_began, .wall_ns = s->end - start, .items = 1,
                .bytes = got, .iteration = (*chunk)++, .client = BESIDE, .file_bytes = (int64_t)m.size,
                .record_bytes = (int64_t)m.buffer));
    }
    if (!error) error = posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* cold when its turn comes again */
    close(fd);
    return error;
}

static void reader(struct shared *s, int gate) {
    char byte;
    int64_t chunk = 0;
    uint8_t *buffer = stream_buffer(m.buffer);
    if (read(gate, &byte, 1) != 1) _exit(0); /* the writer ended before */
    s->start = s->end = now_ns();
    s->error = buffer ? 0 : ENOMEM;
    for (uint64_t i = 0; !s->error && !atomic_load(&s->stop); i++)
        s->error = read_file(s, i % m.prepare, buffer, &chunk);
    fflush(NULL);
    _exit(0);
}

/* ---- the writer -------------------------------------------------------------------------------------------------- */
static int write_early(void) {
    char name[32];
    for (uint64_t i = 0; i < m.prepare; i++) {
        uint64_t done;
        name_file(i, name, sizeof name);
        int fd = open_new(name);
        int error = fd < 0 ? errno : stream_write(fd, stream_key(m.seed, i, 0), 0, m.size, m.buffer, &done);
        if (!error) error = stream_evict(fd);
        if (fd >= 0 && close(fd) && !error) error = errno;
        if (error) return stream_failed("prepare", name, error);
    }
    return 0;
}

/* File i, chunk by chunk. A chunk's time has its writes and, with --sync-each, fdatasync; opening is in the first,
 * closing in none. */
static int write_file(uint64_t i, const char *name, int window, int64_t *chunk) {
    uint64_t start = now_ns(), done;
    int fd = open_new(name), error = 0;
    if (fd < 0) return errno;
    for (uint64_t at = 0; at < m.size && !error; at += m.chunk) {
        error = stream_write(fd, stream_key(m.seed, i, 0), at, at + m.chunk, m.buffer, &done);
        if (!error && m.sync_each && fdatasync(fd)) error = errno;
        uint64_t end = now_ns();
        if (error) break;
        sample_put(SAMPLE(.name = "write", .start_ns = start - program_began, .wall_ns = end - start, .items = 1,
            .bytes = m.chunk, .iteration = (*chunk)++, .client = window, .file_bytes = (int64_t)m.size,
            .record_bytes = (int64_t)m.buffer));
        start = now_ns();
    }
    if (close(fd) && !error) error = errno;
    return error;
}

static int writer(struct shared *s, int gate) {
    char name[32];
    int64_t chunk = 0;
    double rate[WINDOWS];
    for (int window = 0; window < WINDOWS; window++) {
        if (window > BESIDE) atomic_store(&s->stop, true);
        uint64_t start = now_ns();
        if (window == BESIDE && write(gate, "", 1) != 1) return broken("the reader is gone");
        for (uint64_t k = 0; k < m.count; k++) {
            uint64_t i = m.prepare + (uint64_t)window * m.count + k;
            name_file(i, name, sizeof name);
            int error = write_file(i, name, window, &chunk);
            if (error) return stream_failed("write", name, error);
        }
        uint64_t wall = now_ns() - start, bytes = m.count * m.size;
        rate[window] = stream_mb_s(bytes, wall);
        sample_put(SAMPLE(.name = windows[window], .start_ns = start - program_began, .wall_ns = wall, .items = m.count,
            .bytes = bytes, .file_bytes = (int64_t)m.size));
        printf("%-13s %10.2f MB/s\n", windows[window], rate[window]);
    }
    return 0;
}

static int measure(void) {
    int gate[2];
    struct shared *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (s == MAP_FAILED || pipe2(gate, O_CLOEXEC)) return broken("cannot start: %s", strerror(errno));
    s->error = ECHILD; /* until the reader knows better */
    signal(SIGPIPE, SIG_IGN);
    /* before the pool is made, so that the two share nothing that is written */
    pid_t parent = getpid(), child = fork();
    if (child < 0) return broken("cannot start the reader: %s", strerror(errno));
    if (!child) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        close(gate[1]);
        reader(s, gate[0]);
    }
    close(gate[0]);
    int code = stream_open_pool(m.seed, m.buffer, false)
        ? 0
        : broken("no memory for a buffer of %llu bytes", (unsigned long long)m.buffer);
    if (!code) code = write_early();
    if (!code) code = writer(s, gate[1]);
    atomic_store(&s->stop, true);
    close(gate[1]);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (code) return code;
    if (s->error) return broken("the reader failed: %s", strerror(s->error));
    printf("%-13s %10.2f MB/s\n", "reader", stream_mb_s(s->bytes, s->end - s->start));
    return 0;
}

static int verify(void) {
    char name[32];
    uint64_t bytes = 0, files = m.prepare + WINDOWS * m.count;
    if (!stream_open_pool(m.seed, 0, false)) return broken("no memory");
    for (uint64_t i = 0; i < files; i++) {
        name_file(i, name, sizeof name);
        int code = stream_compare(name, stream_key(m.seed, i, 0), m.size, false, &bytes);
        if (code) return code;
    }
    printf("%llu files, %llu bytes as written\n", (unsigned long long)files, (unsigned long long)bytes);
    return 0;
}

static int run(void) {
    int code = stream_enter(m.folder);
    return code ? code : m.verify ? verify() : measure();
}

const struct program program = {"read-while-write", "A writer alone, beside a reader of earlier files, alone again.",
    OPTIONS(options), prepare, check, run};
