/* engine states-maintained: calls `maintain NAME` run commands of the file system, such as a snapshot or a balance. A
 * program of its own, so that the numbers of states do not depend on this. */
#define _GNU_SOURCE
#define PROGRAM_NAME "states-maintained"
#define MAINTAINED
#include "crash/visit.h"
