/* A call of the recording, and the open files and mappings that it is made on. */
#ifndef REPROFS_REPLAY_CALL_H
#define REPROFS_REPLAY_CALL_H

#include "content.h"
#include "kinds.h"
#include "recording.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

enum { ARGUMENTS = 7 };
struct file {
    int fd;
    bool append, direct;
    int64_t position;
};
struct mapping {
    uint8_t *memory;
    uint64_t bytes, inside; /* inside: of the file, beyond which no page may be touched */
    bool shared;
};
struct call {
    enum kind kind;
    unsigned check;
    int64_t result, want, offset; /* offset: of what is read or written */
    struct file *file[2];
    struct mapping *mapping;
    int64_t opens; /* the number of the file or mapping that it makes; -1 */
    const char *path[2];
    int64_t n[ARGUMENTS];
    const uint8_t *from;
};
static struct file *files;
static struct mapping *mappings;

/* A path that is empty means the open file itself, as C libraries do with files opened by O_PATH. */
static void name_itself(struct call *c, unsigned f, unsigned s) {
    OWN char path[2][32];
    OWN struct file none = {.fd = AT_FDCWD};
    snprintf(path[s], sizeof path[s], "/proc/self/fd/%d", c->file[f]->fd);
    c->path[s] = path[s], c->file[f] = &none;
}

static bool next_call(struct call *c) {
    unsigned kind = *at++, f = 0, s = 0, k = 0;
    if (kind >= FINAL) return false;
    *c = (struct call){.kind = kind, .opens = -1};
    c->check = *at++;
    c->want = read_folded();
    for (const char *a = kinds[kind].arguments; *a; a++) {
        int64_t value = *a == 't' ? 0 : read_folded();
        bool good = value >= 0 && (uint64_t)value < handles;
        switch (*a) {
            case 'n': c->n[k++] = value; break;
            case 't': c->path[s++] = read_string(); break;
            case 'H':
            case 'M': c->opens = good ? value : -1; break;
            case 'm': c->mapping = &mappings[good ? value : 0]; break;
            default: c->file[f++] = &files[good ? value : 0]; break;
        }
        if (*a != 'p') continue;
        c->path[s++] = read_string();
        if (!*c->path[s - 1]) name_itself(c, f - 1, s - 1);
    }
    return !ends_early;
}

/* What the call needs and the recorded program had ready. */
static void make_ready(struct call *c) {
    struct stat s;
    struct file *f = c->file[0];
    bool writes = c->kind == WRITE || c->kind == PWRITE;
    if ((writes || c->kind == READ || c->kind == PREAD || c->kind == LIST) && c->n[0] > LARGEST) c->n[0] = LARGEST;
    if (c->kind == READ || c->kind == WRITE) c->offset = f->position;
    if (c->kind == PREAD || c->kind == PWRITE) c->offset = c->n[1];
    if (writes && f->append) c->offset = fstat(f->fd, &s) ? 0 : s.st_size;
    if (writes) c->from = content(c->offset, (size_t)c->n[0], f->direct);
}

#endif
