/* Makes a tree whose sizes, depths, fan-out and links are distributed as in a profile
 * (workflow/trees).
 *
 * A profile describes a tree level by level: how many folders a level has, how many files, symbolic and hard links are
 * in them, and how sub-folders and entries are distributed over its folders. With another number of files all counts
 * scale. Every draw is stratified: number i of n takes the quantile (k + 1/2) / n, where k is i's place in a seeded
 * permutation. So small trees have the profile's distributions too, and seeds change who is large, not how many are.
 * Memory: 8 bytes a folder.
 */
#define _GNU_SOURCE
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
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

enum { BINS = 256, LEVELS = 32, PATH = 4096, MOST_FOLDERS = 6000000, POOL = 1 << 20, PAGE = 4096 };
enum stream { DIRECTORY = 200, ENTRY, SIZE, LENGTH, HEADER, PLACE, FOLDERS, ENTRIES, KINDS, LINK, WORDS, ZEROS };
enum kind { FILE_, HARD, SYMBOLIC };
static const char *kind_name[] = {"file", "hard", "symbolic"};

struct bins { /* weight[b] of the values in (bound[b-1], bound[b]]; the first bin begins at 1, or is 0 alone */
    unsigned n;
    uint64_t bound[BINS], weight[BINS], total;
};
struct level {
    uint64_t folders, count[3], entries; /* count by kind; entries is their sum */
    uint64_t first_folder, first_entry;
    struct bins subfolders, inside;
};
static struct level level_room[LEVELS];
static struct {
    uint64_t seed, files, size_max, compress, symbolic, to_folder, to_nothing; /* symbolic: links in the profile */
    struct bins sizes, lengths;
    struct level *level;
    unsigned levels;
    uint64_t folders, entries, count[3];
    uint32_t *parent, *first; /* of every folder; its first entry, with one more at the end */
} t = {.seed = 1, .size_max = UINT64_MAX, .compress = 70, .level = level_room}; /* compress: about as source code */

/* ---- distributions ----------------------------------------------------------------------------------------------- */
static bool parse_whole(char **text, uint64_t *value) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    *value = strtoull(*text, &end, 10);
    *text = end;
    return !errno && *value < 1ull << 48;
}
static bool parse_bins(char *text, struct bins *b) { /* 0:12,1024:300 */
    *b = (struct bins){0};
    while (*text) {
        if (b->n == BINS || !parse_whole(&text, &b->bound[b->n]) || *text++ != ':' ||
            !parse_whole(&text, &b->weight[b->n]))
            return false;
        if (b->n && b->bound[b->n] <= b->bound[b->n - 1]) return false;
        b->total += b->weight[b->n++];
        if (*text == ',') {
            if (!*++text) return false;
        } else if (*text) return false;
    }
    return b->total > 0;
}
static uint64_t draw(const struct bins *b, uint64_t n, uint64_t place) { /* the quantile (place + 1/2) / n */
    double at = ((double)place + 0.5) / (double)n * (double)b->total;
    unsigned i = 0;
    for (; i + 1 < b->n && at >= (double)b->weight[i]; i++) at -= (double)b->weight[i];
    while (!b->weight[i]) i--; /* rounding carried it past the last bin with a weight */
    uint64_t high = b->bound[i], low = i ? b->bound[i - 1] + 1 : high ? 1 : 0;
    if (low == high) return low;
    double share = at / (double)b->weight[i]; /* even on the scale of logarithms */
    uint64_t value = (uint64_t)((double)low * pow((double)(high + 1) / (double)low, share < 1 ? share : 1));
    return value < low ? low : value > high ? high : value;
}

/* Deals `total` things to the n folders of a level in proportion to draws from b. A folder that draws none gets none,
 * one that draws some gets at least one while there are enough. */
struct deal {
    const struct bins *b;
    uint64_t seed, n, total, some, sum; /* folders that draw some; sum of the weights beyond the guaranteed one */
    bool even, first_one;
    uint64_t i, before; /* of the running sum */
};
static uint64_t deal_draw(const struct deal *d, uint64_t i) {
    return d->even ? 1 : draw(d->b, d->n, permute(d->seed, d->n, i));
}
static uint64_t deal_weight(const struct deal *d, uint64_t v) { return v - (d->first_one && v); }
static struct deal deal_begin(const struct bins *b, uint64_t seed, uint64_t n, uint64_t total) {
    struct deal d = {.b = b, .seed = seed, .n = n, .total = total, .even = !b->n};
    for (uint64_t i = 0, v; i < n; i++) v = deal_draw(&d, i), d.some += v > 0, d.sum += v;
    if (!d.some) d.even = true, d.some = d.sum = n;
    d.first_one = total >= d.some && d.sum > d.some;
    if (d.first_one) d.sum -= d.some, d.total -= d.some;
    return d;
}
static uint64_t deal_next(struct deal *d) {
    uint64_t v = deal_draw(d, d->i++), from = d->before, to = from + deal_weight(d, v);
    d->before = to;
    /* floor(c * total / sum + 1/2): the shares add up to the total */
    unsigned __int128 half = d->sum / 2, all = d->total;
    return (uint64_t)((to * all + half) / d->sum - (from * all + half) / d->sum) + (d->first_one && v);
}

/* ---- the shape --------------------------------------------------------------------------------------------------- */
static int shape(void) {
    uint64_t known[3] = {0}, seen[3] = {0};
    for (unsigned l = 0; l < t.levels; l++)
        for (int k = 0; k < 3; k++) known[k] += t.level[l].count[k];
    t.symbolic = known[SYMBOLIC];
    double scale = (double)t.files / (double)known[FILE_];
    for (int k = 0; k < 3; k++) t.count[k] = k == FILE_ ? t.files : (uint64_t)llround((double)known[k] * scale);
    for (unsigned l = 0; l < t.levels; l++) {
        struct level *v = &t.level[l];
        double folders = round((double)v->folders * scale);
        if (folders > MOST_FOLDERS) folders = MOST_FOLDERS + 1.0;
        v->folders = !l || folders < 1 ? 1 : (uint64_t)folders;
        v->entries = 0;
        for (int k = 0; k < 3; k++) { /* the rounded running sums, so that the levels add up */
            uint64_t before = seen[k] ? (uint64_t)((unsigned __int128)seen[k] * t.count[k] / known[k]) : 0;
            seen[k] += v->count[k];
            uint64_t after = seen[k] ? (uint64_t)((unsigned __int128)seen[k] * t.count[k] / known[k]) : 0;
            v->entries += v->count[k] = after - before;
        }
        v->first_folder = t.folders, v->first_entry = t.entries;
        t.folders += v->folders, t.entries += v->entries;
    }
    if (t.folders > MOST_FOLDERS)
        return wrong(
            "%llu files make more than %d folders: ask for fewer files", (unsigned long long)t.files, MOST_FOLDERS);
    if (t.entries >= UINT32_MAX)
        return wrong("%llu entries are too many: at most 4294967294", (unsigned long long)t.entries);
    return 0;
}
static int shape_folders(void) {
    t.parent = malloc((size_t)t.folders * sizeof *t.parent);
    t.first = malloc((size_t)(t.folders + 1) * sizeof *t.first);
    if (!t.parent || !t.first) return broken("no memory for %llu folders", (unsigned long long)t.folders);
    t.parent[0] = 0;
    for (unsigned l = 0; l < t.levels; l++) {
        const struct level *v = &t.level[l];
        struct deal d = deal_begin(&v->inside, hash3(t.seed, ENTRIES, l), v->folders, v->entries);
        uint64_t at = v->first_entry;
        for (uint64_t i = 0; i < v->folders; i++) {
            t.first[v->first_folder + i] = (uint32_t)at;
            at += deal_next(&d);
        }
        if (l + 1 == t.levels) break;
        d = deal_begin(&v->subfolders, hash3(t.seed, FOLDERS, l), v->folders, v[1].folders);
        uint64_t child = v[1].first_folder;
        for (uint64_t i = 0; i < v->folders; i++)
            for (uint64_t n = deal_next(&d); n; n--) t.parent[child++] = (uint32_t)(v->first_folder + i);
    }
    t.first[t.folders] = (uint32_t)t.entries;
    return 0;
}

/* ---- names ------------------------------------------------------------------------------------------------------- */
static size_t put_name(uint64_t stream, uint64_t i, char *out) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    char low[16];
    size_t k = 0, n = 0;
    uint64_t number = i, h = hash3(t.seed, stream, i), length = 4 + (h & 7) + ((h >> 3) & 1);
    do low[k++] = digits[number % 36];
    while (number /= 36);
    if (t.lengths.n) { /* of the whole name; the number that makes it unique has to fit */
        uint64_t most = PATH / 2 / LEVELS, wanted = draw(&t.lengths, 1 << 20, h >> 44);
        if (wanted > most) wanted = most;
        length = wanted > k + 2 ? wanted - k - 1 : 1;
    }
    for (h >>= 4; n < length; h = h >= 36 ? h / 36 : hash3(t.seed, stream, ~i - n)) out[n++] = digits[h % 36];
    out[n++] = '_';
    while (k) out[n++] = low[--k];
    out[n] = 0;
    return n;
}
static size_t put_folder(uint64_t folder, char *out) {
    if (!folder) return out[0] = 0, 0;
    size_t n = put_folder(t.parent[folder], out);
    if (n) out[n++] = '/';
    return n + put_name(DIRECTORY, folder, out + n);
}
struct entry {
    enum kind kind;
    unsigned level;
    uint64_t number, size; /* number: among its kind, of the tree for files, of the level for links */
    char path[PATH];
};
static enum kind kind_of(unsigned l, uint64_t entry, uint64_t *number) {
    const struct level *v = &t.level[l];
    uint64_t k = entry - v->first_entry;
    if (v->count[FILE_] != v->entries) k = permute(hash3(t.seed, KINDS, l), v->entries, k);
    for (int kind = FILE_; kind < SYMBOLIC; kind++) {
        if (k < v->count[kind]) return *number = k, kind;
        k -= v->count[kind];
    }
    return *number = k, SYMBOLIC;
}
static uint64_t folder_of(uint64_t entry) { /* the last folder whose first entry is not behind it */
    uint64_t low = 0, high = t.folders;
    while (high - low > 1) {
        uint64_t middle = low + (high - low) / 2;
        if (t.first[middle] <= entry) low = middle;
        else high = middle;
    }
    return low;
}
static uint64_t size_of(uint64_t file) {
    uint64_t size = draw(&t.sizes, t.files, permute(hash3(t.seed, SIZE, 0), t.files, file));
    return size < t.size_max ? size : t.size_max;
}

/* Goes over all entries in the order of the tree; the path of a folder is made once. */
struct walk {
    uint64_t at, folder, files;
    unsigned level;
    size_t length;
    char path[PATH];
};
static bool next_entry(struct walk *w, struct entry *e) {
    if (w->at == t.entries) return false;
    bool moved = !w->at;
    while (t.first[w->folder + 1] <= w->at) w->folder++, moved = true;
    while (w->level + 1 < t.levels && t.level[w->level + 1].first_folder <= w->folder)
        w->files += t.level[w->level++].count[FILE_];
    if (moved && (w->length = put_folder(w->folder, w->path))) w->path[w->length++] = '/';
    e->kind = kind_of(w->level, w->at, &e->number);
    e->level = w->level, e->size = 0;
    if (e->kind == FILE_) e->size = size_of(e->number += w->files);
    memcpy(e->path, w->path, w->length);
    put_name(ENTRY, w->at++, e->path + w->length);
    return true;
}

/* What a link leads to: a file at random (tried until one is found; few tries, as levels are chosen by their files). */
static void put_file_at_random(uint64_t h, char *out) {
    uint64_t file = h % t.files, number;
    unsigned l = 0;
    while (file >= t.level[l].count[FILE_]) file -= t.level[l++].count[FILE_];
    const struct level *v = &t.level[l];
    uint64_t entry = v->first_entry + hash3(h, LINK, 0) % v->entries;
    for (uint64_t i = 1; kind_of(l, entry, &number) != FILE_; i++)
        entry = v->first_entry + hash3(h, LINK, i) % v->entries;
    size_t n = put_folder(folder_of(entry), out);
    if (n) out[n++] = '/';
    put_name(ENTRY, entry, out + n);
}
static uint64_t link_hash(const struct entry *e) {
    return hash3(t.seed, LINK, (uint64_t)e->level << 40 | (uint64_t)e->kind << 38 | e->number);
}
/* hard: path below the root; symbolic: relative to the link */
static void put_target(const struct entry *e, char *out) {
    uint64_t h = link_hash(e), before = 0;
    if (e->kind == HARD) return put_file_at_random(h, out);
    for (unsigned l = 0; l < e->level; l++, out += 3) {
        before += t.level[l].count[SYMBOLIC];
        memcpy(out, "../", 3);
    }
    double place = ((double)permute(hash3(t.seed, LINK, 1), t.count[SYMBOLIC], before + e->number) + 0.5) /
        (double)t.count[SYMBOLIC];
    place *= (double)t.symbolic;
    if (place < (double)t.to_folder) {
        if (!put_folder(h % t.folders, out)) strcpy(out, "."); /* the top */
    } else if (place < (double)(t.to_folder + t.to_nothing)) {
        memcpy(out, "missing_", 8);
        put_name(LINK, e->number, out + 8);
    } else put_file_at_random(h, out);
}

/* ---- content: a header of the file's own, then slices of a pool that is as compressible as asked ----------------- */
static uint8_t pool[2 * POOL], buffer[1 << 17];

static void make_pool(void) {
    /* Words of eight bytes: fresh random ones, and repeats of one of the last 64. zlib and zstd store a repeat in a
     * fifth of the room of a fresh one, so repeats are 122 % of the share to be saved. More than 80 % are not to be had
     * so: then a part of the pages is zeros. */
    uint64_t words[64], w, repeats = (t.compress < 80 ? t.compress : 80) * 122;
    for (uint64_t i = 0; i < 64; i++) words[i] = hash3(t.seed, WORDS, i);
    for (size_t i = 0; i < sizeof pool / 8; i++) {
        uint64_t h = hash3(t.seed, WORDS, 64 + i);
        if (h % 10000 < repeats) w = words[(h >> 32) & 63];
        else w = words[(h >> 32) & 63] = hash3(h, WORDS, i);
        memcpy(pool + 8 * i, &w, 8);
    }
    for (uint64_t i = 0; t.compress > 80 && i < sizeof pool / PAGE; i++)
        if (hash3(t.seed, ZEROS, i) % 20 < t.compress - 80) memset(pool + i * PAGE, 0, PAGE);
}
static struct content content_of(const struct entry *e) {
    uint64_t h = hash3(t.seed, HEADER, e->number);
    return (struct content){{h, h * 0x9e3779b97f4a7c15u}, e->size, hash3(t.seed, PLACE, e->number) % POOL};
}
static const char *create(int root, const struct entry *e) { /* NULL or the call that failed, with errno */
    struct content c = content_of(e);
    int fd = openat(root, e->path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0) return "create";
    for (uint64_t at = 0; at < c.size;) {
        uint64_t head = at ? 0 : c.size < sizeof c.header ? c.size : sizeof c.header, body = c.size - at - head;
        if (body > POOL) body = POOL;
        struct iovec v[2] = {{c.header, head}, {pool + c.offset, body}};
        ssize_t n = at ? write(fd, v[1].iov_base, body) : writev(fd, v, 2);
        if (n < 0 || (uint64_t)n != head + body) { /* a short write to a regular file means that the space ran out */
            int error = n < 0 ? errno : ENOSPC;
            close(fd);
            return errno = error, "write";
        }
        at += head + body;
    }
    return close(fd) ? "close" : NULL;
}
/* *differs: the first byte that is not as written */
static bool same(int fd, const struct content *c, uint64_t *differs) {
    ssize_t n;
    *differs = 0;
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        for (uint64_t i = 0; i < (uint64_t)n;) {
            uint64_t p = *differs, run = (uint64_t)n - i, inside = (p - sizeof c->header) % POOL;
            bool head = p < sizeof c->header;
            const uint8_t *want = head ? (const uint8_t *)c->header + p : pool + c->offset + inside;
            uint64_t there = head ? sizeof c->header - p : POOL - inside, left = p < c->size ? c->size - p : 0;
            if (run > there) run = there;
            uint64_t alike = same_bytes(buffer + i, want, run < left ? run : left);
            *differs += alike;
            if (alike < run) return false;
            i += run;
        }
    return !n && *differs == c->size;
}

/* ---- what can be done with the tree ------------------------------------------------------------------------------ */
static int open_root(const char *folder, const char *what) {
    int fd = open(folder, O_RDONLY | O_DIRECTORY);
    if (fd < 0) broken("cannot %s %s: %s", what, folder, strerror(errno));
    return fd;
}
static int generate_folders(int root) {
    static char path[PATH];
    for (uint64_t i = 1; i < t.folders; i++) {
        put_folder(i, path);
        if (mkdirat(root, path, 0755)) return broken("cannot make the folder %s: %s", path, reason(errno));
    }
    return 0;
}
static int generate_files(int root, uint64_t *bytes) {
    static struct entry e;
    for (struct walk w = {0}; next_entry(&w, &e);) {
        if (e.kind != FILE_) continue;
        const char *call = create(root, &e);
        if (call) return broken("cannot %s %s: %s", call, e.path, reason(errno));
        *bytes += e.size;
    }
    return 0;
}
static int generate_links(int root, uint64_t *links) {
    static struct entry e;
    static char path[PATH];
    for (struct walk w = {0}; next_entry(&w, &e);) {
        if (e.kind == FILE_) continue;
        put_target(&e, path);
        if (e.kind == HARD ? linkat(root, path, root, e.path, 0) : symlinkat(path, root, e.path))
            return broken("cannot link %s to %s: %s", e.path, path, reason(errno));
        ++*links;
    }
    return 0;
}
static int generate(const char *folder) {
    uint64_t start = now_ns(), begin = start, bytes = 0, links = 0;
    if (mkdir(folder, 0755)) return broken("cannot make %s: %s", folder, reason(errno));
    int root = open_root(folder, "open");
    if (root < 0 || generate_folders(root)) return 1;
    uint64_t end = now_ns();
    sample_put(SAMPLE(.name = "directories", .start_ns = begin - start, .wall_ns = end - begin, .items = t.folders));
    begin = end;
    if (generate_files(root, &bytes)) return 1;
    end = now_ns();
    sample_put(
        SAMPLE(.name = "files", .start_ns = begin - start, .wall_ns = end - begin, .items = t.files, .bytes = bytes));
    begin = end;
    if (t.count[HARD] + t.count[SYMBOLIC]) { /* a second pass: links lead to files that are there */
        if (generate_links(root, &links)) return 1;
        sample_put(SAMPLE(.name = "links", .start_ns = begin - start, .wall_ns = now_ns() - begin, .items = links));
    }
    close(root);
    printf("made %llu folders, %llu files with %llu bytes, %llu symbolic and %llu hard links\n",
        (unsigned long long)t.folders, (unsigned long long)t.files, (unsigned long long)bytes,
        (unsigned long long)t.count[SYMBOLIC], (unsigned long long)t.count[HARD]);
    return 0;
}

static uint64_t count_names(int parent, const char *name) {
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d) return 0;
    uint64_t n = 0;
    for (struct dirent *e; (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        struct stat s;
        bool folder = e->d_type == DT_DIR ||
            (e->d_type == DT_UNKNOWN && !fstatat(dirfd(d), e->d_name, &s, AT_SYMLINK_NOFOLLOW) && S_ISDIR(s.st_mode));
        n += 1 + (folder ? count_names(dirfd(d), e->d_name) : 0);
    }
    closedir(d);
    return n;
}
static int verify_entry(int root, const struct entry *e) {
    static char path[PATH], found[PATH];
    struct stat s, target;
    if (fstatat(root, e->path, &s, AT_SYMLINK_NOFOLLOW)) return broken("%s: %s", e->path, strerror(errno));
    if (e->kind == SYMBOLIC) {
        put_target(e, path);
        ssize_t n = readlinkat(root, e->path, found, sizeof found - 1);
        found[n < 0 ? 0 : n] = 0;
        return strcmp(path, found) ? broken("%s does not lead to %s", e->path, path) : 0;
    }
    if (e->kind == HARD) {
        put_target(e, path);
        bool one = !fstatat(root, path, &target, AT_SYMLINK_NOFOLLOW) && target.st_ino == s.st_ino &&
            target.st_dev == s.st_dev;
        return one ? 0 : broken("%s and %s are not one file", e->path, path);
    }
    struct content c = content_of(e);
    uint64_t differs;
    int fd = S_ISREG(s.st_mode) ? openat(root, e->path, O_RDONLY | O_NOFOLLOW) : -1;
    if (fd < 0) return broken("%s cannot be read", e->path);
    bool as_written = same(fd, &c, &differs);
    close(fd);
    return as_written ? 0
                      : broken("%s differs from what was written at byte %llu", e->path, (unsigned long long)differs);
}
static int verify(const char *folder) {
    static struct entry e;
    static char path[PATH];
    struct stat s;
    int root = open_root(folder, "verify");
    if (root < 0) return 1;
    for (uint64_t i = 1; i < t.folders; i++) {
        put_folder(i, path);
        if (fstatat(root, path, &s, AT_SYMLINK_NOFOLLOW) || !S_ISDIR(s.st_mode))
            return broken("the folder %s is missing", path);
    }
    for (struct walk w = {0}; next_entry(&w, &e);)
        if (verify_entry(root, &e)) return 1;
    uint64_t there = count_names(root, "."), all = t.folders - 1 + t.entries;
    close(root);
    if (there != all)
        return broken(
            "%s has %llu names, but %llu were made", folder, (unsigned long long)there, (unsigned long long)all);
    printf("%llu names are as made\n", (unsigned long long)all);
    return 0;
}
static int list(void) { /* path, kind, size; tabs between */
    static struct entry e;
    static char path[PATH];
    for (uint64_t i = 1; i < t.folders; i++) {
        put_folder(i, path);
        printf("%s\tdirectory\t0\n", path);
    }
    for (struct walk w = {0}; next_entry(&w, &e);)
        printf("%s\t%s\t%llu\n", e.path, kind_name[e.kind], (unsigned long long)e.size);
    return fflush(stdout) ? broken("cannot write the list: %s", strerror(errno)) : 0;
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
/* FOLDERS/FILES/SYMBOLIC/HARD/SUB-FOLDERS/ENTRIES, the last two distributions or empty */
static bool parse_level(char *text) {
    struct level *v = &t.level[t.levels];
    uint64_t *numbers[4] = {&v->folders, &v->count[FILE_], &v->count[SYMBOLIC], &v->count[HARD]};
    for (int i = 0; i < 4; i++)
        if (!parse_whole(&text, numbers[i]) || *text++ != '/') return false;
    char *inside = strchr(text, '/');
    if (!inside) return false;
    *inside++ = 0;
    t.levels++;
    return v->folders && (!*text || parse_bins(text, &v->subfolders)) && (!*inside || parse_bins(inside, &v->inside));
}
static bool parse_links(const char *text) { /* folder=3,missing=1 */
    int used = 0;
    unsigned long long folder, nothing;
    if (sscanf(text, "folder=%15llu,missing=%15llu%n", &folder, &nothing, &used) != 2 || text[used]) return false;
    t.to_folder = folder, t.to_nothing = nothing;
    return true;
}
static int read_sizes(const char *name, char *text) {
    return parse_bins(text, &t.sizes) ? 0 : cannot_be(name, text, "");
}
static int read_lengths(const char *name, char *text) {
    return parse_bins(text, &t.lengths) ? 0 : cannot_be(name, text, "");
}
static int read_links(const char *name, char *text) { return parse_links(text) ? 0 : cannot_be(name, text, ""); }
static int read_level(const char *name, char *text) {
    return t.levels < LEVELS && parse_level(text) ? 0 : cannot_be(name, text, "");
}

static const char *folder = ".";
static bool do_verify, do_list;
static const struct option options[] = {
    NUMBER("--files", t.files, 1, UINT32_MAX - 1, "files of the tree"),
    NUMBER("--seed", t.seed, 0, UINT64_MAX, "of names, sizes, places and contents"),
    TEXT("--sizes", read_sizes, "BYTES:WEIGHT,…: distribution of the sizes"),
    TEXT("--level", read_level, "FOLDERS/FILES/SYMBOLIC/HARD/SUB-FOLDERS/ENTRIES of the next level"),
    TEXT("--links", read_links, "folder=N,missing=N: what symbolic links lead to"),
    NUMBER("--compress", t.compress, 0, 100, "percent that a compressor saves"),
    TEXT("--lengths", read_lengths, "LENGTH:WEIGHT,…: distribution of the lengths of names"),
    NUMBER("--size-max", t.size_max, 0, UINT64_MAX, "bytes of a file at most"),
    FLAG("--verify", do_verify, "compare what is there with what was made"),
    FLAG("--list", do_list, "path, kind and size of every name, and make nothing"),
    WORD("folder", folder, "in which the tree is made"),
};

static int prepare(void) {
    if (!t.files) return wrong("--files is missing: how many files the tree shall have");
    if (!t.levels || !t.sizes.n) return wrong("--level and --sizes are missing: they come from a profile");
    uint64_t files = 0;
    for (unsigned l = 0; l < t.levels; l++) files += t.level[l].count[FILE_];
    return files ? shape() : wrong("no --level has files: a profile needs at least one");
}

static int check(void) {
    uint64_t bytes = 0;
    for (uint64_t k = 0; k < t.files; k++) {
        uint64_t size = draw(&t.sizes, t.files, k);
        bytes += size < t.size_max ? size : t.size_max;
    }
    return needs(bytes, t.folders + t.entries);
}

static int run(void) {
    char top[PATH];
    int code = shape_folders();
    if (code) return code;
    make_pool();
    if (snprintf(top, sizeof top, "%s/tree", folder) >= (int)sizeof top) return wrong("the folder's path is too long");
    return do_list ? list() : do_verify ? verify(top) : generate(top);
}

const struct program program = {"look-alike",
    "A tree whose sizes, depths, fan-out and links are distributed as in a profile.", OPTIONS(options), prepare, check,
    run};
