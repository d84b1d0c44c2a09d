/* Comparing what was read with what was written. */
#ifndef REPROFS_SAME_H
#define REPROFS_SAME_H

#include <stddef.h>
#include <stdint.h>

/* How many bytes two places have in common from their beginning on; by words, since musl's memcmp goes byte by byte. */
static inline size_t same_bytes(const void *one, const void *two, size_t n) {
    typedef uint64_t __attribute__((aligned(1), may_alias)) word;
    const uint8_t *a = one, *b = two;
    size_t i = 0;
    while (i + sizeof(word) <= n && *(const word *)(a + i) == *(const word *)(b + i)) i += sizeof(word);
    while (i < n && a[i] == b[i]) i++;
    return i;
}

#endif
