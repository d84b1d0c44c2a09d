#define _GNU_SOURCE
#include "phase.h"
#include "clients.h"
#include "command.h"
#include "devices.h"
#include "operations.h"
#include "output.h"
#include "processors.h"
#include "trees.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

static struct phase {
    const struct step *step;
    const char *name, *kind;
    enum { OPERATION, COMMAND, REBUILD } does;
    const struct operation *operation;
    bool many, crash;      /* of clients, even if it is one; its power is cut */
    unsigned clients;
    struct client *client; /* their accounts, while it is of clients */
    struct result *result; /* of each client, in shared memory, or of the one command */
    int samples, together; /* descriptors; -1 without */

    uint64_t began, worked, busy, synced, cut_at, waited; /* began, cut_at: by the clock; busy: in operations */
    uint64_t span; /* from its begin to the end of its sync, also of a cut one */
    uint64_t kills;
    struct outcome done;
    struct histogram latency;
    struct counters before, after;
    struct processors idle_before, idle_after;
    struct statvfs space;
    struct rusage used_before, used;
    bool rebuilding, settled, has_space;
} p;

/* ---- what comes before it ---------------------------------------------------------------------------------------- */
static bool phase_read(const struct step *s) {
    memset(&p, 0, sizeof p);
    p.step = s, p.name = need(s, "name"), p.kind = need(s, "operation");
    p.does = !strcmp(p.kind, "exec") ? COMMAND : !strcmp(p.kind, "rebuild") ? REBUILD : OPERATION;
    p.operation = p.does == OPERATION ? operation_find(p.kind) : NULL;
    p.many = get(s, "clients", NULL), p.crash = get(s, "power", NULL);
    p.clients = (unsigned)number_or(s, "clients", 1);
    p.samples = p.together = -1;
    p.latency.min = UINT64_MAX;
    if (p.does == OPERATION && !p.operation)
        return failed("job: phase %s: the engine has no operation %s", p.name, p.kind), false;
    if (p.clients < 1 || p.clients > CLIENTS || (p.operation && p.clients != trees_count()))
        return failed("job: phase %s: %s clients", p.name, get(s, "clients", "1")), false;
    return true;
}

/* Samples that a command takes arrive in a file in memory, a JSON object a line. */
static int samples_open(void) {
    char path[64];
    int fd = memfd_create("samples", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    if (fd < 0 || setenv("REPROFS_SAMPLES", path, 1)) failed("cannot make a place for samples: %s", strerror(errno));
    return fd;
}

static bool phase_open(void) {
    static struct result one;
    command_clear(&one);
    p.result = &one;
    if (p.does == COMMAND) p.samples = samples_open();
    if (!p.many) return true;
    size_t bytes = p.clients * sizeof *p.result;
    p.result = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (p.result == MAP_FAILED) return failed("phase %s: no memory for %u clients", p.name, p.clients), false;
    if (p.does == COMMAND && (p.together = meeting_open(p.clients)) < 0)
        return failed("phase %s: cannot make a place where clients meet: %s", p.name, strerror(errno)), false;
    return true;
}

static void phase_close(void) {
    if (p.client) clients_free(p.client, p.clients);
    if (p.many) munmap(p.result, p.clients * sizeof *p.result);
    if (p.samples >= 0) close(p.samples);
}

/* ---- the measured part ------------------------------------------------------------------------------------------- */
/* A profiler that sees the runner's instructions knows by the bytes of these no-ops where a phase begins and ends. Each
 * stands once in the binary. */
#define MARK(name) __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .ascii \"RFS" name "\"" ::: "memory")
static __attribute__((noinline)) void mark_begin(void) { MARK("1"); }
static __attribute__((noinline)) void mark_end(void) { MARK("2"); }

static void run_operation(struct tree *t, struct histogram *h, struct outcome *o) {
    operation_run(p.operation, t, !strcmp(get(p.step, "order", "tree"), "random"), h, o);
}

/* What one of several clients does. */
static void client_run(unsigned number, void *what, struct client *c) {
    struct outcome o = {0};
    (void)what;
    if (p.operation) {
        run_operation(&trees[number], &c->latency, &o);
        snprintf(c->where, sizeof c->where, "%s", o.where);
    } else {
        char began[32];
        snprintf(began, sizeof began, "%llu", (unsigned long long)c->start);
        setenv("REPROFS_BEGAN", began, 1);
        command_start(p.step, (int)number, &p.result[number]);
        meeting_leave();
        o.items = number_or(p.step, "items", 1);
    }
    c->items = o.items, c->bytes = o.bytes, c->error = o.error;
}

static void work(void) {
    if (p.many) {
        p.client = clients_run(p.clients, client_run, NULL);
        if (!p.client) failed("phase %s: cannot start %u clients: %s", p.name, p.clients, strerror(errno));
    } else if (p.does == COMMAND) command_start(p.step, -1, p.result);
    else if (p.does == REBUILD) p.began = rebuild_wait(number(p.step, "limit_s"), &p.before, &p.idle_before);
    else run_operation(&trees[0], &p.latency, &p.done);
}

/* Everything written is on the device afterwards: of a folder its whole file system, of a block device what is cached
 * of it. */
static uint64_t sync_all(void) {
    uint64_t start = now_ns();
    for (int i = 0; i < p.step->fields; i++) {
        if (strcmp(p.step->key[i], "sync")) continue;
        struct stat st;
        int fd = open(p.step->value[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) || (S_ISBLK(st.st_mode) ? fsync(fd) : syncfs(fd)))
            failed("cannot sync %s: %s", p.step->value[i], strerror(errno));
        if (fd >= 0) close(fd);
    }
    return now_ns() - start;
}

static void measure(void) {
    int who = p.many ? RUSAGE_CHILDREN : RUSAGE_SELF;
    p.kills = oom_kills();
    p.idle_before = processors();
    p.before = counters();
    getrusage(who, &p.used_before);
    p.cut_at = power_arm(p.step);
    p.began = now_ns();
    mark_begin();
    work();
    p.worked = now_ns() - p.began;
    if (!p.crash) p.synced = sync_all();
    mark_end();
    p.span = p.worked + p.synced;
    if (p.crash && (!p.cut_at || now_ns() < p.cut_at)) power_cut(p.step, 0);
    unsetenv("REPROFS_CUT_NS");
    unsetenv("REPROFS_MEETING");
    if (p.together >= 0) close(p.together);
    p.rebuilding = p.does != REBUILD && rebuild_goes_on();
    getrusage(who, &p.used);
    p.after = counters();
    p.idle_after = processors();
    p.has_space = !p.crash && !statvfs(get(p.step, "space", ""), &p.space);
}

/* ---- what comes after it ----------------------------------------------------------------------------------------- */
static void merge(struct histogram *to, const struct histogram *from) {
    to->count += from->count, to->sum += from->sum;
    if (from->min < to->min) to->min = from->min;
    if (from->max > to->max) to->max = from->max;
    for (unsigned i = 0; i < BUCKETS; i++) to->bucket[i] += from->bucket[i];
}

/* The accounts of all clients as one: from the first start to the last end. */
static void account_clients(bool out_of_memory) {
    uint64_t first = UINT64_MAX, last = 0;
    for (unsigned i = 0; p.client && i < p.clients; i++) {
        const struct client *c = &p.client[i];
        if (c->start < first) first = c->start;
        if (c->end > last) last = c->end;
        if (c->error && !p.done.error)
            p.done.error = c->error, snprintf(p.done.where, sizeof p.done.where, "client %u: %.900s", i, c->where);
        if (c->latency.sum > p.busy) p.busy = c->latency.sum;
        merge(&p.latency, &c->latency);
        p.done.items += c->items, p.done.bytes += c->bytes;
        if (p.does == COMMAND) command_judge(p.step, &p.result[i], out_of_memory);
        /* the clients renamed in copies of the trees */
        if (!strcmp(p.kind, "rename") && !c->error) trees[i].generation++;
    }
    p.began = first, p.worked = last > first ? last - first : 0;
}

static void account_one(bool out_of_memory) {
    p.busy = p.latency.sum;
    if (p.does == REBUILD) p.done.items = 1, p.busy = p.worked;
    if (p.does != COMMAND) return;
    p.busy = p.result->wall;
    p.done.items = number(p.step, "items");
    command_judge(p.step, p.result, out_of_memory);
}

static void account(void) {
    bool out_of_memory = p.does == COMMAND && oom_kills() > p.kills;
    if (p.many) account_clients(out_of_memory);
    else account_one(out_of_memory);
    /* after a cut the devices took no time */
    if (p.cut_at && p.cut_at < p.began + p.worked) p.worked = p.cut_at > p.began ? p.cut_at - p.began : 0;
    if (p.done.error == ENOSPC)
        failed("%s: no space left on the device after %llu items", p.name, (unsigned long long)p.done.items);
    else if (p.done.error) failed("%s: %s: %s", p.name, p.done.where, strerror(p.done.error));
    /* a rebuild keeps the devices busy */
    if (!p.crash && (!rebuild_watched() || p.does == REBUILD)) p.waited = settle(&p.settled);
}

/* ---- what is said of it ------------------------------------------------------------------------------------------ */
static uint64_t microseconds(struct timeval t) { return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec; }

static void json_times(void) {
    uint64_t user = (microseconds(p.used.ru_utime) - microseconds(p.used_before.ru_utime)) * 1000,
             system = (microseconds(p.used.ru_stime) - microseconds(p.used_before.ru_stime)) * 1000;
    bool command = p.does == COMMAND && !p.many;
    json_number("wall_ns", p.worked + p.synced);
    json_number("user_ns", command ? p.result->user : user);
    json_number("system_ns", command ? p.result->system : system);
    json_number("sync_ns", p.synced);
    json_number("driver_ns", (p.does == COMMAND && p.many) || p.busy >= p.worked ? 0 : p.worked - p.busy);
    json_number("settle_ns", p.waited);
    json_bool("settled", p.settled);
}

static void json_processors(void) {
    int busy = processors_busy(p.idle_before, p.idle_after, p.span);
    if (busy < 0) printf(",\"processor_busy\":null");
    else printf(",\"processor_busy\":%d.%04d", busy / 10000, busy % 10000);
}

/* What the file system says is in use; one that makes inodes as it needs them may have no number of them. */
static void json_space(void) {
    const struct statvfs *v = &p.space;
    if (p.has_space) json_number("used_bytes", (uint64_t)(v->f_blocks - v->f_bfree) * v->f_frsize);
    else printf(",\"used_bytes\":null");
    if (p.has_space && v->f_files) json_number("used_inodes", v->f_files - v->f_ffree);
    else printf(",\"used_inodes\":null");
}

static void json_device(void) {
    if (!devices_there()) {
        printf(",\"device\":null");
        return;
    }
    printf(",\"device\":{\"reads\":%llu", (unsigned long long)(p.after.reads - p.before.reads));
    json_number("read_bytes", p.after.read_bytes - p.before.read_bytes);
    json_number("writes", p.after.writes - p.before.writes);
    json_number("written_bytes", p.after.written_bytes - p.before.written_bytes);
    json_number("flushes", p.after.flushes - p.before.flushes);
    json_number("discards", p.after.discards - p.before.discards);
    json_number("busy_ns", p.after.busy_ns - p.before.busy_ns);
    if (p.after.model_ns) json_number("model_ns", p.after.model_ns - p.before.model_ns);
    json_wear(&p.before.wear, &p.after.wear);
    printf("}");
}

static void json_histogram(const struct histogram *h) {
    if (!h->count) {
        printf(",\"latency\":null");
        return;
    }
    printf(",\"latency\":{\"sub_bucket_bits\":%d", SUB_BITS);
    json_number("count", h->count);
    json_number("sum_ns", h->sum);
    json_number("min_ns", h->min);
    json_number("max_ns", h->max);
    printf(",\"buckets\":[");
    const char *comma = "";
    for (unsigned i = 0; i < BUCKETS; i++) {
        if (!h->bucket[i]) continue;
        printf("%s[%u,%llu]", comma, i, (unsigned long long)h->bucket[i]);
        comma = ",";
    }
    printf("]}");
}

static void json_samples(void) {
    char buffer[1 << 12], last = '[';
    ssize_t n;
    lseek(p.samples, 0, SEEK_SET);
    printf(",\"samples\":");
    while ((n = read(p.samples, buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (buffer[i] == '\n') continue;
            if (buffer[i] == '{') putchar(last), last = ',';
            putchar(buffer[i]);
        }
    printf(last == '[' ? "[]" : "]");
}

static void json_clients(void) {
    printf(",\"clients\":[");
    for (unsigned i = 0; i < p.clients; i++) {
        const struct client *c = &p.client[i];
        printf("%s{\"start_ns\":%llu", i ? "," : "", (unsigned long long)(c->start - p.began));
        json_number("wall_ns", c->end - c->start);
        json_number("items", c->items);
        json_number("bytes", c->bytes);
        printf("}");
    }
    printf("]");
}

static void phase_json(void) {
    printf("{\"event\":\"%s\"", get(p.step, "unmeasured", NULL) ? "preparation" : "phase");
    json_key("name", p.name);
    json_key("cache", need(p.step, "cache"));
    if (get(p.step, "run", NULL)) json_number("run", number(p.step, "run"));
    json_key("operation", p.kind);
    if (p.does == COMMAND) json_argv(p.step);
    json_times();
    json_processors();
    if (p.crash) printf(",\"crash\":{\"cut_ns\":%llu}", (unsigned long long)p.worked);
    if (rebuild_watched() && p.does != REBUILD) json_bool("rebuilding", p.rebuilding);
    json_number("items", p.done.items);
    json_number("bytes", p.done.bytes);
    json_result(p.result);
    json_device();
    json_space();
    json_histogram(&p.latency);
    if (p.does == COMMAND) json_samples();
    if (p.client) json_clients();
    printf("}\n");
}

void step_phase(const struct step *s) {
    if (!phase_read(s)) return;
    if (phase_open()) {
        measure();
        account();
        phase_json();
        phase_close();
    }
}
