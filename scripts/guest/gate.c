/* Loaded into QEMU (LD_PRELOAD) by the exact lab: lets QEMU's main loop act only between the processor's turns.
 *
 * With -icount sleep=off the main loop moves the virtual clock to the next timer when the processor is idle. A
 * processor that executes HLT counts as idle an instant before its thread has added the instructions it executed to the
 * clock. A main loop that comes by in that instant takes the clock for a few nanoseconds younger than it is, and moves
 * it that much too far: seldom, only on a busy host, and enough to make two runs differ. (QEMU 7.2 and 10.0:
 * icount_start_warp_timer called by main_loop_wait against rr_cpu_thread_fn.)
 *
 * The processor's thread gives QEMU's global lock back before it executes and asks for it again after its accounts. So:
 * after each poll, when the main loop has taken the lock, the processor's thread must be asking for it or waiting, or
 * the main loop gives it back until then.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int executing; /* the processor's thread neither has the lock nor asks for it; a futex, too */
static atomic_int waiting; /* the main loop does: a wake-up costs more than what there is to do between two of them */
static pthread_mutex_t *_Atomic lock;
static _Thread_local int is_processor = -1, has_polled;

#define REAL(function) \
    static __typeof__(&function) real; \
    if (!real) real = (__typeof__(&function))dlsym(RTLD_NEXT, #function)

/* The processor's thread waits with the lock before it executes for the first time: here it is known, and so is the
 * lock. */
int pthread_cond_wait(pthread_cond_t *condition, pthread_mutex_t *mutex) {
    REAL(pthread_cond_wait);
    if (is_processor < 0) {
        char name[16] = ""; /* given by -name debug-threads=on */
        prctl(PR_GET_NAME, name);
        is_processor = strstr(name, "/TCG") != NULL;
        if (is_processor) {
            lock = mutex;
            if (getenv("REPROFS_GATE")) close(creat(getenv("REPROFS_GATE"), 0644)); /* tells the lab that it works */
        }
    }
    return real(condition, mutex);
}

int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask) {
    REAL(ppoll);
    has_polled = getpid() == (pid_t)syscall(SYS_gettid); /* the main loop's thread */
    return real(fds, count, timeout, mask);
}

int pthread_mutex_lock(pthread_mutex_t *mutex) {
    REAL(pthread_mutex_lock);
    if (mutex != lock) return real(mutex);
    if (is_processor == 1) {
        executing = 0;
        if (waiting) syscall(SYS_futex, &executing, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
    }
    int result = real(mutex);
    for (; has_polled && executing; result = real(mutex)) {
        pthread_mutex_unlock(mutex);
        waiting = 1; /* before the kernel looks at `executing`: one of the two threads sees what the other wrote */
        syscall(SYS_futex, &executing, FUTEX_WAIT_PRIVATE, 1, NULL, NULL, 0);
        waiting = 0;
    }
    has_polled = 0;
    return result;
}

int pthread_mutex_unlock(pthread_mutex_t *mutex) {
    REAL(pthread_mutex_unlock);
    if (is_processor == 1 && mutex == lock) executing = 1;
    return real(mutex);
}
