/* engine age: brings a file system to a stated fill and churn, and says how contiguous its files are before and after.
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
 */
#define _GNU_SOURCE
#include "programs.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

enum {
    IN_FOLDER = 256,
    CHUNK = 1 << 17,
    POOL = 1 << 20,
    SPARE = 1 << 16,
    CHANGES_MAX = 255,
    GENERATIONS = 1 << 15,
    PATH = 4096
};
#define SLOTS_MAX (1ull << 28)
enum stream { SIZES = 300, CHANGES, CONTENT, CHOICES };

/* ---- what a file holds ------------------------------------------------------------------------------------------- */
struct header { /* of aged/state; the slots follow */
    char magic[16];
    uint64_t seed, slots, size_max;
    double size_median, size_sigma;
};
static struct header h;
static uint32_t *slot; /* alive << 31 | changes << 16 | generation */
static bool alive(uint64_t s) { return slot[s] >> 31; }
static unsigned changes(uint64_t s) { return (slot[s] >> 16) & CHANGES_MAX; }
static unsigned generation(uint64_t s) { return slot[s] & (GENERATIONS - 1); }
static uint64_t identity(uint64_t s) { return s << 15 | generation(s); }

static uint64_t lognormal(uint64_t bits) { /* the normal deviate is the sum of twelve uniforms minus six */
    uint64_t sum = 0;
    for (int i = 0; i < 4; i++, bits = hash3(bits, SIZES, 1))
        sum += (bits & 0xfffff) + ((bits >> 20) & 0xfffff) + ((bits >> 40) & 0xfffff);
    double size = h.size_median * exp(h.size_sigma * ((double)sum / 0x100000 - 6.0));
    return size >= (double)h.size_max ? h.size_max : size < 1 ? 1 : (uint64_t)size;
}
struct change { /* bytes [from, to) are written; beyond the old size it is an append */
    uint64_t from, to;
};
static struct change change_of(uint64_t s, unsigned number, uint64_t size) {
    uint64_t r = hash3(h.seed, CHANGES, identity(s) << 8 | number);
    if (r & 1) { /* an append, a quarter of the usual size */
        uint64_t more = lognormal(r) / 4 + 1;
        return (struct change){size, size + (more < h.size_max ? more : h.size_max)};
    }
    uint64_t blocks = (size + 4095) / 4096, first = (r >> 8) % blocks, many = 1 + (r >> 40) % (blocks - first),
             end = (first + many) * 4096;
    return (struct change){first * 4096, end < size ? end : size};
}
/* of a file after that many changes; number 0 is its creation */
static uint64_t size_after(uint64_t s, unsigned number) {
    uint64_t size = lognormal(hash3(h.seed, SIZES, identity(s)));
    for (unsigned i = 1; i <= number; i++) {
        struct change c = change_of(s, i, size);
        if (c.to > size) size = c.to;
    }
    return size;
}
static uint8_t pool[2 * POOL];
static void make_pool(void) { /* words of eight bytes, half of them repeats of one of 64: like text to a compressor */
    for (uint64_t i = 0; i < POOL / 8; i++) {
        uint64_t x = hash3(h.seed, CONTENT, i);
        if (x & 1) x = hash3(h.seed, CONTENT, (x >> 58) | 1ull << 40);
        memcpy(pool + 8 * i, &x, 8);
    }
    memcpy(pool + POOL, pool, POOL); /* so that it goes on where it ends */
}
/* Where in the pool byte p of what change `number` writes comes from; at least POOL bytes follow. */
static const uint8_t *bytes_at(uint64_t s, unsigned number, uint64_t p) {
    return pool + (hash3(h.seed, CHANGES, ~(identity(s) << 8 | number)) + p) % POOL;
}
static size_t put_path(uint64_t s, char *out) {
    return (size_t)sprintf(
        out, "d%llx/f%llx.%x", (unsigned long long)(s / IN_FOLDER), (unsigned long long)s, generation(s));
}

/* ---- the layout -------------------------------------------------------------------------------------------------- */
struct layout {
    uint64_t files, extents, blocks, contiguous, skipped; /* blocks: without the first of each file */
    bool unknown;
    int error;
};
static int layout_file(int fd, uint64_t block, struct layout *l) {
    static union {
        struct fiemap map;
        uint8_t room[sizeof(struct fiemap) + 512 * sizeof(struct fiemap_extent)];
    } u;
    uint64_t at = 0, end = UINT64_MAX, runs = 0, blocks = 0;
    for (bool last = false; !last;) {
        memset(&u.map, 0, sizeof u.map);
        u.map.fm_start = at, u.map.fm_length = FIEMAP_MAX_OFFSET - at, u.map.fm_extent_count = 512;
        u.map.fm_flags = FIEMAP_FLAG_SYNC;
        if (ioctl(fd, FS_IOC_FIEMAP, &u.map)) return errno;
        if (!u.map.fm_mapped_extents) break;
        for (unsigned i = 0; i < u.map.fm_mapped_extents; i++) {
            const struct fiemap_extent *e = &u.map.fm_extents[i];
            at = e->fe_logical + e->fe_length;
            last = last || (e->fe_flags & FIEMAP_EXTENT_LAST);
            /* in no place of its own */
            if (e->fe_flags & (FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC)) continue;
            runs += e->fe_physical != end;
            end = e->fe_physical + e->fe_length;
            blocks += (e->fe_length + block - 1) / block;
        }
    }
    l->files++;
    l->extents += runs;
    if (blocks) l->blocks += blocks - 1, l->contiguous += blocks - runs;
    return 0;
}
static void layout_folder(int parent, const char *name, dev_t device, struct layout *l) {
    struct stat s;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d || fstat(fd, &s) || s.st_dev != device) {
        if (d) closedir(d);
        else if (fd >= 0) close(fd);
        l->skipped++;
        return;
    }
    for (struct dirent *e; !l->unknown && !l->error && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..") || fstatat(fd, e->d_name, &s, AT_SYMLINK_NOFOLLOW))
            continue;
        if (S_ISDIR(s.st_mode)) layout_folder(fd, e->d_name, device, l);
        else if (S_ISREG(s.st_mode)) {
            int file = openat(fd, e->d_name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
            int error = file < 0 ? errno
                                 : layout_file(file, (uint64_t)s.st_blksize > 4096 ? 4096 : (uint64_t)s.st_blksize, l);
            if (file >= 0) close(file);
            if (file < 0 && error == EACCES) l->skipped++;
            else if (error == EOPNOTSUPP || error == ENOTTY || error == EINVAL) l->unknown = true;
            else l->error = error;
        }
    }
    closedir(d);
}
/* Prints the layout; with a name for it, also takes a sample. */
static int layout_of(const char *folder, const char *sample, uint64_t origin, struct layout *l) {
    struct stat s;
    *l = (struct layout){0};
    uint64_t start = now_ns();
    if (stat(folder, &s)) return broken("age: cannot examine %s: %s", folder, strerror(errno));
    if (!S_ISDIR(s.st_mode)) return broken("age: cannot examine %s: it is not a folder", folder);
    layout_folder(AT_FDCWD, folder, s.st_dev, l);
    if (l->error) return broken("age: cannot examine the layout of %s: %s", folder, strerror(l->error));
    printf("%s: ", sample);
    if (l->unknown) {
        printf("layout unknown, the file system has no FIEMAP\n");
        return 0;
    }
    sample_put(SAMPLE(.name = sample, .start_ns = start - origin, .wall_ns = now_ns() - start, .items = l->files,
        .extents = (int64_t)l->extents, .blocks = (int64_t)l->blocks, .contiguous = (int64_t)l->contiguous));
    printf("%llu files, %llu extents, %.3f extents a file, layout score ", (unsigned long long)l->files,
        (unsigned long long)l->extents, l->files ? (double)l->extents / (double)l->files : 0.0);
    if (l->blocks) printf("%.4f", (double)l->contiguous / (double)l->blocks);
    else printf("unknown, no file has two blocks");
    if (l->skipped) printf(", %llu names could not be examined", (unsigned long long)l->skipped);
    putchar('\n');
    return 0;
}

/* ---- filling and churning ---------------------------------------------------------------------------------------- */
static struct {
    int root;
    uint64_t block, total, live, written, operations, rolls; /* live: bytes of content, in whole blocks */
    uint32_t spare[SPARE];                                   /* slots whose file was deleted */
    unsigned spares;
    char path[PATH];
} f;
static const char *failure(int error) {
    return error == ENOSPC || error == EDQUOT ? "no space left on the device" : strerror(error);
}
static uint64_t roll(void) { return hash3(h.seed, CHOICES, f.rolls++); }
static uint64_t whole(uint64_t size) { return (size + f.block - 1) / f.block * f.block; }

static int write_range(uint64_t s, unsigned number, struct change c) {
    put_path(s, f.path);
    bool again = true; /* what was deleted may not be free yet: one more attempt after a sync */
    int fd;
    while ((fd = openat(f.root, f.path, number ? O_WRONLY : O_WRONLY | O_CREAT | O_EXCL, 0644)) < 0) {
        int error = errno;
        if (!again || error != ENOSPC || syncfs(f.root))
            return broken("age: cannot %s %s: %s", number ? "open" : "create", f.path, failure(error));
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
            return broken("age: cannot write %s: %s", f.path, failure(error));
        }
        at += n;
        again = true;
    }
    f.operations++;
    f.written += c.to - c.from;
    return close(fd) ? broken("age: cannot close %s: %s", f.path, failure(errno)) : 0;
}
static int create_file(void) {
    uint64_t s;
    if (f.spares) {
        s = f.spare[--f.spares];
        if (generation(s) + 1 == GENERATIONS)
            return broken(
                "age: file %llu was replaced %d times: ask for less churn", (unsigned long long)s, GENERATIONS);
        slot[s] = (generation(s) + 1) | 1u << 31;
    } else {
        if (h.slots == SLOTS_MAX) return broken("age: more than %llu files: raise --size-median", SLOTS_MAX);
        s = h.slots++;
        slot[s] = 1u << 31;
        if (s % IN_FOLDER == 0) {
            sprintf(f.path, "d%llx", (unsigned long long)(s / IN_FOLDER));
            if (mkdirat(f.root, f.path, 0755))
                return broken("age: cannot make the folder %s: %s", f.path, failure(errno));
        }
    }
    uint64_t size = size_after(s, 0);
    f.live += whole(size);
    return write_range(s, 0, (struct change){0, size});
}
static int delete_file(uint64_t s) {
    uint64_t size = size_after(s, changes(s));
    put_path(s, f.path);
    if (unlinkat(f.root, f.path, 0)) return broken("age: cannot delete %s: %s", f.path, failure(errno));
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
    if (syncfs(f.root) || fstatvfs(f.root, &v)) return broken("age: cannot sync the file system: %s", failure(errno));
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
            if (n <= 0) return broken("age: cannot write aged/state: %s", failure(n ? errno : ENOSPC));
            at += (uint64_t)n;
        }
    return fd < 0 || close(fd) ? broken("age: cannot write aged/state: %s", failure(errno)) : 0;
}

static int run(const char *folder, uint64_t percent, double churn, uint64_t reserve) {
    char top[PATH];
    struct layout l;
    uint64_t start = now_ns(), begin, now_used, available, files = 0;
    if (snprintf(top, sizeof top, "%s/aged", folder) >= (int)sizeof top - 64)
        return wrong("age: the folder's path is too long");
    if (mkdir(top, 0755)) return broken("age: cannot make %s: %s", top, failure(errno));
    f.root = open(top, O_RDONLY | O_DIRECTORY);
    struct statvfs v;
    if (f.root < 0 || fstatvfs(f.root, &v)) return broken("age: cannot open %s: %s", top, strerror(errno));
    f.block = v.f_bsize, f.total = (uint64_t)v.f_blocks * v.f_frsize;
    if (used(&now_used, &available)) return 1;
    uint64_t target = f.total / 100 * percent, first = now_used;
    if (now_used > target)
        return broken("age: %s is already filled to %.1f %%, more than --fill %llu", folder,
            100.0 * (double)now_used / (double)f.total, (unsigned long long)percent);
    if (target - now_used + reserve > available)
        return broken("age: --fill %llu leaves %lld bytes of %s, less than --reserve %llu: lower one of them",
            (unsigned long long)percent, (long long)(available - (target - now_used)), folder,
            (unsigned long long)reserve);
    if (h.size_max > f.total / 128) h.size_max = f.total / 128; /* so that one file cannot miss the goal */
    slot = mmap(
        NULL, SLOTS_MAX * sizeof *slot, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (slot == MAP_FAILED) return broken("age: no memory for the list of files: %s", strerror(errno));

    make_pool();
    begin = now_ns();
    /* not all that is used is content: ask again */
    for (int round = 0; round < 8 && now_used + f.total / 200 < target; round++) {
        uint64_t goal = f.live + (target - now_used);
        while (f.live + f.total / 400 < goal)
            if (create_file()) return 1;
        if (used(&now_used, &available)) return 1;
    }
    files = f.operations;
    sample_put(SAMPLE(.name = "fill", .start_ns = begin - start, .wall_ns = now_ns() - begin, .items = files,
        .bytes = f.written));
    printf("filled from %.2f to %.2f %% of %llu bytes: %llu files, %llu bytes\n",
        100.0 * (double)first / (double)f.total, 100.0 * (double)now_used / (double)f.total,
        (unsigned long long)f.total, (unsigned long long)files, (unsigned long long)f.written);
    if (layout_of(top, "layout-before", start, &l)) return 1;

    begin = now_ns();
    uint64_t filled = f.written, wanted = (uint64_t)((double)filled * churn), goal = f.live, part = 0;
    int64_t beside = (int64_t)now_used - (int64_t)f.live; /* what is used and is not content */
    f.operations = f.written = 0;
    while (h.slots && f.written < wanted) {
        if (churn_once(goal)) return 1;
        if (f.written < wanted / 16 * (part + 1) && f.written < wanted) continue;
        part++;
        if (used(&now_used, &available)) return 1;
        int64_t other = (int64_t)now_used - (int64_t)f.live;
        if (llabs(other - beside) <= (int64_t)f.total / 200) continue;
        beside = other;
        goal = (int64_t)target > beside ? (uint64_t)((int64_t)target - beside) : 0;
    }
    while (h.slots && (f.live > goal + f.total / 100 || f.live + f.total / 100 < goal)) /* the last correction */
        if (churn_once(goal)) return 1;
    if (used(&now_used, &available)) return 1;
    sample_put(SAMPLE(.name = "churn", .start_ns = begin - start, .wall_ns = now_ns() - begin, .items = f.operations,
        .bytes = f.written));
    printf("churned %llu bytes in %llu operations, filled to %.2f %%, %llu bytes left\n", (unsigned long long)f.written,
        (unsigned long long)f.operations, 100.0 * (double)now_used / (double)f.total, (unsigned long long)available);
    if (layout_of(top, "layout-after", start, &l) || store_state()) return 1;
    close(f.root);
    if (fabs((double)now_used - (double)target) > 0.02 * (double)f.total)
        return broken("age: the fill is %.2f %% in the end, not within 2 of %llu",
            100.0 * (double)now_used / (double)f.total, (unsigned long long)percent);
    return 0;
}

/* ---- verification ------------------------------------------------------------------------------------------------ */
static int verify_file(int root, uint64_t s) {
    static uint8_t want[CHUNK], there[CHUNK];
    struct change change[CHANGES_MAX + 1];
    char path[64];
    unsigned last = changes(s);
    uint64_t size = lognormal(hash3(h.seed, SIZES, identity(s)));
    change[0] = (struct change){0, size};
    for (unsigned i = 1; i <= last; i++) {
        change[i] = change_of(s, i, size);
        if (change[i].to > size) size = change[i].to;
    }
    put_path(s, path);
    int fd = openat(root, path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) return broken("age: %s: %s", path, strerror(errno));
    for (uint64_t at = 0;;) {
        uint64_t n = size - at < CHUNK ? size - at : CHUNK;
        for (unsigned i = 0; i <= last; i++) {
            uint64_t from = change[i].from > at ? change[i].from : at,
                     to = change[i].to < at + n ? change[i].to : at + n;
            if (from < to) memcpy(want + (from - at), bytes_at(s, i, from), to - from);
        }
        uint64_t got = 0;
        for (ssize_t k = 1; k > 0 && got < CHUNK; got += (uint64_t)k)
            if ((k = read(fd, there + got, CHUNK - got)) < 0)
                return close(fd), broken("age: cannot read %s: %s", path, strerror(errno));
        for (uint64_t i = 0; i < (n > got ? n : got); i++)
            if (i >= n || i >= got || want[i] != there[i]) {
                close(fd);
                return broken("age: %s differs from what was written at byte %llu", path, (unsigned long long)(at + i));
            }
        at += n;
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
static int verify(const char *folder) {
    char top[PATH], path[PATH + 16];
    struct stat s;
    if (snprintf(top, sizeof top, "%s/aged", folder) >= (int)sizeof top)
        return wrong("age: the folder's path is too long");
    sprintf(path, "%s/state", top);
    int root = open(top, O_RDONLY | O_DIRECTORY), fd = root < 0 ? -1 : open(path, O_RDONLY);
    if (fd < 0 || fstat(fd, &s)) return broken("age: cannot read %s: %s", root < 0 ? top : path, strerror(errno));
    uint8_t *all = s.st_size < (off_t)sizeof h ? MAP_FAILED
                                               : mmap(NULL, (size_t)s.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (all != MAP_FAILED) memcpy(&h, all, sizeof h);
    if (all == MAP_FAILED || strcmp(h.magic, "reprofs age 1") || h.slots > SLOTS_MAX ||
        (uint64_t)s.st_size != sizeof h + h.slots * sizeof *slot)
        return broken("age: %s is damaged", path);
    slot = (uint32_t *)(void *)(all + sizeof h);
    make_pool();
    uint64_t files = 0;
    for (uint64_t i = 0; i < h.slots; i++) {
        if (!alive(i)) continue;
        files++;
        if (verify_file(root, i)) return 1;
    }
    uint64_t there = count_files(top);
    if (there != files + 1)
        return broken("age: %s has %llu files, but %llu were left", top, (unsigned long long)there,
            (unsigned long long)files + 1);
    printf("%llu files are as written\n", (unsigned long long)files);
    return 0;
}

static int age(int argc, char **argv) {
    static const char known[] =
        "--fill --churn --seed --size-median --size-sigma --size-max --reserve --layout --check --verify";
    uint64_t percent = 0, reserve = 0, median = 32768;
    double churn = 1;
    bool check = false, do_verify = false, do_layout = false;
    const char *folder = NULL;
    h = (struct header){.magic = "reprofs age 1", .seed = 1, .size_max = 64 << 20, .size_sigma = 1.5};
    for (int i = 1; i < argc; i++) {
        const char *key = argv[i];
        char *end = NULL;
        if (!strcmp(key, "--check")) check = true;
        else if (!strcmp(key, "--verify")) do_verify = true;
        else if (!strcmp(key, "--layout")) do_layout = true;
        else if (key[0] != '-') {
            if (folder) return wrong("age: two folders, %s and %s: give one", folder, key);
            folder = key;
        } else {
            static const char *with_value[] = {
                "--fill", "--churn", "--seed", "--size-median", "--size-sigma", "--size-max", "--reserve"};
            unsigned which = 0;
            while (which < 7 && strcmp(key, with_value[which])) which++;
            if (which == 7) return wrong("age: unknown option %s; known are %s", key, known);
            if (++i == argc) return wrong("age: %s needs a value", key);
            const char *value = argv[i];
            bool digit = *value >= '0' && *value <= '9', fits = false;
            switch (which) {
                case 0: fits = parse_number(value, &percent) && percent >= 1 && percent <= 97; break;
                case 1: churn = strtod(value, &end), fits = digit && !*end && churn <= 1000; break;
                case 2: fits = parse_number(value, &h.seed); break;
                case 3: fits = parse_number(value, &median) && median; break;
                case 4: h.size_sigma = strtod(value, &end), fits = digit && !*end && h.size_sigma <= 5; break;
                case 5: fits = parse_number(value, &h.size_max) && h.size_max; break;
                case 6: fits = parse_number(value, &reserve); break;
            }
            if (!fits)
                return wrong("age: %s cannot be %s%s", key, value,
                    which == 0       ? ": give 1 to 97 percent"
                        : which == 1 ? ": give 0 to 1000"
                                     : "");
        }
    }
    if (do_verify && do_layout) return wrong("age: --verify and --layout exclude one another");
    if (median > h.size_max)
        return wrong("age: --size-median %llu is above --size-max %llu", (unsigned long long)median,
            (unsigned long long)h.size_max);
    if (!percent && !do_verify && !do_layout)
        return wrong("age: --fill is missing: the percentage of the file system that shall be used");
    h.size_median = (double)median;
    if (!folder) folder = ".";
    if (check) { /* how large the file system is shows only where it runs */
        printf("{\"bytes\":0,\"names\":0}\n");
        return 0;
    }
    if (do_layout) {
        struct layout l;
        return layout_of(folder, "layout", now_ns(), &l);
    }
    return do_verify ? verify(folder) : run(folder, percent, churn, reserve);
}

PROGRAM("age", age);
