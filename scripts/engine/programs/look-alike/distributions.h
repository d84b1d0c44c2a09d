/* Distributions, and drawing from them. */
#ifndef REPROFS_LOOK_ALIKE_DISTRIBUTIONS_H
#define REPROFS_LOOK_ALIKE_DISTRIBUTIONS_H

#include "tree.h"

#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

enum { BINS = 256, LEVELS = 32, PATH = 4096, MOST_FOLDERS = 6000000, POOL = 1 << 20, PAGE = 4096 };
struct bins { /* weight[b] of the values in (bound[b-1], bound[b]]; the first bin begins at 1, or is 0 alone */
    unsigned n;
    uint64_t bound[BINS], weight[BINS], total;
};

static bool parse_whole(char **text, uint64_t *value) {
    char *end;
    if (**text < '0' || **text > '9') return false;
    errno = 0;
    *value = strtoull(*text, &end, 10);
    *text = end;
    return !errno && *value < 1ull << 48;
}
static bool parse_bins(char *text, struct bins *b) { /* 0:12,1024:300 */
    *b = (struct bins){0};
    while (*text) {
        if (b->n == BINS || !parse_whole(&text, &b->bound[b->n]) || *text++ != ':' ||
            !parse_whole(&text, &b->weight[b->n]))
            return false;
        if (b->n && b->bound[b->n] <= b->bound[b->n - 1]) return false;
        b->total += b->weight[b->n++];
        if (*text == ',') {
            if (!*++text) return false;
        } else if (*text) return false;
    }
    return b->total > 0;
}
static uint64_t draw(const struct bins *b, uint64_t n, uint64_t place) { /* the quantile (place + 1/2) / n */
    double at = ((double)place + 0.5) / (double)n * (double)b->total;
    unsigned i = 0;
    for (; i + 1 < b->n && at >= (double)b->weight[i]; i++) at -= (double)b->weight[i];
    while (!b->weight[i]) i--; /* rounding carried it past the last bin with a weight */
    uint64_t high = b->bound[i], low = i ? b->bound[i - 1] + 1 : high ? 1 : 0;
    if (low == high) return low;
    double share = at / (double)b->weight[i]; /* even on the scale of logarithms */
    uint64_t value = (uint64_t)((double)low * pow((double)(high + 1) / (double)low, share < 1 ? share : 1));
    return value < low ? low : value > high ? high : value;
}

/* Deals `total` things to the n folders of a level in proportion to draws from b. A folder that draws none gets none,
 * one that draws some gets at least one while there are enough. */
struct deal {
    const struct bins *b;
    uint64_t seed, n, total, some, sum; /* folders that draw some; sum of the weights beyond the guaranteed one */
    bool even, first_one;
    uint64_t i, before; /* of the running sum */
};
static uint64_t deal_draw(const struct deal *d, uint64_t i) {
    return d->even ? 1 : draw(d->b, d->n, permute(d->seed, d->n, i));
}
static uint64_t deal_weight(const struct deal *d, uint64_t v) { return v - (d->first_one && v); }
static struct deal deal_begin(const struct bins *b, uint64_t seed, uint64_t n, uint64_t total) {
    struct deal d = {.b = b, .seed = seed, .n = n, .total = total, .even = !b->n};
    for (uint64_t i = 0, v; i < n; i++) v = deal_draw(&d, i), d.some += v > 0, d.sum += v;
    if (!d.some) d.even = true, d.some = d.sum = n;
    d.first_one = total >= d.some && d.sum > d.some;
    if (d.first_one) d.sum -= d.some, d.total -= d.some;
    return d;
}
static uint64_t deal_next(struct deal *d) {
    uint64_t v = deal_draw(d, d->i++), from = d->before, to = from + deal_weight(d, v);
    d->before = to;
    /* floor(c * total / sum + 1/2): the shares add up to the total */
    unsigned __int128 half = d->sum / 2, all = d->total;
    return (uint64_t)((to * all + half) / d->sum - (from * all + half) / d->sum) + (d->first_one && v);
}

#endif
