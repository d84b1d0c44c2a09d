/* All calls, from the first to the last. */
#ifndef REPROFS_REPLAY_CALLS_H
#define REPROFS_REPLAY_CALLS_H

#include "make.h"
#include "measure.h"
#include "results.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined THREADS || defined LISTED
static int make_calls(void) {
    struct rlimit limit;
    for (uint64_t i = 0; i <= handles; i++) files[i].fd = -1;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = limit.rlim_max, setrlimit(RLIMIT_NOFILE, &limit);
    files[0].fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files[0].fd < 0) return stream_failed("open", p.folder, errno);
    umask(0);
    if (!(call_at = calloc(calls + 1, sizeof *call_at))) return broken("no memory for calls");
#ifdef LISTED
    if (!read_passes()) return broken("%s is damaged", p.recording);
    uint64_t began = now_ns();
    if (make_part((struct part){.calls = calls})) return 1;
#else
    bool several = read_lanes() && several_processors();
    uint64_t began = now_ns();
    if (several ? make_lanes() : make_in_order()) return 1;
#endif
    uint64_t start = now_ns();
    if (syncfs(files[0].fd)) return stream_failed("flush", p.folder, errno);
    note(FINAL, now_ns() - start, 0);
    put_samples(began - program_began);
    if (!differing || p.differing) return 0;
    return broken("%llu of %llu calls had another result", (unsigned long long)differing, (unsigned long long)calls);
}

#else /* The same in one function: as it is compiled, so the exact lab counts. */
static int make_calls(void) {
    struct rlimit limit;
    for (uint64_t i = 0; i <= handles; i++) files[i].fd = -1;
    if (!getrlimit(RLIMIT_NOFILE, &limit)) limit.rlim_cur = limit.rlim_max, setrlimit(RLIMIT_NOFILE, &limit);
    files[0].fd = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files[0].fd < 0) return stream_failed("open", p.folder, errno);
    umask(0);
    uint64_t began = now_ns(), start;
    for (uint64_t i = 0; i < calls; i++) {
        struct call c;
        if (at >= end || !next_call(&c))
            return broken("%s is damaged at call %llu", p.recording, (unsigned long long)i);
        make_ready(&c);
        start = now_ns();
        c.result = make(&c);
        uint64_t wall = now_ns() - start;
        if (c.result < 0) c.result = -errno;
        note_file(&c);
        bool data = c.kind == READ || c.kind == PREAD || c.kind == WRITE || c.kind == PWRITE;
        note(c.kind, wall, data && c.result > 0 ? (uint64_t)c.result : 0);
        if (judge(&c, i)) return 1;
    }
    start = now_ns();
    if (syncfs(files[0].fd)) return stream_failed("flush", p.folder, errno);
    note(FINAL, now_ns() - start, 0);
    put_samples(began - program_began);
    if (!differing || p.differing) return 0;
    return broken("%llu of %llu calls had another result", (unsigned long long)differing, (unsigned long long)calls);
}
#endif

#endif
