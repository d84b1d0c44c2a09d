/* The mappings of files below a root, and which of their pages are used: /proc/PID/pagemap, proc(5). That a page was
 * written again shows in a hash of what it holds, which never leaves this program: few kernels have soft-dirty bits. A
 * page that is written with what it holds already, and one that another thread writes in these moments, are not seen.
 * Only recorder.c includes this. */
#ifndef REPROFS_RECORDER_MAPPINGS_H
#define REPROFS_RECORDER_MAPPINGS_H

enum { RUNS = PATH_BYTES / 16 };
struct map {
    uint64_t mm, at, bytes, id;
    bool writes;           /* it is shared and may be written to */
    uint64_t *seen, pages; /* of each page: 0, or what it held when it was told of, never 0 */
};
static struct map *maps;
static size_t map_count, map_room;
static uint64_t last_map;

static bool below_a_root(const char *path) {
    for (int i = 0; i < root_count; i++) {
        size_t n = strlen(roots[i]);
        if (!strncmp(path, roots[i], n) && (path[n] == '/' || !path[n])) return true;
    }
    return false;
}

static bool room_for_seen(struct map *m) {
    uint64_t pages = (m->bytes + PAGE - 1) / PAGE;
    if (pages <= m->pages) return true;
    uint64_t *seen = realloc(m->seen, pages * sizeof *seen);
    if (!seen) return false;
    memset(seen + m->pages, 0, (pages - m->pages) * sizeof *seen);
    m->seen = seen, m->pages = pages;
    return true;
}

/* What a page holds, as a number that is not 0. Source: FNV-1a, over words of 64 bits. */
static uint64_t held(pid_t pid, const struct map *m, uint64_t page) {
    uint64_t word[PAGE / 8], h = 0xcbf29ce484222325u;
    if (!m->writes || !peek(pid, m->at + page * PAGE, word, sizeof word)) return 1;
    for (unsigned i = 0; i < PAGE / 8; i++) h = (h ^ word[i]) * 0x100000001b3u, h ^= h >> 32;
    return h | 1;
}

static void tell_runs(pid_t pid, const struct map *m, uint64_t run[RUNS][2], unsigned n) {
    static char text[STRINGS][PATH_BYTES];
    struct event e = {.type = USED, .pid = pid, .value = (int64_t)m->id, .length = {(uint16_t)(n * sizeof *run)}};
    memcpy(text[0], run, n * sizeof *run);
    if (n) tell(&e, text);
}

/* Tells which pages of a mapping were used since it was last told, as runs of [first, number of]. */
static void tell_used(pid_t pid, struct map *m) {
    char name[64];
    uint64_t entries[512], run[RUNS][2] = {{0}}, pages = (m->bytes + PAGE - 1) / PAGE;
    unsigned n = 0;
    snprintf(name, sizeof name, "/proc/%d/pagemap", pid);
    int fd = room_for_seen(m) ? open(name, O_RDONLY | O_CLOEXEC) : -1;
    if (fd < 0) return;
    for (uint64_t k = 0; k < pages;) {
        uint64_t part = pages - k < 512 ? pages - k : 512;
        ssize_t got = pread(fd, entries, part * 8, (off_t)((m->at / PAGE + k) * 8));
        if (got <= 0) break;
        for (ssize_t j = 0; j < got / 8; j++, k++) {
            if (!(entries[j] >> 63) || (m->seen[k] && !m->writes)) continue;
            uint64_t now = held(pid, m, k);
            if (m->seen[k] == now) continue;
            m->seen[k] = now;
            bool on = n && run[n - 1][0] + run[n - 1][1] == k;
            if (!on && n == RUNS) tell_runs(pid, m, run, n), n = 0;
            if (on) run[n - 1][1]++;
            else run[n][0] = k, run[n++][1] = 1;
        }
    }
    close(fd);
    tell_runs(pid, m, run, n);
}
static void tell_all_used(const struct task *t, bool only_read) {
    for (size_t i = 0; i < map_count; i++)
        if (maps[i].mm == t->mm && !(only_read && maps[i].writes)) tell_used(t->pid, &maps[i]);
}
static void forget_map(pid_t pid, size_t i) {
    tell_of(UNMAPPED, pid, (int64_t)maps[i].id, 0);
    free(maps[i].seen);
    maps[i] = maps[--map_count];
}
static void unmap(const struct task *t, uint64_t at, uint64_t bytes) {
    for (size_t i = map_count; i-- > 0;)
        if (maps[i].mm == t->mm && maps[i].at >= at && maps[i].at < at + bytes) forget_map(t->pid, i);
}
static uint64_t mapped(const struct task *t, uint64_t at, uint64_t bytes) {
    bool writes = (t->at.arg[3] & MAP_TYPE) != MAP_PRIVATE && t->at.arg[2] & PROT_WRITE;
    if (map_count == map_room) {
        map_room = map_room ? 2 * map_room : 1024;
        if (!(maps = realloc(maps, map_room * sizeof *maps))) exit(say("no memory for mappings"));
    }
    maps[map_count++] = (struct map){.mm = t->mm, .at = at, .bytes = bytes, .id = ++last_map, .writes = writes};
    return last_map;
}
static struct map *map_at(const struct task *t, uint64_t at) {
    for (size_t i = 0; i < map_count; i++)
        if (maps[i].mm == t->mm && at >= maps[i].at && at < maps[i].at + maps[i].bytes) return &maps[i];
    return NULL;
}

#endif
