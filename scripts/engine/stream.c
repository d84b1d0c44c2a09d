/* What the programs that write and read long files share. */
#define _GNU_SOURCE
#include "stream.h"
#include "program.h"
#include "same.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { COMPARED = 1 << 16 }; /* bytes compared at a time */
/* STREAM_POOL random bytes, repeated as far as the longest call from the last of them reaches; or zeros */
static uint8_t *pool;
static bool zeros;

uint8_t *stream_buffer(uint64_t bytes) {
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

bool stream_open_pool(uint64_t seed, uint64_t longest, bool of_zeros) {
    enum { WORDS = STREAM_POOL / 8 };
    uint64_t bytes = STREAM_POOL + (longest > COMPARED ? longest : COMPARED) + STREAM_BLOCK,
             r = hash3(seed, 0x73747265, 0) | 1;
    if (!(pool = stream_buffer(bytes))) return false;
    if ((zeros = of_zeros)) return true;
    uint64_t *word = (uint64_t *)(void *)pool;
    for (size_t i = 0; i < WORDS; i++) {
        r ^= r << 13, r ^= r >> 7, r ^= r << 17; /* xorshift64 (G. Marsaglia, 2003) */
        word[i] = r;
    }
    for (uint64_t at = STREAM_POOL; at < bytes; at += STREAM_POOL)
        memcpy(pool + at, pool, bytes - at < STREAM_POOL ? bytes - at : STREAM_POOL);
    return true;
}

uint64_t stream_key(uint64_t seed, uint64_t file, unsigned generation) {
    return hash3(seed, 0x6b657900 + generation, file);
}

const uint8_t *stream_content(uint64_t key, uint64_t at, size_t n) {
    uint64_t shift = key % (STREAM_POOL / STREAM_BLOCK) * STREAM_BLOCK;
    uint8_t *start = pool + (at + shift) % STREAM_POOL, *block = start - at % STREAM_BLOCK;
    if (zeros) return start;
    uint64_t stamp = key + at / STREAM_BLOCK * 0x9e3779b97f4a7c15u; /* an odd step: no two blocks of a file agree */
    for (; block < start + n; block += STREAM_BLOCK, stamp += 0x9e3779b97f4a7c15u) memcpy(block, &stamp, sizeof stamp);
    return start;
}

int stream_write(int fd, uint64_t key, uint64_t from, uint64_t to, uint64_t record, uint64_t *done) {
    bool cut = false;
    for (*done = 0; from + *done < to;) {
        uint64_t at = from + *done, left = record - at % record, n = to - at < left ? to - at : left;
        ssize_t written = write(fd, stream_content(key, at, n), n);
        /* Where a call was cut short by the end of the space, direct I/O refuses the odd rest for its odd size. */
        if (written < 0) return cut && errno == EINVAL ? ENOSPC : errno;
        if (written == 0) return ENOSPC;
        cut = (uint64_t)written < n;
        *done += (uint64_t)written;
    }
    return 0;
}

int stream_read(int fd, uint8_t *buffer, uint64_t want, uint64_t record, uint64_t *done) {
    for (*done = 0; *done < want;) {
        uint64_t left = want - *done;
        ssize_t n = read(fd, buffer, left < record ? left : record);
        if (n < 0) return errno;
        if (n == 0) return 0;
        *done += (uint64_t)n;
    }
    return 0;
}

int stream_compare(const char *name, uint64_t key, uint64_t size, bool may_be_short, uint64_t *bytes) {
    static uint8_t buffer[COMPARED];
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return broken("cannot open %s: %s", name, strerror(errno));
    uint64_t at = 0;
    ssize_t n;
    while ((n = read(fd, buffer, sizeof buffer)) > 0) {
        size_t i = same_bytes(buffer, stream_content(key, at, (size_t)n), (size_t)n);
        at += i;
        if (i < (size_t)n || at > size) break;
    }
    int error = n < 0 ? errno : 0;
    close(fd);
    if (error) return broken("cannot read %s: %s", name, strerror(error));
    if (n > 0 && at < size)
        return broken("%s is not what was written, from byte %llu on", name, (unsigned long long)at);
    if (n > 0 || at > size) return broken("%s is longer than the %llu bytes written", name, (unsigned long long)size);
    if (at < size && !may_be_short)
        return broken("%s ends after %llu of %llu bytes", name, (unsigned long long)at, (unsigned long long)size);
    *bytes += at;
    return 0;
}

int stream_evict(int fd) { return fdatasync(fd) ? errno : posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); }

int stream_failed(const char *what, const char *name, int error) {
    return broken("cannot %s %s: %s", what, name, reason(error));
}

int stream_enter(const char *folder) {
    return folder && chdir(folder) ? broken("cannot enter %s: %s", folder, strerror(errno)) : 0;
}

double stream_mb_s(uint64_t bytes, uint64_t wall_ns) { return wall_ns ? (double)bytes * 1e3 / (double)wall_ns : 0; }
