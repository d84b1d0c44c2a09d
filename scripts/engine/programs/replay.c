/* engine replay: in the order in which the calls began. */
#include "replay.h"
