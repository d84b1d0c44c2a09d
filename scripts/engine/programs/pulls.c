/* A working copy of a repository that is updated by pulls, as git does it; and its twin, which is as old as its
 * copying.
 *
 * The clone makes a tree of files and one pack. A pull stores the objects that changed, each under a temporary name
 * which is then renamed (object-file.c of git); removes files and the folders that this empties; removes every changed
 * file and makes it anew (entry.c), in the order of the paths; appends to the log; and renames new files over index and
 * refs (lockfile.c). Then the file system is synced, since hours pass between pulls. Nothing is packed again (gc.auto
 * 0). Of the changes 84 % are new versions, 8 % new files, 8 % removed ones, so that the tree stays as large as it is.
 *
 * --list writes the paths as `cp -a` visits them: of every folder in the order of the inodes. --copy makes the files in
 * that order. What a file holds follows from seed, path and version. --verify reads all of it, and tells a digest of
 * names and contents. */
#define _GNU_SOURCE
#include "program.h"
#include "stream.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RECORD = 1 << 20, NEW = 8, GONE = 8, IN_FOLDER = 12, OBJECT_BYTES = 200 };
#define PACK ".git/objects/pack/pack-1.pack"
enum stream { FOLDERS = 400, PLACES, CHOICES, SIZES, OBJECTS, KEYS };
static struct {
    uint64_t files, pulls, changes, seed, median, largest;
    double sigma;
    const char *folder, *list, *copy;
    bool verify;
} p = {.changes = 1, .seed = 1, .median = 4055, .sigma = 1.45, .largest = 1 << 20};

static const struct option options[] = {
    NUMBER("--files", p.files, 1, 1000000, "of the tree"),
    NUMBER("--pulls", p.pulls, 0, 100000, "after the clone"),
    NUMBER("--changes", p.changes, 1, 10000, "files that a pull changes"),
    NUMBER("--size-median", p.median, 1, RECORD, "bytes of a file"),
    DECIMAL("--size-sigma", p.sigma, 0, 5, "of the logarithms of the sizes"),
    NUMBER("--size-max", p.largest, 1, RECORD, "bytes of a file"),
    NUMBER("--seed", p.seed, 0, UINT64_MAX, "of names, sizes, contents and changes"),
    WORD("--list", p.list, "only write the paths into this file, as cp -a visits them"),
    WORD("--copy", p.copy, "make what is there after the pulls, in the order of this list"),
    FLAG("--verify", p.verify, "compare what is there with what was written"),
    WORD("folder", p.folder, "of the working copy"),
};

/* ---- the history: what is there after how many pulls; nothing is read for it --------------------------------------
 */
static struct file { /* of the working copy; known by its number */
    uint32_t folder, version, pull; /* version 0: not made yet; pull: the last that changed it */
    bool there;
} *file;
static uint32_t *inside; /* of each folder: its files and folders; 0: it is not there */
static struct tree sizes;
static uint64_t files, folders, objects, pack, pull, live, rolls;
static uint64_t roll(uint64_t n) { return hash3(p.seed, CHOICES, rolls++) % n; }

static uint64_t parent(uint64_t folder) { return hash3(p.seed, FOLDERS, folder) % folder; }
static void put_folder(uint64_t folder, char *out) {
    char above[PATH_BYTES];
    if (!folder) return (void)(*out = 0);
    put_folder(parent(folder), above);
    snprintf(out, PATH_BYTES, "%.990sdir-%llx/", above, (unsigned long long)folder);
}
static void put_file(uint64_t number, char *out) {
    char above[PATH_BYTES];
    put_folder(file[number].folder, above);
    snprintf(out, PATH_BYTES, "%.990sfile-%llx.c", above, (unsigned long long)number);
}
static void put_object(uint64_t number, char *out) {
    unsigned first = (unsigned)(hash3(p.seed, OBJECTS, number) & 255);
    snprintf(out, PATH_BYTES, ".git/objects/%02x/%038llu", first, (unsigned long long)number);
}
static uint64_t file_bytes(uint64_t number) { /* a version is at most a tenth smaller or larger than the first one */
    uint64_t first = tree_size(&sizes, number % sizes.files), own = hash3(p.seed, SIZES, number);
    return file[number].version > 1 ? first * (900 + (own ^ file[number].version) % 201) / 1000 : first;
}
/* Blobs, trees and commits, compressed: a quarter of the size of a file. */
static uint64_t object_bytes(uint64_t number) {
    return OBJECT_BYTES + tree_size(&sizes, hash3(p.seed, OBJECTS, number) % sizes.files) / 4;
}

/* ---- changing what is there ---------------------------------------------------------------------------------------
 */
static bool real; /* or only the history */
static uint64_t bytes, most; /* that are there, and were at most */
static int failed(const char *what, const char *path) {
    int error = errno;
    return broken("cannot %s %s: %s", what, path, reason(error));
}
static uint64_t key_of(const char *path, uint64_t version) {
    uint64_t sum = p.seed;
    for (const char *at = path; *at; at++) sum = hash3(sum, KEYS, (uint8_t)*at);
    return stream_key(sum, version, 0);
}
static int write_file(const char *path, uint64_t key, int flags, uint64_t from, uint64_t to) {
    uint64_t done;
    if (!real) return 0;
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | flags, 0644);
    if (fd < 0) return failed("create", path);
    if (from && lseek(fd, (off_t)from, SEEK_SET) < 0) return failed("append to", path);
    errno = stream_write(fd, key, from, to, RECORD, &done);
    if (errno) return failed("write", path);
    return close(fd) ? failed("close", path) : 0;
}
/* Under a temporary name, which is then renamed. */
static int put_by_rename(const char *path, const char *temporary, uint64_t key, uint64_t size) {
    if (write_file(temporary, key, O_EXCL, 0, size)) return 1;
    return real && rename(temporary, path) ? failed("rename to", path) : 0;
}
static int make_folder(const char *path) {
    if (real && mkdir(path, 0755) && errno != EEXIST) return failed("make", path);
    return 0;
}
static int enter_folder(uint64_t folder) { /* one more is inside */
    char path[PATH_BYTES];
    if (inside[folder]++ || !folder) return 0;
    if (enter_folder(parent(folder))) return 1;
    put_folder(folder, path);
    return make_folder(path);
}
static int leave_folder(uint64_t folder) {
    char path[PATH_BYTES];
    if (--inside[folder] || !folder) return 0;
    put_folder(folder, path);
    if (real && rmdir(path)) return failed("remove", path);
    return leave_folder(parent(folder));
}
static int store_object(uint64_t size, const char *name) {
    char path[PATH_BYTES], folder[PATH_BYTES], temporary[PATH_BYTES + 16];
    bytes += size;
    if (!real) return 0;
    snprintf(path, sizeof path, "%s", name);
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(path, '/') - path), path);
    snprintf(temporary, sizeof temporary, "%.900s/tmp_obj", folder);
    return make_folder(folder) || put_by_rename(path, temporary, key_of(path, 0), size);
}
static int store_next(void) {
    char path[PATH_BYTES];
    put_object(objects, path);
    return store_object(object_bytes(objects++), path);
}

static int by_path(const void *one, const void *other) {
    char a[PATH_BYTES], b[PATH_BYTES];
    put_file(*(const uint32_t *)one, a), put_file(*(const uint32_t *)other, b);
    return strcmp(a, b);
}
static int remove_file(uint64_t number) {
    char path[PATH_BYTES];
    put_file(number, path);
    bytes -= file_bytes(number);
    return real && unlink(path) ? failed("remove", path) : 0;
}
static int make_file(uint64_t number) { /* its next version */
    char path[PATH_BYTES];
    put_file(number, path);
    file[number].version++;
    bytes += file_bytes(number);
    if (bytes > most) most = bytes;
    return write_file(path, key_of(path, file[number].version), O_EXCL, 0, file_bytes(number));
}
static uint64_t new_file(void) { /* after the clone one in eight gets a folder of its own */
    uint64_t place = pull && !roll(8) ? folders++ : hash3(p.seed, PLACES, files) % folders;
    file[files] = (struct file){.folder = (uint32_t)place, .pull = (uint32_t)pull, .there = true};
    live++;
    return files++;
}
static uint64_t chosen(void) { /* a file that is there; the smaller its number, the more often it changes */
    for (;;) {
        uint64_t one = roll(files), other = roll(files), number = one < other ? one : other;
        if (file[number].there) return number;
    }
}
/* Refs, index and log: all but the log are replaced by every pull. */
static const struct state {
    const char *path;
    uint64_t bytes;
    bool a_file, grows;
} state[] = {
    {".git/FETCH_HEAD", 160, false, false},
    {".git/ORIG_HEAD", 41, false, false},
    {".git/refs/heads/main", 41, false, false},
    {".git/index", 72, true, false},
    {".git/logs/HEAD", 160, false, true},
};
enum { STATES = sizeof state / sizeof *state };
static uint64_t state_bytes(const struct state *s) { return s->bytes * (s->a_file ? live : s->grows ? pull + 1 : 1); }
static int store_state(void) {
    for (const struct state *s = state; s < state + STATES; s++) {
        uint64_t size = state_bytes(s);
        if (s->grows ? write_file(s->path, key_of(s->path, 0), 0, size - s->bytes, size)
                     : put_by_rename(s->path, ".git/lock", key_of(s->path, pull), size))
            return 1;
    }
    return 0;
}
static int synced(void) {
    int fd = real ? open(".", O_RDONLY | O_DIRECTORY) : -1;
    if (real && (fd < 0 || syncfs(fd))) return failed("sync", p.folder);
    return real ? close(fd) : 0;
}

static int clone_tree(void) {
    static const char *const own[] = {
        ".git", ".git/objects", ".git/objects/pack", ".git/refs", ".git/refs/heads", ".git/logs"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (make_folder(own[i])) return 1;
    for (uint64_t i = 0; i < p.files; i++) pack += file_bytes(new_file()) / 4;
    if (store_object(pack, PACK)) return 1;
    uint32_t *order = malloc(p.files * sizeof *order);
    for (uint64_t i = 0; order && i < p.files; i++) order[i] = (uint32_t)i;
    if (!order) return broken("no memory");
    if (real) qsort(order, p.files, sizeof *order, by_path);
    int code = 0;
    for (uint64_t i = 0; !code && i < p.files; i++) code = enter_folder(file[order[i]].folder) || make_file(order[i]);
    free(order);
    return code || store_state() || synced();
}
/* To the working copy, in the order of the paths: what is gone, then what is new or another version. */
static int check_out(uint32_t *gone, uint64_t removed, uint32_t *other, uint64_t made) {
    if (real) qsort(gone, removed, sizeof *gone, by_path), qsort(other, made, sizeof *other, by_path);
    for (uint64_t i = 0; i < removed; i++)
        if (remove_file(gone[i])) return 1;
    for (uint64_t i = 0; i < removed; i++)
        if (leave_folder(file[gone[i]].folder)) return 1;
    for (uint64_t i = 0; i < made; i++) {
        struct file *own = &file[other[i]];
        if (own->version ? remove_file(other[i]) : enter_folder(own->folder)) return 1;
        if (make_file(other[i])) return 1;
    }
    return 0;
}
static int pull_once(uint32_t *gone, uint32_t *other) {
    uint64_t removed = 0, made = 0;
    for (uint64_t i = 0; i < p.changes; i++) {
        uint64_t what = roll(100), number = what < NEW ? new_file() : chosen();
        if (what >= NEW && file[number].pull == pull) continue; /* changed by this pull already */
        file[number].pull = (uint32_t)pull;
        file[number].there = what < NEW || what >= NEW + GONE || live == 1;
        if (file[number].there) other[made++] = (uint32_t)number;
        else gone[removed++] = (uint32_t)number, live--;
        if (store_next() || store_next()) return 1; /* the file, and the folder that it is in */
    }
    return store_next() /* the commit */ || check_out(gone, removed, other, made) || store_state() || synced();
}

/* All that happened, for real or not. */
static int history(bool for_real) {
    uint64_t most_files = p.files + p.pulls * p.changes;
    real = for_real, folders = p.files / IN_FOLDER + 1;
    sizes = (struct tree){.seed = p.seed,
        .files = p.files,
        .size_max = p.largest,
        .size_median = (double)p.median,
        .size_sigma = p.sigma};
    file = calloc(most_files, sizeof *file), inside = calloc(folders + most_files - p.files, sizeof *inside);
    uint32_t *gone = calloc(2 * p.changes, sizeof *gone);
    if (!file || !inside || !gone) return broken("no memory for %llu files", (unsigned long long)most_files);
    int code = clone_tree();
    for (pull = 1; !code && pull <= p.pulls; pull++) code = pull_once(gone, gone + p.changes);
    pull--;
    free(gone);
    return code;
}

/* ---- what is there now ----------------------------------------------------------------------------------------------
 */
static uint64_t number_in(const char *path, const char *before, int base) {
    const char *name = strrchr(path, '/');
    name = name ? name + 1 : path;
    return strncmp(name, before, strlen(before)) ? UINT64_MAX : strtoull(name + strlen(before), NULL, base);
}
/* Key and size of a file; false: nothing of that name should be there. */
static bool expected(const char *path, uint64_t *key, uint64_t *size) {
    char same[PATH_BYTES] = "";
    uint64_t number = number_in(path, "file-", 16), version = 0;
    if (number < files && file[number].there) {
        put_file(number, same), version = file[number].version, *size = file_bytes(number);
    } else if (!strcmp(path, PACK)) {
        *size = pack, snprintf(same, sizeof same, "%s", path);
    } else if (!strncmp(path, ".git/objects/", 13) && (number = number_in(path, "", 10)) < objects) {
        put_object(number, same), *size = object_bytes(number);
    } else {
        for (const struct state *s = state; s < state + STATES; s++)
            if (!strcmp(path, s->path))
                version = s->grows ? 0 : pull, *size = state_bytes(s), snprintf(same, sizeof same, "%s", path);
    }
    *key = key_of(path, version);
    return !strcmp(path, same);
}

struct entry {
    ino_t inode;
    bool folder;
    char name[256];
};
static int by_inode(const void *one, const void *other) {
    const struct entry *a = one, *b = other;
    return a->inode < b->inode ? -1 : a->inode > b->inode;
}
static struct entry *entries_of(const char *folder, size_t *n) { /* as cp reads them; NULL: cannot be read */
    struct entry *found = NULL;
    DIR *d = opendir(folder);
    *n = 0;
    for (struct dirent *e; d && (e = readdir(d));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        struct entry *more = *n & (*n + 1) ? found : realloc(found, (2 * *n + 2) * sizeof *found);
        if (!more) return NULL;
        found = more;
        found[*n].inode = e->d_ino, found[*n].folder = e->d_type == DT_DIR;
        snprintf(found[(*n)++].name, sizeof found->name, "%s", e->d_name);
    }
    if (d) closedir(d);
    if (found) qsort(found, *n, sizeof *found, by_inode);
    return d ? found : NULL;
}
static struct {
    FILE *list; /* is written; without one, everything is compared */
    uint64_t files, folders, bytes, digest;
} now;
static int visit(const char *path, bool folder) {
    uint64_t key = key_of(path, 0), size = 0, there = 0;
    if (now.list) return fprintf(now.list, "%s%s\n", path, folder ? "/" : "") < 0 ? failed("write", p.list) : 0;
    if (folder) {
        now.folders += strncmp(path, ".git", 4) != 0;
    } else {
        if (!expected(path, &key, &size)) return broken("%s should not be there", path);
        if (stream_compare(path, key, size, false, &there)) return 1;
        now.files++, now.bytes += there;
    }
    now.digest += hash3(key, size, folder);
    return 0;
}
static int walk(const char *folder) {
    size_t n;
    struct entry *entries = entries_of(*folder ? folder : ".", &n);
    int code = entries || !n ? 0 : failed("read", folder);
    for (size_t i = 0; !code && i < n; i++) {
        char path[PATH_BYTES];
        snprintf(path, sizeof path, "%.700s%s%s", folder, *folder ? "/" : "", entries[i].name);
        code = visit(path, entries[i].folder) || (entries[i].folder && walk(path));
    }
    free(entries);
    return code;
}

static int verify(void) {
    uint64_t left = 0;
    if (history(false) || walk("")) return 1;
    for (uint64_t i = 1; i < folders; i++) left += inside[i] > 0;
    if (now.files != live + objects + 1 + STATES || now.folders != left)
        return broken("there are %llu files and %llu folders, not %llu and %llu", (unsigned long long)now.files,
            (unsigned long long)now.folders, (unsigned long long)(live + objects + 1 + STATES),
            (unsigned long long)left);
    printf("%llu files, %llu folders and %llu bytes are as they were written, digest %016llx\n",
        (unsigned long long)now.files, (unsigned long long)now.folders, (unsigned long long)now.bytes,
        (unsigned long long)now.digest);
    return 0;
}
static int copy(FILE *list) {
    char path[PATH_BYTES];
    uint64_t key, size;
    int code = history(false);
    for (real = true; !code && fgets(path, sizeof path, list);) {
        size_t n = strcspn(path, "\n");
        path[n] = 0;
        if (n && path[n - 1] == '/') code = make_folder(path);
        else if (expected(path, &key, &size)) code = write_file(path, key, O_EXCL, 0, size);
        else code = broken("%s has %s, which is not of these pulls", p.copy, path);
    }
    fclose(list);
    return code;
}

/* ---- arguments ------------------------------------------------------------------------------------------------------
 */
static int prepare(void) {
    if (!p.files && !p.list) return wrong("--files must be given");
    if (!p.folder) return wrong("the folder of the working copy must be given");
    if (!!p.list + !!p.copy + p.verify > 1) return wrong("--list, --copy and --verify exclude one another");
    return 0;
}
static int check(void) {
    if (p.list || p.verify) return needs(0, 0);
    if (history(false)) return 1;
    for (const struct state *s = state; s < state + STATES; s++) most += state_bytes(s);
    return needs(most, live + objects + folders + STATES);
}
static int run(void) {
    FILE *list = p.copy ? fopen(p.copy, "r") : NULL;
    if (p.copy && !list) return failed("read", p.copy);
    if (p.list && !(now.list = fopen(p.list, "w"))) return failed("write", p.list);
    if (!p.list && !p.verify && mkdir(p.folder, 0755)) return failed("make", p.folder);
    if (stream_enter(p.folder)) return 1;
    if (p.list) return walk("") || fclose(now.list) ? broken("cannot write %s", p.list) : 0;
    if (!stream_open_pool(p.seed, RECORD, false)) return broken("no memory for the content");
    if (p.verify) return verify();
    return p.copy ? copy(list) : history(true);
}

const struct program program = {"pulls",
    "Makes a working copy and updates it by pulls, as git does; copies it in order.", OPTIONS(options), prepare, check,
    run};
