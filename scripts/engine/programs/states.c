/* engine states: every state in which a power cut may leave a disk, of sequences of calls. */
#define _GNU_SOURCE
#define PROGRAM_NAME "states"
#include "crash/visit.h"
