/* What the programs that write and read long files share: content, writing, comparing. */
#ifndef REPROFS_STREAM_H
#define REPROFS_STREAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Incompressible: from a pool of random bytes, entered at another place for every file; the first word of every 4 KiB
 * is a stamp of its own. So no two blocks are equal (nothing to deduplicate), and a block in the wrong place is found.
 * A key names a file's content. It is made in place: writing copies nothing. */
enum { STREAM_BLOCK = 4096, STREAM_POOL = 1 << 20, STREAM_LONGEST = 1 << 30 };
/* longest: bytes of the largest call; of_zeros: all content is zeros; false: no memory */
bool stream_open_pool(uint64_t seed, uint64_t longest, bool of_zeros);
uint64_t stream_key(uint64_t seed, uint64_t file, unsigned generation);
const uint8_t *stream_content(uint64_t key, uint64_t at, size_t n); /* aligned to 4 KiB where `at` is */

/* Writes bytes `from` to `to` of the content in calls of `record` bytes. Returns 0 or errno; *done: bytes accepted. */
int stream_write(int fd, uint64_t key, uint64_t from, uint64_t to, uint64_t record, uint64_t *done);
/* Reads on from where the file stands, at most `want` bytes in calls of `record` bytes, until the end of the file. */
int stream_read(int fd, uint8_t *buffer, uint64_t want, uint64_t record, uint64_t *done);
uint8_t *stream_buffer(uint64_t bytes); /* aligned memory that is there; NULL: none */
/* Compares a file with its content. Returns 0, or says the first difference and returns 1. `size` may be the most it
 * holds. */
int stream_compare(const char *name, uint64_t key, uint64_t size, bool may_be_short, uint64_t *bytes);
/* Flushes a file and takes its pages out of memory. Returns 0 or errno. */
int stream_evict(int fd);
int stream_failed(const char *what, const char *name, int error); /* says what failed, returns 1 */
int stream_enter(const char *folder); /* changes into it unless it is NULL; returns 0, or what `broken` returned */
double stream_mb_s(uint64_t bytes, uint64_t wall_ns);

#endif
