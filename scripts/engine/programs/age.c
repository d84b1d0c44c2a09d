/* Brings a file system to a stated fill and churn, and says how contiguous its files are before and after.
 *
 * Fill: seeded files (lognormal sizes) until FILL percent of the file system's blocks are used. Churn: files deleted,
 * created, overwritten and appended to, in seeded order, until the bytes written are CHURN times those of the fill; the
 * fill stays within two percent of the file system. Every 1/16 of the churn the file system is synced and asked for its
 * fill, since not all it uses is content (metadata, compression, copies on write); the goal is corrected when that
 * share has changed by more than half a percent of the file system, so that small differences do not change the
 * sequence of operations.
 *
 * A file is known by its slot; what it holds follows from seed, slot, generation (how often the slot was used) and the
 * number of changes made to it. These counts are the only memory, 4 bytes a slot, and are stored in aged/state for
 * --verify.
 *
 * Samples: fill and churn (items: operations, bytes: written); layout-before and layout-after (items: files examined,
 * extents, blocks: all but the first of each file, contiguous: those of them which follow the block before them in the
 * file). An extent is a run of blocks without a gap on the device, as filefrag counts. The layout score is contiguous
 * divided by blocks (K. Smith and M. Seltzer, File System Aging, SIGMETRICS 1997): 1 is ideal.
 *
 * The parts are one translation unit: in several its bytes would not be those of published records. */
#define _GNU_SOURCE
#include "age/content.h"
#include "age/layout.h"
#include "measure.h"
#include "program.h"
#include "same.h"
#include "samples.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

/* ---- filling and churning ---------------------------------------------------------------------------------------- */
static struct {
    int root;
    uint64_t block, total, live, written, operations, rolls; /* live: bytes of content, in whole blocks */
    uint32_t spare[SPARE];                                   /* slots whose file was deleted */
    unsigned spares;
    char path[PATH];
} f;
static uint64_t roll(void) { return hash3(h.seed, CHOICES, f.rolls++); }
static uint64_t whole(uint64_t size) { return (size + f.block - 1) / f.block * f.block; }

static int write_range(uint64_t s, unsigned number, struct change c) {
    put_path(s, f.path);
    bool again = true; /* what was deleted may not be free yet: one more attempt after a sync */
    int fd;
    while ((fd = openat(f.root, f.path, number ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL, 0644)) < 0) {
        int error = errno;
        if (!again || error != ENOSPC || syncfs(f.root))
            return broken("cannot %s %s: %s", number ? "open" : "create", f.path, reason(error));
        again = false;
    }
    for (uint64_t at = c.from; at < c.to;) {
        uint64_t n = c.to - at < CHUNK ? c.to - at : CHUNK;
        ssize_t done = pwrite(fd, bytes_at(s, number, at), n, (off_t)at);
        if (done < 0 || (uint64_t)done != n) { /* a short write to a regular file means that the space ran out */
            int error = done < 0 ? errno : ENOSPC;
            if (again && error == ENOSPC && !syncfs(f.root)) {
                again = false;
                continue;
            }
            close(fd);
            return broken("cannot write %s: %s", f.path, reason(error));
        }
        at += n;
        again = true;
    }
    f.operations++;
    f.written += c.to - c.from;
    return close(fd) ? broken("cannot close %s: %s", f.path, reason(errno)) : 0;
}
static int create_file(void) {
    uint64_t s;
    if (f.spares) {
        s = f.spare[--f.spares];
        if (generation(s) + 1 == GENERATIONS)
            return broken("file %llu was replaced %d times: ask for less churn", (unsigned long long)s, GENERATIONS);
        slot[s] = (generation(s) + 1) | 1u << 31;
    } else {
        if (h.slots == SLOTS_MAX) return broken("more than %llu files: raise --size-median", SLOTS_MAX);
        s = h.slots++;
        slot[s] = 1u << 31;
        if (s % IN_FOLDER == 0) {
            sprintf(f.path, "d%llx", (unsigned long long)(s / IN_FOLDER));
            if (mkdirat(f.root, f.path, 0755)) return broken("cannot make the folder %s: %s", f.path, reason(errno));
        }
    }
    uint64_t size = size_after(s, 0);
    f.live += whole(size);
    return write_range(s, 0, (struct change){0, size});
}
static int delete_file(uint64_t s) {
    uint64_t size = size_after(s, changes(s));
    put_path(s, f.path);
    if (unlinkat(f.root, f.path, 0)) return broken("cannot delete %s: %s", f.path, reason(errno));
    slot[s] &= ~(1u << 31);
    f.spare[f.spares++] = (uint32_t)s;
    f.live -= whole(size);
    f.operations++;
    return 0;
}
static int change_file(uint64_t s) {
    unsigned number = changes(s) + 1;
    uint64_t size = size_after(s, number - 1);
    struct change c = change_of(s, number, size);
    slot[s] += 1u << 16;
    if (c.to > size) f.live += whole(c.to) - whole(size);
    return write_range(s, number, c);
}
static int churn_once(uint64_t goal) {
    uint64_t r = roll(), choice = r % 100, s = (r >> 8) % h.slots;
    bool over = f.live > goal + f.total / 100, under = f.live + f.total / 100 < goal;
    if ((!over && choice < 30) || under || f.spares == h.slots) return create_file();
    while (!alive(s)) s = (roll() >> 8) % h.slots;
    if (over || choice < 60 || changes(s) == CHANGES_MAX) return f.spares == SPARE ? create_file() : delete_file(s);
    return change_file(s);
}
static int used(uint64_t *bytes, uint64_t *available) { /* after everything has reached the file system's own books */
    struct statvfs v;
    if (syncfs(f.root) || fstatvfs(f.root, &v)) return broken("cannot sync the file system: %s", reason(errno));
    *bytes = (uint64_t)(v.f_blocks - v.f_bfree) * v.f_frsize;
    *available = (uint64_t)v.f_bavail * v.f_frsize;
    return 0;
}
static int store_state(void) {
    int fd = openat(f.root, "state", O_WRONLY | O_CREAT | O_EXCL, 0644);
    const uint8_t *part[2] = {(const uint8_t *)&h, (const uint8_t *)slot};
    uint64_t bytes[2] = {sizeof h, h.slots * sizeof *slot};
    for (int i = 0; i < 2; i++)
        for (uint64_t at = 0; fd >= 0 && at < bytes[i];) {
            ssize_t n = write(fd, part[i] + at, bytes[i] - at);
            if (n <= 0) return broken("cannot write aged/state: %s", reason(n ? errno : ENOSPC));
            at += (uint64_t)n;
        }
    return fd < 0 || close(fd) ? broken("cannot write aged/state: %s", reason(errno)) : 0;
}

/* ---- a run ------------------------------------------------------------------------------------------------------- */
static struct {
    const char *folder;
    uint64_t percent, reserve, median;
    double churn;
    bool layout, verify;
} o = {.folder = ".", .percent = NOT_GIVEN, .median = 32768, .churn = 1};
static struct {
    char top[PATH];
    uint64_t start, used, available, target; /* bytes of the file system that are, and shall be, used */
} r;

static int begin(void) {
    struct statvfs v;
    if (snprintf(r.top, sizeof r.top, "%s/aged", o.folder) >= (int)sizeof r.top - 64)
        return wrong("the folder's path is too long");
    if (mkdir(r.top, 0755)) return broken("cannot make %s: %s", r.top, reason(errno));
    f.root = open(r.top, O_RDONLY | O_DIRECTORY);
    if (f.root < 0 || fstatvfs(f.root, &v)) return broken("cannot open %s: %s", r.top, strerror(errno));
    f.block = v.f_bsize, f.total = (uint64_t)v.f_blocks * v.f_frsize;
    if (used(&r.used, &r.available)) return 1;
    r.target = f.total / 100 * o.percent;
    if (r.used > r.target)
        return broken("%s is already filled to %.1f %%, more than --fill %llu", o.folder,
            100.0 * (double)r.used / (double)f.total, (unsigned long long)o.percent);
    if (r.target - r.used + o.reserve > r.available)
        return broken("--fill %llu leaves %lld bytes of %s, less than --reserve %llu: lower one of them",
            (unsigned long long)o.percent, (long long)(r.available - (r.target - r.used)), o.folder,
            (unsigned long long)o.reserve);
    if (h.size_max > f.total / 128) h.size_max = f.total / 128; /* so that one file cannot miss the goal */
    slot = mmap(
        NULL, SLOTS_MAX * sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return slot == MAP_FAILED ? broken("no memory for the list of files: %s", strerror(errno)) : 0;
}

static int fill(void) {
    uint64_t first = r.used, begun = now_ns();
    /* not all that is used is content: ask again */
    for (int round = 0; round < 8 && r.used + f.total / 200 < r.target; round++) {
        uint64_t goal = f.live + (r.target - r.used);
        while (f.live + f.total / 400 < goal)
            if (create_file()) return 1;
        if (used(&r.used, &r.available)) return 1;
    }
    sample_put(SAMPLE(.name = "fill", .start_ns = begun - r.start, .wall_ns = now_ns() - begun, .items = f.operations,
        .bytes = f.written));
    printf("filled from %.2f to %.2f %% of %llu bytes: %llu files, %llu bytes\n",
        100.0 * (double)first / (double)f.total, 100.0 * (double)r.used / (double)f.total, (unsigned long long)f.total,
        (unsigned long long)f.operations, (unsigned long long)f.written);
    return 0;
}

/* Until `wanted` bytes are written. goal: for the bytes of content. */
static int churn_for(uint64_t wanted, uint64_t *goal) {
    int64_t beside = (int64_t)r.used - (int64_t)f.live; /* what is used and is not content */
    for (uint64_t part = 0; h.slots && f.written < wanted;) {
        if (churn_once(*goal)) return 1;
        if (f.written < wanted / 16 * (part + 1) && f.written < wanted) continue;
        part++;
        if (used(&r.used, &r.available)) return 1;
        int64_t other = (int64_t)r.used - (int64_t)f.live;
        if (llabs(other - beside) <= (int64_t)f.total / 200) continue;
        beside = other;
        *goal = (int64_t)r.target > beside ? (uint64_t)((int64_t)r.target - beside) : 0;
    }
    return 0;
}

static int churn(void) {
    uint64_t begun = now_ns(), wanted = (uint64_t)((double)f.written * o.churn), goal = f.live;
    f.operations = f.written = 0;
    if (churn_for(wanted, &goal)) return 1;
    while (h.slots && (f.live > goal + f.total / 100 || f.live + f.total / 100 < goal)) /* the last correction */
        if (churn_once(goal)) return 1;
    if (used(&r.used, &r.available)) return 1;
    sample_put(SAMPLE(.name = "churn", .start_ns = begun - r.start, .wall_ns = now_ns() - begun, .items = f.operations,
        .bytes = f.written));
    printf("churned %llu bytes in %llu operations, filled to %.2f %%, %llu bytes left\n", (unsigned long long)f.written,
        (unsigned long long)f.operations, 100.0 * (double)r.used / (double)f.total, (unsigned long long)r.available);
    return 0;
}

static int fill_and_churn(void) {
    struct layout l;
    r.start = now_ns();
    int code = begin();
    if (code) return code;
    make_pool();
    if (fill() || layout_of(r.top, "layout-before", r.start, &l)) return 1;
    if (churn() || layout_of(r.top, "layout-after", r.start, &l) || store_state()) return 1;
    close(f.root);
    if (fabs((double)r.used - (double)r.target) > 0.02 * (double)f.total)
        return broken("the fill is %.2f %% in the end, not within 2 of %llu", 100.0 * (double)r.used / (double)f.total,
            (unsigned long long)o.percent);
    return 0;
}

/* ---- verification ------------------------------------------------------------------------------------------------ */
/* The bytes of a file from `at` on, at most CHUNK: its creation and its changes, one over the other. */
static void put_bytes(uint64_t s, const struct change *change, uint64_t at, uint64_t n, uint8_t *out) {
    for (unsigned i = 0; i <= changes(s); i++) {
        uint64_t from = change[i].from > at ? change[i].from : at, to = change[i].to < at + n ? change[i].to : at + n;
        if (from < to) memcpy(out + (from - at), bytes_at(s, i, from), to - from);
    }
}
static uint64_t put_changes(uint64_t s, struct change *change) { /* returns the size after them */
    uint64_t size = lognormal(hash3(h.seed, SIZES, identity(s)));
    change[0] = (struct change){0, size};
    for (unsigned i = 1; i <= changes(s); i++) {
        change[i] = change_of(s, i, size);
        if (change[i].to > size) size = change[i].to;
    }
    return size;
}
static int verify_file(int root, uint64_t s) {
    static uint8_t want[CHUNK], there[CHUNK];
    struct change change[CHANGES_MAX + 1];
    char path[64];
    uint64_t size = put_changes(s, change), n;
    put_path(s, path);
    int fd = openat(root, path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) return broken("%s: %s", path, strerror(errno));
    for (uint64_t at = 0;; at += n) {
        uint64_t got = 0;
        n = size - at < CHUNK ? size - at : CHUNK;
        put_bytes(s, change, at, n, want);
        for (ssize_t k = 1; k > 0 && got < CHUNK; got += (uint64_t)k)
            if ((k = read(fd, there + got, CHUNK - got)) < 0)
                return close(fd), broken("cannot read %s: %s", path, strerror(errno));
        uint64_t same = same_bytes(want, there, n < got ? n : got);
        if (same < n || same < got) {
            close(fd);
            return broken("%s differs from what was written at byte %llu", path, (unsigned long long)(at + same));
        }
        if (n < CHUNK) break;
    }
    close(fd);
    return 0;
}
static uint64_t count_files(const char *folder) {
    DIR *d = opendir(folder);
    uint64_t n = 0;
    char path[PATH];
    for (struct dirent *e; d && (e = readdir(d));) {
        if (e->d_name[0] == '.') continue;
        if (snprintf(path, sizeof path, "%s/%s", folder, e->d_name) >= (int)sizeof path) continue;
        struct stat s;
        if (!lstat(path, &s)) n += S_ISDIR(s.st_mode) ? count_files(path) : 1;
    }
    if (d) closedir(d);
    return n;
}
static int open_state(const char *top, int root) {
    char path[PATH + 16];
    struct stat s;
    sprintf(path, "%s/state", top);
    int fd = root < 0 ? -1 : open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &s)) return broken("cannot read %s: %s", root < 0 ? top : path, strerror(errno));
    uint8_t *all = s.st_size < (off_t)sizeof h ? MAP_FAILED
                                               : mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (all != MAP_FAILED) memcpy(&h, all, sizeof h);
    if (all == MAP_FAILED || strcmp(h.magic, "reprofs age 1") || h.slots > SLOTS_MAX ||
        (uint64_t)s.st_size != sizeof h + h.slots * sizeof *slot)
        return broken("%s is damaged", path);
    slot = (uint32_t *)(void *)(all + sizeof h);
    return 0;
}
static int verify(const char *folder) {
    char top[PATH];
    if (snprintf(top, sizeof top, "%s/aged", folder) >= (int)sizeof top) return wrong("the folder's path is too long");
    int root = open(top, O_RDONLY | O_DIRECTORY);
    if (open_state(top, root)) return 1;
    make_pool();
    uint64_t files = 0;
    for (uint64_t i = 0; i < h.slots; i++) {
        if (!alive(i)) continue;
        files++;
        if (verify_file(root, i)) return 1;
    }
    uint64_t there = count_files(top);
    if (there != files + 1)
        return broken(
            "%s has %llu files, but %llu were left", top, (unsigned long long)there, (unsigned long long)files + 1);
    printf("%llu files are as written\n", (unsigned long long)files);
    return 0;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static const struct option options[] = {
    NUMBER("--fill", o.percent, 1, 97, "percent of the file system that shall be used"),
    DECIMAL("--churn", o.churn, 0, 1000, "bytes written after that, in those of the fill"),
    NUMBER("--seed", h.seed, 0, UINT64_MAX, "of sizes, contents and operations"),
    NUMBER("--size-median", o.median, 1, 1ull << 40, "bytes of a file"),
    DECIMAL("--size-sigma", h.size_sigma, 0, 5, "of the logarithms of the sizes"),
    NUMBER("--size-max", h.size_max, 1, 1ull << 40, "bytes of a file"),
    NUMBER("--reserve", o.reserve, 0, UINT64_MAX, "bytes that must be left"),
    FLAG("--layout", o.layout, "only say how contiguous the files are"),
    FLAG("--verify", o.verify, "compare what is there with what was written"),
    WORD("folder", o.folder, "in the file system"),
};

static int prepare(void) {
    if (o.verify && o.layout) return wrong("--verify and --layout exclude one another");
    if (o.median > h.size_max)
        return wrong("--size-median %llu is above --size-max %llu", (unsigned long long)o.median,
            (unsigned long long)h.size_max);
    if (o.percent == NOT_GIVEN && !o.verify && !o.layout)
        return wrong("--fill is missing: the percentage of the file system that shall be used");
    h.size_median = (double)o.median;
    return 0;
}

static int check(void) { return needs(0, 0); } /* how large the file system is shows only where it runs */

static int run(void) {
    struct layout l;
    if (o.layout) return layout_of(o.folder, "layout", now_ns(), &l);
    return o.verify ? verify(o.folder) : fill_and_churn();
}

const struct program program = {"age", "Fills a file system and rewrites its files; says how contiguous they are.",
    OPTIONS(options), prepare, check, run};
