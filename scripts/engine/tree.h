/* A synthetic tree: every name, size and content follows from (seed, index), so ten million files need no memory. */
#ifndef REPROFS_TREE_H
#define REPROFS_TREE_H

#include <stddef.h>
#include <stdint.h>

enum { PATH_BYTES = 1024 };
struct tree {
    char root[PATH_BYTES];
    uint64_t seed, files, directories, fan_out;
    uint64_t size_max;
    double size_median, size_sigma;
    unsigned generation; /* names change when files are renamed */
};
struct content { /* what a file holds: a header of its own, then a slice of the seeded pool */
    uint64_t header[2], size, offset;
};
enum { POOL_BYTES = 1 << 21, POOL_STEP = 1 << 20 };
void tree_pool(uint64_t seed); /* fills the pool */
const uint8_t *pool_at(uint64_t offset);
uint64_t tree_size(const struct tree *t, uint64_t file); /* bytes of a file; their sum is the same for every seed */
struct content tree_content(const struct tree *t, uint64_t file, uint64_t size);
size_t tree_directory(const struct tree *t, uint64_t dir, char *out); /* path below root, without trailing slash */
size_t tree_file(const struct tree *t, uint64_t file, char *out); /* path below root */
uint64_t hash3(uint64_t seed, uint64_t stream, uint64_t i); /* 64 random bits, a pure function */
uint64_t permute(uint64_t seed, uint64_t n, uint64_t i); /* bijection of 0..n-1 */

#endif
