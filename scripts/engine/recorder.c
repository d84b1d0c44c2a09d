/* recorder LIMIT PIPE ROOT... -- COMMAND...: runs a command and tells of every call of it, and of all its descendants,
 * that may reach a file system: as binary events on the descriptor PIPE, in the order in which they happened. LIMIT:
 * seconds, after which all are killed.
 *
 * An ordinary user may do this: ptrace(2) and a seccomp filter, seccomp(2). The filter is a list of calls that are
 * known to reach no file system; everything else stops, so that a new call is told of. What stands here reads names,
 * never contents. It writes no file: who reads the events decides what is kept. x86-64 only.
 *
 * Which pages of a file's mapping are used is told before every call that writes pages back, every OFTEN calls of
 * mappings that are only read, and when a mapping ends (recorder/mappings.h). io_uring is
 * answered with ENOSYS, for its operations are no calls; programs then make calls. */
#define _GNU_SOURCE
#include "recorder/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, PAGE = 4096, STRINGS = 3, OFTEN = 64 };
enum type { ENTRY = 1, RESULT, FORK, EXEC, EXIT, USED, UNMAPPED, FOREIGN, END, FAILED };
enum failure { NO_PTRACE = 1, NO_FILTER, NO_COMMAND };
struct event { /* then the strings */
    uint32_t type;
    int32_t pid;
    int64_t value; /* number of the call; its result; the child; the map; how the command ended */
    uint64_t arg[6];
    uint16_t length[STRINGS], pad;
};
struct task {
    struct task *next;
    pid_t pid;
    bool inside, known, waits; /* in a call; its parent's fork was told of; stopped until then */
    uint64_t mm, flags;        /* of the clone it is in */
    struct event at;           /* of the call it is in */
};
enum { BUCKETS = 4096 };
static struct task *tasks[BUCKETS];
static uint64_t last_mm, calls;
static char **roots;
static int root_count, tracees;
static volatile sig_atomic_t late;
static FILE *out;

static int say(const char *format, ...) {
    va_list a;
    va_start(a, format);
    vfprintf(stderr, format, a);
    va_end(a);
    fputc('\n', stderr);
    return 1;
}

static bool peek(pid_t pid, uint64_t at, void *to, size_t n) {
    struct iovec mine = {to, n}, its = {(void *)at, n};
    return at && process_vm_readv(pid, &mine, 1, &its, 1, 0) == (ssize_t)n;
}

/* A string of the tracee, read page by page: it may end at the end of what is mapped. */
static uint16_t text_of(pid_t pid, uint64_t at, char *to) {
    size_t n = 0;
    while (at && n < PATH_BYTES - 1) {
        size_t part = PAGE - (at & (PAGE - 1));
        if (part > 256) part = 256;
        if (part > PATH_BYTES - 1 - n) part = PATH_BYTES - 1 - n;
        if (!peek(pid, at, to + n, part)) break;
        char *end = memchr(to + n, 0, part);
        if (end) return (uint16_t)(end - to);
        n += part, at += part;
    }
    return (uint16_t)n;
}

static void tell(struct event *e, char text[STRINGS][PATH_BYTES]) {
    fwrite_unlocked(e, sizeof *e, 1, out);
    for (int i = 0; i < STRINGS; i++) fwrite_unlocked(text[i], e->length[i], 1, out);
}
static void tell_of(enum type type, pid_t pid, int64_t value, uint64_t more) {
    struct event e = {.type = type, .pid = pid, .value = value, .arg = {more}};
    tell(&e, (char[STRINGS][PATH_BYTES]){{0}});
}

/* ---- tasks ------------------------------------------------------------------------------------------------------- */
static struct task *task_of(pid_t pid) {
    struct task **list = &tasks[(unsigned)pid % BUCKETS], *t = *list;
    while (t && t->pid != pid) t = t->next;
    if (t) return t;
    if (!(t = calloc(1, sizeof *t))) exit(say("no memory for a task"));
    *t = (struct task){.next = *list, .pid = pid};
    tracees++;
    return *list = t;
}
static void forget(pid_t pid) {
    for (struct task **t = &tasks[(unsigned)pid % BUCKETS]; *t; t = &(*t)->next)
        if ((*t)->pid == pid) {
            struct task *gone = *t;
            *t = gone->next;
            free(gone);
            tracees--;
            return;
        }
}
static void kill_all(void) {
    for (int i = 0; i < BUCKETS; i++)
        for (struct task *t = tasks[i]; t; t = t->next) kill(t->pid, SIGKILL);
}

#include "recorder/mappings.h"

/* ---- a call begins ------------------------------------------------------------------------------------------------
 */

/* The mode that an access list of owner, group and others says, and 1 << 16; else 0. Source: acl(5), posix_acl_xattr.h
 */
static uint64_t mode_of_acl(const struct event *e) {
    struct {
        uint32_t version;
        struct {
            uint16_t tag, permissions;
            uint32_t id;
        } entry[3];
    } list;
    if (e->arg[3] != sizeof list || !peek(e->pid, e->arg[2], &list, sizeof list) || list.version != 2) return 0;
    if (list.entry[0].tag != 1 || list.entry[1].tag != 4 || list.entry[2].tag != 32) return 0;
    uint64_t mode = 1 << 16;
    for (int i = 0; i < 3; i++) mode |= (uint64_t)(list.entry[i].permissions & 7) << (6 - 3 * i);
    return mode;
}

static void look_at_lock(struct event *e) { /* struct flock: type and whence, start, length */
    uint64_t words[3];
    bool of_process = e->arg[1] == F_SETLK || e->arg[1] == F_SETLKW;
    bool of_file = e->arg[1] == F_OFD_SETLK || e->arg[1] == F_OFD_SETLKW;
    if ((of_process || of_file) && peek(e->pid, e->arg[2], words, sizeof words))
        e->arg[3] = words[0] & UINT32_MAX, e->arg[4] = words[1], e->arg[5] = words[2];
}

/* Whether what was read and written through mappings is told before this call. */
static bool ends_use(long call) {
    static const long calls[] = {
        C(msync), C(fsync), C(fdatasync), C(sync), C(syncfs), C(sync_file_range), C(mremap), C(execve), C(execveat)};
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        if (calls[i] == call) return true;
    return false;
}

/* What an argument points to takes its place, where that says what the call does. */
static void look_into(struct task *t) {
    struct event *e = &t->at;
    uint64_t words[2] = {0};
    switch (e->value) {
        case C(openat2): /* struct open_how: flags, mode */
            if (peek(e->pid, e->arg[2], words, 16)) e->arg[2] = words[0], e->arg[3] = words[1];
            break;
        case C(clone3): /* struct clone_args: flags */
            e->arg[0] = peek(e->pid, e->arg[0], words, 8) ? words[0] : 0;
            break;
        case C(fcntl): look_at_lock(e); break;
        case C(setxattr):
        case C(lsetxattr):
        case C(fsetxattr): e->arg[5] = mode_of_acl(e); break;
        case C(sendfile): e->arg[2] = peek(e->pid, e->arg[2], words, 8) ? words[0] : UINT64_MAX; break;
        case C(copy_file_range):
            e->arg[1] = peek(e->pid, e->arg[1], words, 8) ? words[0] : UINT64_MAX;
            e->arg[3] = peek(e->pid, e->arg[3], words, 8) ? words[0] : UINT64_MAX;
            break;
        default:
            if (ends_use(e->value)) tell_all_used(t, false);
    }
}

/* Calls on memory are told only where they meet the mapping of a file below a root. */
static bool on_memory(struct task *t) {
    struct event *e = &t->at;
    struct map *m;
    switch (e->value) {
        case C(munmap):
            for (size_t i = 0; i < map_count; i++)
                if (maps[i].mm == t->mm && maps[i].at >= e->arg[0] && maps[i].at < e->arg[0] + e->arg[1])
                    tell_used(t->pid, &maps[i]);
            return true;
        case C(mremap): return true;
        case C(msync):
            if (!(m = map_at(t, e->arg[0]))) return true;
            e->arg[5] = m->id, e->arg[4] = e->arg[0] - m->at;
            return false;
        default: return false;
    }
}

static void entered(struct task *t) {
    static char text[STRINGS][PATH_BYTES];
    struct user_regs_struct u;
    if (ptrace(PTRACE_GETREGS, t->pid, 0, &u)) return;
    t->at = (struct event){
        .type = ENTRY, .pid = t->pid, .value = (int64_t)u.orig_rax, .arg = {u.rdi, u.rsi, u.rdx, u.r10, u.r8, u.r9}};
    unsigned long mark = 0;
    ptrace(PTRACE_GETEVENTMSG, t->pid, 0, &mark);
    if (mark == OTHER_TABLE) { /* a call of the 32-bit table */
        tell_of(FOREIGN, t->pid, -1, 0);
        ptrace(PTRACE_CONT, t->pid, 0, 0);
        return;
    }
    if (u.orig_rax == C(io_uring_setup)) {
        tell_of(FOREIGN, t->pid, (int64_t)u.orig_rax, 0);
        u.orig_rax = (unsigned long long)-1, u.rax = (unsigned long long)-ENOSYS;
        ptrace(PTRACE_SETREGS, t->pid, 0, &u);
        ptrace(PTRACE_CONT, t->pid, 0, 0);
        return;
    }
    unsigned names = names_of(t->at.value);
    uint16_t family = 0;
    if (t->at.value == C(bind) && peek(t->pid, t->at.arg[1], &family, sizeof family) && family == AF_UNIX)
        t->at.length[0] = text_of(t->pid, t->at.arg[1] + sizeof family, text[0]);
    for (unsigned i = 0, k = 0; i < 6 && k < 2; i++)
        if (names >> i & 1) t->at.length[k] = text_of(t->pid, t->at.arg[i], text[k]), k++;
    if (++calls % OFTEN == 0) tell_all_used(t, true);
    look_into(t);
    t->flags = t->at.arg[0];
    if (t->at.value == C(vfork)) t->flags = CLONE_VM;
    if (t->at.value == C(fork)) t->flags = 0;
    t->inside = true;
    if (!on_memory(t)) tell(&t->at, text);
    ptrace(PTRACE_SYSCALL, t->pid, 0, 0);
}

/* ---- a call ends ---------------------------------------------------------------------------------------------------
 */

/* Where a descriptor or the working folder leads. */
static uint16_t link_of(pid_t pid, const char *format, int64_t fd, char *to) {
    char name[64];
    snprintf(name, sizeof name, format, pid, (long long)fd);
    ssize_t n = readlink(name, to, PATH_BYTES - 1);
    if (n < 0) n = 0;
    to[n] = 0;
    return (uint16_t)n;
}

static bool passed_a_descriptor(const struct event *e) {
    uint64_t header[7], control[2];
    if (!peek(e->pid, e->arg[1], header, sizeof header) || header[5] < sizeof control) return false;
    return peek(e->pid, header[4], control, sizeof control) && control[1] == 0x100000001; /* SOL_SOCKET, SCM_RIGHTS */
}

/* A call on memory has succeeded; arg[0] of the event: the mapping that it made of a file below a root. */
static void memory_changed(const struct task *t, struct event *e, char *text) {
    const uint64_t *arg = t->at.arg, at = (uint64_t)e->value;
    struct map *m;
    if (t->at.value == C(munmap)) unmap(t, arg[0], arg[1]);
    else if (t->at.value == C(mmap)) {
        unmap(t, at, arg[1]); /* MAP_FIXED over another */
        bool file = link_of(t->pid, "/proc/%d/fd/%lld", (int)arg[4], text);
        /* a path that is too long to be told is no other file's: its reader knows whether it opened it below a root */
        bool untold = !file && errno == ENAMETOOLONG;
        if (untold || (file && below_a_root(text))) e->arg[0] = mapped(t, at, arg[1]);
    } else if ((m = map_at(t, arg[0]))) m->at = at, m->bytes = arg[2];
}

/* What a reader of the events must know besides the result. Returns whether there is anything to tell. */
static bool add_to_result(const struct task *t, struct event *e, char *text) {
    switch (t->at.value) {
        case C(open):
        case C(openat):
        case C(openat2):
        case C(creat):
            if (e->value >= 0) e->length[0] = link_of(t->pid, "/proc/%d/fd/%lld", e->value, text);
            return true;
        case C(chdir):
        case C(fchdir):
            if (e->value >= 0) e->length[0] = link_of(t->pid, "/proc/%d/cwd", 0, text);
            return true;
        case C(recvmsg): e->arg[0] = e->value >= 0 && passed_a_descriptor(&t->at); return true;
        case C(msync): return t->at.arg[5];
        case C(mmap):
        case C(munmap):
        case C(mremap):
            if (e->value >= 0 || e->value < -4095) memory_changed(t, e, text);
            return t->at.value == C(mmap);
        default: return true;
    }
}

static void left(struct task *t) {
    static char text[STRINGS][PATH_BYTES];
    struct user_regs_struct u;
    t->inside = false;
    if (ptrace(PTRACE_GETREGS, t->pid, 0, &u)) return;
    struct event e = {.type = RESULT, .pid = t->pid, .value = (int64_t)u.rax};
    if (add_to_result(t, &e, text[0])) tell(&e, text);
}

/* ---- following ------------------------------------------------------------------------------------------------------
 */
static void resume(struct task *t, int signal) { ptrace(t->inside ? PTRACE_SYSCALL : PTRACE_CONT, t->pid, 0, signal); }

static void forked(struct task *t) {
    unsigned long number = 0;
    if (ptrace(PTRACE_GETEVENTMSG, t->pid, 0, &number)) return;
    struct task *child = task_of((pid_t)number);
    child->mm = t->flags & CLONE_VM ? t->mm : ++last_mm;
    child->known = true;
    tell_of(FORK, t->pid, child->pid, t->flags);
    if (child->waits) child->waits = false, ptrace(PTRACE_CONT, child->pid, 0, 0);
    resume(t, 0);
}

/* The mappings of a memory end when its last task leaves it. */
static void leave_memory(struct task *t) {
    uint64_t mm = t->mm;
    t->mm = 0;
    for (int i = 0; i < BUCKETS; i++)
        for (const struct task *other = tasks[i]; other; other = other->next)
            if (other->mm == mm) return;
    for (size_t i = map_count; i-- > 0;)
        if (maps[i].mm == mm) forget_map(t->pid, i);
}

static void executed(struct task *t) {
    unsigned long before = 0; /* a thread that calls execve gets the number of the process */
    ptrace(PTRACE_GETEVENTMSG, t->pid, 0, &before);
    struct task *caller = task_of((pid_t)before);
    struct event at = caller->at;
    leave_memory(caller);
    if (caller != t) forget((pid_t)before);
    t->at = at, t->inside = true;
    t->mm = ++last_mm;
    tell_of(EXEC, t->pid, (int64_t)before, 0);
    resume(t, 0);
}

static void stopped(pid_t pid, int status) {
    struct task *t = task_of(pid);
    int signal = WSTOPSIG(status), event = status >> 16;
    if (!t->known) { /* a child whose parent's fork comes next */
        t->waits = true;
        return;
    }
    switch (event) {
        case PTRACE_EVENT_SECCOMP: entered(t); return;
        case PTRACE_EVENT_FORK:
        case PTRACE_EVENT_VFORK:
        case PTRACE_EVENT_CLONE: forked(t); return;
        case PTRACE_EVENT_EXEC: executed(t); return;
        case PTRACE_EVENT_EXIT:
            tell_all_used(t, false);
            leave_memory(t);
            resume(t, 0);
            return;
        default: break;
    }
    if (signal == (SIGTRAP | 0x80)) {
        left(t);
        ptrace(PTRACE_CONT, pid, 0, 0);
    } else resume(t, signal == SIGSTOP || signal == SIGTRAP ? 0 : signal);
}

static int follow(pid_t command) {
    int status, code = 0;
    for (;;) {
        pid_t pid = waitpid(-1, &status, __WALL);
        if (late) kill_all();
        if (pid < 0 && errno == EINTR) continue;
        if (pid < 0) return code;
        if (!WIFEXITED(status) && !WIFSIGNALED(status)) {
            stopped(pid, status);
            continue;
        }
        if (pid == command) code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
        tell_of(EXIT, pid, 0, 0);
        forget(pid);
    }
}

static void on_alarm(int signal) { (void)signal, late = 1; }

/* Says why the command cannot be started; returns the exit code. */
static int fail(enum failure why) {
    static char text[STRINGS][PATH_BYTES];
    struct event e = {.type = FAILED, .value = why};
    e.length[0] = (uint16_t)snprintf(text[0], PATH_BYTES, "%s", strerror(errno));
    tell(&e, text);
    return fflush(out) ? 1 : 125;
}

static int become(char **argv) {
    if (ptrace(PTRACE_TRACEME, 0, 0, 0)) return fail(NO_PTRACE);
    raise(SIGSTOP);
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || install_filter()) return fail(NO_FILTER);
    execvp(argv[0], argv);
    return fail(NO_COMMAND);
}

static int trace(pid_t child, const char *limit) {
    int status;
    long options = PTRACE_O_TRACESECCOMP | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK | PTRACE_O_TRACECLONE |
        PTRACE_O_TRACEEXEC | PTRACE_O_TRACEEXIT | PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL;
    if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return 125; /* it said why */
    if (ptrace(PTRACE_SETOPTIONS, child, 0, options)) return fail(NO_PTRACE);
    struct task *first = task_of(child);
    first->known = true, first->mm = ++last_mm;
    tell_of(FORK, 0, child, 0);
    sigaction(SIGALRM, &(struct sigaction){.sa_handler = on_alarm}, NULL);
    alarm((unsigned)atoi(limit));
    ptrace(PTRACE_CONT, child, 0, 0);
    int code = follow(child);
    tell_of(END, 0, code, (uint64_t)late);
    return 0;
}

int main(int argc, char **argv) {
    for (roots = argv + 3; 3 + root_count < argc && strcmp(roots[root_count], "--"); root_count++) continue;
    char **command = roots + root_count + 1;
    if (argc < 6 || command >= argv + argc) return say("usage: recorder LIMIT PIPE ROOT... -- COMMAND...");
    int pipe = atoi(argv[2]);
    if (fcntl(pipe, F_SETFD, FD_CLOEXEC) || !(out = fdopen(pipe, "w"))) return say("the pipe is not open");
    static char buffer[1 << 16];
    setvbuf(out, buffer, _IOFBF, sizeof buffer);
    pid_t child = fork();
    if (child < 0) return say("no process can be made: %s", strerror(errno));
    if (!child) _exit(become(command));
    int code = trace(child, argv[1]);
    return fflush(out) ? 1 : code;
}
