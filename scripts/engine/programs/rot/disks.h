/* All that is on the disks of an array before anything rots, to put it back, and what each block of 4 KiB is: content
 * of the file, the parity of such content, or anything else. */
#ifndef REPROFS_ROT_DISKS_H
#define REPROFS_ROT_DISKS_H

#include "../crash/content.h"

enum { PAGE = 4096, PAGE_SECTORS = PAGE / SECTOR, DISKS = 64, NODE = 1, TAG = 1, READ = 1 << 20 };
enum kind { DATA, PARITY, OTHER };

static int disks[DISKS], n_disks;
static uint8_t page[PAGE] __attribute__((aligned(PAGE))), *chunk;

static void fill_page(uint8_t *to, uint64_t number) {
    for (int i = 0; i < PAGE_SECTORS; i++) fill_sector(to + i * SECTOR, NODE, TAG, (int)number * PAGE_SECTORS + i);
}

/* Blocks that are not zeros, in the order of the disks and of their places there. */
static struct block {
    int disk, byte; /* that rots */
    enum kind kind;
    uint64_t at; /* in blocks */
    uint8_t *content;
} *blocks;
static size_t n_blocks;
static const uint8_t zeros[PAGE];

static void open_disks(const char *names) {
    char *rest = strdup(names), *path;
    while ((path = strsep(&rest, " "))) {
        if (n_disks == DISKS) exit(broken("there are more than %d disks", DISKS));
        disks[n_disks] = open(path, O_RDWR | O_DIRECT | O_CLOEXEC);
        if (disks[n_disks++] < 0) exit(broken("%s cannot be opened: %s", path, reason(errno)));
    }
    chunk = aligned_alloc(PAGE, READ);
    if (!chunk) exit(broken("no memory for a part of a disk"));
}

static ssize_t read_part(int disk, uint64_t at) {
    ssize_t got = pread(disks[disk], chunk, READ, (off_t)at);
    if (got < 0) exit(broken("a disk of the array cannot be read: %s", reason(errno)));
    return got;
}

static void write_block(int disk, uint64_t at, const uint8_t *content) {
    if (content != page) memcpy(page, content, PAGE); /* which is aligned */
    if (pwrite(disks[disk], page, PAGE, (off_t)(at * PAGE)) != PAGE)
        exit(broken("a disk of the array cannot be written: %s", reason(errno)));
}

static struct block *find(int disk, uint64_t at) {
    size_t low = 0, high = n_blocks;
    while (low < high) {
        size_t middle = (low + high) / 2;
        const struct block *b = &blocks[middle];
        if (b->disk == disk && b->at == at) return &blocks[middle];
        if (b->disk < disk || (b->disk == disk && b->at < at)) low = middle + 1;
        else high = middle;
    }
    return NULL;
}

/* The middle one of a block's bytes that are not zero. */
static int middle_byte(const uint8_t *content) {
    int count = 0, seen = 0, at = 0;
    for (int i = 0; i < PAGE; i++) count += content[i] != 0;
    for (; seen + (content[at] != 0) <= count / 2; at++) seen += content[at] != 0;
    return at;
}

/* Whether it has content of the file: a file system may have blocks of 1 KiB, so its pages lie anywhere. */
static bool is_content(const uint8_t *content) {
    for (int i = 0; i < PAGE; i += SECTOR) {
        const uint64_t *word = (const uint64_t *)(const void *)(content + i);
        int node;
        if (word[0] >> 16 == MARK && tag_of(content + i, (int)(word[1] & UINT32_MAX), &node) == TAG) return true;
    }
    return false;
}

/* Whether this block or a third one is the sum of the file's content at this place of all disks. What shares its place
 * with metadata is taken for no parity. */
static bool is_parity(const struct block *b) {
    uint64_t sum[PAGE / 8] = {0};
    int content = 0;
    for (int disk = 0; disk < n_disks; disk++) {
        const struct block *other = find(disk, b->at);
        if (!other || other->kind != DATA) continue;
        content++;
        for (int i = 0; i < PAGE / 8; i++) sum[i] ^= ((const uint64_t *)(const void *)other->content)[i];
    }
    for (int disk = 0; disk < n_disks && content; disk++) {
        const struct block *other = find(disk, b->at);
        if (other && other->kind != DATA && !memcmp(other->content, sum, PAGE)) return true;
    }
    return false;
}

static void keep_disks(void) {
    size_t room = 0;
    ssize_t got;
    for (int disk = 0; disk < n_disks; disk++)
        for (uint64_t at = 0; (got = read_part(disk, at)) > 0; at += (uint64_t)got)
            for (ssize_t i = 0; i + PAGE <= got; i += PAGE) {
                if (!memcmp(chunk + i, zeros, PAGE)) continue;
                if (n_blocks == room) blocks = realloc(blocks, (room = 2 * room + 4096) * sizeof *blocks);
                uint8_t *content = aligned_alloc(PAGE, PAGE);
                if (!blocks || !content) exit(broken("no memory for the %zu blocks of the disks", n_blocks));
                memcpy(content, chunk + i, PAGE);
                enum kind kind = is_content(content) ? DATA : OTHER;
                blocks[n_blocks++] = (struct block){
                    disk, middle_byte(content), kind, (at + (uint64_t)i) / PAGE, content};
            }
    for (size_t i = 0; i < n_blocks; i++)
        if (blocks[i].kind == OTHER && is_parity(&blocks[i])) blocks[i].kind = PARITY;
}

/* All disks as they were kept. */
static void restore_disks(void) {
    ssize_t got;
    for (int disk = 0; disk < n_disks; disk++) {
        for (uint64_t at = 0; (got = read_part(disk, at)) > 0; at += (uint64_t)got)
            for (ssize_t i = 0; i + PAGE <= got; i += PAGE) {
                const struct block *b = find(disk, (at + (uint64_t)i) / PAGE);
                const uint8_t *was = b ? b->content : zeros;
                if (memcmp(chunk + i, was, PAGE)) write_block(disk, (at + (uint64_t)i) / PAGE, was);
            }
        if (fdatasync(disks[disk])) exit(broken("a disk of the array cannot be flushed: %s", reason(errno)));
    }
}
#endif
