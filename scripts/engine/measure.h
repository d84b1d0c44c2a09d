/* The clock and the histogram of latencies. */
#ifndef REPROFS_MEASURE_H
#define REPROFS_MEASURE_H

#include <stdint.h>
#include <time.h>

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* Log-linear, 64 sub-buckets an octave, so the midpoint of a bucket is within 0.8 % of any value in it. Histograms of
 * several runs merge by adding counts. (Scheme: HdrHistogram, G. Tene.) */
enum { SUB_BITS = 6, BUCKETS = (64 - SUB_BITS) << SUB_BITS };
struct histogram {
    uint64_t count, sum, min, max;
    uint64_t bucket[BUCKETS];
};
static inline unsigned histogram_index(uint64_t v) {
    if (v < (2u << SUB_BITS)) return (unsigned)v;
    unsigned e = 63u - (unsigned)__builtin_clzll(v) - SUB_BITS;
    return (e << SUB_BITS) + (unsigned)(v >> e);
}
static inline void histogram_add(struct histogram *h, uint64_t v) {
    h->count++;
    h->sum += v;
    if (v < h->min) h->min = v;
    if (v > h->max) h->max = v;
    h->bucket[histogram_index(v)]++;
}

#endif
