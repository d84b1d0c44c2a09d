/* Reading and running a job. */
#define _GNU_SOURCE
#include "job.h"
#include "command.h"
#include "devices.h"
#include "phase.h"
#include "step_definitions.h"
#include "steps.h"
#include "trees.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

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
    {"wear", step_wear, false},
    {"write", step_write, false},
};

/* ---- a step ------------------------------------------------------------------------------------------------------ */
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
