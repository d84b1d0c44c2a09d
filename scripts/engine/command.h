/* Commands: of steps, of phases, of the clients of a phase. */
#ifndef REPROFS_COMMAND_H
#define REPROFS_COMMAND_H

#include "step.h"

enum { TAIL_BYTES = 4096, TAIL_MAX = 1 << 16 };
struct result {
    int exit, signal;
    bool late;
    uint64_t wall, user, system;
    size_t tail_bytes;
    char tail[TAIL_MAX + 1]; /* the end of what it wrote */
};

/* Before the first command. `engine NAME` is the program NAME of the folder $REPROFS_PROGRAMS, by default `programs`
 * beside the job; commands get it, and in $ENGINE what runs `$ENGINE NAME`. */
void command_begin(const char *job);
void command_program(char **argv); /* executes `engine NAME ARGUMENTS`; returns if there is no such program */

void command_clear(struct result *r);
void command_run(char **argv, char **env, int envs, const char *cwd, uint64_t limit_s, size_t tail, struct result *r);
/* Runs the command of a step. client: its number, or -1 without clients. Memory is not freed: one that has clients is a
 * process that ends. */
void command_start(const struct step *s, int client, struct result *r);
void command_judge(const struct step *s, const struct result *r, bool out_of_memory); /* fails unless it went well */
uint64_t oom_kills(void); /* of the kernel, since it started */
void json_result(const struct result *r);
void step_exec(const struct step *s);

#endif
