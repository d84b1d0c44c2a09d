/* Several processors that count their instructions and run in parallel in the guest's time.
 * SPDX-License-Identifier: GPL-2.0-or-later (it is compiled into QEMU)
 *
 * QEMU's clock of counted instructions (-icount) adds up the instructions of all processors: two that compute at once
 * take as long as one after the other. Here time goes on in windows. Every processor that is busy when a window begins
 * executes all of it, one after the other, each with a clock of its own that starts at the window's start; then the
 * clock is set to where the farthest of them came. A window ends at the next timer, and after `window` ns if two or
 * more processors are busy. A processor that another one wakes joins in the next window.
 *
 * So the clocks that two processors see at the same moment differ by less than a window, and what one writes another
 * sees up to a window too early or too late. The order in which they execute changes from window to window, or one of
 * them would always be the first to find a lock free.
 *
 * Nothing depends on the host: a processor whose execution is interrupted for the host's sake goes on until its window
 * ends, and while a window is open, QEMU's other threads see the clock at its start: no timer expires, and no time is
 * skipped. The order follows from the clock, since a guest that goes on from a saved state has nothing else.
 */
#include "qemu/osdep.h" /* first, as everywhere in QEMU */

#include "exec/exec-all.h"
#include "hw/core/cpu.h"
#include "qemu/main-loop.h"
#include "sysemu/cpu-timers.h"
#include "sysemu/cpus.h"
#include "tcg-accel-ops-icount.h"
#include "tcg-accel-ops-windows.h"
#include "tcg-accel-ops.h"

#define AT_MOST 64 /* processors */

struct windows windows = {.speed = 1}; /* set by icount_configure */

bool windows_used(void) { return windows.length; }

/* Whether the machine is being stopped, or was: then no time may pass, also for processors that wait for nothing. */
bool windows_stopping(void) {
    CPUState *cpu;

    CPU_FOREACH(cpu) {
        if (cpu->stop || cpu->stopped) return true;
    }
    return false;
}

/* Whether a processor was stopped and there is nothing to do until the others are, or until all go on. */
bool windows_stopped(void) {
    CPUState *cpu;
    bool stopped = false;

    CPU_FOREACH(cpu) {
        if (cpu->stop || !cpu_work_list_empty(cpu)) return false;
        stopped |= cpu->stopped;
    }
    return stopped;
}

static bool busy(CPUState *cpu) { return !cpu->halted || cpu_has_work(cpu); }

/* Instructions from the clock's time to the next timer. */
static int64_t to_next_timer(void) {
    int64_t ns = qemu_clock_deadline_ns_all(QEMU_CLOCK_VIRTUAL, QEMU_TIMER_ATTR_ALL);

    return icount_round(ns < 0 || ns > INT32_MAX ? INT32_MAX : ns);
}

/* Let a processor execute up to `most` instructions; returns how many. The global lock is held, but not meanwhile. */
static int64_t execute(CPUState *cpu, int64_t from, int64_t most) {
    int64_t executed;

    icount_set_raw(from);
    windows.spun = false;
    qemu_mutex_unlock_iothread();
    cpu->icount_budget = most;
    cpu_neg(cpu)->icount_decr.u16.low = MIN(0xffff, most);
    cpu->icount_extra = most - cpu_neg(cpu)->icount_decr.u16.low;
    g_assert(tcg_cpus_exec(cpu) != EXCP_ATOMIC); /* processors that share a thread need no exclusive turns */
    icount_update(cpu);
    cpu_neg(cpu)->icount_decr.u16.low = 0;
    cpu->icount_extra = cpu->icount_budget = 0;
    qemu_mutex_lock_iothread();
    executed = icount_get_raw() - from;
    icount_set_raw(windows.start);
    if (windows.spun) executed = MAX(executed, MIN(most, executed + icount_round(windows.spin)));
    return executed;
}

/* One window; with the global lock. */
void windows_run(CPUState **current) {
    CPUState *cpu, *running[AT_MOST];
    int64_t start = icount_get_raw(), length = to_next_timer(), farthest = 0;
    int count = 0;

    CPU_FOREACH(cpu) {
        if (busy(cpu) && count < AT_MOST) running[count++] = cpu;
    }
    if (!count || !length || windows_stopping()) return;
    if (count > 1) length = MIN(length, icount_round(windows.length));
    windows.start = start;
    windows.alone = count == 1;
    windows.open = true;
    for (int i = 0; i < count && !windows_stopping(); i++) {
        int64_t done = 0;

        cpu = running[(start / icount_round(windows.length) + i) % count];
        while (done < length && busy(cpu)) {
            qatomic_mb_set(current, cpu);
            current_cpu = cpu;
            qatomic_mb_set(&cpu->exit_request, 0);
            qemu_wait_io_event_common(cpu);
            if (windows_stopping()) break;
            done += execute(cpu, start + done, length - done);
            farthest = MAX(farthest, done);
            length = MIN(length, MAX(farthest, to_next_timer())); /* it may have set a timer that is earlier */
            if (windows.alone) break; /* it may have woken another processor */
        }
    }
    qatomic_set(current, NULL);
    icount_set_raw(start + farthest);
    windows.open = false;
}
