/* What an array makes of a disk on which a bit is another: what is read, whether a scrub finds it, what is left.
 *
 * It runs in the folder under test. A file is written whose sectors say where they belong; then the file system is
 * unmounted, the array stopped, and the copies of each sector are searched on the disks. Pages are chosen evenly among
 * those with the fewest copies, so that parity which equals its data, beside zeros, is taken for no copy. Of each page
 * each copy rots, in two cases:
 *
 * 1. The array is started, mounted, and the page is read.
 * 2. The array is started, mounted, and scrubbed; then the page is read after another start. If the array has a repair,
 *    it is made, and then the page is read and scrubbed again.
 *
 * Afterwards the copies are as they were written, and a repair makes parity follow them. Each copy prints one line.
 *
 * Then blocks of parity rot, and blocks of anything else that is not zeros, such as metadata: one bit of the middle one
 * of the bytes that are not zero. The cases are the same, but the whole file is read, and before each of them all disks
 * are as they were. Nothing must be mountable. */
#define _GNU_SOURCE
#pragma GCC diagnostic ignored "-Wunused-function" /* of the calls that crash states are made of */
#include "crash/mounts.h"
#include "measure.h"
#include "program.h"
#include "rot/disks.h"

enum { COPIES = 8 };
static struct {
    uint64_t bytes, pages, others;
    const char *disks, *scrub, *repair;
} p = {.bytes = 8 << 20, .pages = 4, .others = 8};

static const struct option options[] = {
    NUMBER("--bytes", p.bytes, PAGE, 1 << 30, "of the file"),
    NUMBER("--pages", p.pages, 1, UINT32_MAX, "of the file that are tried, evenly chosen; as many of parity"),
    NUMBER("--others", p.others, 0, UINT32_MAX, "blocks neither of the file nor parity, evenly chosen"),
    WORD("--disks", p.disks, "of the array, with spaces between them"),
    WORD("--mountpoint", m.mountpoint, "where the file system is mounted"),
    WORD("--mount", m.mount, "commands that start the array and mount"),
    WORD("--unmount", m.unmount, "commands that unmount and stop the array"),
    WORD("--scrub", p.scrub, "commands, one a line, that read every copy; exit code 0: all is well, 1: not"),
    WORD("--repair", p.repair, "commands that make the copies agree, where the scrub does not"),
};

static int prepare(void) {
    if (p.bytes % PAGE) return wrong("--bytes must be a multiple of %d", PAGE);
    return 0;
}
static int check(void) { return needs(p.bytes, 1); }

static struct copy {
    int disk; /* -1: none */
    uint64_t sector;
} (*copies)[COPIES]; /* of each page, of its first sector */
static uint64_t n_pages;
static char file[PATH_MAX];

static void write_file(void) {
    int fd = open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0) exit(broken("%s cannot be made: %s", file, reason(errno)));
    for (uint64_t at = 0; at < n_pages; at++) {
        fill_page(page, at);
        if (write(fd, page, PAGE) != PAGE) exit(broken("%s cannot be written: %s", file, reason(errno)));
    }
    if (fsync(fd) || close(fd)) exit(broken("%s cannot be flushed: %s", file, reason(errno)));
}

static void add_copy(uint64_t number, int disk, uint64_t sector) {
    int c = 0;
    while (c < COPIES && copies[number][c].disk >= 0) c++;
    if (c == COPIES) exit(broken("a page has more than %d copies", COPIES));
    copies[number][c] = (struct copy){disk, sector};
}

/* Every sector of a disk that is the first one of a page of the file. */
static void search(int disk) {
    ssize_t got;
    for (uint64_t at = 0; (got = read_part(disk, at)) > 0; at += (uint64_t)got)
        for (ssize_t i = 0; i + SECTOR <= got; i += SECTOR) {
            const uint64_t *word = (const uint64_t *)(const void *)(chunk + i);
            uint64_t place = word[1] & UINT32_MAX;
            int node;
            if (word[0] >> 16 != MARK || place % PAGE_SECTORS || place / PAGE_SECTORS >= n_pages) continue;
            if (tag_of(chunk + i, (int)place, &node) != TAG || node != NODE) continue;
            add_copy(place / PAGE_SECTORS, disk, (at + (uint64_t)i) / SECTOR);
        }
}

static int count_copies(uint64_t number) {
    int n = 0;
    while (n < COPIES && copies[number][n].disk >= 0) n++;
    return n;
}

/* The place of the byte that rots is the 64th of the copy's first sector. */
static void move_copy(const struct copy *c, bool rotten, bool set, bool *was) {
    off_t at = (off_t)(c->sector * SECTOR / PAGE * PAGE);
    uint8_t *byte = page + c->sector * SECTOR % PAGE + 64, sector[SECTOR];
    if (pread(disks[c->disk], page, PAGE, at) != PAGE) exit(broken("a copy cannot be read: %s", reason(errno)));
    uint64_t number = ((const uint64_t *)(const void *)(byte - 64))[1] & UINT32_MAX;
    fill_sector(sector, NODE, TAG, (int)number);
    if (was) *was = *byte != sector[64];
    if (!set) return;
    *byte = sector[64] ^ (rotten ? 4 : 0);
    if (pwrite(disks[c->disk], page, PAGE, at) != PAGE || fdatasync(disks[c->disk]))
        exit(broken("a copy cannot be written: %s", reason(errno)));
}
static void rot(const struct copy *c) { move_copy(c, true, true, NULL); }
static bool is_rotten(const struct copy *c) {
    bool was;
    move_copy(c, false, false, &was);
    return was;
}
static int count_rotten(uint64_t number) {
    int n = 0;
    for (int c = 0; c < count_copies(number); c++) n += is_rotten(&copies[number][c]);
    return n;
}
static void restore(uint64_t number) {
    for (int c = 0; c < count_copies(number); c++) move_copy(&copies[number][c], false, true, NULL);
}

/* The words for what is read of a page: whole, rotten, or the error. */
static const char *read_page(uint64_t number) {
    static uint8_t whole[PAGE];
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : pread(fd, page, PAGE, (off_t)(number * PAGE));
    int error = got < 0 ? errno : 0;
    static char words[16];
    if (fd >= 0) close(fd);
    fill_page(whole, number);
    snprintf(words, sizeof words, "%d", error);
    return error ? words : got == PAGE && !memcmp(page, whole, PAGE) ? "whole" : "rotten";
}

static bool mounted(void) {
    char why[64];
    return !mount_it(why, sizeof why);
}
static void must_mount(const char *when) {
    if (!mounted()) exit(broken("%s cannot be mounted %s", m.mountpoint, when));
}

/* The largest exit code of commands, one a line, each of which is made. */
static int each_line(const char *lines) {
    int worst = 0, code;
    char *rest = strdup(lines), *all = rest, *line;
    while ((line = strsep(&rest, "\n")))
        if ((code = shell(line)) > worst) worst = code;
    free(all);
    return worst;
}

/* Whether one of the scrub's commands found anything. */
static bool scrub(void) {
    int code = each_line(p.scrub);
    if (code > 1) exit(broken("the scrub exits with %d", code));
    return code == 1;
}
static void repair(void) {
    must_mount("for the repair");
    if (shell(p.repair)) exit(broken("the repair fails: %s", p.repair));
    unmount_it();
}

static void read_after_a_start(uint64_t number, const char *key) {
    bool there = mounted();
    printf(",\"%s\":\"%s\"", key, there ? read_page(number) : "no mount");
    if (there) unmount_it();
}

static void scrub_after_a_start(const char *key) {
    must_mount("for the scrub");
    printf(",\"%s\":%s", key, scrub() ? "true" : "false");
    unmount_it();
}

static void try_copy(uint64_t number, int c) {
    const struct copy *copy = &copies[number][c];
    printf("{\"kind\":\"data\",\"page\":%llu,\"disk\":%d,\"copies\":%d", (unsigned long long)number, copy->disk,
        count_copies(number));
    rot(copy);
    read_after_a_start(number, "read");
    printf(",\"read_left\":%d", count_rotten(number));
    restore(number);
    rot(copy);
    if (p.scrub) {
        scrub_after_a_start("found");
        read_after_a_start(number, "scrubbed");
        printf(",\"scrub_left\":%d", count_rotten(number));
    }
    if (p.repair) {
        repair();
        read_after_a_start(number, "repaired");
        printf(",\"repair_left\":%d", count_rotten(number));
        scrub_after_a_start("found_again");
    }
    restore(number);
    if (p.repair && count_copies(number) == 1) repair(); /* the parity followed what was rotten */
    printf("}\n");
}

/* Pages are chosen evenly among those with the fewest copies. */
static void try_pages(void) {
    int fewest = COPIES + 1;
    uint64_t of_these = 0, take, seen = 0, taken = 0;
    for (uint64_t i = 0; i < n_pages; i++)
        if (count_copies(i) && count_copies(i) < fewest) fewest = count_copies(i);
    for (uint64_t i = 0; i < n_pages; i++) of_these += count_copies(i) == fewest;
    if (!of_these) exit(broken("no disk has the content as it was written: it is compressed or encrypted"));
    take = of_these < p.pages ? of_these : p.pages;
    for (uint64_t i = 0; i < n_pages; i++) {
        if (count_copies(i) != fewest || seen++ != taken * of_these / take) continue;
        taken++;
        for (int c = 0; c < fewest; c++) try_copy(i, c);
    }
}

/* The words for what is read of the whole file: whole, or those of the first page that is not. */
static const char *read_all(void) {
    const char *words = "whole";
    for (uint64_t i = 0; i < n_pages && !strcmp(words, "whole"); i++) words = read_page(i);
    return words;
}

/* Blocks that are as this one was, on any disk: the copies of one block of metadata are alike. */
static int count_twins(const struct block *b, bool rotten) {
    int n = 0;
    for (size_t i = 0; i < n_blocks; i++) {
        if (memcmp(blocks[i].content, b->content, PAGE)) continue;
        if (rotten && pread(disks[blocks[i].disk], page, PAGE, (off_t)(blocks[i].at * PAGE)) != PAGE)
            exit(broken("a block cannot be read: %s", reason(errno)));
        n += !rotten || page[b->byte] == (b->content[b->byte] ^ 4);
    }
    return n;
}

static void rot_block(const struct block *b) {
    restore_disks();
    memcpy(page, b->content, PAGE);
    page[b->byte] ^= 4;
    write_block(b->disk, b->at, page);
    if (fdatasync(disks[b->disk])) exit(broken("a block cannot be written: %s", reason(errno)));
}

/* Also of what could be mounted only in part. */
static void stop(void) {
    each_line(m.unmount);
    forget_disk();
}

static void look(const struct block *b, const char *read, const char *left) {
    printf(",\"%s\":\"%s\"", read, mounted() ? read_all() : "no mount");
    stop();
    printf(",\"%s\":%d", left, count_twins(b, true));
}

/* A scrub that cannot be made says nothing. */
static void look_for_rot(const char *key) {
    mounted();
    int code = each_line(p.scrub);
    stop();
    printf(",\"%s\":%s", key, code > 1 ? "null" : code ? "true" : "false");
}

static void try_block(const struct block *b) {
    const char *kind = b->kind == PARITY ? "parity" : "other";
    printf("{\"kind\":\"%s\",\"page\":%llu,\"disk\":%d", kind, (unsigned long long)b->at, b->disk);
    printf(",\"copies\":%d", count_twins(b, false));
    rot_block(b);
    look(b, "read", "read_left");
    rot_block(b);
    if (p.scrub) {
        look_for_rot("found");
        look(b, "scrubbed", "scrub_left");
    }
    if (p.repair) {
        mounted();
        each_line(p.repair);
        stop();
        look(b, "repaired", "repair_left");
        look_for_rot("found_again");
    }
    printf("}\n");
}

/* Blocks of a kind are chosen evenly. */
static void try_blocks(enum kind kind, uint64_t most) {
    uint64_t of_these = 0, seen = 0, taken = 0;
    for (size_t i = 0; i < n_blocks; i++) of_these += blocks[i].kind == kind;
    uint64_t take = of_these < most ? of_these : most;
    for (size_t i = 0; i < n_blocks && taken < take; i++) {
        if (blocks[i].kind != kind || seen++ != taken * of_these / take) continue;
        taken++;
        try_block(&blocks[i]);
    }
}

static int run(void) {
    if (!m.mountpoint || !m.mount || !m.unmount || !p.disks)
        return wrong("--mountpoint, --mount, --unmount and --disks must be given");
    if (!getcwd(file, sizeof file - 8) || chdir("/")) return broken("the folder cannot be left: %s", reason(errno));
    strcat(file, "/rot");
    n_pages = p.bytes / PAGE;
    copies = malloc(n_pages * sizeof *copies);
    if (!copies) return broken("no memory for %llu pages", (unsigned long long)n_pages);
    memset(copies, 0xff, n_pages * sizeof *copies);
    write_file();
    sync();
    unmount_it();
    open_disks(p.disks);
    keep_disks();
    for (int disk = 0; disk < n_disks; disk++) search(disk);
    try_pages();
    try_blocks(PARITY, p.pages);
    try_blocks(OTHER, p.others);
    restore_disks();
    must_mount("in the end");
    for (uint64_t i = 0; i < n_pages; i++)
        if (strcmp(read_page(i), "whole")) return broken("page %llu is not whole in the end", (unsigned long long)i);
    return 0;
}

const struct program program = {"rot",
    "A bit of one disk of an array is another: what is read, what a scrub finds, what is left.", OPTIONS(options),
    prepare, check, run};
