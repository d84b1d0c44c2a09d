#define _GNU_SOURCE
#include "steps.h"
#include "command.h"
#include "measure.h"
#include "output.h"
#include "tree.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <linux/random.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <termios.h>
#include <unistd.h>

void write_text(const char *path, const char *text) {
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, text, strlen(text)) < 0) failed("cannot write '%s' to %s: %s", text, path, strerror(errno));
    if (fd >= 0) close(fd);
}
void step_write(const struct step *s) { write_text(need(s, "path"), need(s, "text")); }

void step_mkdir(const struct step *s) {
    if (mkdir(need(s, "path"), 0755) && errno != EEXIST) failed("cannot make %s: %s", need(s, "path"), strerror(errno));
}

/* The kernel's random numbers follow from the seed: UUIDs and hash seeds that mkfs or the kernel draws are then part of
 * the input. */
void step_seed(const struct step *s) {
    int pool[2 + 8] = {256, 32}; /* struct rand_pool_info: bits of entropy, bytes, the bytes */
    uint64_t value = number(s, "value");
    for (uint64_t i = 0; i < 4; i++, value += UINT64_C(0x9e3779b97f4a7c15))
        memcpy(pool + 2 + 2 * i, &value, sizeof value);
    int fd = open("/dev/urandom", O_WRONLY | O_CLOEXEC);
    if (fd < 0 || ioctl(fd, RNDADDENTROPY, pool) || ioctl(fd, RNDRESEEDCRNG))
        failed("cannot seed the kernel's random numbers: %s", strerror(errno));
    if (fd >= 0) close(fd);
}

/* ---- the machine ------------------------------------------------------------------------------------------------- */
enum { APIC = 0xfee00000, APIC_TIMER = 0x320, APIC_COUNT = 0x380, APIC_DIVIDER = 0x3e0, APIC_BYTES = 4096 };

static void check_flags(const struct step *s) {
    char *text = slurp("/proc/cpuinfo", NULL), *flags = text ? strstr(text, "\nflags") : NULL;
    if (flags) memcpy(flags + 1 + strcspn(flags + 1, "\n"), " ", 2); /* a space ends the last word, a NUL the line */
    for (int i = 0; i < s->fields; i++) {
        char word[64];
        snprintf(word, sizeof word, " %s ", s->value[i]);
        if (!strcmp(s->key[i], "flag") && (!flags || !strstr(flags, word)))
            failed("the processor has no %s", s->value[i]);
    }
    free(text);
}

/* How many times as fast as the clock the processor's counter goes. */
static uint64_t counter_speed(void) {
    enum { WAIT_NS = 20000 };
    uint64_t start = now_ns(), ticks = __builtin_ia32_rdtsc(), now;
    while ((now = now_ns()) - start < WAIT_NS) {}
    ticks = __builtin_ia32_rdtsc() - ticks;
    return (ticks + (now - start) / 2) / (now - start);
}

static uint64_t timer_divider(void) {
    uint64_t divider = ~0ull;
    int fd = open("/dev/mem", O_RDONLY | O_SYNC | O_CLOEXEC);
    void *apic = fd < 0 ? MAP_FAILED : mmap(NULL, APIC_BYTES, PROT_READ, MAP_SHARED, fd, APIC);
    if (apic != MAP_FAILED) {
        divider = *(volatile uint32_t *)((char *)apic + APIC_DIVIDER);
        munmap(apic, APIC_BYTES);
    }
    if (fd >= 0) close(fd);
    return divider;
}

/* The processor has these features, its counter goes so many times as fast as the clock, and its timer by this
 * divider. */
void step_processor(const struct step *s) {
    check_flags(s);
    uint64_t speed = counter_speed(), divider = timer_divider();
    if (speed != number(s, "instructions_per_ns") || divider != number(s, "divider"))
        failed("the processor takes 1/%llu ns an instruction and its timer's divider is %lld, but they should be 1/%s "
               "and %s",
            (unsigned long long)speed, (long long)divider, need(s, "instructions_per_ns"), need(s, "divider"));
}

/* Stops the machine with no timer pending, as scripts/guest/init does and explains. */
static void machine_pause(void) {
    enum { MASKED = 1 << 16, PVPANIC = 0x505 };
    int memory = open("/dev/mem", O_RDWR | O_SYNC | O_CLOEXEC), ports = open("/dev/port", O_WRONLY | O_CLOEXEC);
    void *at = memory < 0 ? MAP_FAILED : mmap(NULL, APIC_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, memory, APIC);
    if (at == MAP_FAILED || ports < 0) failed("cannot stop the machine: %s", strerror(errno));
    else {
        volatile uint32_t *timer = (uint32_t *)((char *)at + APIC_TIMER),
                          *count = (uint32_t *)((char *)at + APIC_COUNT);
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

/* The job from byte `first` to byte `all`, read anew. NULL: it cannot be read. */
static char *rest_of_job(const char *path, size_t first, size_t all) {
    char *rest = calloc(1, all - first + 1);
    int job = open(path, O_RDONLY | O_CLOEXEC);
    size_t n = 0;
    for (ssize_t r; rest && (r = pread(job, rest + n, all - first - n, (off_t)(first + n))) > 0;) n += (size_t)r;
    if (job >= 0) close(job);
    if (rest && n == all - first) return rest;
    free(rest);
    return NULL;
}

/* Jobs that are alike up to here go on from one saved state, each with a rest of its own. After a failure there is
 * nothing to save, but the rest has the teardown. */
void step_pause(const struct step *s) {
    const char *source = need(s, "source");
    char path[PATH_BYTES], *rest = NULL;
    unsigned long first = 0, all = 0;
    announce();
    tcdrain(STDOUT_FILENO);
    if (!*failure) machine_pause();
    snprintf(path, sizeof path, "%s.size/raw", source);
    char *sizes = slurp(path, NULL);
    snprintf(path, sizeof path, "%s.job/raw", source);
    if (sizes && sscanf(sizes, "%lu %lu", &first, &all) == 2 && all >= first) rest = rest_of_job(path, first, all);
    free(sizes);
    if (!rest) failed("cannot read the rest of the job from %s: %s", path, strerror(errno));
    job_go_on(rest ? rest : strdup(""));
}

void step_clock(const struct step *s) {
    (void)s;
    enum { READS = 1000 };
    uint64_t start = now_ns(), end = start;
    for (int i = 0; i < READS; i++) end = now_ns();
    printf("{\"event\":\"clock\",\"read_ns\":%llu}\n", (unsigned long long)((end - start) / READS));
}

static void sleep_ns(uint64_t ns) {
    struct timespec t = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    while (nanosleep(&t, &t) && errno == EINTR) {}
}
/* What the kernel does later, such as freeing what was unmounted, it does now. */
void step_rest(const struct step *s) { sleep_ns(number(s, "ns")); }
/* Puts what follows elsewhere between the kernel's ticks and timers. Multiples of the golden ratio, without their whole
 * part, are spread evenly however few follow each other: the seeds of a study's rounds miss no large part of the time.
 */
void step_offset(const struct step *s) {
    uint64_t fraction = number(s, "seed") * UINT64_C(0x9e3779b97f4a7c15), ns;
    ns = (uint64_t)((unsigned __int128)fraction * number(s, "within_ns") >> 64);
    sleep_ns(ns);
    printf("{\"event\":\"offset\"");
    json_number("start_offset_ns", ns);
    printf("}\n");
}

void step_drop(const struct step *s) {
    (void)s;
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
void step_evict(const struct step *s) {
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
void step_pin(const struct step *s) {
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
    command_run(argv, NULL, 0, "", 60, TAIL_BYTES, &r);
    if (r.exit) return; /* a static program or a script has no libraries */
    for (char *lines = r.tail, *line; (line = strsep(&lines, "\n"));) {
        char *at = strchr(line, '/'), *end = at ? strstr(at, " (") : NULL;
        if (!end) continue;
        *end = 0;
        pin(at);
    }
}

/* ---- what is mounted --------------------------------------------------------------------------------------------- */
struct mount { char options[PATH_BYTES], type[64], source[PATH_BYTES], super_options[PATH_BYTES]; };

/* The line of the kernel's list for the mount on a path, or (within) the one that holds it. False: there is none. */
static bool find_mount(const char *path, bool within, char *found, size_t room) {
    size_t best = 0;
    char *text = slurp("/proc/self/mountinfo", NULL), *lines = text;
    *found = 0;
    for (char *line; lines && (line = strsep(&lines, "\n"));) { /* the last mount on a path is the one on top */
        char at[PATH_BYTES];
        if (sscanf(line, "%*s %*s %*s %*s %1023s", at) != 1) continue;
        size_t n = strlen(at);
        bool holds = within && n >= best && !strncmp(at, path, n) && (n == 1 || !path[n] || path[n] == '/');
        if (!strcmp(at, path) || holds) snprintf(found, room, "%s", line), best = n;
    }
    free(text);
    return *found;
}

static bool read_mount(const char *path, bool within, struct mount *m) {
    char line[PATH_BYTES * 4], *dash;
    if (!find_mount(path, within, line, sizeof line) || !(dash = strstr(line, " - "))) return false;
    sscanf(line, "%*s %*s %*s %*s %*s %1023s", m->options);
    sscanf(dash, " - %63s %1023s %1023s", m->type, m->source, m->super_options);
    return true;
}

static void expect_options(const struct step *s, const struct mount *m) {
    char all[2 * PATH_BYTES + 4], want[PATH_BYTES];
    snprintf(all, sizeof all, ",%s,%s,", m->options, m->super_options);
    for (int i = 0; i < s->fields; i++) {
        if (strcmp(s->key[i], "expect")) continue;
        snprintf(want, sizeof want, ",%s,", s->value[i]);
        if (!strstr(all, want))
            failed("the kernel does not report the mount option %s: it says %s,%s", s->value[i], m->options,
                m->super_options);
    }
}

/* What the kernel says is mounted, not what was asked for. */
void step_mounted(const struct step *s) {
    const char *path = need(s, "path"), *type = get(s, "type", NULL);
    struct mount m = {0};
    struct statvfs v;
    if (!read_mount(path, get(s, "within", NULL), &m)) return failed("nothing is mounted on %s", path);
    if (statvfs(path, &v)) return failed("cannot inspect %s: %s", path, strerror(errno));
    printf("{\"event\":\"mounted\"");
    json_key("source", m.source);
    json_key("type", m.type);
    json_key("mount_options", m.options);
    json_key("super_options", m.super_options);
    json_number("block_bytes", v.f_frsize);
    json_number("total_bytes", (uint64_t)v.f_blocks * v.f_frsize);
    json_number("free_bytes", (uint64_t)v.f_bfree * v.f_frsize);
    if (v.f_files) json_number("used_inodes", v.f_files - v.f_ffree);
    else printf(",\"used_inodes\":null");
    printf("}\n");
    if (type && strcmp(m.type, type)) failed("%s is a %s file system, not %s", path, m.type, type);
    expect_options(s, &m);
}
