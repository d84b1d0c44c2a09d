/* Ages a file system until the ages, sizes and depths of its files are distributed as in a profile, by the method of
 * Geriatrix (Kadekodi, Nagarajan and Ganger, USENIX ATC 2018).
 *
 * First files are made, with sizes drawn from the profile, until the fill is reached. Then each operation makes a file
 * or deletes one, by the toss of a coin; the fill stays within a percent. A file is made of the size, and at the depth,
 * that are farthest below their share; one is deleted of the age that is farthest above its share, and of that, where
 * there are any, of the size and depth farthest above theirs, the oldest. Time is counted in operations. A profile's
 * ages are shares of all of it, so the operation that makes a file says to which class of age it will belong in the
 * end. There are as many operations as make twice the files that each class of age needs, and leave the oldest class
 * room for those of the fill.
 *
 * As there, the space of a file is allocated (fallocate(2)) and nothing is written into it.
 *
 * Samples: fill and churn (items: operations, bytes: allocated); layout-before and layout-after as of the program age.
 */
#define _GNU_SOURCE
#include "age/layout.h"
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "tree.h"

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

enum { CLASSES = 24, DEEPEST = 64, SIBLINGS = 10000, PATH = 512, AGAIN = 2 };
#define NOBODY UINT32_MAX
#define OPERATIONS_MOST (1ull << 28)
enum stream { SIZES = 500, COINS, FOLDERS };

struct shares { /* of ages (until which share of all time), sizes (bytes) or depths (folders) */
    unsigned n;
    double at[CLASSES], ideal[CLASSES];
    uint64_t siblings[CLASSES], count[CLASSES];
};
static struct shares ages, sizes, depths;
static const char *folder = ".";
static uint64_t percent = NOT_GIVEN, seed = 1;

static struct file { /* by the operation that made it */
    uint32_t next; /* the one of its kind that is the next younger */
    uint8_t size, depth;
    uint16_t sibling;
} *file;
static struct kind { uint32_t oldest, youngest; } kind[CLASSES][CLASSES][CLASSES]; /* age, size, depth */

static struct {
    int root;
    uint64_t start, total, room, goal, block, live, allocated, files, tick, operations, full;
    double until[CLASSES]; /* of a class of age: the first operation that belongs to it */
} f;

/* ---- files --------------------------------------------------------------------------------------------------------
 */
/* 1/2/…/d7/: the depth's first folders are one chain; of the last there are several */
static size_t put_folder(unsigned depth, uint64_t sibling, char *out) {
    size_t n = 0;
    for (unsigned level = 1; level < (unsigned)depths.at[depth]; level++) n += (size_t)sprintf(out + n, "%u/", level);
    return n + (size_t)sprintf(out + n, "d%llu/", (unsigned long long)sibling);
}
static void put_file(uint64_t tick, char *out) {
    size_t n = put_folder(file[tick].depth, file[tick].sibling, out);
    sprintf(out + n, "%llx", (unsigned long long)tick);
}
static int make_folders(void) {
    char path[PATH];
    for (unsigned depth = 0; depth < depths.n; depth++) {
        for (uint64_t sibling = 0; sibling < depths.siblings[depth]; sibling++) {
            size_t n = put_folder(depth, sibling, path);
            for (size_t at = 1; at < n; at++) {
                if (path[at] != '/') continue;
                path[at] = 0;
                if (mkdirat(f.root, path, 0755) && errno != EEXIST)
                    return broken("cannot make the folder %s: %s", path, reason(errno));
                path[at] = '/';
            }
        }
    }
    return 0;
}
static uint64_t blocks_of(unsigned size) {
    uint64_t bytes = (uint64_t)sizes.at[size];
    return (bytes + f.block - 1) / f.block * f.block;
}
static unsigned age_of(uint64_t tick) {
    unsigned age = 0;
    while (age + 1 < ages.n && (double)tick < f.until[age]) age++;
    return age;
}
static double excess(const struct shares *s, unsigned i) { return (double)s->count[i] / (double)f.files - s->ideal[i]; }
/* The class farthest below its share of those allowed; `allowed` NULL: of all. CLASSES: there is none. */
static unsigned rarest(const struct shares *s, const bool *allowed) {
    unsigned found = CLASSES;
    for (unsigned i = 0; i < s->n; i++)
        if ((!allowed || allowed[i]) && (found == CLASSES || excess(s, i) < excess(s, found))) found = i;
    return found;
}
static unsigned commonest(const struct shares *s, const bool *allowed) {
    unsigned found = CLASSES;
    for (unsigned i = 0; i < s->n; i++)
        if (allowed[i] && (found == CLASSES || excess(s, i) > excess(s, found))) found = i;
    return found;
}
static void put_last(struct kind *k, uint32_t tick) {
    if (k->oldest == NOBODY) k->oldest = tick;
    else file[k->youngest].next = tick;
    k->youngest = tick;
}
/* *made: whether there was room. */
static int make_file(unsigned size, bool *made) {
    char path[PATH];
    struct stat s;
    uint64_t tick = f.tick;
    unsigned depth = rarest(&depths, NULL), age = age_of(tick);
    file[tick] = (struct file){
        NOBODY, (uint8_t)size, (uint8_t)depth, (uint16_t)(hash3(seed, FOLDERS, tick) % depths.siblings[depth])};
    put_file(tick, path);
    int fd = openat(f.root, path, O_WRONLY | O_CREAT | O_EXCL, 0644), error = fd < 0 ? errno : 0;
    for (int attempt = 0; fd >= 0; attempt++) { /* what was deleted may not be free yet: once more after a sync */
        error = fallocate(fd, 0, 0, (off_t)sizes.at[size]) ? errno : 0;
        if (error != ENOSPC || attempt + 1 == AGAIN || syncfs(f.root)) break;
    }
    *made = !error;
    /* ZFS says that it has allocated, and has not */
    if (!error && !fstat(fd, &s) && !s.st_blocks && sizes.at[size] >= (double)f.block) error = EOPNOTSUPP;
    if (fd >= 0) close(fd);
    if (error == ENOSPC) {
        f.full++;
        return fd >= 0 && unlinkat(f.root, path, 0) ? broken("cannot delete %s: %s", path, reason(errno)) : 0;
    }
    if (error == EOPNOTSUPP) return broken("the file system allocates no space without writing: choose +fillN instead");
    if (error) return broken("cannot make %s: %s", path, reason(error));
    put_last(&kind[age][size][depth], (uint32_t)tick);
    ages.count[age]++, sizes.count[size]++, depths.count[depth]++;
    f.files++, f.operations++, f.live += blocks_of(size), f.allocated += blocks_of(size);
    return 0;
}
static int delete_file(void) {
    char path[PATH];
    bool any[CLASSES] = {0}, any_size[CLASSES] = {0}, any_depth[CLASSES] = {0};
    for (unsigned i = 0; i < ages.n; i++) any[i] = ages.count[i];
    unsigned age = commonest(&ages, any);
    if (age == CLASSES) return 0;
    for (unsigned i = 0; i < sizes.n; i++)
        for (unsigned j = 0; j < depths.n; j++) any_size[i] = any_size[i] || kind[age][i][j].oldest != NOBODY;
    unsigned size = commonest(&sizes, any_size);
    for (unsigned j = 0; j < depths.n; j++) any_depth[j] = kind[age][size][j].oldest != NOBODY;
    unsigned depth = commonest(&depths, any_depth);
    uint32_t *oldest = &kind[age][size][depth].oldest;
    put_file(*oldest, path);
    if (unlinkat(f.root, path, 0)) return broken("cannot delete %s: %s", path, reason(errno));
    *oldest = file[*oldest].next;
    ages.count[age]--, sizes.count[size]--, depths.count[depth]--;
    f.files--, f.operations++, f.live -= blocks_of(size);
    return 0;
}

/* ---- a run --------------------------------------------------------------------------------------------------------
 */
static int begin(void) {
    char top[PATH];
    struct statvfs v;
    if (snprintf(top, sizeof top, "%s/aged", folder) >= (int)sizeof top) return wrong("the folder's path is too long");
    if (mkdir(top, 0755)) return broken("cannot make %s: %s", top, reason(errno));
    f.root = open(top, O_RDONLY | O_DIRECTORY);
    if (f.root < 0 || fstatvfs(f.root, &v)) return broken("cannot open %s: %s", top, reason(errno));
    f.total = (uint64_t)v.f_blocks * v.f_frsize;
    uint64_t used = f.total - (uint64_t)v.f_bfree * v.f_frsize;
    f.block = v.f_bsize, f.room = (uint64_t)v.f_bavail * v.f_frsize;
    f.goal = f.total / 100 * percent;
    if (f.goal < used || f.goal - used > f.room)
        return broken("%s has not the room for --fill %llu, or is fuller already", folder, (unsigned long long)percent);
    f.goal -= used;
    file = mmap(NULL, OPERATIONS_MOST * sizeof *file, PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (file == MAP_FAILED) return broken("no memory for the list of files: %s", strerror(errno));
    memset(kind, 0xff, sizeof kind);
    return make_folders();
}
static unsigned drawn_size(uint64_t tick) {
    double place = (double)(hash3(seed, SIZES, tick) >> 11) / (double)(1ull << 53);
    unsigned size = 0;
    while (size + 1 < sizes.n && place >= sizes.ideal[size]) place -= sizes.ideal[size++];
    return size;
}
static void put_sample(const char *name, uint64_t begun) {
    sample_put(SAMPLE(.name = name, .start_ns = begun - f.start, .wall_ns = now_ns() - begun, .items = f.operations,
        .bytes = f.allocated));
}
/* How many operations make twice the files that each class of age needs; the last holds those of the fill, too. */
static double all_operations(void) {
    double files = (double)f.files, most = 0, span = 1;
    for (unsigned i = 0; i < ages.n; i++) {
        bool last = i + 1 == ages.n;
        span = ages.at[i] - (i ? ages.at[i - 1] : 0);
        double needed = 2 * files * (last ? ages.ideal[i] - 0.5 : ages.ideal[i]) / span;
        if (needed > most) most = needed;
    }
    return span * most < files ? ceil(files / span) : ceil(most);
}
static int fill(void) {
    uint64_t begun = now_ns();
    for (bool made = true; made && f.live < f.goal; f.tick++) {
        if (f.tick == OPERATIONS_MOST) return broken("more than %llu files", OPERATIONS_MOST);
        if (make_file(drawn_size(f.tick), &made)) return 1;
    }
    put_sample("fill", begun);
    printf("made %llu files, %llu bytes\n", (unsigned long long)f.files, (unsigned long long)f.live);
    return 0;
}
/* What was made before belongs to the oldest class: f.until is set now. */
static void classify(double operations) {
    for (unsigned i = 0; i < ages.n; i++) f.until[i] = (1 - ages.at[i]) * operations;
}
static int churn(void) {
    uint64_t begun = now_ns(), most = (uint64_t)all_operations();
    if (most > OPERATIONS_MOST)
        return broken("the profile needs %llu operations, at most %llu can be done: take a smaller file system",
            (unsigned long long)most, OPERATIONS_MOST);
    classify((double)most);
    f.operations = f.allocated = 0;
    for (; f.tick < most; f.tick++) {
        bool fits[CLASSES], made = false;
        for (unsigned i = 0; i < sizes.n; i++) fits[i] = f.live + blocks_of(i) <= f.room;
        bool more = hash3(seed, COINS, f.tick) & 1;
        if (f.live > f.goal + f.total / 100) more = false;
        if (f.live + f.total / 100 < f.goal) more = true;
        unsigned size = more ? rarest(&sizes, fits) : CLASSES;
        if (size != CLASSES && make_file(size, &made)) return 1;
        if (!made && delete_file()) return 1;
    }
    put_sample("churn", begun);
    return 0;
}
static void tell(void) {
    double off = 0;
    for (unsigned i = 0; i < ages.n; i++) off = fmax(off, fabs(excess(&ages, i)));
    printf("%llu operations, %llu bytes allocated; %llu files, %llu bytes; a class of age is at most %.2f %% of all"
           " files off; %llu files had no room\n",
        (unsigned long long)f.operations, (unsigned long long)f.allocated, (unsigned long long)f.files,
        (unsigned long long)f.live, 100 * off, (unsigned long long)f.full);
}
static int run(void) {
    struct layout l;
    char top[PATH];
    f.start = now_ns();
    for (unsigned i = 0; i < ages.n; i++)
        f.until[i] = i + 1 < ages.n ? INFINITY : 0; /* the oldest, until all is known */
    int code = begin();
    if (code) return code;
    snprintf(top, sizeof top, "%s/aged", folder);
    if (fill() || layout_of(top, "layout-before", f.start, &l)) return 1;
    if (churn() || layout_of(top, "layout-after", f.start, &l)) return 1;
    tell();
    close(f.root);
    return 0;
}

/* ---- arguments ----------------------------------------------------------------------------------------------------
 */
/* VALUE:WEIGHT[:SIBLINGS],… with values that grow */
static int read_shares(const char *name, char *text, struct shares *s, double most) {
    double all = 0;
    char *at = text;
    *s = (struct shares){0};
    for (bool more = true; more; at++) {
        unsigned i = s->n;
        if (i == CLASSES) return cannot_be(name, text, "");
        s->at[i] = strtod(at, &at);
        if (*at++ != ':') return cannot_be(name, text, "");
        s->ideal[i] = strtod(at, &at);
        if (s == &depths) {
            if (*at++ != ':') return cannot_be(name, text, "");
            s->siblings[i] = strtoull(at, &at, 10);
            if (!s->siblings[i] || s->siblings[i] > SIBLINGS) return cannot_be(name, text, "");
        }
        bool grows = s->at[i] > (i ? s->at[i - 1] : 0) && s->at[i] <= most;
        if (!grows || !(s->ideal[i] > 0 && s->ideal[i] <= 1e9) || (*at && *at != ',')) return cannot_be(name, text, "");
        all += s->ideal[i];
        more = *at;
        s->n++;
    }
    for (unsigned i = 0; i < s->n; i++) s->ideal[i] /= all;
    return 0;
}
static int read_ages(const char *name, char *text) {
    int code = read_shares(name, text, &ages, 1e15);
    for (unsigned i = 0; !code && i < ages.n; i++) ages.at[i] /= ages.at[ages.n - 1];
    return code;
}
static int read_bytes(const char *name, char *text) { return read_shares(name, text, &sizes, 1ull << 40); }
static int read_depths(const char *name, char *text) { return read_shares(name, text, &depths, DEEPEST); }

static const struct option options[] = {
    TEXT("--ages", read_ages, "AGE:WEIGHT,…: until which age, in any unit; the last is the age of the file system"),
    TEXT("--sizes", read_bytes, "BYTES:WEIGHT,…: of the files"),
    TEXT("--folders", read_depths, "DEPTH:WEIGHT:FOLDERS,…: how many files are that deep, and in how many folders"),
    NUMBER("--fill", percent, 1, 97, "percent of the file system that shall be used"),
    NUMBER("--seed", seed, 0, UINT64_MAX, "of sizes, places and operations"),
    WORD("folder", folder, "in the file system"),
};
static int prepare(void) {
    if (!ages.n || !sizes.n || !depths.n) return wrong("--ages, --sizes and --folders are needed: give all three");
    return percent == NOT_GIVEN ? wrong("--fill is missing: the percentage of the file system that shall be used") : 0;
}
static int check(void) { return needs(0, 0); } /* how large the file system is shows only where it runs */

const struct program program = {"age-by-profile",
    "Ages a file system until its files have the ages, sizes and depths of a profile.", OPTIONS(options), prepare,
    check, run};
