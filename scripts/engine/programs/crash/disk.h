/* The disk whose states are made (scripts/guest/crashdisk.c), and its log. */
#ifndef REPROFS_CRASH_DISK_H
#define REPROFS_CRASH_DISK_H

#include "program.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CONTROL "/dev/crashdisk-control"
enum { DISK_SECTORS_A_PAGE = 8, PICKS_BYTES = 4 << 20 };
struct event {
    char kind; /* w: a write, f: a flush, m: a mark */
    bool fua;
    uint32_t sectors;
    uint64_t number; /* first sector, or the mark */
};
struct pick { uint32_t event, first, sectors; };
static struct event *events;
static uint32_t n_events;

static void tell_disk(const char *text) {
    int fd = open(CONTROL, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0)
        exit(broken(
            "%s does not take %.20s: %s; choose a device profile with backing: crash", CONTROL, text, reason(errno)));
    close(fd);
}

static inline void mark(unsigned number) {
    char text[32];
    snprintf(text, sizeof text, "mark %u", number);
    tell_disk(text);
}

static void read_log(void) {
    char line[80];
    unsigned long long number;
    unsigned sectors, fua;
    size_t room = 0;
    FILE *f = fopen(CONTROL, "re");
    if (!f) exit(broken("cannot read %s: %s", CONTROL, reason(errno)));
    for (n_events = 0; fgets(line, sizeof line, f); n_events++) {
        if (n_events == room) events = realloc(events, (room = 2 * room + 256) * sizeof *events);
        if (!events) exit(broken("no memory for the log"));
        number = sectors = fua = 0;
        sscanf(line + 1, "%llu %u %u", &number, &sectors, &fua);
        events[n_events] = (struct event){.kind = *line, .fua = fua, .sectors = sectors, .number = number};
    }
    fclose(f);
}

static inline void make_state(const struct pick *picks, uint32_t n) {
    static char text[PICKS_BYTES];
    size_t at = (size_t)sprintf(text, "state");
    for (uint32_t i = 0; i < n; i++) {
        if (at > sizeof text - 40) exit(broken("a state of %u writes is too large", n));
        at += (size_t)sprintf(text + at, " %u:%u:%u", picks[i].event, picks[i].first, picks[i].sectors);
    }
    tell_disk(text);
}
#endif
