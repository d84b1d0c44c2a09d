#define _GNU_SOURCE
#include "devices.h"
#include "measure.h"
#include "output.h"
#include "steps.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEVICES = 32 };
static int devices;
static char device[DEVICES][64];
static bool flash; /* whether modelled disks tell their wear */
static struct { /* a rebuild that goes on while phases run */
    char path[PATH_BYTES];
    uint64_t since;
    struct counters before;
    struct processors idle;
} watched;

static void add_wear(const char *name, unsigned long long discarded, struct wear *sum) {
    struct wear w = {0};
    char path[128];
    snprintf(path, sizeof path, "/sys/block/%s/wear", name);
    char *text = slurp(path, NULL); /* what was flushed is in it: `account`, read before, lets the model go on */
    if (text && sscanf(text, "%llu %llu %llu %llu", &w.written, &w.moved, &w.erased, &w.fast) == 4)
        sum->written += w.written, sum->moved += w.moved, sum->erased += w.erased, sum->fast += w.fast,
            sum->discarded += discarded;
    free(text);
}

struct counters counters(void) {
    struct counters sum = {0};
    for (int i = 0; i < devices; i++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/block/%s/stat", device[i]);
        unsigned long long v[17] = {0};
        char *text = slurp(path, NULL), *at = text;
        for (int k = 0; at && k < 17; k++) v[k] = strtoull(at, &at, 10);
        if (!text) failed("cannot read the counters of %s", device[i]);
        free(text);
        sum.reads += v[0], sum.read_bytes += v[2] * 512, sum.writes += v[4], sum.written_bytes += v[6] * 512;
        sum.in_flight += v[8], sum.busy_ns += v[9] * 1000000, sum.discards += v[11], sum.flushes += v[15];
        unsigned long long model = 0;
        snprintf(path, sizeof path, "/sys/block/%s/account", device[i]); /* only modelled disks have one */
        text = slurp(path, NULL);
        if (text) sscanf(text, "%*s %*s %llu", &model);
        free(text);
        sum.model_ns += model;
        if (flash) add_wear(device[i], v[13] * 512, &sum.wear);
    }
    return sum;
}

void json_wear(const struct wear *before, const struct wear *after) {
    if (!flash) return;
    json_number("flash_written", after->written - before->written);
    json_number("flash_moved", after->moved - before->moved);
    json_number("flash_erased", after->erased - before->erased);
    json_number("flash_fast", after->fast - before->fast);
    json_number("discarded_bytes", after->discarded - before->discarded);
}
/* Of the whole trial: its disks are made in it. */
void step_wear(const struct step *s) {
    (void)s;
    struct counters now = counters();
    printf("{\"event\":\"wear\"");
    json_wear(&(struct wear){0}, &now.wear);
    printf("}\n");
}

bool devices_there(void) { return devices > 0; }

void step_devices(const struct step *s) {
    devices = 0, flash = number_or(s, "flash", 0);
    for (int i = 0; i < s->fields && devices < DEVICES; i++) {
        char real[PATH_BYTES * 4]; /* PATH_MAX */
        if (strcmp(s->key[i], "path")) continue;
        if (!realpath(s->value[i], real)) return failed("there is no device %s: %s", s->value[i], strerror(errno));
        snprintf(device[devices++], sizeof device[0], "%.63s", strrchr(real, '/') + 1);
    }
}

/* ---- power ------------------------------------------------------------------------------------------------------- */
void power_cut(const struct step *s, uint64_t at) {
    for (int i = 0; i < s->fields; i++) {
        char text[32] = "cut";
        uint64_t now = now_ns();
        if (strcmp(s->key[i], "power")) continue;
        if (at > now) snprintf(text, sizeof text, "cut %llu", (unsigned long long)(at - now));
        write_text(s->value[i], text);
    }
}

uint64_t power_arm(const struct step *s) {
    char text[32];
    uint64_t ahead = number_or(s, "cut_ms", 0) * 1000000u, at = now_ns() + ahead;
    if (!ahead) return 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)at);
    setenv("REPROFS_CUT_NS", text, 1); /* for commands that promise something: until then they may */
    power_cut(s, at);
    return at;
}

/* The power comes back: the devices have what reached their media, and say how much did not. */
void step_restore(const struct step *s) {
    uint64_t lost = 0;
    for (int i = 0; i < s->fields; i++) {
        char path[PATH_BYTES];
        unsigned long long bytes = 0;
        if (strcmp(s->key[i], "power")) continue;
        write_text(s->value[i], "restore");
        snprintf(path, sizeof path, "%.*s/account", (int)(strrchr(s->value[i], '/') - s->value[i]), s->value[i]);
        char *text = slurp(path, NULL);
        if (!text || sscanf(text, "%*s %*s %*s %llu", &bytes) != 1)
            failed("cannot read how much was lost from %s", path);
        free(text);
        lost += bytes;
    }
    printf("{\"event\":\"restored\",\"lost_bytes\":%llu}\n", (unsigned long long)lost);
}

/* ---- rebuilds ---------------------------------------------------------------------------------------------------- */
static bool is_idle(const char *path) {
    char *text = slurp(path, NULL);
    bool idle = text && !strncmp(text, "idle", 4);
    if (!text) failed("cannot read %s: %s", path, strerror(errno));
    free(text);
    return idle || *failure;
}
/* The kernel tells when the file has changed, so that the end of a rebuild is seen at once: looks take processor time
 * from it, as much as 2 % with one each millisecond. */
static void wait_idle(const char *path, uint64_t limit_s) {
    uint64_t start = now_ns();
    struct pollfd changed = {.fd = open(path, O_RDONLY | O_CLOEXEC), .events = POLLPRI};
    char text[32];
    if (changed.fd < 0) return failed("cannot read %s: %s", path, strerror(errno));
    while (pread(changed.fd, text, sizeof text, 0) >= 0 && !is_idle(path)) { /* what was read may change from here on */
        if (now_ns() - start > limit_s * 1000000000u) {
            timed_out = timed_out || !*failure;
            failed("%s did not become idle within %llu s", path, (unsigned long long)limit_s);
            break;
        }
        poll(&changed, 1, 100);
    }
    close(changed.fd);
}
void step_await(const struct step *s) {
    uint64_t start = now_ns();
    wait_idle(need(s, "path"), number(s, "limit_s"));
    printf("{\"event\":\"awaited\"");
    json_key("path", need(s, "path"));
    json_number("wall_ns", now_ns() - start);
    printf("}\n");
}
void step_watch(const struct step *s) {
    snprintf(watched.path, sizeof watched.path, "%s", need(s, "path"));
    watched.idle = processors();
    watched.before = counters();
    watched.since = now_ns();
}
bool rebuild_watched(void) { return *watched.path; }
bool rebuild_goes_on(void) { return *watched.path && !is_idle(watched.path); }
uint64_t rebuild_wait(uint64_t limit_s, struct counters *before, struct processors *idle) {
    wait_idle(watched.path, limit_s);
    *before = watched.before, *idle = watched.idle;
    return watched.since;
}

/* ---- settling ---------------------------------------------------------------------------------------------------- */
enum { SETTLE_STEP_MS = 100, SETTLE_QUIET = 10, SETTLE_LIMIT = 1200 };
uint64_t settle(bool *settled) {
    uint64_t start = now_ns();
    struct counters last = counters();
    int quiet = 0;
    for (int i = 0; devices && quiet < SETTLE_QUIET && i < SETTLE_LIMIT; i++) {
        usleep(SETTLE_STEP_MS * 1000);
        struct counters c = counters();
        quiet = c.reads == last.reads && c.writes == last.writes && c.discards == last.discards && !c.in_flight
            ? quiet + 1
            : 0;
        last = c;
    }
    *settled = !devices || quiet == SETTLE_QUIET;
    return now_ns() - start;
}

void step_settle(const struct step *s) {
    (void)s;
    bool settled;
    uint64_t waited = settle(&settled);
    printf("{\"event\":\"settle\",\"settle_ns\":%llu}\n", (unsigned long long)waited);
}
