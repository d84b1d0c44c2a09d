/* The yardstick of the engine: the same calls on the same tree in a bare loop, names made beforehand, one clock reading a phase.
 * Usage: bare_loop FOLDER FILES DIRECTORIES; prints `operation nanoseconds` lines. */
#define _GNU_SOURCE
#include "../scripts/engine/measure.h"
#include "../scripts/engine/tree.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static char buffer[1 << 17];
static void check(int bad) {
    if (bad) {
        perror("bare_loop");
        exit(1);
    }
}

int main(int argc, char **argv) {
    if (argc != 4) return 2;
    struct tree t = {.seed = 7, .files = strtoull(argv[2], 0, 10), .directories = strtoull(argv[3], 0, 10), .fan_out = 8,
                     .size_max = 1 << 20, .size_median = 4055, .size_sigma = 1.45};
    snprintf(t.root, sizeof t.root, "%s/tree", argv[1]);
    tree_pool(t.seed);
    char path[PATH_BYTES], **names = calloc(t.files, sizeof *names);
    struct content *contents = calloc(t.files, sizeof *contents);
    uint64_t *order = calloc(t.files, sizeof *order);
    check(mkdir(t.root, 0755));
    int root = open(t.root, O_RDONLY | O_DIRECTORY);
    check(root < 0);
    for (uint64_t i = 1; i < t.directories; i++) {
        tree_directory(&t, i, path);
        check(mkdirat(root, path, 0755));
    }
    for (uint64_t i = 0; i < t.files; i++) {
        tree_file(&t, i, path);
        names[i] = strdup(path);
        contents[i] = tree_content(&t, i, tree_size(&t, i));
        order[i] = permute(t.seed, t.files, i);
    }
    uint64_t start = now_ns();
    for (uint64_t i = 0; i < t.files; i++) {
        int fd = openat(root, names[i], O_WRONLY | O_CREAT | O_EXCL, 0644);
        const struct content *c = &contents[i];
        size_t head = c->size < 16 ? c->size : 16;
        struct iovec v[2] = {{(void *)c->header, head}, {(void *)pool_at(c->offset), c->size - head}};
        check(fd < 0 || (c->size && writev(fd, v, 2) < 0) || close(fd));
    }
    printf("create %llu\n", (unsigned long long)(now_ns() - start));
    start = now_ns();
    for (uint64_t i = 0; i < t.files; i++) {
        struct stat s;
        check(fstatat(root, names[order[i]], &s, AT_SYMLINK_NOFOLLOW));
    }
    printf("stat %llu\n", (unsigned long long)(now_ns() - start));
    start = now_ns();
    for (uint64_t i = 0; i < t.files; i++) {
        int fd = openat(root, names[order[i]], O_RDONLY);
        while (read(fd, buffer, sizeof buffer) > 0) {}
        check(fd < 0 || close(fd));
    }
    printf("read %llu\n", (unsigned long long)(now_ns() - start));
    start = now_ns();
    for (uint64_t i = 0; i < t.files; i++) check(unlinkat(root, names[i], 0));
    printf("remove %llu\n", (unsigned long long)(now_ns() - start));
    for (uint64_t i = t.directories - 1; i >= 1; i--) {
        tree_directory(&t, i, path);
        check(unlinkat(root, path, AT_REMOVEDIR));
    }
    check(rmdir(t.root));
    return 0;
}
