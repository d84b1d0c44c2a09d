/* The layout: how contiguous files are. */
#ifndef REPROFS_AGE_LAYOUT_H
#define REPROFS_AGE_LAYOUT_H

#include "measure.h"
#include "program.h"
#include "samples.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct layout {
    uint64_t files, extents, blocks, contiguous, skipped; /* blocks: without the first of each file */
    bool unknown;
    int error;
};
static int layout_file(int fd, uint64_t block, struct layout *l) {
    static union {
        struct fiemap map;
        uint8_t room[sizeof(struct fiemap) + 512 * sizeof(struct fiemap_extent)];
    } u;
    uint64_t at = 0, end = UINT64_MAX, runs = 0, blocks = 0;
    for (bool last = false; !last;) {
        memset(&u.map, 0, sizeof u.map);
        u.map.fm_start = at, u.map.fm_length = FIEMAP_MAX_OFFSET - at, u.map.fm_extent_count = 512;
        u.map.fm_flags = FIEMAP_FLAG_SYNC;
        if (ioctl(fd, FS_IOC_FIEMAP, &u.map)) return errno;
        if (!u.map.fm_mapped_extents) break;
        for (unsigned i = 0; i < u.map.fm_mapped_extents; i++) {
            const struct fiemap_extent *e = &u.map.fm_extents[i];
            at = e->fe_logical + e->fe_length;
            last = last || (e->fe_flags & FIEMAP_EXTENT_LAST);
            /* in no place of its own */
            if (e->fe_flags & (FIEMAP_EXTENT_DATA_INLINE | FIEMAP_EXTENT_UNKNOWN | FIEMAP_EXTENT_DELALLOC)) continue;
            runs += e->fe_physical != end;
            end = e->fe_physical + e->fe_length;
            blocks += (e->fe_length + block - 1) / block;
        }
    }
    l->files++;
    l->extents += runs;
    if (blocks) l->blocks += blocks - 1, l->contiguous += blocks - runs;
    return 0;
}
static void layout_folder(int parent, const char *name, dev_t device, struct layout *l);
static void layout_name(int folder, const char *name, dev_t device, struct layout *l) {
    struct stat s;
    if (!strcmp(name, ".") || !strcmp(name, "..") || fstatat(folder, name, &s, AT_SYMLINK_NOFOLLOW)) return;
    if (S_ISDIR(s.st_mode)) return layout_folder(folder, name, device, l);
    if (!S_ISREG(s.st_mode)) return;
    int fd = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        if (errno == EACCES) l->skipped++;
        else l->error = errno;
        return;
    }
    int error = layout_file(fd, s.st_blksize > 4096 ? 4096 : (uint64_t)s.st_blksize, l);
    close(fd);
    if (error == EOPNOTSUPP || error == ENOTTY || error == EINVAL) l->unknown = true;
    else l->error = error;
}
static void layout_folder(int parent, const char *name, dev_t device, struct layout *l) {
    struct stat s;
    int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d || fstat(fd, &s) || s.st_dev != device) {
        if (d) closedir(d);
        else if (fd >= 0) close(fd);
        l->skipped++;
        return;
    }
    for (struct dirent *e; !l->unknown && !l->error && (e = readdir(d));) layout_name(fd, e->d_name, device, l);
    closedir(d);
}
/* Prints the layout; with a name for it, also takes a sample. */
static int layout_of(const char *folder, const char *sample, uint64_t origin, struct layout *l) {
    struct stat s;
    *l = (struct layout){0};
    uint64_t start = now_ns();
    if (stat(folder, &s)) return broken("cannot examine %s: %s", folder, strerror(errno));
    if (!S_ISDIR(s.st_mode)) return broken("cannot examine %s: it is not a folder", folder);
    layout_folder(AT_FDCWD, folder, s.st_dev, l);
    if (l->error) return broken("cannot examine the layout of %s: %s", folder, strerror(l->error));
    printf("%s: ", sample);
    if (l->unknown) {
        printf("layout unknown, the file system has no FIEMAP\n");
        return 0;
    }
    sample_put(SAMPLE(.name = sample, .start_ns = start - origin, .wall_ns = now_ns() - start, .items = l->files,
        .extents = (int64_t)l->extents, .blocks = (int64_t)l->blocks, .contiguous = (int64_t)l->contiguous));
    printf("%llu files, %llu extents, %.3f extents a file, layout score ", (unsigned long long)l->files,
        (unsigned long long)l->extents, l->files ? (double)l->extents / (double)l->files : 0.0);
    if (l->blocks) printf("%.4f", (double)l->contiguous / (double)l->blocks);
    else printf("unknown, no file has two blocks");
    if (l->skipped) printf(", %llu names could not be examined", (unsigned long long)l->skipped);
    putchar('\n');
    return 0;
}

#endif
