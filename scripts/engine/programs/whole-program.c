/* Runs a whole program in the folder where it is started, with a tree of files for its root (reprofs measure).
 *
 * The tree, which is never written to, has: `root`, the files of the program; `words`, its name and arguments, and
 * `environment`, each text ended by a zero byte. The program sees `root` with a layer in memory above it, this folder
 * as /measure, and /dev, /proc, /sys and /tmp. It has namespaces of its own for mounts and processes: with its end all
 * mounts are gone and all that it left running is killed. All files below `root` are read first, so that they are in
 * memory.
 *
 * Its exit code is in a sample and not that of this program. Samples, times in wall_ns, numbers in items: `program`
 * from before its fork to its end, `sync` what writes back the rest, `busy` of all processors in both, `read` and
 * `written` bytes and `flushes` of the modelled disks in both, `exit`, `signal`, and `left` (1: processes were left).
 */
#define _GNU_SOURCE
#include "measure.h"
#include "processors.h"
#include "program.h"
#include "samples.h"
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOP "/run/whole-program"
enum { PATH_BYTES = 4096 };

static const char *tree;
static uint64_t bytes;
static const struct option options[] = {
    WORD("--tree", tree, "folder with root, words and environment"),
    NUMBER("--bytes", bytes, 0, UINT64_MAX, "content that the program finds and makes, for --check"),
};

static struct account {
    uint64_t program, sync, busy, read, written, flushes, exit, signal, left;
    char failure[256];
} *account; /* in memory that is shared with the first process of the namespace */

static int check(void) { return needs(bytes, 0); }

/* ---- the root ---------------------------------------------------------------------------------------------------- */
static int read_file(const char *path, const struct stat *st, int kind, struct FTW *at) {
    static char buffer[1 << 20];
    (void)st, (void)at;
    int fd = kind == FTW_F && S_ISREG(st->st_mode) ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    while (fd >= 0 && read(fd, buffer, sizeof buffer) > 0) continue;
    if (fd >= 0) close(fd);
    return 0;
}

static bool folder(const char *name, mode_t mode) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, TOP "/root/%s", name);
    return !mkdir(path, mode) ? !chmod(path, mode) : errno == EEXIST;
}
static bool bind_at(const char *what, const char *name) {
    char path[PATH_BYTES];
    snprintf(path, sizeof path, TOP "/root/%s", name);
    return folder(name, 0755) && !mount(what, path, NULL, MS_BIND | MS_REC, NULL);
}

static bool root_made(void) {
    char layers[PATH_BYTES];
    snprintf(layers, sizeof layers, "lowerdir=%s/root,upperdir=" TOP "/upper,workdir=" TOP "/layer", tree);
    if (mkdir(TOP, 0755) && errno != EEXIST) return false;
    return !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) && !mount("whole", TOP, "tmpfs", 0, "mode=755") &&
        !mkdir(TOP "/upper", 0755) && !mkdir(TOP "/layer", 0755) && !mkdir(TOP "/root", 0755) &&
        !mount("whole", TOP "/root", "overlay", 0, layers) && bind_at("/dev", "dev") && bind_at("/sys", "sys") &&
        bind_at(".", "measure") && folder("proc", 0755) && folder("tmp", 01777) && folder("run", 0755);
}

/* ---- the program ------------------------------------------------------------------------------------------------- */
/* As in step.h, for processors.c: the runner's own is in one unit with its job. */
char *slurp(const char *path, size_t *size) {
    FILE *file = fopen(path, "re");
    size_t n = 0, room = 1 << 16;
    char *text = file ? malloc(room + 1) : NULL;
    for (size_t more; text && (more = fread(text + n, 1, room - n, file)) > 0;) {
        n += more;
        if (n == room) text = realloc(text, (room *= 2) + 1);
    }
    if (file) fclose(file);
    if (text) text[n] = 0;
    if (size) *size = n;
    return text;
}

/* The texts of a file of the tree; NULL with errno. */
static char **texts(const char *name) {
    char path[PATH_BYTES], *text;
    size_t size, n = 0;
    snprintf(path, sizeof path, "%s/%s", tree, name);
    if (!(text = slurp(path, &size))) return NULL;
    for (size_t i = 0; i < size; i++) n += !text[i];
    char **list = calloc(n + 1, sizeof *list), *at = text;
    for (size_t i = 0; list && i < n; i++, at += strlen(at) + 1) list[i] = at;
    return list;
}

/* As in phase.c: who counts instructions knows by the bytes of these no-ops what is measured. */
#define MARK(name) __asm__ volatile(".byte 0x0f, 0x1f, 0x84, 0x00; .ascii \"RFS" name "\"" ::: "memory")
static __attribute__((noinline)) void mark_begin(void) { MARK("1"); }
static __attribute__((noinline)) void mark_end(void) { MARK("2"); }

static void start(char **words, char **environment) {
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, NULL);
    environ = environment;
    execvp(words[0], words);
    dprintf(2, "cannot run %s: %s\n", words[0], strerror(errno));
    _exit(127);
}

/* Waits for the program, and for whatever else ends before it. */
static int wait_for(pid_t child) {
    int status = 0, last;
    for (pid_t ended; (ended = wait(&last)) != child;)
        if (ended < 0 && errno != EINTR) return status;
        else continue;
    return last;
}

/* The program begins with a minute, at the same place between the kernel's ticks and timers and at the same time of the
 * clock, from which it may draw random numbers, however long all before took. Waiting costs nothing in the exact lab.
 */
static void wait_for_next(time_t seconds) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    now.tv_sec += seconds - now.tv_sec % seconds, now.tv_nsec = 0;
    while (clock_nanosleep(CLOCK_REALTIME, TIMER_ABSTIME, &now, NULL) == EINTR) continue;
}

/* What the modelled disks have counted, added to or taken from the account. Unsigned numbers wrap and come back. */
static void count_disks(uint64_t sign) {
    glob_t found;
    glob("/sys/block/modeldisk*/stat", 0, NULL, &found);
    glob("/sys/block/nullb*/stat", GLOB_APPEND, NULL, &found);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        unsigned long long v[17] = {0};
        char *text = slurp(found.gl_pathv[i], NULL), *at = text;
        for (int k = 0; at && k < 17; k++) v[k] = strtoull(at, &at, 10);
        free(text);
        account->read += sign * v[2] * 512, account->written += sign * v[6] * 512, account->flushes += sign * v[15];
    }
    globfree(&found);
}

/* Of the first process of the namespace: the program runs and is measured. */
static int first(char **words, char **environment) {
    if (chroot(TOP "/root") || chdir("/measure") || mount("proc", "/proc", "proc", 0, NULL)) {
        snprintf(account->failure, sizeof account->failure, "cannot enter the root: %s", strerror(errno));
        return 1;
    }
    int work = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    wait_for_next(60);
    /* What threads of the kernel did meanwhile is not the program's: on F2FS it left 2.6 MB to write. */
    syncfs(work);
    wait_for_next(1);
    count_disks((uint64_t)-1);
    struct processors before = processors();
    uint64_t began = now_ns();
    mark_begin();
    pid_t child = fork();
    if (!child) start(words, environment);
    int status = child < 0 ? 126 << 8 : wait_for(child);
    uint64_t ended = now_ns();
    syncfs(work);
    mark_end();
    uint64_t synced = now_ns();
    struct processors after = processors();
    count_disks(1);
    account->left = !kill(-1, SIGKILL);
    account->program = ended - began;
    account->sync = synced - ended;
    account->exit = (uint64_t)(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
    account->signal = (uint64_t)(WIFSIGNALED(status) ? WTERMSIG(status) : 0);
    uint64_t span = synced - began, looks = after.at - before.at - span, all = (after.at - before.at) * after.number,
             idle = after.idle_ns - before.idle_ns + looks;
    account->busy = all > idle ? all - idle : 0;
    return 0;
}

static void put(const char *name, uint64_t ns, uint64_t items) {
    sample_put(SAMPLE(.name = name, .wall_ns = ns, .items = items));
}
static void put_bytes(const char *name, uint64_t number) { sample_put(SAMPLE(.name = name, .bytes = number)); }

static int run(void) {
    char **words = texts("words"), **environment = texts("environment");
    if (!words || !environment || !*words) return broken("%s has no words and environment of a program", tree);
    account = mmap(NULL, sizeof *account, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (account == MAP_FAILED) return broken("no memory: %s", reason(errno));
    if (unshare(CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWIPC)) return broken("no namespaces: %s", reason(errno));
    if (!root_made()) return broken("cannot make the root: %s", reason(errno));
    char root[PATH_BYTES];
    snprintf(root, sizeof root, "%s/root", tree);
    nftw(root, read_file, 64, FTW_PHYS);
    sync();
    int status;
    pid_t child = fork();
    if (!child) _exit(first(words, environment));
    if (child < 0 || waitpid(child, &status, 0) != child) return broken("no process: %s", reason(errno));
    if (*account->failure) return broken("%s", account->failure);
    if (!account->program) return broken("the first process was killed");
    put("program", account->program, 1);
    put("sync", account->sync, 1);
    put("busy", account->busy, 1);
    put_bytes("read", account->read);
    put_bytes("written", account->written);
    put("flushes", 0, account->flushes);
    put("exit", 0, account->exit);
    put("signal", 0, account->signal);
    put("left", 0, account->left);
    return 0;
}

const struct program program = {
    "whole-program", "Runs a whole program with its own files for a root.", OPTIONS(options), NULL, check, run};
