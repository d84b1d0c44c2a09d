/* Writes random DNA, with the semantics of the data writer of the same name (Fred Hutch).
 *
 * A buffer of random G, A, T, C is made once, before the clock starts. Each file holds 1 to M copies of it, all files
 * go to one sub-directory: DIR/scratch-dna_<8 digits from the seed>/<the same>-<number>-<copies>.txt. Nothing is
 * flushed. The number of copies is a pure function of seed and file number, so the files are the same for any number of
 * workers. */
#define _GNU_SOURCE
#include "clients.h"
#include "measure.h"
#include "program.h"
#include "same.h"
#include "samples.h"
#include "tree.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LETTERS = 2000, COPIES, NAME, WORKERS_MAX = 1024 };

static struct {
    uint64_t workers, seed, files, bytes, copies;
    bool verbose, verify;
    const char *dir;
    char same[32], folder[PATH_MAX];
    uint8_t *dna;
    struct { atomic_ullong files, bytes; } *done; /* of all workers, shared */
} d = {.workers = 1};

static const struct option options[] = {
    NUMBER("-p", d.workers, 1, WORKERS_MAX, "workers, processes of their own"),
    FLAG("-v", d.verbose, "say every second how far it is"),
    NUMBER("--seed", d.seed, 0, UINT64_MAX, "of the letters and of the numbers of copies"),
    FLAG("--verify", d.verify, "compare what is there with what was written"),
    NUMBER("number-of-files", d.files, 1, 1000000000, "files"),
    NUMBER("file-size-bytes", d.bytes, 1, 1 << 30, "bytes of one copy"),
    NUMBER("random-multiplier", d.copies, 1, 1000000000, "copies in a file, at most"),
    WORD("dir", d.dir, "folder to work in"),
};

static uint64_t copies_of(uint64_t file) {
    return 1 + (uint64_t)((unsigned __int128)hash3(d.seed, COPIES, file) * d.copies >> 64);
}
static void put_path(char *out, uint64_t file, uint64_t copies) {
    snprintf(
        out, PATH_MAX, "%s/%s-%llu-%llu.txt", d.folder, d.same, (unsigned long long)file, (unsigned long long)copies);
}

static bool make_dna(void) {
    if (!(d.dna = malloc(d.bytes))) return false;
    for (uint64_t i = 0, h = 0; i < d.bytes; i++, h >>= 2) {
        if (i % 32 == 0) h = hash3(d.seed, LETTERS, i / 32);
        d.dna[i] = (uint8_t)"GATC"[h & 3];
    }
    return true;
}

static bool write_file(const char *path, uint64_t copies) {
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0644);
    if (fd < 0) return false;
    for (uint64_t i = 0; i < copies; i++) {
        ssize_t n = 0;
        for (uint64_t done = 0; done < d.bytes; done += (uint64_t)n)
            if ((n = write(fd, d.dna + done, d.bytes - done)) <= 0) {
                int error = n ? errno : ENOSPC;
                close(fd);
                errno = error;
                return false;
            }
    }
    return !close(fd);
}

static void print_rates(const char *word, uint64_t ns, uint64_t files, uint64_t bytes) {
    double s = (double)ns / 1e9, mib = (double)bytes / (1 << 20);
    printf("%s: %.6f s, %llu files, %.6f GiB, %.3f FPS, %.3f MiB/s\n", word, s, (unsigned long long)files, mib / 1024,
        s > 0 ? (double)files / s : 0, s > 0 ? mib / s : 0);
}

static void write_files(unsigned number, void *what, struct client *c) {
    (void)what;
    static char path[PATH_MAX];
    uint64_t second = 1;
    for (uint64_t file = number; file < d.files; file += d.workers) {
        uint64_t copies = copies_of(file);
        put_path(path, file, copies);
        if (!write_file(path, copies)) {
            c->error = errno;
            snprintf(c->where, sizeof c->where, "%s", path);
            return;
        }
        c->items++;
        c->bytes += copies * d.bytes;
        if (!d.verbose) continue;
        uint64_t files = atomic_fetch_add(&d.done->files, 1) + 1,
                 bytes = atomic_fetch_add(&d.done->bytes, copies * d.bytes) + copies * d.bytes;
        uint64_t ns = now_ns() - c->start;
        if (number == 0 && ns >= second * 1000000000u) { /* one worker tells, of all */
            print_rates("Cur", ns, files, bytes);
            fflush(stdout);
            second = ns / 1000000000u + 1;
        }
    }
}

static int write_dna(void) {
    if (mkdir(d.dir, 0755) && errno != EEXIST) return broken("cannot create %s: %s", d.dir, strerror(errno));
    if (mkdir(d.folder, 0755))
        return errno == EEXIST ? broken("%s is already there; take another --seed or folder", d.folder)
                               : broken("cannot create %s: %s", d.folder, strerror(errno));
    d.done = mmap(NULL, sizeof *d.done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (d.done == MAP_FAILED) return broken("no memory: %s", strerror(errno));
    unsigned n = (unsigned)d.workers;
    struct client *c = clients_run(n, write_files, NULL);
    if (!c) return broken("cannot start %u workers: %s", n, strerror(errno));
    uint64_t first = UINT64_MAX, last = 0, files = 0, bytes = 0;
    int code = 0;
    for (unsigned i = 0; i < n; i++) {
        if (c[i].error == ECHILD && !code) code = broken("worker %u died", i);
        else if (c[i].error && !code) code = broken("cannot write %s: %s", c[i].where, reason(c[i].error));
        if (c[i].start < first) first = c[i].start;
        if (c[i].end > last) last = c[i].end;
        files += c[i].items;
        bytes += c[i].bytes;
    }
    if (!code) {
        for (unsigned i = 0; i < n; i++)
            sample_put(SAMPLE(.name = "write", .start_ns = c[i].start - program_began, .wall_ns = c[i].end - c[i].start,
                .items = c[i].items, .bytes = c[i].bytes, .client = i));
        double s = (double)(last - first) / 1e9, mib = (double)bytes / (1 << 20);
        printf("Number of files: %llu\nTotal GiB: %.6f\nAvg FPS: %.3f\nAvg MiB/s: %.3f\nElapsed seconds: %.6f\n",
            (unsigned long long)files, mib / 1024, s > 0 ? (double)files / s : 0, s > 0 ? mib / s : 0, s);
    }
    clients_free(c, n);
    return code;
}

/* One file, of the right length and content. buffer: a byte larger than a copy. */
static int verify_file(const char *path, uint64_t copies, uint8_t *buffer) {
    int fd = open(path, O_RDONLY | O_NOFOLLOW);
    if (fd < 0) return broken("%s should be there: %s", path, strerror(errno));
    uint64_t done = 0;
    for (uint64_t i = 0; i <= copies; i++) { /* the last read finds the end of the file */
        uint64_t have = 0, want = i < copies ? d.bytes : 0;
        ssize_t n = 0;
        while (have < d.bytes && (n = read(fd, buffer + have, d.bytes - have)) > 0) have += (uint64_t)n;
        if (n < 0) return broken("cannot read %s: %s", path, strerror(errno));
        uint64_t same = same_bytes(buffer, d.dna, have < want ? have : want);
        if (have != want || same < want)
            return broken("%s is not what was written, from byte %llu on", path, (unsigned long long)(done + same));
        done += have;
    }
    close(fd);
    return 0;
}

/* Every file, and nothing else. */
static int verify(void) {
    static char path[PATH_MAX];
    uint8_t *buffer = malloc(d.bytes + 1);
    if (!buffer) return broken("no memory for %llu bytes", (unsigned long long)d.bytes);
    for (uint64_t file = 0; file < d.files; file++) {
        uint64_t copies = copies_of(file);
        put_path(path, file, copies);
        if (verify_file(path, copies, buffer)) return 1;
    }
    free(buffer);
    DIR *folder = opendir(d.folder);
    if (!folder) return broken("cannot read %s: %s", d.folder, strerror(errno));
    uint64_t names = 0;
    while (readdir(folder)) names++;
    closedir(folder);
    if (names != d.files + 2)
        return broken(
            "%s has %llu names, not %llu", d.folder, (unsigned long long)names - 2, (unsigned long long)d.files);
    printf("%llu files: as written\n", (unsigned long long)d.files);
    return 0;
}

static int prepare(void) {
    if (d.workers > d.files)
        return wrong(
            "%llu workers are more than the %llu files", (unsigned long long)d.workers, (unsigned long long)d.files);
    if (strlen(d.dir) + 100 > PATH_MAX) return wrong("the folder's path is too long");
    snprintf(d.same, sizeof d.same, "scratch-dna_%08llu", (unsigned long long)(hash3(d.seed, NAME, 0) % 100000000));
    snprintf(d.folder, sizeof d.folder, "%.*s/%s", PATH_MAX - 64, d.dir, d.same);
    return 0;
}

static int check(void) {
    unsigned __int128 bytes = 0; /* what the files will have, to the byte */
    for (uint64_t file = 0; d.files <= 10000000 && file < d.files; file++)
        bytes += (unsigned __int128)copies_of(file) * d.bytes;
    if (d.files > 10000000) bytes = (unsigned __int128)d.files * d.bytes * d.copies;
    if (bytes > INT64_MAX) return wrong("the files need more than 2^63 bytes");
    return needs((uint64_t)bytes, d.files + 1);
}

static int run(void) {
    if (!make_dna()) return broken("no memory for %llu bytes", (unsigned long long)d.bytes);
    return d.verify ? verify() : write_dna();
}

const struct program program = {
    "scratch-dna", "Files of random DNA in one folder.", OPTIONS(options), prepare, check, run};
