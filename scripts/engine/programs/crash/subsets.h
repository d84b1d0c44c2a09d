/* Which states there are: for each place in the log the writes that are surely on the disk, and subsets of the others.
 *
 * A write is surely there when a flush followed it, or when it asked for that itself (FUA), or when the disk has no
 * volatile cache. Of the others, the open ones: none, all, all but one, one alone; of one, with all others, only its
 * first half in pages or in sectors (torn). Equal states, by the last writer of each sector, are one. */
#ifndef REPROFS_CRASH_SUBSETS_H
#define REPROFS_CRASH_SUBSETS_H

#include "disk.h"

enum subset { NONE_, EVERY, WITHOUT, ALONE, TORN_4K, TORN_512, SUBSETS };
static const char *const subset_words[SUBSETS + 1] = {"none", "all", "without", "alone", "torn-4k", "torn-512", NULL};
static bool chosen[SUBSETS], durable; /* durable: no volatile cache */

/* A state: the first and last place at which it may be left; how it is picked. prefix: it continues that many picks. */
struct state {
    uint64_t hash;
    uint32_t first, last, which;
    enum subset how;
};
static struct state *states;
static uint32_t n_states, n_proposed, room_states;
static struct pick *picks;
static uint32_t n_picks, n_fixed; /* n_fixed: those of the state in which a recovery began */
static uint32_t *open_writes, n_open, from_event; /* from_event: the first that is explored */
static bool *sure;
static uint64_t *pages;
static uint32_t n_pages, *writer; /* of each sector of each page the last event, from 1 */

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static uint32_t page_index(uint64_t page) {
    const uint64_t *at = bsearch(&page, pages, n_pages, sizeof *pages, by_number);
    return (uint32_t)(at - pages);
}

/* Room for what follows, and the pages that the log touches. */
static void open_subsets(void) {
    size_t n = n_events + 1, touched = 0;
    for (uint32_t e = 0; e < n_events; e++) touched += events[e].sectors / DISK_SECTORS_A_PAGE + 2;
    picks = realloc(picks, n * sizeof *picks);
    open_writes = realloc(open_writes, n * sizeof *open_writes);
    sure = realloc(sure, n);
    pages = realloc(pages, (touched + 1) * sizeof *pages);
    writer = realloc(writer, (touched + 1) * DISK_SECTORS_A_PAGE * sizeof *writer);
    if (!picks || !open_writes || !sure || !pages || !writer) exit(broken("no memory for %u events", n_events));
    touched = 0;
    for (uint32_t e = 0; e < n_events; e++) {
        if (events[e].kind != 'w') continue;
        uint64_t last = (events[e].number + events[e].sectors - 1) / DISK_SECTORS_A_PAGE;
        for (uint64_t p = events[e].number / DISK_SECTORS_A_PAGE; p <= last; p++) pages[touched++] = p;
    }
    qsort(pages, touched, sizeof *pages, by_number);
    n_pages = 0;
    for (size_t i = 0; i < touched; i++)
        if (!i || pages[i] != pages[i - 1]) pages[n_pages++] = pages[i];
}

/* Which writes are surely there after k events, and which may be. */
static void split(uint32_t k) {
    uint32_t flushed = 0;
    for (uint32_t e = from_event; e < k; e++)
        if (events[e].kind == 'f') flushed = e;
    n_open = 0;
    for (uint32_t e = from_event; e < k; e++) {
        if (events[e].kind != 'w') continue;
        sure[e] = e < flushed || events[e].fua || durable;
        if (!sure[e]) open_writes[n_open++] = e;
    }
}

static void pick(uint32_t k, enum subset how, uint32_t which) {
    n_picks = n_fixed;
    for (uint32_t e = from_event; e < k; e++) {
        if (events[e].kind != 'w') continue;
        bool it = !sure[e] && n_open && open_writes[which] == e;
        uint32_t sectors = events[e].sectors;
        if (!sure[e] && (how == NONE_ || (how == WITHOUT && it) || (how == ALONE && !it))) continue;
        if (it && how == TORN_4K) sectors = sectors / 2 / DISK_SECTORS_A_PAGE * DISK_SECTORS_A_PAGE;
        if (it && how == TORN_512) sectors = sectors > 1 ? sectors / 2 | (sectors > 2) : 0;
        if (sectors) picks[n_picks++] = (struct pick){e, 0, sectors};
    }
}

static uint64_t hash_of_picks(void) { /* FNV-1a, over words */
    uint64_t hash = 0xcbf29ce484222325ull;
    memset(writer, 0, (size_t)n_pages * DISK_SECTORS_A_PAGE * sizeof *writer);
    for (uint32_t i = 0; i < n_picks; i++) {
        uint64_t at = events[picks[i].event].number + picks[i].first, end = at + picks[i].sectors;
        uint32_t place = page_index(at / DISK_SECTORS_A_PAGE) * DISK_SECTORS_A_PAGE + at % DISK_SECTORS_A_PAGE;
        while (at++ < end) writer[place++] = picks[i].event + 1; /* the pages of one write follow each other */
    }
    for (size_t i = 0; i < (size_t)n_pages * DISK_SECTORS_A_PAGE; i++) hash = (hash ^ writer[i]) * 0x100000001b3ull;
    return hash;
}

static void propose(uint32_t k, enum subset how, uint32_t which) {
    pick(k, how, which);
    uint64_t hash = hash_of_picks();
    n_proposed++;
    for (uint32_t i = n_states; i-- > 0;) {
        if (states[i].hash != hash) continue;
        states[i].last = k;
        return;
    }
    if (n_states == room_states) states = realloc(states, (room_states = 2 * room_states + 256) * sizeof *states);
    if (!states) exit(broken("no memory for %u states", n_states));
    states[n_states++] = (struct state){hash, k, k, which, how};
}

/* The j-th of `of` things, of which at most `most` are taken, evenly, with the first and the last. */
static uint32_t taken(uint32_t j, uint32_t of, uint32_t most) {
    return of <= most ? j : (uint32_t)((uint64_t)j * (of - 1) / (most - 1));
}

/* All states of the log from `from` on; `fixed` picks, which `picks` has already, come before. Of the places in the
 * log, and of the writes that are left out or alone, at most `most` are taken. */
static void enumerate(uint32_t from, uint32_t fixed, uint32_t most) {
    uint32_t places = n_events - from + 1;
    from_event = from;
    n_fixed = fixed;
    n_states = n_proposed = 0;
    for (uint32_t j = 0; j < places && j < most; j++) {
        uint32_t k = from + taken(j, places, most);
        split(k);
        propose(k, EVERY, 0);
        if (!n_open) continue;
        propose(k, NONE_, 0);
        for (uint32_t w = 0; w < n_open && w < most; w++)
            for (enum subset how = WITHOUT; how < SUBSETS; how++) {
                uint32_t i = taken(w, n_open, most);
                uint32_t sectors = events[open_writes[i]].sectors;
                if ((how == TORN_4K && sectors <= DISK_SECTORS_A_PAGE) || (how == TORN_512 && sectors < 2)) continue;
                if (chosen[how]) propose(k, how, i);
            }
    }
}
#endif
