/* The block devices of a job: their counters, their power, their rebuilds. */
#ifndef REPROFS_DEVICES_H
#define REPROFS_DEVICES_H

#include "processors.h"
#include "step.h"

/* Of the flash of modelled disks: pages written, moved, into the fast region; blocks erased; bytes discarded. */
struct wear { unsigned long long written, moved, erased, fast, discarded; };
/* Sums over all of them; model_ns: the time that modelled disks took. */
struct counters {
    uint64_t reads, read_bytes, writes, written_bytes, busy_ns, discards, flushes, in_flight, model_ns;
    struct wear wear;
};
struct counters counters(void);
void json_wear(const struct wear *before, const struct wear *after); /* what was added; nothing without flash */
bool devices_there(void);

/* All devices lose their power, at once or together when the clock says `at`. */
void power_cut(const struct step *s, uint64_t at);
/* Arms a cut in the middle of a phase: the devices' own timers do it, nothing in here can tell. Returns when it will
 * be, 0: not. */
uint64_t power_arm(const struct step *s);

bool rebuild_watched(void);
bool rebuild_goes_on(void);
/* Waits for its end. Returns when it began: when the spare was added, before the phases; before, idle: the counters and
 * the processors then. */
uint64_t rebuild_wait(uint64_t limit_s, struct counters *before, struct processors *idle);

/* Waits until the devices have been idle for a second, so that one phase's leftovers are not charged to the next. */
uint64_t settle(bool *settled);

void step_devices(const struct step *s);
void step_restore(const struct step *s);
void step_await(const struct step *s);
void step_watch(const struct step *s);
void step_wear(const struct step *s);
void step_settle(const struct step *s);

#endif
