/* The definitions of step.h. They know no step: steps build on them, and the job on steps. Only job.c includes them,
 * because in one translation unit with it the runner's bytes are those of published records. */
#ifndef REPROFS_STEP_DEFINITIONS_H
#define REPROFS_STEP_DEFINITIONS_H

#include "output.h"
#include "step.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char failure[2048];
bool timed_out;
static char *continuation;

void failed(const char *format, ...) {
    va_list a;
    if (*failure) return;
    va_start(a, format);
    vsnprintf(failure, sizeof failure, format, a);
    va_end(a);
}

void announce(void) {
    static bool told;
    if (*failure && !told) {
        printf("{\"event\":\"failed\",\"timeout\":%s", timed_out ? "true" : "false");
        json_key("reason", failure);
        printf("}\n");
        told = true;
    }
    fflush(stdout);
}

const char *get(const struct step *s, const char *key, const char *otherwise) {
    for (int i = 0; i < s->fields; i++)
        if (!strcmp(s->key[i], key)) return s->value[i];
    return otherwise;
}
const char *need(const struct step *s, const char *key) {
    const char *v = get(s, key, NULL);
    if (!v) failed("job: step %s has no %s", s->verb, key);
    return v ? v : "";
}
uint64_t number(const struct step *s, const char *key) { return strtoull(need(s, key), NULL, 10); }
uint64_t number_or(const struct step *s, const char *key, uint64_t otherwise) {
    const char *v = get(s, key, NULL);
    return v ? strtoull(v, NULL, 10) : otherwise;
}
int collect(const struct step *s, const char *key, char **list) {
    int n = 0;
    for (int i = 0; i < s->fields; i++)
        if (!strcmp(s->key[i], key)) list[n++] = s->value[i];
    list[n] = NULL;
    return n;
}

char *slurp(const char *path, size_t *size) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    size_t n = 0, room = 1 << 16;
    char *text = malloc(room + 1);
    for (ssize_t r; text && (r = read(fd, text + n, room - n)) > 0;) {
        n += (size_t)r;
        if (n == room) text = realloc(text, (room *= 2) + 1);
    }
    close(fd);
    if (text) text[n] = 0;
    if (size) *size = n;
    return text;
}

void job_go_on(char *rest) { continuation = rest; }

#endif
