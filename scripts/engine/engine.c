/* The runner: `engine run JOB` runs the steps of a job, one JSON object a line on standard output; `engine NAME
 * ARGUMENTS` becomes the program NAME. */
#define _GNU_SOURCE
#include "command.h"
#include "job.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int is_program(const struct dirent *e) { return *e->d_name != '.'; }

static int usage(void) {
    const char *folder = getenv("REPROFS_PROGRAMS");
    struct dirent **found;
    int n = folder ? scandir(folder, &found, is_program, by_name) : 0;
    fprintf(stderr, "usage: engine run JOB, or engine PROGRAM ARGUMENTS, with PROGRAM one of:");
    for (int i = 0; i < n; i++) fprintf(stderr, " %s", found[i]->d_name);
    fputs(n > 0 ? "\n" : " (there are none here)\n", stderr);
    return 2;
}

int main(int argc, char **argv) {
    if (argc == 3 && !strcmp(argv[1], "run")) return job_run(argv[2]);
    command_program(argv);
    return usage();
}
