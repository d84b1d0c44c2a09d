/* Reading and running a job. */
#define _GNU_SOURCE
#include "job.h"
#include "command.h"
#include "devices.h"
#include "output.h"
#include "phase.h"
#include "steps.h"
#include "trees.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct verb {
    const char *name;
    void (*run)(const struct step *s);
    bool always; /* also after a failure */
} verbs[] = {
    {"await", step_await, false},
    {"clock", step_clock, false},
    {"devices", step_devices, false},
    {"drop", step_drop, false},
    {"evict", step_evict, false},
    {"exec", step_exec, false},
    {"mkdir", step_mkdir, false},
    {"mounted", step_mounted, false},
    {"offset", step_offset, false},
    {"pause", step_pause, true},
    {"phase", step_phase, false},
    {"pin", step_pin, false},
    {"processor", step_processor, false},
    {"rest", step_rest, false},
    {"restore", step_restore, false},
    {"seed", step_seed, false},
    {"settle", step_settle, false},
    {"tree", step_tree, false},
    {"verify", step_verify, false},
    {"watch", step_watch, false},
    {"write", step_write, false},
};

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

/* ---- a step ------------------------------------------------------------------------------------------------------ */
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

static void unescape(char *s) {
    char *to = s;
    for (; *s; s++) {
        if (*s == '\\' && s[1]) {
            s++;
            *to++ = *s == 't' ? '\t' : *s == 'n' ? '\n' : *s;
        } else *to++ = *s;
    }
    *to = 0;
}

/* False: it is malformed, and is not run. */
static bool parse(char *line, struct step *s) {
    s->fields = 0;
    s->verb = strsep(&line, "\t");
    for (char *field; (field = strsep(&line, "\t"));) {
        char *eq = strchr(field, '=');
        if (!eq || s->fields == FIELDS) {
            failed("job: step %s: '%s' is not key=value, or there are more than %d fields", s->verb, field, FIELDS);
            return false;
        }
        *eq = 0;
        unescape(eq + 1);
        s->key[s->fields] = field;
        s->value[s->fields++] = eq + 1;
    }
    return true;
}

static const struct verb *verb_of(const struct step *s) {
    for (size_t i = 0; i < sizeof verbs / sizeof *verbs; i++)
        if (!strcmp(s->verb, verbs[i].name)) return &verbs[i];
    failed("job: the engine has no step %s", s->verb);
    return NULL;
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */
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

static void run_line(char *line, bool *teardown) {
    struct step s;
    if (!strcmp(line, "teardown")) *teardown = true;
    else if (*line && parse(line, &s)) {
        const struct verb *v = verb_of(&s);
        if (v && (!*failure || *teardown || v->always)) v->run(&s);
    }
    announce();
}

int job_run(const char *path) {
    char *text = slurp(path, NULL);
    if (!text) {
        fprintf(stderr, "engine: cannot read %s: %s\n", path, strerror(errno));
        return 2;
    }
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    command_begin(path);
    bool teardown = false;
    for (char *line = text, *next; line && *line; line = next) { /* the first NUL ends the text: a lab may pad it */
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        run_line(line, &teardown);
        if (continuation) next = continuation;
        continuation = NULL;
    }
    printf("{\"event\":\"end\"}\n");
    return 0;
}
