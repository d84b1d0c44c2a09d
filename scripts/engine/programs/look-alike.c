/* Makes a tree whose sizes, depths, fan-out and links are distributed as in a profile (workflow/trees).
 *
 * A profile describes a tree level by level: how many folders a level has, how many files, symbolic and hard links are
 * in them, and how sub-folders and entries are distributed over its folders. With another number of files all counts
 * scale. Every draw is stratified: number i of n takes the quantile (k + 1/2) / n, where k is i's place in a seeded
 * permutation. So small trees have the profile's distributions too, and seeds change who is large, not how many are.
 * Memory: 8 bytes a folder.
 *
 * The parts are one translation unit: in several its bytes would not be those of published records. */
#define _GNU_SOURCE
#include "look-alike/content.h"
#include "look-alike/distributions.h"
#include "look-alike/names.h"
#include "look-alike/shape.h"
#include "measure.h"
#include "program.h"
#include "samples.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
