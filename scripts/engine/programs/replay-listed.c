/* engine replay-listed: folders that the recorded program visited as they were listed are visited as they are listed
 * here. A program of its own, so that the numbers of other replays do not depend on this. */
#define _GNU_SOURCE
#define NAME "replay-listed"
#define LISTED
#define OWN static
#include "replay/passes.h"
#include "replay/run.h"
