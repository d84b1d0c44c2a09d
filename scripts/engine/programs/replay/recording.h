/* Reading a recording; its layout is in scripts/reprofs/guest/trace.py. */
#ifndef REPROFS_REPLAY_RECORDING_H
#define REPROFS_REPLAY_RECORDING_H

#include "arguments.h"
#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, UP = 8 };
OWN const uint8_t *at;
static const uint8_t *end;
OWN bool ends_early;
static const char **strings;
static uint64_t moved, handles, string_count, blob, before, calls, after;

static uint64_t read_number(void) {
    uint64_t value = 0;
    for (unsigned shift = 0; at < end && shift < 64; shift += 7) {
        value |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128)) return value;
    }
    ends_early = true;
    return value;
}
static int64_t read_folded(void) {
    uint64_t value = read_number();
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}
static const char *read_string(void) {
    uint64_t i = read_number();
    return i < string_count ? strings[i] : "";
}

static int load(void) {
    char path[PATH_BYTES];
    const char *folder = getenv("REPROFS_PROGRAMS");
    snprintf(path, sizeof path, "%s/%s", folder && !strchr(p.recording, '/') ? folder : ".", p.recording);
    struct stat s;
    int fd = open(*p.recording == '/' ? p.recording : path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &s)) return stream_failed("open", p.recording, errno);
    /* Wholly in memory before anything is timed. */
    uint8_t *data = mmap(NULL, (size_t)s.st_size + 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data == MAP_FAILED) return broken("no memory for %s", p.recording);
    ssize_t n = 0, part;
    while ((part = read(fd, data + n, (size_t)(s.st_size - n))) > 0) n += part;
    close(fd);
    at = data, end = data + n;
    if (n < 16 || memcmp(at, "REPLAY\0\1", 8)) return broken("%s is no recording for this program", p.recording);
    at += 8;
    moved = read_number(), handles = read_number(), string_count = read_number(), blob = read_number(),
    before = read_number();
    calls = read_number(), after = read_number();
    if (blob > (uint64_t)(end - at) || string_count > blob) return broken("%s is damaged", p.recording);
    strings = calloc(string_count + 1, sizeof *strings);
    if (!strings) return broken("no memory for %s", p.recording);
    const uint8_t *text = at;
    for (uint64_t i = 0; i < string_count && text < at + blob; i++)
        strings[i] = (const char *)text, text += strlen((const char *)text) + 1;
    at += blob;
    return 0;
}

/* Changes into the tree, which is eight folders below p.folder. */
static int enter(bool make) {
    if (make && mkdir(p.folder, 0755)) return stream_failed("make", p.folder, errno);
    if (chdir(p.folder)) return stream_failed("enter", p.folder, errno);
    for (int i = 0; i < UP; i++)
        if ((make && mkdir("0", 0755)) || chdir("0")) return stream_failed("enter", p.folder, errno);
    return 0;
}

#endif
