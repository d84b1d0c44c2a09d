/* engine replay-threads: a thread for each that was recorded, where there are several processors. A program of its own,
 * so that the numbers of replays in one order do not depend on this. */
#define THREADS
#include "replay.h"
