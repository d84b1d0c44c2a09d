#define _GNU_SOURCE
#include "processors.h"
#include "measure.h"
#include "step.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TICKS_LEAST_NS = 500000000 }; /* with ticks of 10 ms: 2 % at either end */

/* A processor's own account is complete while it does not idle: the engine goes to each in turn, to this one last. */
static void visit(const cpu_set_t *ours) {
    int here = sched_getcpu();
    for (int i = 0; CPU_COUNT(ours) > 1 && i <= CPU_SETSIZE; i++) {
        cpu_set_t one;
        int to = i < CPU_SETSIZE ? i : here;
        if (to < 0 || !CPU_ISSET(to, ours) || (to == here && i < CPU_SETSIZE)) continue;
        CPU_ZERO(&one);
        CPU_SET(to, &one);
        sched_setaffinity(0, sizeof one, &one);
    }
    sched_setaffinity(0, sizeof *ours, ours);
}

/* Only root may read this; some kernels do not have it. */
static bool from_timers(const cpu_set_t *ours, struct processors *p) {
    char *text = slurp("/proc/timer_list", NULL), *lines = text;
    bool counts = false, told = false;
    for (char *line; lines && (line = strsep(&lines, "\n"));) {
        unsigned long long ns;
        int cpu;
        if (sscanf(line, "cpu: %d", &cpu) == 1) {
            counts = cpu < CPU_SETSIZE && CPU_ISSET(cpu, ours);
            p->number += counts;
        } else if (counts &&
            (sscanf(line, " .idle_sleeptime : %llu", &ns) == 1 || sscanf(line, " .iowait_sleeptime: %llu", &ns) == 1))
            p->idle_ns += ns, told = true;
    }
    free(text);
    return told;
}

static bool from_ticks(const cpu_set_t *ours, struct processors *p) {
    uint64_t tick_ns = 1000000000u / (uint64_t)sysconf(_SC_CLK_TCK);
    char *text = slurp("/proc/stat", NULL), *lines = text;
    for (char *line; lines && (line = strsep(&lines, "\n"));) {
        unsigned long long idle, waiting;
        int cpu;
        if (sscanf(line, "cpu%d %*u %*u %*u %llu %llu", &cpu, &idle, &waiting) != 3) continue;
        if (cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, ours)) continue;
        p->number++, p->idle_ns += (idle + waiting) * tick_ns;
    }
    free(text);
    return p->number;
}

struct processors processors(void) {
    struct processors p = {.fine = true};
    cpu_set_t ours;
    if (sched_getaffinity(0, sizeof ours, &ours)) return p;
    visit(&ours);
    p.at = now_ns();
    if (from_timers(&ours, &p)) return p;
    p = (struct processors){.at = p.at};
    from_ticks(&ours, &p);
    return p;
}

int processors_busy(struct processors before, struct processors after, uint64_t span) {
    uint64_t time = after.at - before.at, all = time * after.number, idle = after.idle_ns - before.idle_ns;
    if (!after.number || before.number != after.number || !span || time < span) return -1;
    if (!before.fine && span < TICKS_LEAST_NS) return -1;
    uint64_t looks = time - span, busy = all > idle + looks ? all - idle - looks : 0, whole = span * after.number;
    return busy < whole ? (int)((double)busy / (double)whole * 10000 + 0.5) : 10000;
}
