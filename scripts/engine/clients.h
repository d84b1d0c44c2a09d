/* Clients: processes that start together, and commands of clients that wait for one another. */
#ifndef REPROFS_CLIENTS_H
#define REPROFS_CLIENTS_H

#include "measure.h"
#include "tree.h"

/* ---- clients: processes that do the same thing and start together ------------------------------------------------ */
enum { INTERVALS = 64 };
struct client {
    uint64_t start, end, items, bytes; /* times of the monotonic clock */
    int error; /* errno, 0 = all done */
    char where[PATH_BYTES];
    struct histogram latency;
    uint64_t interval_ns; /* of `over_time`, see client_count in programs/mdtest.c */
    uint32_t over_time[INTERVALS]; /* items done in each interval after the start */
};
typedef void client_work(unsigned number, void *what, struct client *c);
/* Forks n processes, opens the start barrier when all are there, waits for all. Returns n accounts in shared memory, or
 * NULL (errno). A client that dies has error ECHILD. `start`: when a client passed the barrier, `end`: when it ended.
 */
struct client *clients_run(unsigned n, client_work *work, void *what);
void clients_free(struct client *clients, unsigned n);

/* ---- commands of clients: programs of their own, which may wait for one another ---------------------------------- */
/* In the runner: a place where the commands of n clients meet, named by $REPROFS_MEETING. Returns its descriptor, to be
 * closed after them, or -1 (errno). */
int meeting_open(unsigned n);
/* In the runner: the command of a client has ended; nobody waits for it any more. */
void meeting_leave(void);
/* In a program: waits until the programs of all other clients are here, too, or have ended. A program that is not the
 * command of one of several clients, or whose clients are on machines of their own, goes on at once. */
void meet(void);

#endif
