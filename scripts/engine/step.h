/* A step of a job, and what all steps share: its fields, why the job failed, the job's text. */
#ifndef REPROFS_STEP_H
#define REPROFS_STEP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FIELDS = 256 };
struct step {
    char *verb;
    int fields;
    char *key[FIELDS], *value[FIELDS];
};
const char *get(const struct step *s, const char *key, const char *otherwise); /* the first value of a key */
const char *need(const struct step *s, const char *key); /* fails without one, and returns an empty text */
uint64_t number(const struct step *s, const char *key);  /* fails without one */
uint64_t number_or(const struct step *s, const char *key, uint64_t otherwise);
int collect(const struct step *s, const char *key, char **list); /* all values; NULL after them; returns their number */

extern char failure[2048]; /* why the job failed; empty while all is well */
extern bool timed_out; /* whether because of a time limit */
void failed(const char *format, ...)
    __attribute__((format(printf, 1, 2))); /* the first reason stays: it is the cause */
void announce(void); /* says once why the job failed, and sends what was said so far */

void job_go_on(char *rest); /* after this step the job goes on with another text */
char *slurp(const char *path, size_t *size); /* a file, with a NUL after it, to be freed; NULL: it cannot be read */

#endif
