/* Mounting, unmounting, repairing. A plain mount is made by its system call, which is ten times as fast as a command.
 */
#ifndef REPROFS_CRASH_MOUNTS_H
#define REPROFS_CRASH_MOUNTS_H

#include "calls.h"

#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/wait.h>

static struct {
    /* type and options of a plain mount, or commands for mount and unmount; recover and checker: commands, or NULL */
    const char *device, *mountpoint, *type, *options, *mount, *unmount, *recover, *checker;
    bool aloud; /* what the commands say is shown */
} m = {.device = "/dev/crashdisk"};

/* The exit code of a script. */
static int shell(const char *script) {
    int status = 0;
    fflush(stdout);
    pid_t child = fork();
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; fd <= (m.aloud ? 0 : 2); fd++) dup2(null, fd);
        execl("/bin/sh", "sh", "-e", "-c", script, NULL);
        _exit(127);
    }
    if (child < 0 || waitpid(child, &status, 0) < 0) exit(broken("cannot start a command: %s", reason(errno)));
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int mount_plainly(void) {
    static const struct {
        const char *word;
        unsigned long flag;
    } known[] = {{"relatime", MS_RELATIME}, {"noatime", MS_NOATIME}, {"sync", MS_SYNCHRONOUS}, {"ro", MS_RDONLY}};
    char data[1024] = "", *rest = strdup(m.options), *word, *all = rest;
    unsigned long flags = 0;
    while ((word = strsep(&rest, ","))) {
        unsigned long flag = 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (!strcmp(word, known[i].word)) flag = known[i].flag;
        flags |= flag;
        if (!flag && *word) snprintf(data + strlen(data), sizeof data - strlen(data), "%s%s", *data ? "," : "", word);
    }
    free(all);
    return failed_as(mount(m.device, m.mountpoint, m.type, flags, data));
}

/* Returns 0, or says in `why` why it is not mounted. */
static int mount_it(char *why, size_t room) {
    int code = m.mount ? shell(m.mount) : mount_plainly();
    if (code && m.mount) snprintf(why, room, "mount exits with %d", code);
    else if (code) snprintf(why, room, "mount: %s", words_for(code));
    return code;
}

/* Btrfs remembers the disks that it saw, with their generation. */
static void forget_disk(void) {
    struct {
        int64_t fd;
        char name[4088];
    } disk = {0};
    int fd = !strcmp(m.type ? m.type : "", "btrfs") ? open("/dev/btrfs-control", O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    strcpy(disk.name, m.device);
    ioctl(fd, _IOW(0x94, 5, disk), &disk); /* BTRFS_IOC_FORGET_DEV; it may have forgotten it by itself */
    close(fd);
}

static void unmount_by(bool command) {
    int code = command ? shell(m.unmount) : failed_as(umount(m.mountpoint));
    if (code) exit(broken("%s cannot be unmounted: %s", m.mountpoint, command ? "its command fails" : reason(code)));
    forget_disk();
}
static void unmount_it(void) { unmount_by(m.mount != NULL); }

/* What the trial has mounted by a command may have left more than a mount, such as the cleaner of NILFS2. */
static void unmount_first(void) { unmount_by(m.unmount != NULL); }

/* After a cut: what the file system wants done before, and the mount. */
static inline int recover(char *why, size_t room) {
    int code = m.recover ? shell(m.recover) : 0;
    if (!code) return mount_it(why, room);
    snprintf(why, room, "the repair before the mount exits with %d", code);
    return code;
}
#endif
