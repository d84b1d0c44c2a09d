/* Names, sizes, contents and order of a synthetic tree, each a pure function of (seed, index). */
#include "tree.h"

#include <math.h>
#include <string.h>

static uint64_t mix(uint64_t x) { /* splitmix64 (S. Vigna, public domain algorithm) */
    x += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}
uint64_t hash3(uint64_t seed, uint64_t stream, uint64_t i) { return mix(mix(seed * 31 + stream) ^ i); }
enum stream { NAMES = 1, SIZES = 64, HEADERS, OFFSETS, DIRECTORIES, POOL };

/* Two digits of base 36 at a time, the lower first: names are made between timed operations and must cost little. */
enum { BASE = 36, PAIRS = BASE * BASE };
static char pairs[PAIRS][2];
__attribute__((constructor)) static void pairs_fill(void) {
    static const char digits[] = "0123456789abcdefghijklmnopqrstuvwxyz";
    for (unsigned i = 0; i < PAIRS; i++) pairs[i][0] = digits[i % BASE], pairs[i][1] = digits[i / BASE];
}

/* 4 to 12 random characters, '_', then the index in base 36: unique, of varied length, in random hash order. */
static size_t put_name(uint64_t h, uint64_t i, char *out) {
    size_t n = 0, length = 4 + (h & 7) + ((h >> 3) & 1);
    for (h >>= 4; n < length; n += 2, h /= PAIRS) memcpy(out + n, pairs[h % PAIRS], 2);
    out[length] = '_'; /* over the second digit of the last pair when the length is odd */
    n = length + 1;
    char low[16];
    size_t k = 0;
    for (; i >= BASE; k += 2, i /= PAIRS) memcpy(low + k, pairs[i % PAIRS], 2);
    if (i || !k) low[k++] = pairs[i][0];
    while (k) out[n++] = low[--k];
    out[n] = 0;
    return n;
}

size_t tree_directory(const struct tree *t, uint64_t dir, char *out) {
    if (dir == 0) {
        out[0] = 0;
        return 0;
    }
    uint64_t parent = (dir - 1) / t->fan_out;
    size_t n = tree_directory(t, parent, out);
    if (parent) out[n++] = '/';
    return n + put_name(hash3(t->seed, DIRECTORIES, dir), dir, out + n);
}

size_t tree_file(const struct tree *t, uint64_t file, char *out) {
    /* Neighbours share a directory; the division spreads the files evenly. */
    uint64_t dir = (uint64_t)((unsigned __int128)file * t->directories / t->files);
    size_t n = tree_directory(t, dir, out);
    if (n) out[n++] = '/';
    return n + put_name(hash3(t->seed, NAMES + t->generation, file), file, out + n);
}

/* The standard normal deviate below which a share p lies, to seven digits (M. J. Wichura, Algorithm AS 241, PPND7,
 * Applied Statistics 37, 1988). */
static double normal_quantile(double p) {
    double q = p - 0.5;
    if (fabs(q) <= 0.425) {
        double r = 0.180625 - q * q;
        return q * (((59.10937472 * r + 159.29113202) * r + 50.434271938) * r + 3.3871327179) /
            (((67.1875636 * r + 78.757757664) * r + 17.895169469) * r + 1);
    }
    double r = sqrt(-log(q < 0 ? p : 1 - p)), z;
    if (r <= 5) {
        r -= 1.6;
        z = (((0.17023821103 * r + 1.3067284816) * r + 2.75681539) * r + 1.4234372777) /
            ((0.12021132975 * r + 0.7370016425) * r + 1);
    } else {
        r -= 5;
        z = (((0.017337203997 * r + 0.42868294337) * r + 3.081226386) * r + 6.657905115) /
            ((0.012258202635 * r + 0.24197894225) * r + 1);
    }
    return q < 0 ? -z : z;
}

uint64_t tree_size(const struct tree *t, uint64_t file) {
    /* Lognormal. The sizes are the middles of as many equally likely parts as there are files, dealt to the files by
     * the seed: a round differs from another in who is large, not in how many bytes there are. */
    uint64_t rank = permute(hash3(t->seed, SIZES, 0), t->files, file);
    double size = t->size_median * exp(t->size_sigma * normal_quantile(((double)rank + 0.5) / (double)t->files));
    return size >= (double)t->size_max ? t->size_max : (uint64_t)size;
}

static uint64_t pool[POOL_BYTES / 8];
const uint8_t *pool_at(uint64_t offset) { return (const uint8_t *)pool + offset; }

void tree_pool(uint64_t seed) {
    /* One word in eight is random, the others come from a table of 256: zstd shrinks it about like source code. */
    uint64_t table[256], r = hash3(seed, POOL, 0);
    for (int i = 0; i < 256; i++) table[i] = mix(r + (uint64_t)i);
    for (size_t i = 0; i < POOL_BYTES / 8; i++) {
        r ^= r << 13, r ^= r >> 7, r ^= r << 17; /* xorshift64 (G. Marsaglia, 2003) */
        pool[i] = (r >> 61) ? table[(r >> 32) & 255] : r;
    }
}

struct content tree_content(const struct tree *t, uint64_t file, uint64_t size) {
    uint64_t h = hash3(t->seed, HEADERS, file);
    return (struct content){{h, mix(h)}, size, hash3(t->seed, OFFSETS, file) % (POOL_BYTES - POOL_STEP)};
}

uint64_t permute(uint64_t seed, uint64_t n, uint64_t i) {
    /* Four Feistel rounds over the next even power of two, walked until the value falls inside 0..n-1. */
    unsigned half = 1;
    while (half < 31 && (1ull << (2 * half)) < n) half++;
    uint64_t mask = (1ull << half) - 1;
    do {
        uint64_t l = i >> half, r = i & mask;
        for (uint64_t round = 0; round < 4; round++) {
            uint64_t next = l ^ (mix(seed + (round << 40) + r) & mask);
            l = r, r = next;
        }
        i = (l << half) | r;
    } while (i >= n);
    return i;
}
