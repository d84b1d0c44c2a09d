/* engine run JOB: runs the steps of a job, one JSON object a line on standard output.
 *
 * A job is text: one step a line, `verb<TAB>key=value<TAB>key=value...`; \t \n \\ stand for tab, line feed, backslash.
 * The first step that fails ends the work; the steps after the line `teardown` run in any case.
 */
#define _GNU_SOURCE
#include "operations.h"
#include "programs.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/random.h>
#include <regex.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

enum { FIELDS = 256, TAIL_BYTES = 4096, TAIL_MAX = 1 << 16, DEVICES = 32, CLIENTS = 256 };

struct step {
    char *verb;
    int fields;
    char *key[FIELDS], *value[FIELDS];
};

static char reason[2048]; /* why the job failed; empty while all is well */
static bool timed_out;
static struct tree trees[CLIENTS]; /* one for each client; one client unless the job says otherwise */
static unsigned clients = 1;
static int devices;
static char device[DEVICES][64];
struct counters { uint64_t reads, read_bytes, writes, written_bytes, busy_ns, discards, flushes, in_flight, model_ns; };
static struct { /* a rebuild that goes on while phases run */
    char path[PATH_BYTES];
    uint64_t since;
    struct counters before;
} watched;

static __attribute__((format(printf, 1, 2))) void failed(const char *format, ...) {
    va_list a;
    if (*reason) return; /* the first reason is the cause */
    va_start(a, format);
    vsnprintf(reason, sizeof reason, format, a);
    va_end(a);
}

/* ---- reading a job ----------------------------------------------------------------------------------------------- */
static const char *get(const struct step *s, const char *key, const char *otherwise) {
    for (int i = 0; i < s->fields; i++)
        if (!strcmp(s->key[i], key)) return s->value[i];
    return otherwise;
}
static const char *need(const struct step *s, const char *key) {
    const char *v = get(s, key, NULL);
    if (!v) failed("job: step %s has no %s", s->verb, key);
    return v ? v : "";
}
static uint64_t number(const struct step *s, const char *key) { return strtoull(need(s, key), NULL, 10); }

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

static void parse(char *line, struct step *s) {
    s->fields = 0;
    s->verb = strsep(&line, "\t");
    for (char *field; (field = strsep(&line, "\t"));) {
        char *eq = strchr(field, '=');
        if (!eq || s->fields == FIELDS) {
            failed("job: step %s: '%s' is not key=value, or there are more than %d fields", s->verb, field, FIELDS);
            s->verb = NULL; /* a malformed step is not run */
            return;
        }
        *eq = 0;
        unescape(eq + 1);
        s->key[s->fields] = field;
        s->value[s->fields++] = eq + 1;
    }
}

static char *slurp(const char *path, size_t *size) {
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

/* ---- output ------------------------------------------------------------------------------------------------------ */
/* A JSON string; bytes that are not ASCII become '?'. (Not static: the compiler would lay the binary out differently,
 * and the exact lab's numbers follow its layout.) */
void json_text(FILE *f, const char *s, size_t n) {
    putc('"', f);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') fprintf(f, "\\%c", c);
        else if (c == '\n') fputs("\\n", f);
        else if (c < 0x20) fprintf(f, "\\u%04x", c);
        else putc(c < 0x7f ? c : '?', f);
    }
    putc('"', f);
}
static void json_key(const char *key, const char *s) {
    printf(",\"%s\":", key);
    json_text(stdout, s, strlen(s));
}
static void json_number(const char *key, uint64_t v) { printf(",\"%s\":%llu", key, (unsigned long long)v); }

/* ---- running commands -------------------------------------------------------------------------------------------- */
struct result {
    int exit, signal;
    bool late;
    uint64_t wall, user, system;
    size_t tail_bytes;
    char tail[TAIL_MAX + 1];
};

static uint64_t microseconds(struct timeval t) { return ((uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec) * 1000u; }

static uint64_t oom_kills(void) {
    char *text = slurp("/proc/vmstat", NULL), *at = text ? strstr(text, "\noom_kill ") : NULL;
    uint64_t n = at ? strtoull(at + 10, NULL, 10) : 0;
    free(text);
    return n;
}

static char engine_path[64]; /* works from any root, in children too */

static void run(char **argv, char **env, int envs, const char *cwd, uint64_t limit_s, size_t tail, struct result *r) {
    memset(r, 0, offsetof(struct result, tail) + 1);
    /* Output goes to memory, not through a pipe: no process has to be woken to drain it while the clock runs. */
    int out = memfd_create("output", MFD_CLOEXEC);
    struct rusage usage;
    int status = 0;
    uint64_t start = now_ns();
    pid_t child = fork();
    if (child == 0) {
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
        setenv("ENGINE", engine_path, 1);
        for (int i = 0; i < envs; i++) putenv(env[i]);
        if (!strcmp(argv[0], "engine")) execv(engine_path, argv);
        else execvp(argv[0], argv);
        dprintf(2, "cannot run %s: %s", argv[0], strerror(errno));
        _exit(127);
    }
    if (child < 0) {
        r->exit = 126;
        return;
    }
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    while (wait4(child, &status, WNOHANG, &usage) != child) {
        uint64_t spent = now_ns() - start, limit = limit_s * 1000000000u;
        if (spent >= limit && !r->late) {
            r->late = true;
            kill(-child, SIGKILL);
        }
        uint64_t wait = r->late ? 1000000000u : limit - spent;
        struct timespec t = {(time_t)(wait / 1000000000u), (long)(wait % 1000000000u)};
        sigtimedwait(&chld, NULL, &t); /* SIGCHLD is blocked, so none is lost between wait4 and here */
    }
    r->wall = now_ns() - start;
    r->user = microseconds(usage.ru_utime);
    r->system = microseconds(usage.ru_stime);
    r->exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
    r->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    off_t size = lseek(out, 0, SEEK_END), from = size > (off_t)tail ? size - (off_t)tail : 0;
    ssize_t n = pread(out, r->tail, tail, from);
    r->tail_bytes = n > 0 ? (size_t)n : 0;
    while (r->tail_bytes && strchr("\n ", r->tail[r->tail_bytes - 1])) r->tail_bytes--;
    r->tail[r->tail_bytes] = 0;
    close(out);
}

static int collect(const struct step *s, const char *key, char **list) {
    int n = 0;
    for (int i = 0; i < s->fields; i++)
        if (!strcmp(s->key[i], key)) list[n++] = s->value[i];
    list[n] = NULL;
    return n;
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

/* client: its number, or -1 without clients. Memory is not freed: one that has clients is a process that ends. */
static void start_step(const struct step *s, int client, struct result *r) {
    char *argv[FIELDS + 1], *env[FIELDS + 1], cwd[PATH_BYTES], number[32];
    int args = collect(s, "arg", argv), envs = collect(s, "env", env);
    uint64_t tail = strtoull(get(s, "tail", "0"), NULL, 10);
    if (!args) return failed("job: step %s has no arg", s->verb);
    snprintf(cwd, sizeof cwd, "%s", get(s, "cwd", ""));
    if (client >= 0) {
        for (int i = 0; i < args; i++) argv[i] = for_client(argv[i], (unsigned)client);
        snprintf(cwd, sizeof cwd, "%s/c%d", get(s, "cwd", ""), client);
        snprintf(number, sizeof number, "REPROFS_CLIENT=%d", client);
        if (envs < FIELDS) env[envs++] = number;
    }
    run(argv, env, envs, cwd, strtoull(get(s, "limit_s", "600"), NULL, 10),
        !tail                 ? TAIL_BYTES
            : tail > TAIL_MAX ? TAIL_MAX
                              : tail,
        r);
}

static void judge_step(const struct step *s, const struct result *r, bool out_of_memory) {
    const char *argv[1] = {get(s, "arg", "")};
    const char *stage = get(s, "stage", get(s, "name", s->verb)), *last = strrchr(r->tail, '\n');
    last = last ? last + 1 : r->tail;
    if (r->late) {
        timed_out = true;
        failed("%s: %s was stopped at its time limit of %s s", stage, argv[0], get(s, "limit_s", "600"));
    } else if (out_of_memory) failed("%s: out of memory: the kernel killed a process while %s ran", stage, argv[0]);
    else if (r->signal) failed("%s: %s was ended by signal %d", stage, argv[0], r->signal);
    else if (r->exit) failed("%s: %s exited with %d: %s", stage, argv[0], r->exit, *last ? last : "no output");
}

static void run_step(const struct step *s, struct result *r) {
    uint64_t kills = oom_kills();
    start_step(s, -1, r);
    judge_step(s, r, oom_kills() > kills);
}

/* What a command printed must match every regular expression of the step: what was made is what was asked for. */
static void match_step(const struct step *s, const struct result *r) {
    for (int i = 0; i < s->fields && !*reason; i++) {
        regex_t re;
        if (strcmp(s->key[i], "match")) continue;
        if (regcomp(&re, s->value[i], REG_EXTENDED | REG_NEWLINE | REG_NOSUB))
            return failed("job: '%s' is not a regular expression", s->value[i]);
        if (regexec(&re, r->tail, 0, NULL, 0))
            failed("%s: the output of %s does not match '%s'", need(s, "stage"), get(s, "arg", ""), s->value[i]);
        regfree(&re);
    }
}

static void json_argv(const struct step *s) {
    const char *comma = "";
    printf(",\"argv\":[");
    for (int i = 0; i < s->fields; i++) {
        if (strcmp(s->key[i], "arg")) continue;
        printf("%s", comma);
        json_text(stdout, s->value[i], strlen(s->value[i]));
        comma = ",";
    }
    putchar(']');
}
static void json_result(const struct result *r) {
    json_number("exit", (uint64_t)r->exit);
    json_number("signal", (uint64_t)r->signal);
    printf(",\"output\":");
    json_text(stdout, r->tail, r->tail_bytes);
}

static bool is_mounted(const char *path) {
    char *text = slurp("/proc/self/mountinfo", NULL), at[PATH_BYTES];
    bool found = false;
    for (char *lines = text, *line; lines && (line = strsep(&lines, "\n"));)
        found = found || (sscanf(line, "%*s %*s %*s %*s %1023s", at) == 1 && !strcmp(at, path));
    free(text);
    return found;
}

static void step_exec(const struct step *s) {
    static struct result r;
    const char *path = get(s, "if_mounted", NULL);
    if (path && !is_mounted(path)) return;
    run_step(s, &r);
    match_step(s, &r);
    printf("{\"event\":\"command\"");
    json_key("stage", need(s, "stage"));
    json_argv(s);
    json_number("wall_ns", r.wall);
    json_result(&r);
    printf("}\n");
}

/* ---- small steps ------------------------------------------------------------------------------------------------- */
static void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) failed("cannot write '%s' to %s: %s", text, path, strerror(errno));
    if (fd >= 0) close(fd);
}
static void step_write(const struct step *s) { write_text(need(s, "path"), need(s, "text")); }

static void step_mkdir(const struct step *s) {
    if (mkdir(need(s, "path"), 0755) && errno != EEXIST) failed("cannot make %s: %s", need(s, "path"), strerror(errno));
}

/* The kernel's random numbers follow from the seed: UUIDs and hash seeds that mkfs or the kernel draws are then part of
 * the input. */
static void step_seed(const struct step *s) {
    int pool[2 + 8] = {256, 32}; /* struct rand_pool_info: bits of entropy, bytes, the bytes */
    uint64_t value = number(s, "value");
    for (uint64_t i = 0; i < 4; i++, value += UINT64_C(0x9e3779b97f4a7c15))
        memcpy(pool + 2 + 2 * i, &value, sizeof value);
    int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, pool) || ioctl(fd, RNDRESEEDCRNG))
        failed("cannot seed the kernel's random numbers: %s", strerror(errno));
    if (fd >= 0) close(fd);
}

/* The processor has these features, its counter goes so many times as fast as the clock, and its timer by this divider.
 */
static void step_processor(const struct step *s) {
    enum { APIC = 0xfee00000, DIVIDER = 0x3e0, APIC_BYTES = 4096, WAIT_NS = 20000 };
    char *text = slurp("/proc/cpuinfo", NULL), *flags = text ? strstr(text, "\nflags") : NULL;
    if (flags) memcpy(flags + 1 + strcspn(flags + 1, "\n"), " ", 2); /* a space ends the last word, a NUL the line */
    for (int i = 0; i < s->fields; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", s->value[i]);
        if (!strcmp(s->key[i], "flag") && (!flags || !strstr(flags, word)))
            failed("the processor has no %s", s->value[i]);
    }
    free(text);
    uint64_t start = now_ns(), ticks = __builtin_ia32_rdtsc(), now;
    while ((now = now_ns()) - start < WAIT_NS) {}
    ticks = __builtin_ia32_rdtsc() - ticks;
    uint64_t speed = (ticks + (now - start) / 2) / (now - start), divider = ~0ull;
    int fd = open("/dev/mem", O_RDONLY | O_SYNC | O_CLOEXEC);
    void *apic = fd < 0 ? MAP_FAILED : mmap(NULL, APIC_BYTES, PROT_READ, MAP_SHARED, fd, APIC);
    if (apic != MAP_FAILED) {
        divider = *(volatile uint32_t *)((char *)apic + DIVIDER);
        munmap(apic, APIC_BYTES);
    }
    if (fd >= 0) close(fd);
    if (speed != number(s, "instructions_per_ns") || divider != number(s, "divider"))
        failed("the processor takes 1/%llu ns an instruction and its timer's divider is %lld, but they should be 1/%s "
               "and %s",
            (unsigned long long)speed, (long long)divider, need(s, "instructions_per_ns"), need(s, "divider"));
}

/* Stops the machine with no timer pending, as scripts/guest/init does and explains. */
static void machine_pause(void) {
    enum { APIC = 0xfee00000, TIMER = 0x320, COUNT = 0x380, MASKED = 1 << 16, APIC_BYTES = 4096, PVPANIC = 0x505 };
    int memory = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC), ports = open("/dev/port", O_WRONLY | O_CLOEXEC);
    void *at = memory < 0 ? MAP_FAILED : mmap(NULL, APIC_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, APIC);
    if (at == MAP_FAILED || ports < 0) failed("cannot stop the machine: %s", strerror(errno));
    else {
        volatile uint32_t *timer = (uint32_t *)((char *)at + TIMER), *count = (uint32_t *)((char *)at + COUNT);
        uint32_t before = *timer;
        *timer = before | MASKED;
        if (pwrite(ports, "\1", 1, PVPANIC) != 1) failed("cannot stop the machine: %s", strerror(errno));
        *timer = before;
        *count = 1000; /* soon: upon it the kernel sets it again */
    }
    if (at != MAP_FAILED) munmap(at, APIC_BYTES);
    if (memory >= 0) close(memory);
    if (ports >= 0) close(ports);
}

/* Jobs that are alike up to here go on from one saved state, each with a rest of its own, which is returned; NULL if it
 * cannot be read. After a failure there is nothing to save, but the rest has the teardown. */
static char *step_pause(const struct step *s) {
    const char *source = need(s, "source");
    char path[PATH_BYTES];
    unsigned long first = 0, all = 0;
    tcdrain(STDOUT_FILENO);
    if (!*reason) machine_pause();
    snprintf(path, sizeof path, "%s.size/raw", source);
    char *sizes = slurp(path, NULL), *rest = NULL;
    if (sizes && sscanf(sizes, "%lu %lu", &first, &all) == 2 && all >= first) rest = calloc(1, all - first + 1);
    free(sizes);
    snprintf(path, sizeof path, "%s.job/raw", source);
    int job = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    for (ssize_t r; rest && (r = pread(job, rest + n, all - first - n, (off_t)(first + n))) > 0;) n += (size_t)r;
    if (!rest || n < all - first) failed("cannot read the rest of the job from %s: %s", path, strerror(errno));
    if (job >= 0) close(job);
    return rest;
}

static void step_clock(void) {
    enum { READS = 1000 };
    uint64_t start = now_ns(), end = start;
    for (int i = 0; i < READS; i++) end = now_ns();
    printf("{\"event\":\"clock\",\"read_ns\":%llu}\n", (unsigned long long)((end - start) / READS));
}

static void step_drop(void) {
    sync();
    int fd = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "3", 1) < 0) failed("cannot drop the caches: %s", strerror(errno));
    if (fd >= 0) close(fd);
}

/* Where the caches cannot be dropped: evicts the pages of every file below a folder; names and inodes may stay. */
static int evict(const char *path, const struct stat *st, int kind, struct FTW *at) {
    (void)at;
    int fd = kind == FTW_F && S_ISREG(st->st_mode) ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd >= 0) {
        fdatasync(fd); /* only clean pages can go */
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        close(fd);
    }
    return 0;
}
static void step_evict(const struct step *s) {
    if (nftw(need(s, "root"), evict, 64, FTW_PHYS)) failed("cannot walk %s: %s", need(s, "root"), strerror(errno));
}

/* Keeps a tool and its libraries in memory, so that a cold phase reads the test file system and not the tool from its
 * image. */
static void pin(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *at = MAP_FAILED;
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) at = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED || mlock(at, (size_t)st.st_size))
        failed("cannot keep %s in memory: %s", path, strerror(errno));
    if (fd >= 0) close(fd);
}
static void step_pin(const struct step *s) {
    const char *tool = need(s, "tool");
    char where[PATH_BYTES], *path = strdup(getenv("PATH")), *dirs = path;
    for (char *dir; (dir = strsep(&dirs, ":"));) {
        snprintf(where, sizeof where, "%s/%s", dir, tool);
        if (!access(where, X_OK)) break;
        *where = 0;
    }
    free(path);
    if (!*where) return failed("the lab has no %s", tool);
    pin(where);
    static struct result r;
    char *argv[] = {"/lib64/ld-linux-x86-64.so.2", "--list", where, NULL};
    run(argv, NULL, 0, "", 60, TAIL_BYTES, &r);
    if (r.exit) return; /* a static program or a script has no libraries */
    for (char *lines = r.tail, *line; (line = strsep(&lines, "\n"));) {
        char *at = strchr(line, '/'), *end = at ? strstr(at, " (") : NULL;
        if (!end) continue;
        *end = 0;
        pin(at);
    }
}

/* What the kernel says is mounted, not what was asked for. */
static void step_mounted(const struct step *s) {
    const char *path = need(s, "path"), *type = get(s, "type", NULL);
    bool within = get(s, "within", NULL); /* the mount that holds the path, instead of the one on it */
    size_t best = 0;
    char *text = slurp("/proc/self/mountinfo", NULL), *lines = text, found[PATH_BYTES * 4] = "";
    for (char *line; lines && (line = strsep(&lines, "\n"));) { /* the last mount on a path is the one on top */
        char at[PATH_BYTES];
        if (sscanf(line, "%*s %*s %*s %*s %1023s", at) != 1) continue;
        size_t n = strlen(at);
        bool holds = within && n >= best && !strncmp(at, path, n) && (n == 1 || !path[n] || path[n] == '/');
        if (!strcmp(at, path) || holds) snprintf(found, sizeof found, "%s", line), best = n;
    }
    free(text);
    char at_options[PATH_BYTES] = "", kind[64] = "", source[PATH_BYTES] = "", options[PATH_BYTES] = "";
    char *dash = strstr(found, " - ");
    if (!dash) return failed("nothing is mounted on %s", path);
    sscanf(found, "%*s %*s %*s %*s %*s %1023s", at_options);
    sscanf(dash, " - %63s %1023s %1023s", kind, source, options);
    struct statvfs v;
    if (statvfs(path, &v)) return failed("cannot inspect %s: %s", path, strerror(errno));
    printf("{\"event\":\"mounted\"");
    json_key("source", source);
    json_key("type", kind);
    json_key("mount_options", at_options);
    json_key("super_options", options);
    json_number("block_bytes", v.f_frsize);
    json_number("total_bytes", (uint64_t)v.f_blocks * v.f_frsize);
    json_number("free_bytes", (uint64_t)v.f_bfree * v.f_frsize);
    printf("}\n");
    if (type && strcmp(kind, type)) failed("%s is a %s file system, not %s", path, kind, type);
    char all[2 * PATH_BYTES + 4];
    snprintf(all, sizeof all, ",%s,%s,", at_options, options);
    for (int i = 0; i < s->fields; i++) {
        char want[PATH_BYTES];
        if (strcmp(s->key[i], "expect")) continue;
        snprintf(want, sizeof want, ",%s,", s->value[i]);
        if (!strstr(all, want))
            failed("the kernel does not report the mount option %s: it says %s,%s", s->value[i], at_options, options);
    }
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */
static struct counters sample(void) {
    struct counters sum = {0};
    for (int i = 0; i < devices; i++) {
        char path[128];
        snprintf(path, sizeof path, "/sys/block/%s/stat", device[i]);
        unsigned long long v[17] = {0};
        char *text = slurp(path, NULL), *at = text;
        for (int k = 0; at && k < 17; k++) v[k] = strtoull(at, &at, 10);
        if (!text) failed("cannot read the counters of %s", device[i]);
        free(text);
        sum.reads += v[0], sum.read_bytes += v[2] * 512, sum.writes += v[4], sum.written_bytes += v[6] * 512;
        sum.in_flight += v[8], sum.busy_ns += v[9] * 1000000, sum.discards += v[11], sum.flushes += v[15];
        unsigned long long model = 0;
        snprintf(path, sizeof path, "/sys/block/%s/account", device[i]); /* only modelled disks have one */
        text = slurp(path, NULL);
        if (text) sscanf(text, "%*s %*s %llu", &model);
        free(text);
        sum.model_ns += model;
    }
    return sum;
}

static void step_devices(const struct step *s) {
    devices = 0;
    for (int i = 0; i < s->fields && devices < DEVICES; i++) {
        char real[PATH_BYTES * 4]; /* PATH_MAX */
        if (strcmp(s->key[i], "path")) continue;
        if (!realpath(s->value[i], real)) return failed("there is no device %s: %s", s->value[i], strerror(errno));
        snprintf(device[devices++], sizeof device[0], "%.63s", strrchr(real, '/') + 1);
    }
}

/* ---- power ------------------------------------------------------------------------------------------------------- */
/* All devices lose their power, at once or together when the clock says `at`. */
static void power_cut(const struct step *s, uint64_t at) {
    for (int i = 0; i < s->fields; i++) {
        char text[32] = "cut";
        uint64_t now = now_ns();
        if (strcmp(s->key[i], "power")) continue;
        if (at > now) snprintf(text, sizeof text, "cut %llu", (unsigned long long)(at - now));
        write_text(s->value[i], text);
    }
}

/* Arms a cut in the middle of a phase: the devices' own timers do it, nothing in here can tell. Returns when it will
 * be, 0: not. */
static uint64_t power_arm(const struct step *s) {
    char text[32];
    uint64_t ahead = strtoull(get(s, "cut_ms", "0"), NULL, 10) * 1000000u, at = now_ns() + ahead;
    if (!ahead) return 0;
    snprintf(text, sizeof text, "%llu", (unsigned long long)at);
    setenv("REPROFS_CUT_NS", text, 1); /* for commands that promise something: until then they may */
    power_cut(s, at);
    return at;
}

/* The power comes back: the devices have what reached their media, and say how much did not. */
static void step_restore(const struct step *s) {
    uint64_t lost = 0;
    for (int i = 0; i < s->fields; i++) {
        char path[PATH_BYTES];
        unsigned long long bytes = 0;
        if (strcmp(s->key[i], "power")) continue;
        write_text(s->value[i], "restore");
        snprintf(path, sizeof path, "%.*s/account", (int)(strrchr(s->value[i], '/') - s->value[i]), s->value[i]);
        char *text = slurp(path, NULL);
        if (!text || sscanf(text, "%*s %*s %*s %llu", &bytes) != 1)
            failed("cannot read how much was lost from %s", path);
        free(text);
        lost += bytes;
    }
    printf("{\"event\":\"restored\",\"lost_bytes\":%llu}\n", (unsigned long long)lost);
}

/* ---- rebuilds ---------------------------------------------------------------------------------------------------- */
static bool is_idle(const char *path) {
    char *text = slurp(path, NULL);
    bool idle = text && !strncmp(text, "idle", 4);
    if (!text) failed("cannot read %s: %s", path, strerror(errno));
    free(text);
    return idle || *reason;
}
static void wait_idle(const char *path, uint64_t limit_s) {
    uint64_t start = now_ns();
    while (!is_idle(path)) {
        if (now_ns() - start > limit_s * 1000000000u) {
            timed_out = true;
            return failed("%s did not become idle within %llu s", path, (unsigned long long)limit_s);
        }
        usleep(10000);
    }
}
static void step_await(const struct step *s) {
    uint64_t start = now_ns();
    wait_idle(need(s, "path"), number(s, "limit_s"));
    printf("{\"event\":\"awaited\"");
    json_key("path", need(s, "path"));
    json_number("wall_ns", now_ns() - start);
    printf("}\n");
}
static void step_watch(const struct step *s) {
    snprintf(watched.path, sizeof watched.path, "%s", need(s, "path"));
    watched.before = sample();
    watched.since = now_ns();
}

/* Waits until the devices have been idle for a second, so that one phase's leftovers are not charged to the next. */
enum { SETTLE_STEP_MS = 100, SETTLE_QUIET = 10, SETTLE_LIMIT = 1200 };
static uint64_t settle(bool *settled) {
    uint64_t start = now_ns();
    struct counters last = sample();
    int quiet = 0;
    for (int i = 0; devices && quiet < SETTLE_QUIET && i < SETTLE_LIMIT; i++) {
        usleep(SETTLE_STEP_MS * 1000);
        struct counters c = sample();
        quiet = c.reads == last.reads && c.writes == last.writes && c.discards == last.discards && !c.in_flight
            ? quiet + 1
            : 0;
        last = c;
    }
    *settled = !devices || quiet == SETTLE_QUIET;
    return now_ns() - start;
}

static void step_settle(void) {
    bool settled;
    uint64_t waited = settle(&settled);
    printf("{\"event\":\"settle\",\"settle_ns\":%llu}\n", (unsigned long long)waited);
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */
/* Where a client has what one alone has in `path`: /mnt/trial/tree -> /mnt/trial/c7/tree. */
static void place(const char *path, unsigned client, char *out, size_t n) {
    const char *last = strrchr(path, '/');
    if (clients == 1 || !last) snprintf(out, n, "%s", path);
    else snprintf(out, n, "%.*s/c%u%s", (int)(last - path), path, client, last);
}

static void step_tree(const struct step *s) {
    struct tree t = {0};
    t.seed = number(s, "seed");
    t.files = number(s, "files");
    t.directories = number(s, "directories");
    t.fan_out = number(s, "fan_out");
    t.size_max = number(s, "size_max");
    t.size_median = strtod(need(s, "size_median"), NULL);
    t.size_sigma = strtod(need(s, "size_sigma"), NULL);
    if (!t.files || !t.directories || !t.fan_out) failed("job: a tree needs files, directories and fan_out above zero");
    uint64_t n = strtoull(get(s, "clients", "1"), NULL, 10);
    if (n < 1 || n > CLIENTS)
        return failed("job: %s clients, but from 1 to %d are possible", get(s, "clients", ""), CLIENTS);
    clients = (unsigned)n;
    for (unsigned i = 0; i < clients; i++) {
        trees[i] = t;
        place(need(s, "root"), i, trees[i].root, sizeof trees[i].root);
        if (clients > 1) trees[i].seed = t.seed * 1000 + i; /* as {client} makes of the seeds of commands */
    }
    tree_pool(t.seed);
}

/* Everything written is on the device afterwards: of a folder its whole file system, of a block device what is cached
 * of it. */
static uint64_t sync_all(const struct step *s) {
    uint64_t start = now_ns();
    for (int i = 0; i < s->fields; i++) {
        if (strcmp(s->key[i], "sync")) continue;
        struct stat st;
        int fd = open(s->value[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) || (S_ISBLK(st.st_mode) ? fsync(fd) : syncfs(fd)))
            failed("cannot sync %s: %s", s->value[i], strerror(errno));
        if (fd >= 0) close(fd);
    }
    return now_ns() - start;
}

static void json_histogram(const struct histogram *h) {
    if (!h->count) {
        printf(",\"latency\":null");
        return;
    }
    printf(",\"latency\":{\"sub_bucket_bits\":%d", SUB_BITS);
    json_number("count", h->count);
    json_number("sum_ns", h->sum);
    json_number("min_ns", h->min);
    json_number("max_ns", h->max);
    printf(",\"buckets\":[");
    const char *comma = "";
    for (unsigned i = 0; i < BUCKETS; i++) {
        if (!h->bucket[i]) continue;
        printf("%s[%u,%llu]", comma, i, (unsigned long long)h->bucket[i]);
        comma = ",";
    }
    printf("]}");
}

/* Samples that a command takes arrive in a file in memory, a JSON object a line. */
static int samples_open(void) {
    char path[64];
    int fd = memfd_create("samples", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)getpid(), fd);
    if (fd < 0 || setenv("REPROFS_SAMPLES", path, 1)) failed("cannot make a place for samples: %s", strerror(errno));
    return fd;
}
static void samples_json(int fd) {
    char buffer[1 << 12], last = '[';
    ssize_t n;
    lseek(fd, 0, SEEK_SET);
    printf(",\"samples\":");
    while ((n = read(fd, buffer, sizeof buffer)) > 0)
        for (ssize_t i = 0; i < n; i++) {
            if (buffer[i] == '\n') continue;
            if (buffer[i] == '{') putchar(last), last = ',';
            putchar(buffer[i]);
        }
    printf(last == '[' ? "[]" : "]");
    close(fd);
}

/* What a phase does: once, or in every client. */
struct phase {
    const struct step *step;
    const struct operation *operation; /* NULL: a command */
    struct result *result;             /* of each client, in shared memory */
};
static void phase_work(unsigned number, void *what, struct client *c) {
    const struct phase *p = what;
    struct outcome o = {0};
    if (p->operation) {
        operation_run(p->operation, &trees[number], !strcmp(get(p->step, "order", "tree"), "random"), &c->latency, &o);
        snprintf(c->where, sizeof c->where, "%s", o.where);
    } else {
        char began[32];
        snprintf(began, sizeof began, "%llu", (unsigned long long)c->start);
        setenv("REPROFS_BEGAN", began, 1);
        start_step(p->step, (int)number, &p->result[number]);
        meeting_leave();
        o.items = strtoull(get(p->step, "items", "1"), NULL, 10);
    }
    c->items = o.items, c->bytes = o.bytes, c->error = o.error;
}
static void merge(struct histogram *to, const struct histogram *from) {
    to->count += from->count, to->sum += from->sum;
    if (from->min < to->min) to->min = from->min;
    if (from->max > to->max) to->max = from->max;
    for (unsigned i = 0; i < BUCKETS; i++) to->bucket[i] += from->bucket[i];
}

static void step_phase(const struct step *s) {
    static struct histogram h;
    static struct result one;
    const char *name = need(s, "name"), *kind = need(s, "operation");
    bool exec = !strcmp(kind, "exec"), rebuild = !strcmp(kind, "rebuild"), measured = !get(s, "unmeasured", NULL);
    bool many = get(s, "clients", NULL), crash = get(s, "power", NULL);
    unsigned n = (unsigned)strtoul(get(s, "clients", "1"), NULL, 10);
    const struct operation *op = exec || rebuild ? NULL : operation_find(kind);
    if (!exec && !rebuild && !op) return failed("job: phase %s: the engine has no operation %s", name, kind);
    if (n < 1 || n > CLIENTS || (op && n != clients))
        return failed("job: phase %s: %s clients", name, get(s, "clients", "1"));
    memset(&h, 0, sizeof h);
    h.min = UINT64_MAX;
    struct outcome o = {0};
    struct result *r = &one;
    struct client *c = NULL;
    struct rusage u0, u1;
    int samples = exec ? samples_open() : -1;
    memset(&one, 0, offsetof(struct result, tail) + 1);
    if (many &&
        (r = mmap(NULL, n * sizeof *r, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0)) == MAP_FAILED)
        return failed("phase %s: no memory for %u clients", name, n);
    int together = exec && many ? meeting_open(n) : -1;
    if (exec && many && together < 0)
        return failed("phase %s: cannot make a place where clients meet: %s", name, strerror(errno));
    struct phase phase = {s, op, r};
    uint64_t kills = oom_kills(), busy = 0, first = 0;
    struct counters before = sample();
    getrusage(many ? RUSAGE_CHILDREN : RUSAGE_SELF, &u0);
    uint64_t cut_at = power_arm(s), start = now_ns(), worked;
    if (many) {
        if (!(c = clients_run(n, phase_work, &phase)))
            failed("phase %s: cannot start %u clients: %s", name, n, strerror(errno));
        uint64_t last = 0;
        first = UINT64_MAX;
        for (unsigned i = 0; c && i < n; i++) {
            if (c[i].start < first) first = c[i].start;
            if (c[i].end > last) last = c[i].end;
            if (c[i].error && !o.error)
                o.error = c[i].error, snprintf(o.where, sizeof o.where, "client %u: %.900s", i, c[i].where);
            if (c[i].latency.sum > busy) busy = c[i].latency.sum;
            merge(&h, &c[i].latency);
            o.items += c[i].items, o.bytes += c[i].bytes;
            if (exec) judge_step(s, &r[i], oom_kills() > kills);
            /* the clients renamed in copies of the trees */
            if (op && !strcmp(kind, "rename") && !c[i].error) trees[i].generation++;
        }
        worked = last > first ? last - first : 0;
    } else {
        if (exec) run_step(s, r);
        else if (rebuild) {
            wait_idle(watched.path, number(s, "limit_s"));
            start = watched.since; /* the rebuild began when the spare was added, before the phases */
            before = watched.before;
            o.items = 1;
        } else operation_run(op, &trees[0], !strcmp(get(s, "order", "tree"), "random"), &h, &o);
        worked = now_ns() - start;
        busy = exec ? r->wall : rebuild ? worked : h.sum;
        if (exec) o.items = number(s, "items");
    }
    uint64_t synced = crash ? 0 : sync_all(s), began = many ? first : start;
    if (crash && (!cut_at || now_ns() < cut_at)) power_cut(s, 0);
    /* after it the devices took no time */
    if (cut_at && cut_at < began + worked) worked = cut_at > began ? cut_at - began : 0;
    unsetenv("REPROFS_CUT_NS");
    unsetenv("REPROFS_MEETING");
    if (together >= 0) close(together);
    bool rebuilding = *watched.path && !rebuild && !is_idle(watched.path);
    getrusage(many ? RUSAGE_CHILDREN : RUSAGE_SELF, &u1);
    struct counters after = sample();
    if (o.error == ENOSPC)
        failed("%s: no space left on the device after %llu items", name, (unsigned long long)o.items);
    else if (o.error) failed("%s: %s: %s", name, o.where, strerror(o.error));
    bool settled = false;
    /* a rebuild keeps the devices busy */
    uint64_t waited = crash || (*watched.path && !rebuild) ? 0 : settle(&settled);
    printf("{\"event\":\"%s\"", measured ? "phase" : "preparation");
    json_key("name", name);
    json_key("cache", need(s, "cache"));
    if (get(s, "run", NULL)) json_number("run", number(s, "run"));
    json_key("operation", kind);
    if (exec) json_argv(s);
    json_number("wall_ns", worked + synced);
    json_number("user_ns", exec && !many ? r->user : microseconds(u1.ru_utime) - microseconds(u0.ru_utime));
    json_number("system_ns", exec && !many ? r->system : microseconds(u1.ru_stime) - microseconds(u0.ru_stime));
    json_number("sync_ns", synced);
    json_number("driver_ns", exec && many ? 0 : busy < worked ? worked - busy : 0);
    json_number("settle_ns", waited);
    printf(",\"settled\":%s", settled ? "true" : "false");
    if (crash) printf(",\"crash\":{\"cut_ns\":%llu}", (unsigned long long)worked);
    if (*watched.path && !rebuild) printf(",\"rebuilding\":%s", rebuilding ? "true" : "false");
    json_number("items", o.items);
    json_number("bytes", o.bytes);
    json_result(r);
    if (devices) {
        printf(",\"device\":{\"reads\":%llu", (unsigned long long)(after.reads - before.reads));
        json_number("read_bytes", after.read_bytes - before.read_bytes);
        json_number("writes", after.writes - before.writes);
        json_number("written_bytes", after.written_bytes - before.written_bytes);
        json_number("flushes", after.flushes - before.flushes);
        json_number("discards", after.discards - before.discards);
        json_number("busy_ns", after.busy_ns - before.busy_ns);
        if (after.model_ns) json_number("model_ns", after.model_ns - before.model_ns);
        printf("}");
    } else printf(",\"device\":null");
    json_histogram(&h);
    if (exec) samples_json(samples);
    if (c) {
        printf(",\"clients\":[");
        for (unsigned i = 0; i < n; i++) {
            printf("%s{\"start_ns\":%llu", i ? "," : "", (unsigned long long)(c[i].start - first));
            json_number("wall_ns", c[i].end - c[i].start);
            json_number("items", c[i].items);
            json_number("bytes", c[i].bytes);
            printf("}");
        }
        printf("]");
        clients_free(c, n);
        if (many) munmap(r, n * sizeof *r);
    }
    printf("}\n");
}

/* count: what a power cut left is counted, not judged. */
static void step_verify(const struct step *s) {
    struct outcome o = {.digest = 0xcbf29ce484222325u};
    const char *folder = get(s, "root", NULL);
    bool judged = !get(s, "count", NULL);
    for (unsigned i = 0; i < clients && !o.error; i++) {
        char root[PATH_BYTES];
        if (folder) place(folder, i, root, sizeof root);
        tree_verify(&trees[i], folder ? root : trees[i].root, &o);
    }
    if (!folder) folder = trees[0].root;
    if (judged) {
        printf("{\"event\":\"verification\"");
        json_key("name", need(s, "name"));
        json_number("files", o.items);
        json_number("bytes", o.bytes);
        json_number("mismatches", o.mismatches);
        printf(",\"digest\":\"%016llx\"}\n", (unsigned long long)o.digest);
    } else {
        uint64_t lost = o.mismatches - o.extra;
        printf("{\"event\":\"survivors\",\"written\":%llu", (unsigned long long)o.items);
        json_number("kept", o.items - lost);
        json_number("short", o.cut_short);
        json_number("wrong", lost - o.missing - o.cut_short);
        json_number("missing", o.missing);
        json_number("extra", o.extra);
        printf("}\n");
    }
    if (o.error) failed("verification of %s: %s", folder, strerror(o.error));
    else if (o.mismatches && judged)
        failed("verification of %s: %llu of %llu files are not what was written, the first is %s", folder,
            (unsigned long long)o.mismatches, (unsigned long long)o.items, o.where);
}

/* Says once why the job failed. */
static void announce(void) {
    static bool told;
    if (*reason && !told) {
        printf("{\"event\":\"failed\",\"timeout\":%s", timed_out ? "true" : "false");
        json_key("reason", reason);
        printf("}\n");
        told = true;
    }
    fflush(stdout);
}

/* ---- the job ----------------------------------------------------------------------------------------------------- */
static void step_run(const struct step *s) {
    if (!strcmp(s->verb, "exec")) step_exec(s);
    else if (!strcmp(s->verb, "phase")) step_phase(s);
    else if (!strcmp(s->verb, "verify")) step_verify(s);
    else if (!strcmp(s->verb, "mounted")) step_mounted(s);
    else if (!strcmp(s->verb, "tree")) step_tree(s);
    else if (!strcmp(s->verb, "settle")) step_settle();
    else if (!strcmp(s->verb, "devices")) step_devices(s);
    else if (!strcmp(s->verb, "write")) step_write(s);
    else if (!strcmp(s->verb, "mkdir")) step_mkdir(s);
    else if (!strcmp(s->verb, "pin")) step_pin(s);
    else if (!strcmp(s->verb, "drop")) step_drop();
    else if (!strcmp(s->verb, "evict")) step_evict(s);
    else if (!strcmp(s->verb, "await")) step_await(s);
    else if (!strcmp(s->verb, "watch")) step_watch(s);
    else if (!strcmp(s->verb, "restore")) step_restore(s);
    else if (!strcmp(s->verb, "seed")) step_seed(s);
    else if (!strcmp(s->verb, "processor")) step_processor(s);
    else if (!strcmp(s->verb, "clock")) step_clock();
    else failed("job: the engine has no step %s", s->verb);
}

extern const struct program __start_programs[], __stop_programs[]; /* the linker's: what PROGRAM declares */

int main(int argc, char **argv) {
    for (const struct program *p = __start_programs; argc > 1 && p < __stop_programs; p++)
        if (!strcmp(argv[1], p->name)) return p->run(argc - 1, argv + 1);
    if (argc != 3 || strcmp(argv[1], "run")) {
        fprintf(stderr, "usage: engine run JOB, or engine PROGRAM ARGUMENTS, with PROGRAM one of:");
        for (const struct program *p = __start_programs; p < __stop_programs; p++) fprintf(stderr, " %s", p->name);
        fputc('\n', stderr);
        return 2;
    }
    size_t size;
    char *text = slurp(argv[2], &size);
    if (!text) {
        fprintf(stderr, "engine: cannot read %s: %s\n", argv[2], strerror(errno));
        return 2;
    }
    sigset_t chld;
    sigemptyset(&chld);
    sigaddset(&chld, SIGCHLD);
    sigprocmask(SIG_BLOCK, &chld, NULL);
    setvbuf(stdout, NULL, _IOFBF, 1 << 16);
    snprintf(engine_path, sizeof engine_path, "/proc/%d/exe", (int)getpid());
    bool teardown = false;
    for (char *line = text, *next; line && *line; line = next) { /* the first NUL ends the text: a lab may pad it */
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        bool pause = !strncmp(line, "pause\t", 6);
        struct step s;
        if (!strcmp(line, "teardown")) teardown = true;
        else if (pause || (*line && (teardown || !*reason))) {
            parse(line, &s);
            if (s.verb && !pause) step_run(&s);
        }
        announce();
        if (pause && s.verb) next = step_pause(&s);
    }
    printf("{\"event\":\"end\"}\n");
    return 0;
}
