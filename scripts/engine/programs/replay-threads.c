/* engine replay-threads: a thread for each that was recorded, where there are several processors. A program of its own,
 * so that the numbers of replays in one order do not depend on this. */
#define _GNU_SOURCE
#define NAME "replay-threads"
#define THREADS
#define OWN static _Thread_local /* what each thread of a replay has of its own */
#include "replay/lanes.h"
#include "replay/run.h"
