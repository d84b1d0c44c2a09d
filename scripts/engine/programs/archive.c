/* Writes a tar stream (ustar; pax records for long names) of a synthetic tree to standard output.
 *
 * The tree is FAN-OUT directories, as of so many backups, with equal shares of the names. Each is a tree of its own:
 * directories below it breadth first, FAN-OUT in each, at most DEPTH levels, until --directories percent of the names
 * are directories (or the levels are full); the other names are spread evenly: regular files, and --hard-links percent
 * hard links to any earlier regular file of the same backup. --symlinks percent of the regular files are symbolic links
 * with an absolute target instead: GNU tar puts an empty file in the place of each, and of all hard links to it, and
 * makes the links in a second pass at the end, unless it is told -P. Everything is a pure function of the seed and a
 * number, so there is no memory a name.
 * --part K/M writes the K-th M-th of the backups: the M archives together are the tree that one archive without --part
 * is. */
#define _GNU_SOURCE
#include "program.h"
#include "tree.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MTIME is 2019-01-01: the exact lab's clock starts in 2020, and tar warns of every file from the future. */
enum { BLOCK = 512, RECORD = 20 * BLOCK, WRITE = 1 << 16, MTIME = 1546300800 };
static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";

/* t: for sizes and contents */
static struct tree t = {.seed = 1, .fan_out = 16, .size_max = 1 << 20, .size_sigma = 1.45};
static uint64_t names, hard_links, symlinks, percent_directories = 5, depth = 6, median = 4055, owner = NOT_GIVEN;
static uint64_t owner_user, owner_group, part = 1, parts = 1;
static uint64_t full;       /* directories of one backup when all levels are full */
static uint64_t first, end; /* of the backups in this archive */

struct backup { uint64_t number, directories, entries; };

static struct backup backup_of(uint64_t number) {
    uint64_t n = (uint64_t)((unsigned __int128)names * (number + 1) / t.fan_out -
        (unsigned __int128)names * number / t.fan_out);
    uint64_t d = (n * percent_directories + 50) / 100;
    if (d > full) d = full;
    if (d < 1) d = 1;
    return n ? (struct backup){number, d, n - d} : (struct backup){number, 0, 0};
}
/* Entry j is a regular file when it raises the count of them; the first always is. */
static uint64_t regular_until(uint64_t j) { return (j * (100 - hard_links) + 99) / 100; }
static bool is_regular(uint64_t j) { return regular_until(j + 1) > regular_until(j); }
static uint64_t regular_entry(uint64_t r) { return r * 100 / (100 - hard_links); }
static uint64_t file_id(const struct backup *b, uint64_t j) { return b->number << 40 | j; }

enum stream { DIRECTORY = 400, ENTRY, TARGET, BACKUP, SYMLINK };
static size_t put_name(enum stream kind, uint64_t id, uint64_t number, char *out) {
    uint64_t h = hash3(t.seed, kind, id);
    size_t n = 0, k = 0, length = 3 + (h & 7);
    for (h >>= 3; n < length; h /= 26) out[n++] = digits[10 + h % 26];
    out[n++] = kind == DIRECTORY ? '-' : '_';
    char low[16];
    do low[k++] = digits[number % 36];
    while (number /= 36);
    while (k) out[n++] = low[--k];
    return n;
}
/* Of a regular entry. */
static bool is_symlink(const struct backup *b, uint64_t j) {
    return hash3(t.seed, SYMLINK, file_id(b, j)) % 100 < symlinks;
}
static size_t directory_path(const struct backup *b, uint64_t d, char *out) { /* with a slash at the end */
    size_t n = d ? directory_path(b, (d - 1) / t.fan_out, out) : 0;
    n += d ? put_name(DIRECTORY, file_id(b, d), d, out + n)
           : (size_t)sprintf(out, "backup-%llu", (unsigned long long)b->number);
    out[n++] = '/', out[n] = 0;
    return n;
}
static uint64_t directory_of(const struct backup *b, uint64_t j) {
    return (uint64_t)((unsigned __int128)j * b->directories / b->entries);
}
static size_t entry_name(const struct backup *b, uint64_t j, char *out) {
    size_t n = put_name(ENTRY, file_id(b, j), j, out);
    out[n] = 0;
    return n;
}

/* ---- output ------------------------------------------------------------------------------------------------------ */
static uint8_t out[WRITE];
static size_t filled;
static uint64_t written;
static int trouble;
static void flush_out(void) {
    for (size_t at = 0; at < filled && !trouble;) {
        ssize_t n = write(STDOUT_FILENO, out + at, filled - at);
        if (n < 0 && errno != EINTR) trouble = errno;
        else if (n > 0) at += (size_t)n;
    }
    filled = 0;
}
static void put(const void *data, size_t n) {
    written += n;
    for (const uint8_t *p = data; n;) {
        size_t k = n < WRITE - filled ? n : WRITE - filled;
        memcpy(out + filled, p, k);
        filled += k, p += k, n -= k;
        if (filled == WRITE) flush_out();
    }
}
static void pad(size_t to) {
    static const uint8_t zeros[RECORD];
    put(zeros, (size_t)((to - written % to) % to));
}

/* ---- tar --------------------------------------------------------------------------------------------------------- */
static void octal(char *field, size_t digit_count, uint64_t v) { /* digits, then the NUL that is there */
    while (digit_count--) field[digit_count] = (char)('0' + (v & 7)), v >>= 3;
}
struct header { /* POSIX.1-1988 */
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[8], uname[32],
        gname[32], major[8], minor[8], prefix[155], rest[12];
};
_Static_assert(sizeof(struct header) == BLOCK, "a header is one block");

static void header_put(struct header *h, char type, uint64_t mode, uint64_t size) {
    octal(h->mode, 7, mode), octal(h->uid, 7, owner_user), octal(h->gid, 7, owner_group);
    octal(h->size, 11, size), octal(h->mtime, 11, MTIME);
    octal(h->major, 7, 0), octal(h->minor, 7, 0);
    h->type = type;
    memcpy(h->magic, "ustar\00000", 8); /* "ustar", NUL (three octal digits), the version "00" */
    memset(h->sum, ' ', sizeof h->sum);
    unsigned sum = 0;
    for (size_t i = 0; i < BLOCK; i++) sum += ((uint8_t *)h)[i];
    octal(h->sum, 6, sum);
    h->sum[6] = 0;
    put(h, BLOCK);
}
/* "length key=value\n", the length counts itself */
static size_t pax_line(char *to, const char *key, const char *value) {
    size_t rest = strlen(key) + strlen(value) + 3, n = rest + 1, digits_now = 1;
    for (size_t ten = 10; n >= ten; ten *= 10) n = rest + ++digits_now;
    return (size_t)sprintf(to, "%zu %s=%s\n", n, key, value);
}
/* Puts the path into name and, split at a slash, prefix. False: it does not fit. */
static bool fits(struct header *h, const char *path, size_t n) {
    if (n <= sizeof h->name) return memcpy(h->name, path, n), true;
    size_t from = n - sizeof h->name - 1; /* the first slash that leaves a name that fits */
    const char *slash = memchr(path + from, '/', n - 1 - from);
    if (!slash || slash == path || (size_t)(slash - path) > sizeof h->prefix) return false;
    memcpy(h->prefix, path, (size_t)(slash - path));
    memcpy(h->name, slash + 1, n - (size_t)(slash + 1 - path));
    return true;
}
static void member(
    char type, const char *path, size_t n, const char *link, size_t link_n, uint64_t mode, uint64_t size) {
    struct header h = {0};
    bool path_fits = fits(&h, path, n), link_fits = link_n <= sizeof h.link;
    if (!path_fits || !link_fits) {
        char records[2 * PATH_BYTES + 64];
        size_t r = 0;
        if (!path_fits) r += pax_line(records, "path", path);
        if (!link_fits) r += pax_line(records + r, "linkpath", link);
        struct header x = {0};
        memcpy(x.name, "././@PaxHeader", 14);
        header_put(&x, 'x', 0644, r);
        put(records, r), pad(BLOCK);
    }
    if (!path_fits) memcpy(h.name, path, sizeof h.name);
    memcpy(h.link, link, link_fits ? link_n : sizeof h.link);
    header_put(&h, type, mode, size);
}

static void put_content(const struct content *c) {
    uint64_t head = c->size < sizeof c->header ? c->size : sizeof c->header;
    put(c->header, head);
    for (uint64_t left = c->size - head; left;) {
        uint64_t n = left < POOL_STEP ? left : POOL_STEP;
        put(pool_at(c->offset), n);
        left -= n;
    }
    pad(BLOCK);
}

/* The regular files of a backup as a tree of their own, for their sizes; file r of it is the r-th of them. */
static struct tree regular_files(const struct backup *b) {
    struct tree own = t;
    own.seed = hash3(t.seed, BACKUP, b->number);
    own.files = regular_until(b->entries);
    return own;
}
static void put_backup(const struct backup *b) {
    const struct tree own = regular_files(b);
    char path[PATH_BYTES], link[PATH_BYTES + 1];
    uint64_t j = 0;
    for (uint64_t d = 0; d < b->directories && !trouble; d++) {
        size_t n = directory_path(b, d, path);
        member('5', path, n, "", 0, 0755, 0);
        for (; j < b->entries && directory_of(b, j) == d && !trouble; j++) {
            size_t m = n + entry_name(b, j, path + n);
            if (is_regular(j) && is_symlink(b, j)) {
                link[0] = '/'; /* to where it stood on the machine that was backed up */
                memcpy(link + 1, path, m + 1);
                member('2', path, m, link, m + 1, 0777, 0);
            } else if (is_regular(j)) {
                struct content c = tree_content(&t, file_id(b, j), tree_size(&own, regular_until(j)));
                member('0', path, m, "", 0, 0644, c.size);
                put_content(&c);
            } else {
                uint64_t to = regular_entry(hash3(t.seed, TARGET, file_id(b, j)) % regular_until(j));
                size_t k = directory_path(b, directory_of(b, to), link);
                k += entry_name(b, to, link + k);
                member('1', path, m, link, k, 0644, 0);
            }
        }
    }
}

/* ---- arguments --------------------------------------------------------------------------------------------------- */
static int read_part(const char *name, char *text) {
    char copy[64], *slash = strchr(text, '/');
    if (slash && strlen(text) < sizeof copy) {
        memcpy(copy, text, strlen(text) + 1);
        copy[slash - text] = 0;
        if (parse_number(copy, &part) && parse_number(copy + (slash - text) + 1, &parts) && part && part <= parts)
            return 0;
    }
    return wrong("%s is K/M with K from 1 to M, as 2/8, not %s", name, text);
}

static const struct option options[] = {
    NUMBER("--names", names, 1, 1000000000, "names of the tree"),
    NUMBER("--seed", t.seed, 0, UINT64_MAX, "of names, sizes and contents"),
    TEXT("--part", read_part, "K/M: the K-th M-th of the backups"),
    NUMBER("--hard-links", hard_links, 0, 99, "percent of the other names"),
    NUMBER("--symlinks", symlinks, 0, 100, "percent of the regular files"),
    NUMBER("--directories", percent_directories, 0, 100, "percent of the names"),
    NUMBER("--size-median", median, 0, 1ull << 32, "bytes of a file"),
    DECIMAL("--size-sigma", t.size_sigma, 0, 10, "of the logarithms of the sizes"),
    NUMBER("--size-max", t.size_max, 0, (8ull << 30) - 1, "bytes of a file"),
    NUMBER("--fan-out", t.fan_out, 1, 100000, "backups, and directories in a directory"),
    NUMBER("--depth", depth, 1, 48, "levels of directories in a backup"),
    NUMBER("--owner", owner, 0, 07777777, "of all names; without it, who runs this"),
};

static int prepare(void) {
    if (!names) return wrong("--names N says how many names the tree has; it is missing");
    if (parts > t.fan_out)
        return wrong("--part has %llu archives, but --fan-out makes only %llu backups to share among them",
            (unsigned long long)parts, (unsigned long long)t.fan_out);
    /* The owner is who runs this, or else tar --diff would find another one after an extraction without privileges. */
    owner_user = owner != NOT_GIVEN ? owner : geteuid() & 07777777;
    owner_group = owner != NOT_GIVEN ? owner : getegid() & 07777777;
    t.size_median = (double)median;
    for (uint64_t level = 0, wide = 1; level < depth && full < names; level++, wide *= t.fan_out) full += wide;
    first = (part - 1) * t.fan_out / parts, end = part * t.fan_out / parts;
    return 0;
}

static int check(void) {
    uint64_t bytes = 0, count = 0;
    for (uint64_t b = first; b < end; b++) {
        struct backup x = backup_of(b);
        count += x.directories + x.entries;
        const struct tree own = regular_files(&x);
        for (uint64_t r = 0; r < own.files; r++)
            if (!is_symlink(&x, regular_entry(r))) bytes += tree_size(&own, r);
    }
    return needs(bytes, count);
}

static int run(void) {
    static const uint8_t zeros[2 * BLOCK];
    if (isatty(STDOUT_FILENO))
        return wrong("the archive goes to standard output, which is a terminal; send it to tar or to a file");
    tree_pool(t.seed);
    for (uint64_t b = first; b < end && !trouble; b++) {
        struct backup x = backup_of(b);
        put_backup(&x);
    }
    put(zeros, sizeof zeros), pad(RECORD);
    flush_out();
    return trouble ? broken("cannot write the archive: %s", reason(trouble)) : 0;
}

const struct program program = {
    "archive", "A tar stream of a synthetic tree of backups.", OPTIONS(options), prepare, check, run};
