/* Runs a replay that reaches its own folder and no other: the engine starts this in the place of a program, which is
 * contained/NAME in the folder of the job's programs. By Landlock the process and its threads may read, write, make and
 * remove only beneath the folder in which they began, and read the program and the recording; see landlock(7).
 *
 * Only labs on this machine's own kernel use it (labs/_native.py), and `reprofs record`; no guest has it. A kernel
 * before Linux 5.19 cannot allow a rename from one folder to another, so nothing is restricted there: the check of
 * recordings (plan/recording_links.py), which needs no Landlock, then stands alone. It also stands alone for modes,
 * times and attributes of files, which Landlock leaves to it. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PATH_BYTES = 4096, RENAMES = 2, TRUNCATES = 3 }; /* versions of Landlock since which it knows these */
#define FILES \
    (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_READ_FILE | \
        LANDLOCK_ACCESS_FS_READ_DIR)
#define NAMES \
    (LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE | LANDLOCK_ACCESS_FS_MAKE_DIR | \
        LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK | LANDLOCK_ACCESS_FS_MAKE_FIFO | \
        LANDLOCK_ACCESS_FS_MAKE_SYM | LANDLOCK_ACCESS_FS_REFER)
#define DEVICES (LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_BLOCK)

static int fail(const char *what) {
    fprintf(stderr, "engine: contain: cannot %s: %s\n", what, strerror(errno));
    return 1;
}

static int allow(int rules, const char *path, uint64_t what) {
    struct landlock_path_beneath_attr rule = {.allowed_access = what};
    rule.parent_fd = open(path, O_PATH | O_CLOEXEC);
    if (rule.parent_fd < 0) return fail(path);
    int bad = (int)syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
    close(rule.parent_fd);
    return bad ? fail(path) : 0;
}

/* The samples go to memory of the engine, by the path of a process: what is restricted may not look into others. */
static int keep_samples(void) {
    const char *path = getenv("REPROFS_SAMPLES");
    char own[32];
    if (!path) return 0;
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT, 0600);
    if (fd < 0) return fail("open the place for samples");
    snprintf(own, sizeof own, "/proc/self/fd/%d", fd);
    return setenv("REPROFS_SAMPLES", own, 1) ? fail("name the place for samples") : 0;
}

static int restrict_to(const char *program, const char *folder, char **words) {
    long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    if (version < RENAMES) return 0;
    uint64_t all = FILES | NAMES | DEVICES | (version < TRUNCATES ? 0 : LANDLOCK_ACCESS_FS_TRUNCATE);
    struct landlock_ruleset_attr known = {.handled_access_fs = all};
    int rules = (int)syscall(SYS_landlock_create_ruleset, &known, sizeof known.handled_access_fs, 0);
    if (rules < 0) return fail("make rules");
    if (keep_samples() || allow(rules, ".", all & ~(uint64_t)(DEVICES | LANDLOCK_ACCESS_FS_EXECUTE)) ||
        allow(rules, program, LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE))
        return 1;
    for (; words[0] && words[1]; words++) {
        char path[PATH_BYTES];
        if (strcmp(words[0], "--recording")) continue;
        snprintf(path, sizeof path, "%s/%s", folder, words[1]);
        if (allow(rules, strchr(words[1], '/') ? words[1] : path, LANDLOCK_ACCESS_FS_READ_FILE)) return 1;
    }
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || syscall(SYS_landlock_restrict_self, rules, 0))
        return fail("restrict itself");
    close(rules);
    return 0;
}

int main(int argc, char **argv) {
    const char *folder = getenv("REPROFS_PROGRAMS"), *name = argc ? strrchr(argv[0], '/') : NULL;
    char program[PATH_BYTES];
    if (!argc || !folder) return fputs("engine: contain: only the engine starts this\n", stderr), 2;
    snprintf(program, sizeof program, "%s/contained/%s", folder, name ? name + 1 : argv[0]);
    if (restrict_to(program, folder, argv)) return 1;
    execv(program, argv);
    return fail(program);
}
