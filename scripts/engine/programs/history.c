/* What one client of a shared folder does and sees: five names, on which it creates exclusively, appends and flushes,
 * reads, renames and unlinks, in an order that follows from its seed. Every call is a line of its log, outside of the
 * file system: when it was made and how long it took, by the one clock of the machine, its result, what it wrote or
 * read. A call that has not returned is there, too. The order of the calls of all clients can then be judged.
 *
 * An append reads first: what it has read says to which file it adds. A record has 16 bytes and is written once, so
 * what is read tells which writes it saw. Nothing is judged here, and it goes on after errors until its time is over.
 * Then the first client (or the only one) waits for the others and prints the logs of all. --final reads every name and
 * prints only that: for later, through a new mount. */
#define _GNU_SOURCE
#include "measure.h"
#include "program.h"
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

enum { RECORD = 16, RECORDS = 24, NAMES = 26, LINE = 64 + 8 * (RECORDS + 1), GRACE_S = 120 };
enum draw { KINDS = 500, CHOICES, OTHERS, PAUSES };
static struct {
    uint64_t actions, names, seed, pause_ms, seconds;
    bool final;
    const char *logs;
} p = {.names = 5, .seed = 1, .seconds = 20};

static const struct option options[] = {
    NUMBER("--actions", p.actions, 1, 120, "at most"),
    NUMBER("--names", p.names, 2, NAMES, "names that all clients use"),
    NUMBER("--seed", p.seed, 0, UINT64_MAX, "of what is done"),
    NUMBER("--pause-ms", p.pause_ms, 0, 60000, "milliseconds between two actions, on average"),
    NUMBER("--seconds", p.seconds, 1, 3600, "no action begins later"),
    FLAG("--final", p.final, "only read every name, and print that"),
    WORD("logs", p.logs, "folder outside of the file system for the logs of all clients"),
};

static int prepare(void) {
    if (!p.actions && !p.final) return wrong("--actions must be given");
    return 0;
}
static int check(void) { return needs(p.final ? 0 : p.actions * RECORD, p.final ? 0 : p.names); }

/* ---- the log ----------------------------------------------------------------------------------------------------- */
static struct {
    int fd;
    off_t end;
    unsigned client, records;
} log_ = {.fd = -1};

static void put(const char *line, bool done) {
    size_t n = strlen(line);
    if (log_.fd >= 0 && pwrite(log_.fd, line, n, log_.end) == (ssize_t)n && done) log_.end += (off_t)n;
    if (log_.fd < 0) fputs(line, stdout);
}

/* A call as it begins: in its place comes the line that also says how it ended. */
static uint64_t begin(const char *call, const char *name, const char *other) {
    char line[LINE];
    uint64_t start = now_ns();
    snprintf(line, sizeof line, "%llu ... %s %s %s ? -\n", (unsigned long long)start, call, name, other);
    if (log_.fd >= 0) put(line, false);
    return start;
}

static void end(uint64_t start, const char *call, const char *name, const char *other, int error, const char *value) {
    char line[LINE];
    uint64_t took = now_ns() - start;
    snprintf(line, sizeof line, "%llu %03llu %s %s %s %d %s\n", (unsigned long long)start, (unsigned long long)took,
        call, name, other, error, value);
    put(line, true);
}

/* ---- calls: 0 or errno ------------------------------------------------------------------------------------------- */
static int open_call(const char *call, const char *name, int flags, int *fd) {
    uint64_t start = begin(call, name, "-");
    *fd = open(name, flags | O_CLOEXEC, 0644);
    int error = *fd < 0 ? errno : 0;
    end(start, call, name, "-", error, "-");
    return error;
}

/* All records of a file, in hexadecimal numbers with commas; ! if it holds anything else. */
static int read_call(const char *name, int fd, unsigned *records) {
    char text[RECORD * RECORDS + 1], value[8 * (RECORDS + 1)] = "";
    uint64_t start = begin("read", name, "-");
    ssize_t n = 0, got;
    do got = pread(fd, text + n, sizeof text - (size_t)n, n);
    while (got > 0 && (n += got) < (ssize_t)sizeof text);
    int error = got < 0 ? errno : 0;
    bool odd = n % RECORD;
    for (ssize_t at = 0; !odd && at < n; at += RECORD) {
        unsigned record;
        odd = sscanf(text + at, "%6x", &record) != 1 || memcmp(text + at + 6, ".........\n", RECORD - 6);
        snprintf(value + strlen(value), sizeof value - strlen(value), "%s%x", at ? "," : "", record);
    }
    *records = (unsigned)(n / RECORD);
    end(start, "read", name, "-", error, error ? "-" : odd ? "!" : n ? value : "=");
    return error;
}

static int write_call(const char *name, int fd) {
    char text[RECORD + 1], value[8];
    unsigned record = (log_.client + 1) << 12 | log_.records++;
    snprintf(value, sizeof value, "%x", record);
    snprintf(text, sizeof text, "%06x.........\n", record);
    uint64_t start = begin("write", name, value);
    ssize_t n = write(fd, text, RECORD);
    int error = n < 0 ? errno : n < RECORD ? EIO : 0;
    end(start, "write", name, "-", error, value);
    return error;
}

static int fsync_call(const char *name, int fd) {
    uint64_t start = begin("fsync", name, "-");
    int error = fsync(fd) ? errno : 0;
    end(start, "fsync", name, "-", error, "-");
    return error;
}

static void close_call(const char *name, int fd) {
    uint64_t start = begin("close", name, "-");
    int error = close(fd) ? errno : 0;
    end(start, "close", name, "-", error, "-");
}

/* ---- actions ----------------------------------------------------------------------------------------------------- */
static void create(const char *name) {
    int fd;
    if (open_call("create", name, O_RDWR | O_CREAT | O_EXCL | O_APPEND, &fd)) return;
    if (!write_call(name, fd)) fsync_call(name, fd);
    close_call(name, fd);
}

static void append(const char *name) {
    int fd;
    unsigned records;
    if (open_call("open", name, O_RDWR | O_APPEND, &fd)) return;
    if (!read_call(name, fd, &records) && records < RECORDS && !write_call(name, fd)) fsync_call(name, fd);
    close_call(name, fd);
}

static void look(const char *name) {
    int fd;
    unsigned records;
    if (open_call("open", name, O_RDONLY, &fd)) return;
    read_call(name, fd, &records);
    close_call(name, fd);
}

static void change(const char *call, const char *name, const char *other) {
    uint64_t start = begin(call, name, other);
    int error = (*call == 'r' ? rename(name, other) : unlink(name)) ? errno : 0;
    end(start, call, name, other, error, "-");
}

static void act(uint64_t i) {
    uint64_t kind = hash3(p.seed, KINDS, i) % 100, which = hash3(p.seed, CHOICES, i) % p.names;
    uint64_t to = (which + 1 + hash3(p.seed, OTHERS, i) % (p.names - 1)) % p.names;
    char name[2] = {(char)('a' + which)}, other[2] = {(char)('a' + to)};
    if (kind < 25) create(name);
    else if (kind < 50) append(name);
    else if (kind < 80) look(name);
    else if (kind < 92) change("rename", name, other);
    else change("unlink", name, "-");
}

/* ---- the logs of all --------------------------------------------------------------------------------------------- */
/* The log of a client that has ended, or what there is of it when the time is over. */
static char *whole_log(int folder, const char *name, uint64_t until) {
    for (;;) {
        int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
        off_t size = fd < 0 ? 0 : lseek(fd, 0, SEEK_END);
        char *text = calloc(1, (size_t)size + 1);
        if (text && fd >= 0 && pread(fd, text, (size_t)size, 0) < 0) *text = 0;
        if (fd >= 0) close(fd);
        if (!text || strstr(text, "\nend") || now_ns() > until) return text;
        free(text);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
}

static int print_logs(uint64_t until) {
    struct dirent **entry;
    int count = scandir(p.logs, &entry, NULL, alphasort), folder = open(p.logs, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (count < 0 || folder < 0) return broken("the logs in %s cannot be read: %s", p.logs, reason(errno));
    for (int i = 0; i < count; i++) {
        char *text = *entry[i]->d_name == '.' ? NULL : whole_log(folder, entry[i]->d_name, until);
        if (text) fputs(text, stdout);
        unlinkat(folder, entry[i]->d_name, 0);
        free(text);
    }
    return 0;
}

static int log_open(void) {
    const char *self = getenv("REPROFS_CLIENT");
    char path[PATH_BYTES], line[LINE];
    log_.client = self ? (unsigned)atoi(self) : 0;
    if (mkdir(p.logs, 0755) && errno != EEXIST) return broken("%s cannot be made: %s", p.logs, reason(errno));
    snprintf(path, sizeof path, "%s/%03u", p.logs, log_.client);
    log_.fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (log_.fd < 0) return broken("%s cannot be made: %s", path, reason(errno));
    snprintf(line, sizeof line, "client %u\n", log_.client);
    put(line, true);
    return 0;
}

static int run(void) {
    uint64_t until = now_ns() + p.seconds * 1000000000u;
    if (p.final) {
        puts("client 0");
        for (uint64_t i = 0; i < p.names; i++) look((char[]){(char)('a' + i), 0});
        puts("end");
        return 0;
    }
    int code = log_open();
    if (code) return code;
    for (uint64_t i = 0; i < p.actions && now_ns() < until; i++) {
        uint64_t share = hash3(p.seed, PAUSES, i) %
            1000; /* many short pauses and few long ones: a quarter on average */
        uint64_t ns = share * share * share / 1000 * p.pause_ms * 4;
        nanosleep(&(struct timespec){(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)}, NULL);
        if (now_ns() < until) act(i);
    }
    put("end\n", true);
    return log_.client ? 0 : print_logs(until + GRACE_S * UINT64_C(1000000000));
}

const struct program program = {
    "history", "What clients of a shared folder do and see, call by call.", OPTIONS(options), prepare, check, run};
