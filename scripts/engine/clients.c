#define _GNU_SOURCE
#include "clients.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- clients ----------------------------------------------------------------------------------------------------- */
struct barrier { /* before the accounts, in the same shared memory */
    atomic_uint ready, open, passed;
};
static size_t shared_bytes(unsigned n) { return 4096 + n * sizeof(struct client); }

static void wait_open(struct barrier *b) {
    atomic_fetch_add(&b->ready, 1);
    syscall(SYS_futex, &b->ready, FUTEX_WAKE, 1, NULL, NULL, 0);
    while (!atomic_load(&b->open)) syscall(SYS_futex, &b->open, FUTEX_WAIT, 0, NULL, NULL, 0);
}

/* With fewer cores than clients every client starts before one works; a yield does not make the scheduler do that. */
static void wait_others(struct barrier *b, unsigned n) {
    const struct timespec limit = {.tv_nsec = 100000000}; /* one of them may have been killed */
    atomic_fetch_add(&b->passed, 1);
    for (unsigned there; (there = atomic_load(&b->passed)) < n;)
        if (syscall(SYS_futex, &b->passed, FUTEX_WAIT, there, &limit, NULL, 0) && errno == ETIMEDOUT) return;
    syscall(SYS_futex, &b->passed, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

struct client *clients_run(unsigned n, client_work *work, void *what) {
    struct barrier *b = mmap(
        NULL, shared_bytes(n), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (b == MAP_FAILED) return NULL;
    struct client *clients = (struct client *)((char *)b + 4096);
    pid_t *pid = calloc(n, sizeof *pid), parent = getpid();
    unsigned started = 0;
    fflush(NULL);
    for (; pid && started < n; started++) {
        struct client *c = clients + started;
        c->latency.min = UINT64_MAX;
        c->error = ECHILD;
        if ((pid[started] = fork()) < 0) break;
        if (pid[started]) continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(1);
        wait_open(b);
        c->start = now_ns();
        wait_others(b, n);
        c->error = 0;
        work(started, what, c);
        c->end = now_ns();
        fflush(NULL);
        _exit(0);
    }
    int error = started < n ? errno : 0;
    if (error)
        for (unsigned i = 0; i < started; i++) kill(pid[i], SIGKILL);
    else
        for (unsigned there; (there = atomic_load(&b->ready)) < n;)
            syscall(SYS_futex, &b->ready, FUTEX_WAIT, there, NULL, NULL, 0);
    atomic_store(&b->open, 1);
    syscall(SYS_futex, &b->open, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    for (unsigned i = 0; i < started; i++) {
        int status;
        while (waitpid(pid[i], &status, 0) < 0 && errno == EINTR) {}
        if (!WIFEXITED(status) || WEXITSTATUS(status)) clients[i].error = ECHILD;
    }
    free(pid);
    if (!error) return clients;
    munmap(b, shared_bytes(n));
    errno = error;
    return NULL;
}
void clients_free(struct client *clients, unsigned n) { munmap((char *)clients - 4096, shared_bytes(n)); }

/* ---- commands of clients ----------------------------------------------------------------------------------------- */
struct meeting { /* a page of memory, which the programs map through the engine's descriptor */
    /* three numbers that change together: meetings so far (upper 32 bits), clients that wait, clients that have ended
     * (16 bits each) */
    _Atomic uint64_t state;
    uint32_t clients;
};

static struct meeting *meeting(void) {
    const char *path = getenv("REPROFS_MEETING");
    int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return NULL;
    void *m = mmap(NULL, sizeof(struct meeting), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return m == MAP_FAILED ? NULL : m;
}

int meeting_open(unsigned n) {
    char path[64];
    const struct meeting m = {.clients = n};
    int fd = memfd_create("meeting", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    if (fd < 0 || write(fd, &m, sizeof m) != sizeof m || setenv("REPROFS_MEETING", path, 1)) return -1;
    return fd;
}

/* One client more waits or has ended. Opens the meeting for those who wait when all clients do one or the other. */
static void arrive(struct meeting *m, bool ended) {
    uint64_t old = atomic_load(&m->state), new;
    uint32_t turn, *turns = (uint32_t *)&m->state + 1, here, gone;
    bool all;
    do {
        turn = (uint32_t)(old >> 32), here = (old >> 16 & UINT16_MAX) + !ended, gone = (old & UINT16_MAX) + ended;
        all = here && here + gone >= m->clients;
        new = (uint64_t)(turn + all) << 32 | (all ? 0 : here) << 16 | gone;
    } while (!atomic_compare_exchange_weak(&m->state, &old, new));
    if (all) syscall(SYS_futex, turns, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
    while (!all && !ended && atomic_load(&m->state) >> 32 == turn)
        syscall(SYS_futex, turns, FUTEX_WAIT, turn, NULL, NULL, 0);
}

void meeting_leave(void) {
    struct meeting *m = meeting();
    if (!m) return;
    arrive(m, true);
    munmap(m, sizeof *m);
}

void meet(void) {
    static struct meeting *m;
    if (!m && !(m = meeting())) return;
    arrive(m, false);
}
