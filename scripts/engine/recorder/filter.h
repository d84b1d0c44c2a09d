/* Which calls are told of, and which of their arguments are names. */
#ifndef REPROFS_RECORDER_FILTER_H
#define REPROFS_RECORDER_FILTER_H

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { OTHER_TABLE = 1 }; /* what a call of the 32-bit table is marked with */

#define C(x) __NR_##x
static const int harmless[] = {C(poll), C(ppoll), C(select), C(pselect6), C(epoll_create), C(epoll_create1),
    C(epoll_ctl), C(epoll_wait), C(epoll_pwait), C(rt_sigaction), C(rt_sigprocmask), C(rt_sigreturn), C(rt_sigpending),
    C(rt_sigtimedwait), C(rt_sigsuspend), C(rt_sigqueueinfo), C(sigaltstack), C(pause), C(nanosleep),
    C(clock_nanosleep), C(clock_gettime), C(clock_getres), C(gettimeofday), C(time), C(times), C(getitimer),
    C(setitimer), C(alarm), C(timer_create), C(timer_settime), C(timer_gettime), C(timer_delete), C(timerfd_create),
    C(timerfd_settime), C(timerfd_gettime), C(getpid), C(gettid), C(getppid), C(getuid), C(geteuid), C(getgid),
    C(getegid), C(getresuid), C(getresgid), C(getgroups), C(setuid), C(setgid), C(setreuid), C(setregid), C(setresuid),
    C(setresgid), C(setgroups), C(setfsuid), C(setfsgid), C(getpgid), C(getpgrp), C(setpgid), C(getsid), C(setsid),
    C(getrlimit), C(setrlimit), C(prlimit64), C(getrusage), C(getpriority), C(setpriority), C(ioprio_get),
    C(ioprio_set), C(sysinfo), C(uname), C(sched_yield), C(sched_getaffinity), C(sched_setaffinity), C(sched_getparam),
    C(sched_setparam), C(sched_getscheduler), C(sched_setscheduler), C(sched_getattr), C(sched_setattr),
    C(sched_get_priority_max), C(sched_get_priority_min), C(getcpu), C(futex), C(set_robust_list), C(get_robust_list),
    C(rseq), C(set_tid_address), C(arch_prctl), C(prctl), C(brk), C(mprotect), C(madvise), C(mincore), C(mlock),
    C(mlock2), C(munlock), C(mlockall), C(munlockall), C(pkey_alloc), C(pkey_free), C(pkey_mprotect), C(mbind),
    C(set_mempolicy), C(get_mempolicy), C(wait4), C(waitid), C(kill), C(tkill), C(tgkill), C(exit), C(exit_group),
    C(socket), C(connect), C(accept), C(accept4), C(sendto), C(recvfrom), C(sendmsg), C(sendmmsg), C(shutdown),
    C(listen), C(getsockname), C(getpeername), C(setsockopt), C(getsockopt), C(socketpair), C(pipe), C(pipe2),
    C(eventfd), C(eventfd2), C(signalfd4), C(inotify_init), C(inotify_init1), C(inotify_rm_watch), C(memfd_create),
    C(getrandom), C(membarrier), C(restart_syscall), C(personality), C(capget), C(capset), C(getcwd), C(pidfd_open),
    C(pidfd_send_signal), C(shmget), C(shmat), C(shmdt), C(shmctl), C(semget), C(semop), C(semctl), C(semtimedop),
    C(msgget), C(msgsnd), C(msgrcv), C(msgctl), C(vmsplice), C(tee)};
enum { HARMLESS = sizeof harmless / sizeof *harmless };

static int install_filter(void) {
    static struct sock_filter f[HARMLESS + 16];
    unsigned short n = 0;
    const struct sock_filter head[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, arch)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE | OTHER_TABLE),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
    };
    for (size_t i = 0; i < sizeof head / sizeof *head; i++) f[n++] = head[i];
    for (unsigned i = 0; i < HARMLESS; i++)
        f[n++] = (struct sock_filter)BPF_JUMP(
            BPF_JMP | BPF_JEQ | BPF_K, (unsigned)harmless[i], (unsigned char)(HARMLESS + 3 - i), 0);
    const struct sock_filter tail[] = {
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, C(mmap), 0, 2),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[3])),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, MAP_ANONYMOUS, 1, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    for (size_t i = 0; i < sizeof tail / sizeof *tail; i++) f[n++] = tail[i];
    struct sock_fprog program = {n, f};
    return prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program);
}

/* Which arguments are names: bit i of the number. */
static const struct {
    short call;
    unsigned char names;
} named[] = {{C(open), 1}, {C(creat), 1}, {C(chmod), 1}, {C(chown), 1}, {C(lchown), 1}, {C(utime), 1}, {C(utimes), 1},
    {C(truncate), 1}, {C(setxattr), 3}, {C(lsetxattr), 3}, {C(getxattr), 3}, {C(lgetxattr), 3}, {C(listxattr), 1},
    {C(llistxattr), 1}, {C(removexattr), 3}, {C(lremovexattr), 3}, {C(fsetxattr), 2}, {C(fgetxattr), 2},
    {C(fremovexattr), 2}, {C(stat), 1}, {C(lstat), 1}, {C(access), 1}, {C(readlink), 1}, {C(statfs), 1}, {C(chdir), 1},
    {C(unlink), 1}, {C(mkdir), 1}, {C(rmdir), 1}, {C(mknod), 1}, {C(chroot), 1}, {C(execve), 1}, {C(openat), 2},
    {C(openat2), 2}, {C(unlinkat), 2}, {C(mkdirat), 2}, {C(mknodat), 2}, {C(fchmodat), 2}, {452 /* fchmodat2 */, 2},
    {C(fchownat), 2}, {C(utimensat), 2}, {C(newfstatat), 2}, {C(statx), 2}, {C(faccessat), 2}, {C(faccessat2), 2},
    {C(readlinkat), 2}, {C(futimesat), 2}, {C(name_to_handle_at), 2}, {C(execveat), 2}, {C(inotify_add_watch), 2},
    {C(rename), 3}, {C(link), 3}, {C(symlink), 3}, {C(symlinkat), 5}, {C(renameat), 10}, {C(renameat2), 10},
    {C(linkat), 10}, {463 /* setxattrat */, 2}, {464, 2}, {465, 2}, {466, 2}};
static unsigned names_of(int64_t call) {
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i].call == call) return named[i].names;
    return 0;
}

#endif
