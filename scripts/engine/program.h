/* Programs: executables of their own, `engine NAME ARGUMENTS`, usable by hand on any folder, or as the command of a
 * phase. Each is one file in programs/, named as the program, which defines `program`; main is here.
 *
 * All take --help, and --check: the arguments are checked, {"bytes":N,"names":N} says what they will make, nothing is
 * done. Exit: 0 done; 1 one sentence on standard error, what failed; 2 one sentence on standard error, wrong arguments.
 */
#ifndef REPROFS_PROGRAM_H
#define REPROFS_PROGRAM_H

#include <stdint.h>

#include "options.h"

struct program {
    const char *name, *about; /* about: a line for --help */
    const struct option *options;
    size_t count;
    int (*prepare)(void); /* when the arguments are read: 0, or what `wrong` returned; NULL: nothing is to be checked */
    int (*check)(void); /* what --check says, by `needs` */
    int (*run)(void); /* the exit code */
};
extern const struct program program;
extern char **program_words; /* argv */
/* The origin of the samples' start_ns. Of the command of one of several clients: when that client passed the start
 * barrier, which the engine says in $REPROFS_BEGAN and reports, so that samples of all clients are on one clock. Else
 * when the program began. */
extern uint64_t program_began;

int wrong(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says the sentence, returns 2 */
int broken(const char *format, ...) __attribute__((format(printf, 1, 2))); /* says the sentence, returns 1 */
const char *reason(int error); /* the words for an errno; a full device has words of its own */
int needs(uint64_t bytes, uint64_t names); /* what --check says; returns 0 */

#endif
