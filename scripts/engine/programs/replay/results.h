/* What came of the calls: their times, and whether they did as recorded. */
#ifndef REPROFS_REPLAY_RESULTS_H
#define REPROFS_REPLAY_RESULTS_H

#include "arguments.h"
#include "call.h"
#include "samples.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { UNITS = 4 };
struct spent { uint64_t count, wall, bytes; };
OWN struct spent spent[KINDS][64 * UNITS];
OWN uint64_t differing;

/* A quarter of an octave: what is in one place differs by a fifth at most. */
static void note(enum kind kind, uint64_t wall, uint64_t bytes) {
    unsigned octave = wall ? 63u - (unsigned)__builtin_clzll(wall) : 0;
    unsigned quarter = octave < 2 ? 0 : (unsigned)(wall >> (octave - 2)) & 3;
    spent[kind][octave * UNITS + quarter].count++;
    spent[kind][octave * UNITS + quarter].wall += wall;
    spent[kind][octave * UNITS + quarter].bytes += bytes;
}

static void note_file(struct call *c) {
    bool opened = c->kind == OPEN || c->kind == ENTER;
    if (opened && c->result >= 0) {
        if (c->opens < 0) close((int)c->result);
        else
            files[c->opens] = (struct file){.fd = (int)c->result,
                .append = c->kind == OPEN && c->n[0] & O_APPEND,
                .direct = c->kind == OPEN && c->n[0] & O_DIRECT};
        c->result = 0;
    }
    if (c->kind == CLOSE) c->file[0]->fd = -1;
    if (c->kind == READ && c->result > 0) c->file[0]->position += c->result;
    if (c->kind == WRITE && c->result > 0) c->file[0]->position = c->offset + c->result;
    if (c->kind == SEEK && c->result >= 0) c->file[0]->position = c->result;
    if (c->kind == COPY || c->kind == SEND)
        for (int i = 0; i < 2; i++)
            if (c->result > 0 && (i ? c->kind == SEND || c->n[2] < 0 : c->n[1] < 0)) c->file[i]->position += c->result;
}

static bool as_recorded(const struct call *c) {
    if (c->check == 2) return true;
    return c->check ? (c->result < 0) == (c->want < 0) : c->result == c->want;
}

static int judge(const struct call *c, uint64_t i) {
    if (!moved && (c->kind == READ || c->kind == PREAD) && c->result > 0) {
        int64_t where = unlike(buffer, c->offset, c->result);
        if (where >= 0) return broken("call %llu: wrong content at byte %lld", (unsigned long long)i, (long long)where);
    }
    if (as_recorded(c)) return 0;
    if (p.differing) printf("%llu\n", (unsigned long long)i);
    else if (differing < SHOWN)
        fprintf(stderr, "engine: replay: call %llu, %s %s: %lld (%s), recorded %lld (%s)\n", (unsigned long long)i,
            kinds[c->kind].name, c->path[0] ? c->path[0] : "", (long long)c->result,
            c->result < 0 ? strerror((int)-c->result) : "done", (long long)c->want,
            c->want < 0 ? strerror((int)-c->want) : "done");
    differing++;
    return 0;
}

static void put_samples(uint64_t start) {
    for (unsigned k = 0; k < KINDS; k++)
        for (unsigned i = 0; i < 64 * UNITS; i++) {
            if (!spent[k][i].count) continue;
            sample_put(SAMPLE(.name = kinds[k].name, .start_ns = start, .wall_ns = spent[k][i].wall,
                .items = spent[k][i].count, .bytes = spent[k][i].bytes));
            start += spent[k][i].wall; /* one after the other, as the calls were */
        }
}

#endif
