#define _GNU_SOURCE
#include "command.h"
#include "measure.h"
#include "output.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <regex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

static char engine_path[64]; /* works from any root, in children too */

void command_begin(const char *job) {
    char *whole = realpath(job, NULL), *slash = whole ? strrchr(whole, '/') : NULL, folder[PATH_BYTES];
    snprintf(engine_path, sizeof engine_path, "/proc/%d/exe", (int)getpid());
    setenv("ENGINE", engine_path, 1);
    if (!slash) return;
    *slash = 0;
    snprintf(folder, sizeof folder, "%s/programs", whole);
    setenv("REPROFS_PROGRAMS", folder, 0);
    free(whole);
}

void command_program(char **argv) {
    const char *folder = getenv("REPROFS_PROGRAMS");
    char path[PATH_BYTES];
    if (!folder || !argv[1] || strchr(argv[1], '/')) return;
    snprintf(path, sizeof path, "%s/%s", folder, argv[1]);
    execv(path, argv + 1);
}

uint64_t oom_kills(void) {
    char *text = slurp("/proc/vmstat", NULL), *at = text ? strstr(text, "\noom_kill ") : NULL;
    uint64_t n = at ? strtoull(at + 10, NULL, 10) : 0;
    free(text);
    return n;
}

/* ---- running ----------------------------------------------------------------------------------------------------- */
void command_clear(struct result *r) { memset(r, 0, offsetof(struct result, tail) + 1); }

static void run_child(char **argv, char **env, int envs, const char *cwd, int out) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    setpgid(0, 0);
    int null = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (null < 0 || dup2(null, 0) < 0 || dup2(out, 1) < 0 || dup2(out, 2) < 0) _exit(126);
    if (*cwd && chdir(cwd)) {
        dprintf(2, "cannot enter %s: %s", cwd, strerror(errno));
        _exit(126);
    }
    for (int i = 0; i < envs; i++) putenv(env[i]);
    if (strcmp(argv[0], "engine")) execvp(argv[0], argv);
    else {
        command_program(argv);
        execv(engine_path, argv); /* which says what programs there are */
    }
    dprintf(2, "cannot run %s: %s", argv[0], strerror(errno));
    _exit(127);
}

/* Waits for a child, which is killed with its group when its time is over. */
static int wait_for(pid_t child, uint64_t start, uint64_t limit, bool *late, struct rusage *usage) {
    int status = 0;
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    while (wait4(child, &status, WNOHANG, usage) != child) {
        uint64_t spent = now_ns() - start;
        if (spent >= limit && !*late) {
            *late = true;
            kill(-child, SIGKILL);
        }
        uint64_t wait = *late ? 1000000000u : limit - spent;
        struct timespec t = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
        sigtimedwait(&chld, NULL, &t); /* SIGCHLD is blocked, so none is lost between wait4 and here */
    }
    return status;
}

static void read_tail(int out, size_t tail, struct result *r) {
    off_t size = lseek(out, 0, SEEK_END), from = size > (off_t)tail ? size - (off_t)tail : 0;
    ssize_t n = pread(out, r->tail, tail, from);
    r->tail_bytes = n > 0 ? (size_t)n : 0;
    while (r->tail_bytes && strchr("\n ", r->tail[r->tail_bytes - 1])) r->tail_bytes--;
    r->tail[r->tail_bytes] = 0;
}

static uint64_t nanoseconds(struct timeval t) { return ((uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec) * 1000u; }

void command_run(char **argv, char **env, int envs, const char *cwd, uint64_t limit_s, size_t tail, struct result *r) {
    command_clear(r);
    /* Output goes to memory, not through a pipe: no process has to be woken to drain it while the clock runs. */
    int out = memfd_create("output", MFD_CLOEXEC);
    struct rusage usage;
    uint64_t start = now_ns();
    pid_t child = fork();
    if (child == 0) run_child(argv, env, envs, cwd, out);
    if (child < 0) {
        r->exit = 126;
        return;
    }
    int status = wait_for(child, start, limit_s * 1000000000u, &r->late, &usage);
    r->wall = now_ns() - start;
    r->user = nanoseconds(usage.ru_utime);
    r->system = nanoseconds(usage.ru_stime);
    r->exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    read_tail(out, tail, r);
    close(out);
}

/* {client} -> the number of the client, three digits */
static char *for_client(const char *text, unsigned client) {
    const char *at = strstr(text, "{client}");
    char *more;
    if (!at) return strdup(text);
    char *rest = for_client(at + 8, client);
    if (asprintf(&more, "%.*s%03u%s", (int)(at - text), text, client, rest) < 0) more = NULL;
    free(rest);
    return more;
}

void command_start(const struct step *s, int client, struct result *r) {
    char *argv[FIELDS + 1], *env[FIELDS + 1], cwd[PATH_BYTES], self[32];
    int args = collect(s, "arg", argv), envs = collect(s, "env", env);
    uint64_t tail = number_or(s, "tail", TAIL_BYTES);
    if (!args) return failed("job: step %s has no arg", s->verb);
    snprintf(cwd, sizeof cwd, "%s", get(s, "cwd", ""));
    if (client >= 0) {
        for (int i = 0; i < args; i++) argv[i] = for_client(argv[i], (unsigned)client);
        snprintf(cwd, sizeof cwd, "%s/c%d", get(s, "cwd", ""), client);
        snprintf(self, sizeof self, "REPROFS_CLIENT=%d", client);
        if (envs < FIELDS) env[envs++] = self;
    }
    command_run(argv, env, envs, cwd, number_or(s, "limit_s", 600), tail > TAIL_MAX ? TAIL_MAX : tail, r);
}

void command_judge(const struct step *s, const struct result *r, bool out_of_memory) {
    const char *name = get(s, "arg", ""), *stage = get(s, "stage", get(s, "name", s->verb));
    const char *last = strrchr(r->tail, '\n');
    last = last ? last + 1 : r->tail;
    if (r->late) {
        timed_out = timed_out || !*failure;
        failed("%s: %s was stopped at its time limit of %s s", stage, name, get(s, "limit_s", "600"));
    } else if (out_of_memory) failed("%s: out of memory: the kernel killed a process while %s ran", stage, name);
    else if (r->signal) failed("%s: %s was ended by signal %d", stage, name, r->signal);
    else if (r->exit) failed("%s: %s exited with %d: %s", stage, name, r->exit, *last ? last : "no output");
}

void json_result(const struct result *r) {
    json_number("exit", (uint64_t)r->exit);
    json_number("signal", (uint64_t)r->signal);
    printf(",\"output\":");
    json_text(r->tail, r->tail_bytes);
}

/* ---- the step ---------------------------------------------------------------------------------------------------- */
/* What a command printed must match every regular expression of the step: what was made is what was asked for. */
static void match(const struct step *s, const struct result *r) {
    for (int i = 0; i < s->fields && !*failure; i++) {
        regex_t re;
        if (strcmp(s->key[i], "match")) continue;
        if (regcomp(&re, s->value[i], REG_EXTENDED | REG_NEWLINE | REG_NOSUB))
            return failed("job: '%s' is not a regular expression", s->value[i]);
        if (regexec(&re, r->tail, 0, NULL, 0))
            failed("%s: the output of %s does not match '%s'", need(s, "stage"), get(s, "arg", ""), s->value[i]);
        regfree(&re);
    }
}

static bool is_mounted(const char *path) {
    char *text = slurp("/proc/self/mountinfo", NULL), at[PATH_BYTES];
    bool found = false;
    for (char *lines = text, *line; lines && (line = strsep(&lines, "\n"));)
        found = found || (sscanf(line, "%*s %*s %*s %*s %1023s", at) == 1 && !strcmp(at, path));
    free(text);
    return found;
}

void step_exec(const struct step *s) {
    static struct result r;
    const char *path = get(s, "if_mounted", NULL);
    if (path && !is_mounted(path)) return;
    uint64_t kills = oom_kills();
    command_start(s, -1, &r);
    command_judge(s, &r, oom_kills() > kills);
    match(s, &r);
    printf("{\"event\":\"command\"");
    json_key("stage", need(s, "stage"));
    json_argv(s);
    json_number("wall_ns", r.wall);
    json_result(&r);
    printf("}\n");
}
