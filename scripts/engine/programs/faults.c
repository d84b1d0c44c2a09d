/* What a file system makes of requests that fail and of blocks that are not what was written: what fsync says, what is
 * read then, what is left after the next mount.
 *
 * It runs in the folder under test, on a disk whose requests fail when asked to (scripts/guest/crashdisk.c). What is
 * there before is made, flushed and unmounted; that is the base of all cases. Each case prints one line.
 *
 * A fault of writes or flushes: foo is overwritten and flushed four times, a new file is written and flushed,
 * everything is flushed, read without a cache, and unmounted, while the nth request of the kind fails. Then the disk is
 * whole again, the file system is mounted and looked at. A fault of reads, or of what is on the disk: everything is
 * mounted and read, with each block in turn that this reads.
 *
 * Kinds of blocks are what the file system's own tools say (--blocks), without what the calls wrote into files (data);
 * `other` is what no kind has. Errors are numbers of errno, 0: none. */
#define _GNU_SOURCE
#include "crash/calls.h"
#include "crash/content.h"
#include "crash/disk.h"
#include "crash/look.h"
#include "crash/mounts.h"
#include "crash/world.h"
#include "measure.h"
#include "program.h"

#include <sys/statvfs.h>

enum { BUSY_S = 120, KINDS = 32, RANGES = 4000, PAGE = 4096, PAGE_SECTORS = PAGE / SECTOR, NEW_TAG = 1 };
static struct {
    const char *before, *blocks;
    char *fault, *of;
    uint64_t nth, wait, most, times;
} p = {.before = "mkdir A;create A/old;write A/old 0 8192;create foo;write foo 0 8192;mkdir keep;create keep/1;"
                 "write keep/1 0 4096;create keep/2;write keep/2 0 12288",
    .nth = 4,
    .most = 96,
    .times = 1};
enum fault { ERROR, LOST, TORN, ASTRAY, SLOW, ROT, ZEROS };
static const char *const faults[] = {"error", "lost", "torn", "astray", "slow", "rot", "zeros", NULL};
enum of { READS, WRITES, FLUSHES };
static const char *const ofs[] = {"reads", "writes", "flushes", NULL};
static int fault = -1, of = -1;

static int word_in(const char *const *words, const char *word) {
    int i = 0;
    while (words[i] && strcmp(words[i], word)) i++;
    return words[i] ? i : -1;
}
static int read_fault(const char *name, char *text) {
    fault = word_in(faults, text);
    return fault < 0 ? cannot_be(name, text, "error, lost, torn, astray, slow, rot or zeros") : 0;
}
static int read_of(const char *name, char *text) {
    of = word_in(ofs, text);
    return of < 0 ? cannot_be(name, text, "reads, writes or flushes") : 0;
}

static const struct option options[] = {
    TEXT("--fault", read_fault,
        "error; of writes also lost, torn, astray (a page farther on), slow (30 s);"
        " of what is read rot (one bit) or zeros"),
    TEXT("--of", read_of, "reads, writes or flushes"),
    NUMBER("--times", p.times, 0, UINT32_MAX, "so many requests fail; 0: all"),
    NUMBER("--nth", p.nth, 1, UINT32_MAX, "of the requests of each kind the first N are tried, one after another"),
    NUMBER("--most", p.most, 1, UINT32_MAX, "of the blocks of each kind that are read at most N, evenly chosen"),
    NUMBER("--wait", p.wait, 0, UINT32_MAX, "seconds before the first fsync, in which the kernel writes by itself"),
    WORD("--before", p.before, "calls that make what is there before, separated by ;"),
    WORD("--blocks", p.blocks,
        "commands that print the blocks: lines `unit BYTES`, and FIRST, LAST or +COUNT or .., KIND"),
    WORD("--mountpoint", m.mountpoint, "where the file system is mounted"),
    WORD("--type", m.type, "of a mount without commands"),
    WORD("--options", m.options, "of that mount"),
    WORD("--mount", m.mount, "commands, in place of type and options"),
    WORD("--unmount", m.unmount, "commands; without --mount, of the first unmount"),
    WORD("--recover", m.recover, "commands before a mount after a cut"),
    WORD("--checker", m.checker, "commands that check the unmounted file system and change nothing"),
};

static int try_call(const char *text) {
    struct call c;
    return read_call(text, &c);
}
static int prepare(void) {
    if (fault < 0 || of < 0) return wrong("--fault and --of must be given");
    bool on_disk = fault == ROT || fault == ZEROS;
    if (fault != ERROR && on_disk != (of == READS)) return wrong("%s is no fault of %s", faults[fault], ofs[of]);
    if (of == FLUSHES && fault != ERROR && fault != SLOW) return wrong("%s is no fault of flushes", faults[fault]);
    return for_calls(p.before, try_call);
}
static int check(void) { return needs((uint64_t)NAMES * SECTORS * SECTOR, NAMES); }

/* ---- kinds of blocks --------------------------------------------------------------------------------------------- */
static struct {
    char word[LETTERS];
    uint32_t ranges;
} kinds[KINDS];
static struct range {
    uint64_t first, last; /* sectors */
    int kind;
} ranges[RANGES];
static int n_kinds;
static uint32_t n_ranges;

static int kind_of(const char *word) {
    int k = 0;
    while (k < n_kinds && strcmp(kinds[k].word, word)) k++;
    if (k == KINDS) exit(broken("--blocks names more than %d kinds", KINDS));
    if (k == n_kinds) snprintf(kinds[n_kinds++].word, LETTERS, "%s", word);
    return k;
}

static void add_range(uint64_t first, uint64_t last, int kind) {
    struct range *before = n_ranges ? &ranges[n_ranges - 1] : NULL;
    if (before && before->kind == kind && before->last + 1 == first) {
        before->last = last;
        return;
    }
    if (n_ranges == RANGES) exit(broken("--blocks names more than %d places", RANGES));
    ranges[n_ranges++] = (struct range){first, last, kind};
    kinds[kind].ranges++;
}

static int by_place(const void *a, const void *b) {
    const struct range *x = a, *y = b;
    return x->first < y->first ? -1 : x->first > y->first;
}

/* Asks the file system's tools; the file system is unmounted. A line `FIRST .. KIND` goes on until the next begins. */
static void read_blocks(void) {
    unsigned long long first, unit = SECTOR;
    char line[256], until[24], word[LETTERS];
    int open_end = NOTHING; /* kind of a range that the next line ends */
    uint64_t from = 0;
    FILE *f = p.blocks ? popen(p.blocks, "re") : NULL;
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "unit %llu", &unit) == 1) continue;
        if (sscanf(line, "%llu %23s %47[^\n]", &first, until, word) != 3) continue;
        uint64_t at = first * unit / SECTOR, end = (strtoull(until, NULL, 10) + 1) * unit / SECTOR;
        if (open_end != NOTHING) add_range(from, at - 1, open_end);
        open_end = strcmp(until, "..") ? NOTHING : kind_of(word);
        from = at;
        if (*until == '+') end = (first + strtoull(until + 1, NULL, 10)) * unit / SECTOR;
        if (open_end == NOTHING && end > at) add_range(at, end - 1, kind_of(word));
    }
    if (open_end != NOTHING) add_range(from, UINT64_MAX >> 1, open_end);
    if (f && (pclose(f) || !n_ranges)) exit(broken("the commands of --blocks say nothing of the blocks"));
    qsort(ranges, n_ranges, sizeof *ranges, by_place);
    kind_of("other");
}

static const char *kind_at(uint64_t sector, const uint8_t *page) {
    const uint64_t *word = (const uint64_t *)(const void *)page;
    if (*word >> 16 == MARK) return "data";
    if (*word == OLD) return "unused";
    for (uint32_t i = 0; i < n_ranges; i++)
        if (ranges[i].first <= sector && sector <= ranges[i].last) return kinds[ranges[i].kind].word;
    return "other";
}

/* Asks the disk for a fault of requests of a kind; kind: of kinds, or n_kinds for data. */
static void arm(int kind, uint64_t skip) {
    static char text[RANGES * 44];
    const char *content = of != WRITES ? "any" : kind == n_kinds ? "data" : "other";
    int n = sprintf(text, "fail %c %s %s %llu %llu", *ofs[of], faults[fault], content, (unsigned long long)skip,
        (unsigned long long)p.times);
    bool other = of == WRITES && kind < n_kinds && !strcmp(kinds[kind].word, "other");
    uint64_t from = 0;
    for (uint32_t i = 0; of == WRITES && kind < n_kinds && i < n_ranges; i++) {
        const struct range *r = &ranges[i];
        if (!other && r->kind == kind)
            n += sprintf(text + n, " %llu:%llu", (unsigned long long)r->first, (unsigned long long)r->last);
        if (other && r->first > from)
            n += sprintf(text + n, " %llu:%llu", (unsigned long long)from, (unsigned long long)r->first - 1);
        if (r->last >= from) from = r->last + 1;
    }
    if (other) sprintf(text + n, " %llu:%llu", (unsigned long long)from, ~0ull);
    tell_disk(text);
}

/* How many requests failed, and the sector of the first. */
static uint32_t failed(uint64_t *sector) {
    uint32_t n = 0;
    read_log();
    for (uint32_t e = 0; e < n_events; e++) {
        if (events[e].kind != 'x') continue;
        if (!n++) *sector = events[e].number;
    }
    return n;
}

/* ---- what is there ----------------------------------------------------------------------------------------------- */
/* What is in the first page of a file: new, old, mixed, zeros, foreign, short, absent, or the number of an error. */
static const char *content(const char *name) {
    static char number[16];
    int n = name_of(name), was = worlds[0].at[n], new = 0, old = 0, zeros = 0;
    see(n);
    const struct seen *s = &seen[n];
    if (!s->type) return "absent";
    if (s->type == 'e') return snprintf(number, sizeof number, "%d", s->error), number;
    if (s->bytes < PAGE) return "short";
    for (int i = 0; i < PAGE_SECTORS; i++) {
        new += s->tag[i] == NEW_TAG && s->node[i] == n;
        old += s->tag[i] == BEFORE && s->node[i] == was;
        zeros += !s->tag[i];
    }
    if (new == PAGE_SECTORS || old == PAGE_SECTORS || zeros == PAGE_SECTORS) return new ? "new" : old ? "old" : "zeros";
    return new + old + zeros == PAGE_SECTORS ? "mixed" : "foreign";
}

/* In what a name differs from what was there before; NULL: in nothing. */
static const char *differs(int n) {
    int x = worlds[0].at[n];
    const struct seen *s = &seen[n];
    const struct node *node = &worlds[0].node[x];
    if (!s->type) return "is absent";
    if (s->type != node->type) return "is of another type";
    if (s->type == 'f' && s->bytes != node->bytes) return "has another size";
    for (int i = 0; s->type == 'f' && i < node->bytes / SECTOR; i++)
        if (s->tag[i] != node->tag[i] || s->node[i] != x) return "has other content";
    return NULL;
}

/* Everything as it was before, but this name: how many names cannot be read, and how many are silently others. */
static int compare(const char *but, int *others, char *what, size_t room) {
    int errors = 0;
    *others = 0;
    *what = 0;
    look();
    for (int n = 0; n < n_names; n++) {
        if (worlds[0].at[n] == NOTHING || !strcmp(names[n], but)) continue;
        bool fails = seen[n].type == 'e';
        const char *why = fails ? words_for(seen[n].error) : differs(n);
        errors += fails;
        *others += !fails && why;
        if (why && !*what) snprintf(what, room, "%s%s %s", names[n], fails ? ":" : "", why);
    }
    if (*odd && !*what) snprintf(what, room, "%s", odd);
    /* What cannot be listed says so; a folder that lists other names does not. */
    if (*odd && !errors && !*others) *(strstr(odd, "cannot be listed") ? &errors : others) = 1;
    return errors;
}

/* A file system that met an error may be busy with it for a while. */
static int unmounted(void) {
    static const struct timespec second = {.tv_sec = 1};
    int code = 0;
    for (int turn = 0; turn < BUSY_S; turn++) {
        code = m.mount ? shell(m.unmount) : failed_as(umount(m.mountpoint));
        if (!code || (code != EBUSY && !m.mount)) break;
        nanosleep(&second, NULL);
    }
    forget_disk();
    return code;
}

/* After a fault: 0; the number of the error of the mount; or why there was none. */
static const char *mounted_again(char *why, size_t room) {
    static char number[16];
    int code = m.recover ? shell(m.recover) : 0;
    snprintf(why, room, "the repair before the mount exits with %d", code);
    if (code) return "repair";
    code = mount_it(why, room);
    if (!code) return *why = 0, "0";
    return m.mount ? "command" : (snprintf(number, sizeof number, "%d", code), number);
}

static void mount_base(void) {
    char why[96];
    if (mount_it(why, sizeof why)) exit(broken("the base cannot be mounted again: %s", why));
}

/* ---- faults of writes and flushes -------------------------------------------------------------------------------- */
static int put_new(int fd, const char *name) { return write_bytes(fd, "write", name_of(name), NEW_TAG, 0, PAGE); }

static int synced(const char *name) {
    char room[PATH_MAX];
    int fd = open(path_of(name, room), O_RDONLY | O_CLOEXEC), error;
    if (fd < 0) return errno;
    error = failed_as(fsync(fd));
    close(fd);
    return error;
}

static int new_file(const char *name) {
    char room[PATH_MAX];
    int fd = open(path_of(name, room), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0644), error;
    if (fd < 0) return errno;
    error = put_new(fd, name);
    if (!error) error = failed_as(fsync(fd));
    close(fd);
    return error;
}

/* Whether a file can be made: 0, or the error; EROFS of a read-only mount. */
static int usable(void) {
    char room[PATH_MAX];
    const char *path = path_of("probe", room);
    struct statvfs v;
    int fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0644), error = errno;
    if (!statvfs(m.mountpoint, &v) && v.f_flag & ST_RDONLY) error = EROFS, unlink(path);
    else if (fd >= 0) error = failed_as(unlink(path));
    if (fd >= 0) close(fd);
    return error;
}

/* Returns how many requests failed. */
static uint32_t write_case(int kind, uint64_t skip) {
    char room[PATH_MAX], why[96], what[112] = "";
    const char *path = path_of("foo", room);
    uint64_t sector = 0, began;
    int others = 0;
    const struct timespec wait = {.tv_sec = (time_t)p.wait};
    tell_disk("record");
    mount_base();
    drop_caches();
    content("foo");
    int other = open(path, O_RDONLY | O_CLOEXEC), fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || other < 0 || put_new(fd, "foo")) exit(broken("foo cannot be written: %s", reason(errno)));
    arm(kind, skip);
    if (p.wait) nanosleep(&wait, NULL);
    began = now_ns();
    int first = failed_as(fsync(fd)), again = failed_as(fsync(fd)), on_other = failed_as(fsync(other));
    uint64_t took = now_ns() - began;
    int later = synced("foo");
    char cached[16], cold[16], after[16] = "", bar_after[16] = "";
    strcpy(cached, content("foo"));
    int bar = new_file("bar"), folder = synced("."), everything = failed_as(syncfs(fd));
    close(fd);
    close(other);
    int state = usable();
    drop_caches();
    strcpy(cold, content("foo"));
    int gone = unmounted();
    uint32_t hits = failed(&sector);
    tell_disk("heal");
    const char *mounted = gone ? "busy" : mounted_again(why, sizeof why);
    int errors = 0, checker = 0;
    if (!strcmp(mounted, "0")) {
        errors = compare("foo", &others, what, sizeof what);
        strcpy(after, content("foo"));
        strcpy(bar_after, content("bar"));
        unmount_it();
        if (m.checker) checker = shell(m.checker);
    } else snprintf(what, sizeof what, "%s", why);
    if (hits)
        printf("{\"kind\":\"%s\",\"nth\":%llu,\"sector\":%llu,\"hits\":%u,\"fsync\":%d,\"fsync_again\":%d,"
               "\"fsync_other\":%d,\"fsync_later\":%d,\"cached\":\"%s\",\"new_file\":%d,\"fsync_folder\":%d,"
               "\"syncfs\":%d,\"usable\":%d,\"cold\":\"%s\",\"unmount\":%d,\"mount\":\"%s\",\"after\":\"%s\","
               "\"new_after\":\"%s\",\"errors\":%d,\"others\":%d,\"checker\":%d,\"ns\":%llu,\"what\":\"%s\"}\n",
            kind == n_kinds ? "data"
                : kind < 0  ? "flush"
                            : kinds[kind].word,
            (unsigned long long)skip, (unsigned long long)sector, hits, first, again, on_other, later, cached, bar,
            folder, everything, state, cold, gone, mounted, after, bar_after, errors, others, checker,
            (unsigned long long)took, what);
    if (gone) exit(broken("after a fault the file system cannot be unmounted: %s", reason(gone)));
    return hits;
}

static void all_writes(void) {
    for (int kind = of == FLUSHES ? -1 : 0; kind <= (of == FLUSHES ? -1 : n_kinds); kind++)
        for (uint64_t skip = 0; skip < p.nth && write_case(kind, skip); skip++) {}
}

/* ---- faults of reads, and of what is on the disk ------------------------------------------------------------------
 */
static uint8_t page[PAGE] __attribute__((aligned(PAGE))), whole[PAGE] __attribute__((aligned(PAGE)));

static void move_page(uint64_t number, uint8_t *to, bool writes) {
    int fd = open(m.device, O_RDWR | O_DIRECT | O_CLOEXEC);
    off_t at = (off_t)(number * PAGE);
    if (fd < 0 || (writes ? pwrite(fd, to, PAGE, at) : pread(fd, to, PAGE, at)) != PAGE)
        exit(broken("the disk cannot be read or written: %s", reason(errno)));
    close(fd);
}

static void read_case(uint64_t number) {
    char why[96], what[112] = "", text[80];
    uint64_t sector = number * PAGE_SECTORS;
    int others = 0, errors = 0, checker = 0, mended = 0;
    tell_disk("record");
    move_page(number, whole, false);
    memcpy(page, whole, PAGE);
    if (fault == ERROR) {
        sprintf(text, "fail r error any 0 %llu %llu:%llu", (unsigned long long)p.times, (unsigned long long)sector,
            (unsigned long long)sector + PAGE_SECTORS - 1);
        tell_disk(text);
    } else {
        if (fault == ZEROS) memset(page, 0, PAGE);
        else page[PAGE / 64] ^= 4;
        move_page(number, page, true);
    }
    const char *mounted = mounted_again(why, sizeof why);
    bool there = !strcmp(mounted, "0");
    int gone = 0;
    if (there) {
        errors = compare("", &others, what, sizeof what);
        gone = unmounted();
    } else snprintf(what, sizeof what, "%s", why);
    tell_disk("heal");
    uint64_t unused;
    uint32_t hits = failed(&unused);
    if (fault != ERROR) {
        move_page(number, page, false);
        mended = !memcmp(page, whole, PAGE);
        if (there && m.checker) checker = shell(m.checker);
    }
    printf("{\"kind\":\"%s\",\"sector\":%llu,\"hits\":%u,\"mount\":\"%s\",\"errors\":%d,\"others\":%d,\"mended\":%d,"
           "\"unmount\":%d,\"checker\":%d,\"what\":\"%s\"}\n",
        kind_at(sector, whole), (unsigned long long)sector, hits, mounted, errors, others, mended, gone, checker, what);
    if (gone) exit(broken("after a fault the file system cannot be unmounted: %s", reason(gone)));
}

/* The kind of a page of the base: a number of its own. */
static const char *read_words[KINDS + 2];
static int n_read;
static int kind_read(uint64_t number) {
    int k = 0;
    move_page(number, page, false);
    const char *word = kind_at(number * PAGE_SECTORS, page);
    while (k < n_read && strcmp(read_words[k], word)) k++;
    if (k == n_read) read_words[n_read++] = word;
    return k;
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Every page that mounting and reading everything reads. */
static void all_reads(void) {
    uint64_t *pages = NULL;
    size_t n = 0, room = 0, distinct = 0;
    char what[112];
    int others;
    tell_disk("record");
    drop_caches();
    tell_disk("reads");
    mount_base();
    if (compare("", &others, what, sizeof what) || others) exit(broken("the base is not what was written: %s", what));
    unmount_it();
    tell_disk("stop");
    read_log();
    for (uint32_t e = 0; e < n_events; e++) {
        if (events[e].kind != 'r') continue;
        uint64_t until = (events[e].number + events[e].sectors - 1) / PAGE_SECTORS;
        for (uint64_t at = events[e].number / PAGE_SECTORS; at <= until; at++) {
            if (n == room) pages = realloc(pages, (room = 2 * room + 256) * sizeof *pages);
            if (!pages) exit(broken("no memory for the log"));
            if (strcmp(read_words[kind_read(at)], "unused")) pages[n++] = at;
        }
    }
    if (n) qsort(pages, n, sizeof *pages, by_number);
    for (size_t i = 0; i < n; i++)
        if (!i || pages[i] != pages[i - 1]) pages[distinct++] = pages[i];
    for (int kind = 0; kind < n_read; kind++) {
        uint64_t of_kind = 0, taken = 0;
        for (size_t i = 0; i < distinct; i++) of_kind += kind_read(pages[i]) == kind;
        uint64_t take = of_kind < p.most ? of_kind : p.most, number = 0;
        for (size_t i = 0; i < distinct; i++) {
            if (kind_read(pages[i]) != kind || number++ != taken * of_kind / take) continue;
            taken++;
            read_case(pages[i]);
        }
    }
    free(pages);
}

/* What is there before. An earlier phase of the trial may have made it: then it is only known. */
static int make_before(const char *text) {
    static enum { UNKNOWN, MADE, NEW } there;
    struct call c;
    char room[PATH_MAX];
    if (read_call(text, &c)) return 2;
    if (there == UNKNOWN) there = access(path_of(c.word[1], room), F_OK) ? NEW : MADE;
    struct world *w = &worlds[0];
    int node = node_before(&c, w);
    apply(&c, w, BEFORE);
    int error = there == NEW ? do_call(&c, node, BEFORE) : 0;
    return error ? broken("before: %s: %s", text, reason(error)) : 0;
}

static int run(void) {
    if (!m.mountpoint || !(m.mount ? m.unmount : m.type && m.options ? m.type : NULL))
        return wrong("--mountpoint, and --type with --options or --mount with --unmount, must be given");
    if (!getcwd(top, sizeof top) || chdir("/")) return broken("the folder cannot be left: %s", reason(errno));
    int said = for_calls(p.before, make_before);
    if (said) return said;
    sync();
    unmount_first();
    read_blocks();
    if (of == READS) all_reads();
    else all_writes();
    tell_disk("plain");
    mount_base();
    return 0;
}

const struct program program = {"faults",
    "Requests that fail and blocks that rot: what calls say, what is read, what is left.", OPTIONS(options), prepare,
    check, run};
