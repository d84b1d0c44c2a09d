/* engine replay: in the order in which the calls began. */
#define _GNU_SOURCE
#define NAME "replay"
#define OWN static
#include "replay/run.h"
