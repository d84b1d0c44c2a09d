/* How busy the processors are. */
#ifndef REPROFS_PROCESSORS_H
#define REPROFS_PROCESSORS_H

#include <stdbool.h>
#include <stdint.h>

/* How long those on which the engine may run have had nothing to do since boot, all together, at a time of the clock.
 * fine: to the nanosecond, else in the kernel's ticks; number: 0 if the kernel does not say. */
struct processors {
    uint64_t idle_ns, at;
    unsigned number;
    bool fine;
};
struct processors processors(void);

/* The share of their time in which they worked between two looks, in ten thousandths, during the `span` ns in between
 * that are of interest: of the rest, which is the looks' own work, the engine kept one of them busy. -1: too short a
 * time for how well the kernel tells it. */
int processors_busy(struct processors before, struct processors after, uint64_t span);

#endif
