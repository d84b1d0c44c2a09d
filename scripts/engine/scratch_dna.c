/* engine scratch-dna: writes random DNA, with the semantics of the data writer of the same name (Fred Hutch).
 *
 * A buffer of random G, A, T, C is made once, before the clock starts. Each file holds 1 to M copies of it, all files
 * go to one sub-directory: DIR/scratch-dna_<8 digits from the seed>/<the same>-<number>-<copies>.txt. Nothing is
 * flushed. The number of copies is a pure function of seed and file number, so the files are the same for any number of
 * workers. */
#define _GNU_SOURCE
#include "programs.h"
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
    bool verbose, check, verify;
    const char *dir;
    char same[32], folder[PATH_MAX];
    uint8_t *dna;
    uint64_t start;
    struct { atomic_ullong files, bytes; } *done; /* of all workers, shared */
} d;

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

static int run(void) {
    if (mkdir(d.dir, 0755) && errno != EEXIST)
        return broken("scratch-dna: cannot create %s: %s", d.dir, strerror(errno));
    if (mkdir(d.folder, 0755))
        return errno == EEXIST ? broken("scratch-dna: %s is already there; take another --seed or folder", d.folder)
                               : broken("scratch-dna: cannot create %s: %s", d.folder, strerror(errno));
    d.done = mmap(NULL, sizeof *d.done, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (d.done == MAP_FAILED) return broken("scratch-dna: no memory: %s", strerror(errno));
    unsigned n = (unsigned)d.workers;
    struct client *c = clients_run(n, write_files, NULL);
    if (!c) return broken("scratch-dna: cannot start %u workers: %s", n, strerror(errno));
    uint64_t first = UINT64_MAX, last = 0, files = 0, bytes = 0;
    int code = 0;
    for (unsigned i = 0; i < n; i++) {
        if (c[i].error == ECHILD && !code) code = broken("scratch-dna: worker %u died", i);
        else if (c[i].error && !code)
            code = broken("scratch-dna: cannot write %s: %s", c[i].where,
                c[i].error == ENOSPC ? "no space left on the device" : strerror(c[i].error));
        if (c[i].start < first) first = c[i].start;
        if (c[i].end > last) last = c[i].end;
        files += c[i].items;
        bytes += c[i].bytes;
    }
    if (!code) {
        for (unsigned i = 0; i < n; i++)
            sample_put(SAMPLE(.name = "write", .start_ns = c[i].start - d.start, .wall_ns = c[i].end - c[i].start,
                .items = c[i].items, .bytes = c[i].bytes, .client = i));
        double s = (double)(last - first) / 1e9, mib = (double)bytes / (1 << 20);
        printf("Number of files: %llu\nTotal GiB: %.6f\nAvg FPS: %.3f\nAvg MiB/s: %.3f\nElapsed seconds: %.6f\n",
            (unsigned long long)files, mib / 1024, s > 0 ? (double)files / s : 0, s > 0 ? mib / s : 0, s);
    }
    clients_free(c, n);
    return code;
}

/* Every file, of the right name, length and content, and nothing else. */
static int verify(void) {
    static char path[PATH_MAX];
    uint8_t *buffer = malloc(d.bytes + 1);
    if (!buffer) return broken("scratch-dna: no memory for %llu bytes", (unsigned long long)d.bytes);
    for (uint64_t file = 0; file < d.files; file++) {
        uint64_t copies = copies_of(file), done = 0, want = d.bytes;
        put_path(path, file, copies);
        int fd = open(path, O_RDONLY | O_NOFOLLOW);
        if (fd < 0) return broken("scratch-dna: %s should be there: %s", path, strerror(errno));
        for (uint64_t i = 0; i <= copies; i++) { /* the last read finds the end of the file */
            uint64_t have = 0;
            ssize_t n = 0;
            want = i < copies ? d.bytes : 0;
            while (have < d.bytes && (n = read(fd, buffer + have, d.bytes - have)) > 0) have += (uint64_t)n;
            if (n < 0) return broken("scratch-dna: cannot read %s: %s", path, strerror(errno));
            if (have != want || memcmp(buffer, d.dna, want)) {
                uint64_t byte = 0;
                while (byte < have && byte < want && buffer[byte] == d.dna[byte]) byte++;
                return broken("scratch-dna: %s is not what was written, from byte %llu on", path,
                    (unsigned long long)(done + byte));
            }
            done += have;
        }
        close(fd);
    }
    free(buffer);
    DIR *folder = opendir(d.folder);
    if (!folder) return broken("scratch-dna: cannot read %s: %s", d.folder, strerror(errno));
    uint64_t names = 0;
    while (readdir(folder)) names++;
    closedir(folder);
    if (names != d.files + 2)
        return broken("scratch-dna: %s has %llu names, not %llu", d.folder, (unsigned long long)names - 2,
            (unsigned long long)d.files);
    printf("%llu files: as written\n", (unsigned long long)d.files);
    return 0;
}

static int parse(int argc, char **argv) {
    d.workers = 1;
    static const char *const names[] = {"number-of-files", "file-size-bytes", "random-multiplier"};
    uint64_t *const values[] = {&d.files, &d.bytes, &d.copies};
    static const uint64_t most[] = {1000000000, 1 << 30, 1000000000};
    unsigned given = 0;
    for (int i = 1; i < argc; i++) {
        const char *word = argv[i];
        if (!strcmp(word, "-v")) d.verbose = true;
        else if (!strcmp(word, "--check")) d.check = true;
        else if (!strcmp(word, "--verify")) d.verify = true;
        else if (!strcmp(word, "-p") || !strcmp(word, "--seed")) {
            bool seed = word[1] == '-';
            const char *value = i + 1 < argc ? argv[++i] : "";
            if (!parse_number(value, seed ? &d.seed : &d.workers) || (!seed && (!d.workers || d.workers > WORKERS_MAX)))
                return wrong("scratch-dna: %s must be a whole number%s, not %s", word, seed ? "" : " from 1 to 1024",
                    *value ? value : "nothing");
        } else if (given < 3 && (word[0] != '-' || (word[1] >= '0' && word[1] <= '9'))) {
            if (!parse_number(word, values[given]) || !*values[given] || *values[given] > most[given])
                return wrong("scratch-dna: %s must be a whole number from 1 to %llu, not %s", names[given],
                    (unsigned long long)most[given], word);
            given++;
        } else if (word[0] == '-')
            return wrong("scratch-dna: unknown option %s; known are -p -v --seed --check --verify", word);
        else if (given == 3 && *word) d.dir = word, given++;
        else return wrong("scratch-dna: %s is one argument too many", word);
    }
    if (given < 4)
        return wrong("scratch-dna: usage: scratch-dna [-p N] [-v] [--seed S] number-of-files file-size-bytes "
                     "random-multiplier dir");
    if (d.workers > d.files)
        return wrong("scratch-dna: %llu workers are more than the %llu files", (unsigned long long)d.workers,
            (unsigned long long)d.files);
    if (strlen(d.dir) + 100 > PATH_MAX) return wrong("scratch-dna: the folder's path is too long");
    snprintf(d.same, sizeof d.same, "scratch-dna_%08llu", (unsigned long long)(hash3(d.seed, NAME, 0) % 100000000));
    snprintf(d.folder, sizeof d.folder, "%.*s/%s", PATH_MAX - 64, d.dir, d.same);
    return 0;
}

static int scratch_dna(int argc, char **argv) {
    d.start = program_began();
    int code = parse(argc, argv);
    if (code) return code;
    if (d.check) {
        unsigned __int128 bytes = 0; /* what the files will have, to the byte */
        for (uint64_t file = 0; d.files <= 10000000 && file < d.files; file++)
            bytes += (unsigned __int128)copies_of(file) * d.bytes;
        if (d.files > 10000000) bytes = (unsigned __int128)d.files * d.bytes * d.copies;
        if (bytes > INT64_MAX) return wrong("scratch-dna: the files need more than 2^63 bytes");
        printf("{\"bytes\":%llu,\"names\":%llu}\n", (unsigned long long)bytes, (unsigned long long)d.files + 1);
        return 0;
    }
    if (!make_dna()) return broken("scratch-dna: no memory for %llu bytes", (unsigned long long)d.bytes);
    return d.verify ? verify() : run();
}

PROGRAM("scratch-dna", scratch_dna);
