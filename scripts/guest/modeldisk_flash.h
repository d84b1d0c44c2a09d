// SPDX-License-Identifier: GPL-2.0 OR MIT
/* The flash inside of a solid-state disk: a map from pages of the disk to pages of erase blocks, garbage collection, a
 * fast region (SLC cache). Equations: docs/methods/devices.md, "Inside of a solid-state disk". Deterministic, in the
 * model's time. It also compiles outside of the kernel (tests/flash.c). */
#ifdef __KERNEL__
#define flash_array(n, size) kvcalloc(n, size, GFP_KERNEL)
#define flash_free(p) kvfree(p)
#else
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
typedef uint32_t u32;
typedef uint64_t u64;
static u64 mul_u64_u64_div_u64(u64 a, u64 b, u64 c) { return (u64)((unsigned __int128)a * b / c); }
#define flash_array(n, size) calloc(n, size)
#define flash_free(p) free(p)
#define NSEC_PER_SEC 1000000000ULL
#endif

#define FLASH_PAGE 4096ULL
#define FLASH_NONE (~(u32)0)
#define FLASH_WHOLE 1000000ULL /* shares are parts per million of the disk */

struct flash_setting {
    u64 blocks, spare, fifo, erase_ns; /* blocks: 0 without a model of the flash */
    u64 slc, slc_full, slc_rate; /* the fast region of an empty disk and of a full one; bytes/s */
    u64 filled, overwritten; /* before first use: pages written in sequence, then as many at random places */
};

struct flash {
    struct flash_setting s;
    u64 write_rate, read_rate; /* bytes/s of all channels together */
    u64 pages, each; /* of the disk; of an erase block */
    u32 *map, *owner; /* page of the disk -> page of flash; back, FLASH_NONE where nothing valid is */
    u32 *valid, *idle; /* of each block; blocks that are erased, a stack */
    u64 *opened; /* when each block was opened, 0: erased */
    u64 idle_blocks, stamp, active, used, mapped;
    u64 slc_bytes, owed_ns, free_at; /* in the fast region; what moving them out will take; since when it is idle */
    u64 written, moved, erased, fast; /* pages, pages, blocks, pages */
};

static void flash_end(struct flash *f) {
    flash_free(f->map), flash_free(f->owner), flash_free(f->valid), flash_free(f->idle), flash_free(f->opened);
}

/* The block that garbage collection empties: the one with the fewest valid pages, of equal ones the oldest; or always
 * the oldest (FIFO). */
static u64 flash_victim(const struct flash *f) {
    u64 best = f->active;
    for (u64 b = 0; b < f->s.blocks; b++) {
        bool older = f->opened[b] < f->opened[best];
        if (!f->opened[b]) continue;
        if (f->s.fifo ? older : f->valid[b] < f->valid[best] || (f->valid[b] == f->valid[best] && older)) best = b;
    }
    return best;
}
static void flash_put(struct flash *f, u32 page) {
    u32 at = f->active * f->each + f->used++;
    f->map[page] = at, f->owner[at] = page;
    f->valid[f->active]++;
}
static void flash_open(struct flash *f) {
    f->active = f->idle[--f->idle_blocks];
    f->opened[f->active] = ++f->stamp;
    f->used = 0;
}
/* One erased block is kept: what is valid in the victim goes there, and then the victim is the erased one. */
static void flash_make_room(struct flash *f) {
    while (f->used == f->each) {
        u64 victim = flash_victim(f), first = victim * f->each;
        bool collect = f->idle_blocks <= 1;
        flash_open(f);
        if (!collect) return;
        for (u64 at = first; at < first + f->each; at++) {
            if (f->owner[at] == FLASH_NONE) continue;
            flash_put(f, f->owner[at]);
            f->owner[at] = FLASH_NONE;
            f->moved++;
        }
        f->valid[victim] = 0, f->opened[victim] = 0;
        f->idle[f->idle_blocks++] = victim;
        f->erased++;
    }
}
static void flash_forget(struct flash *f, u64 page) {
    u32 at = f->map[page];
    if (at == FLASH_NONE) return;
    f->owner[at] = FLASH_NONE, f->map[page] = FLASH_NONE;
    f->valid[at / f->each]--;
    f->mapped--;
}
static void flash_page(struct flash *f, u64 page) {
    flash_forget(f, page);
    flash_make_room(f);
    flash_put(f, page);
    f->mapped++;
    f->written++;
}

static u64 flash_slc_size(const struct flash *f) { /* it shrinks as the disk fills */
    u64 more = f->s.slc > f->s.slc_full ? f->s.slc - f->s.slc_full : 0;
    u64 share = f->s.slc_full + mul_u64_u64_div_u64(more, f->pages - f->mapped, f->pages);
    return mul_u64_u64_div_u64(f->pages * FLASH_PAGE, share, FLASH_WHOLE);
}
/* What is in the fast region is moved out while the disk is idle. */
static void flash_rest(struct flash *f, u64 t) {
    u64 idle = t > f->free_at ? t - f->free_at : 0;
    if (idle >= f->owed_ns) {
        f->owed_ns = f->slc_bytes = 0;
    } else {
        f->slc_bytes -= mul_u64_u64_div_u64(f->slc_bytes, idle, f->owed_ns);
        f->owed_ns -= idle;
    }
}
/* A write of so many pages begins at t: how long (ns) the flash takes for it, garbage collection included. */
static u64 flash_write(struct flash *f, u64 first, u64 count, u64 t) {
    u64 moved = f->moved, erased = f->erased, bytes = count * FLASH_PAGE, took, work;
    flash_rest(f, t);
    for (u64 page = first; page < first + count; page++) flash_page(f, page);
    moved = (f->moved - moved) * FLASH_PAGE;
    work = mul_u64_u64_div_u64(bytes + moved, NSEC_PER_SEC, f->write_rate) +
        mul_u64_u64_div_u64(moved, NSEC_PER_SEC, f->read_rate) + (f->erased - erased) * f->s.erase_ns;
    took = work;
    if (f->slc_bytes + bytes <= flash_slc_size(f)) {
        took = mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, f->s.slc_rate);
        f->slc_bytes += bytes, f->owed_ns += work, f->fast += count;
    }
    f->free_at = t + took;
    return took;
}

/* As it was left by whoever used it before: the same for the same settings. */
static void flash_use(struct flash *f) {
    u64 filled = mul_u64_u64_div_u64(f->pages, f->s.filled, FLASH_WHOLE), x = 88172645463325252ULL;
    u64 more = mul_u64_u64_div_u64(filled, f->s.overwritten, FLASH_WHOLE);
    for (u64 page = 0; page < filled; page++) flash_page(f, page);
    for (u64 i = 0; i < more; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17; /* xorshift64 (Marsaglia, 2003) */
        flash_page(f, mul_u64_u64_div_u64(x >> 1, filled, 1ULL << 63));
    }
    f->written = f->moved = f->erased = 0;
}
/* false: without memory, or with fewer blocks than pages and garbage collection need. */
static bool flash_start(struct flash *f, u64 bytes) {
    u64 all, spare;
    f->pages = bytes / FLASH_PAGE;
    spare = mul_u64_u64_div_u64(f->pages, f->s.spare, FLASH_WHOLE);
    f->each = (f->pages + spare) / f->s.blocks;
    all = f->each * f->s.blocks;
    if (all < f->pages + 2 * f->each || all >= FLASH_NONE) return false;
    f->map = flash_array(f->pages, sizeof(u32)), f->owner = flash_array(all, sizeof(u32));
    f->valid = flash_array(f->s.blocks, sizeof(u32)), f->idle = flash_array(f->s.blocks, sizeof(u32));
    f->opened = flash_array(f->s.blocks, sizeof(u64));
    if (!f->map || !f->owner || !f->valid || !f->idle || !f->opened) return false;
    for (u64 page = 0; page < f->pages; page++) f->map[page] = FLASH_NONE;
    for (u64 page = 0; page < all; page++) f->owner[page] = FLASH_NONE;
    for (u64 b = 0; b < f->s.blocks; b++) f->idle[b] = f->s.blocks - 1 - b;
    f->idle_blocks = f->s.blocks;
    flash_open(f);
    flash_use(f);
    return true;
}
