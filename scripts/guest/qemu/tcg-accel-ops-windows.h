/* SPDX-License-Identifier: GPL-2.0-or-later
 * What windows.c says to the rest of QEMU. */
#ifndef TCG_ACCEL_OPS_WINDOWS_H
#define TCG_ACCEL_OPS_WINDOWS_H

struct windows {
    int64_t length, spin; /* of a window, and what `pause` costs, ns; options of -icount */
    int64_t speed;        /* instructions a nanosecond, another */
    int64_t start;        /* of the open window, instructions */
    bool open;            /* under the global lock, like start */
    bool alone, spun;     /* one processor is busy; the last slice ended with `pause`: of the processors' thread */
};
extern struct windows windows;

bool windows_used(void);
bool windows_stopping(void);
bool windows_stopped(void);
void windows_run(CPUState **current);

#endif
