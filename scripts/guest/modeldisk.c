// SPDX-License-Identifier: GPL-2.0 OR MIT
/* Block devices that keep their data in memory and answer when a model of a disk says so. Equations: METHODOLOGY.md,
 * "Modelled disks".
 *
 * Every time of the model is computed from other times of the model, never from when this code happened to run, and a
 * service begins with a request's arrival: copying the data happens inside of it. So the driver's own work delays no
 * answer; it takes the processor from nobody but programs that could have run meanwhile, and `account` says how much.
 *
 * Files:
 *
 * - /sys/module/modeldisk/parameters/add: writing `kind=rotating size=... ...` makes the next /dev/modeldiskN (`keys`).
 * - /sys/block/modeldiskN/supply: writing `cut`, `cut NS` or `restore`; reads as `on` or `cut`.
 * - /sys/block/modeldiskN/account: requests, ns of modelled service, ns of this code, bytes lost at the last restore.
 * - /sys/block/modeldiskN/wear: pages of 4 KiB written, moved by garbage collection, blocks erased, pages into the fast
 *   region.
 */
#include <linux/blk-mq.h>
#include <linux/blkdev.h>
#include <linux/hrtimer.h>
#include <linux/math64.h>
#include <linux/module.h>

#include "modeldisk_flash.h"
#include "modeldisk_kernels.h"

enum {
    DISKS = 32,
    UNITS = 64,
    SEGMENTS = 64,
    LEAF = 512,
    MAX_BYTES = 1280 << 10,
    OLD_NS = 500000000,
    TURN_ROUNDING_NS = 1000
};

struct model {
    u64 rotating, size, block, queue_depth, link, cache, write_cache, nonvolatile, overhead; /* bytes, bytes/s, ns */
    u64 period, zones, outer, inner, seek_a, seek_b, seek_c, write_settle, read_ahead, segments;
    u64 parallel, read_ns, write_ns, flush_ns, discard_ns, read_rate, write_rate, no_discard;
    struct flash_setting flash;
};
#define KEY(name) {#name, offsetof(struct model, name)}
#define FLASH_KEY(name) {#name, offsetof(struct model, flash.name)}
static const struct {
    const char *name;
    size_t at;
} keys[] = {KEY(size), KEY(block), KEY(queue_depth), KEY(link), KEY(cache), KEY(write_cache), KEY(nonvolatile),
    KEY(overhead), KEY(period), KEY(zones), KEY(outer), KEY(inner), KEY(seek_a), KEY(seek_b), KEY(seek_c),
    KEY(write_settle), KEY(read_ahead), KEY(segments), KEY(parallel), KEY(read_ns), KEY(write_ns), KEY(flush_ns),
    KEY(discard_ns), KEY(read_rate), KEY(write_rate), KEY(no_discard), FLASH_KEY(blocks), FLASH_KEY(spare),
    FLASH_KEY(fifo), FLASH_KEY(erase_ns), FLASH_KEY(slc), FLASH_KEY(slc_full), FLASH_KEY(slc_rate), FLASH_KEY(filled),
    FLASH_KEY(overwritten)};

/* A page of the disk. media: what a power cut leaves; fresh: the newest version where that is not on the media yet. seq
 * is 0 where there is none; zeros, which file systems write a lot of, need no page. */
struct version {
    struct page *page;
    u64 seq;
};
struct place { struct version media, fresh; };

/* A write that was accepted and is not on the media yet. */
struct write {
    struct rb_node node; /* in disk.dirty */
    struct list_head age; /* in disk.ages */
    u64 seq, offset, bytes;
    unsigned int pages;
    struct page *page[];
};

/* The part of a request that is this driver's. */
struct command {
    struct list_head list; /* in one of disk.queue, done, full, flushes, or of those that are to be ended */
    u64 arrival, due, offset, bytes, seq;
    struct write *write;
};

struct disk {
    struct model m;
    struct blk_mq_tag_set tags;
    struct gendisk *gendisk;
    struct hrtimer timer;
    spinlock_t lock;

    struct place **leaf; /* each for LEAF pages, made by the first write there */
    u64 leaves, seq;
    bool cut;
    u64 cut_at, lost;

    /* Commands: waiting for the media, with a known end (in its order), without room in the cache, flushes. */
    struct list_head queue, done, full, flushes;
    /* The write cache: by place, for the elevator, and by age. `filled` also counts what is on its way into it. */
    struct rb_root dirty;
    struct list_head ages;
    u64 filled;

    /* The actuator (rotating), or what drains the buffer (solid). */
    bool busy;
    u64 busy_until;
    struct command *serving;
    struct write *destaging;
    /* Where the head was, and when, at the end of the last media operation; if that was a read it went on reading from
     * there, into the current one of the segments that the drive keeps of what it has read. */
    u64 head, head_at, stamp;
    bool reading;
    struct segment { u64 from, to, used; } segment[SEGMENTS], *current_segment;

    u64 link_free, unit_free[UNITS], read_free, write_free;
    struct flash flash;
    u64 requests, service_ns, cpu_ns;
};
static int made, major;

static u64 transfer(u64 bytes, u64 rate) { return mul_u64_u64_div_u64(bytes, NSEC_PER_SEC, rate); }

/* ---- a rotating disk: where, and how long ------------------------------------------------------------------------ */
static u64 zone(const struct disk *d, u64 offset) { return mul_u64_u64_div_u64(offset, d->m.zones, d->m.size); }
static u64 rate(const struct disk *d, u64 offset) {
    u64 z = zone(d, offset);
    return d->m.zones < 2 ? d->m.outer : d->m.outer - div64_u64((d->m.outer - d->m.inner) * z, d->m.zones - 1);
}
/* Track number within the zone, and the angle in it as ns of a turn. */
static u64 track(const struct disk *d, u64 offset, u64 *angle) {
    u64 start = mul_u64_u64_div_u64(zone(d, offset), d->m.size, d->m.zones), within;
    u64 bytes = mul_u64_u64_div_u64(rate(d, offset), d->m.period, NSEC_PER_SEC);
    u64 number = div64_u64_rem(offset - min(start, offset), bytes, &within);
    *angle = mul_u64_u64_div_u64(within, d->m.period, bytes);
    return number;
}
static u64 turn_to(const struct disk *d, u64 angle, u64 t) {
    u64 now, wait;
    div64_u64_rem(t, d->m.period, &now);
    wait = angle >= now ? angle - now : angle + d->m.period - now;
    return wait + TURN_ROUNDING_NS >= d->m.period ? 0 : wait;
}
static u64 seek(const struct disk *d, u64 from, u64 to) {
    u64 angle, share; /* of the full stroke, times 2^60 */
    if (zone(d, from) == zone(d, to) && track(d, from, &angle) == track(d, to, &angle)) return 0;
    share = mul_u64_u64_div_u64(from > to ? from - to : to - from, 1ULL << 60, d->m.size);
    return d->m.seek_a + ((d->m.seek_b * int_sqrt64(share)) >> 30) +
        mul_u64_u64_div_u64(d->m.seek_c, share, 1ULL << 60);
}
/* How long from t until the first byte at `offset` passes under the head. */
static u64 position(const struct disk *d, u64 offset, bool write, u64 t) {
    u64 angle, moved;
    if (offset == d->head && t == d->head_at) return 0;
    moved = seek(d, d->head, offset);
    if (moved && write) moved += d->m.write_settle;
    track(d, offset, &angle);
    return moved + turn_to(d, angle, t + moved);
}
/* How far the head has read ahead at time t, and whether it has stopped there. */
static u64 reach(const struct disk *d, u64 t, bool *stopped) {
    u64 limit = min(d->head + d->m.read_ahead, d->m.size);
    u64 at = t > d->head_at ? d->head + mul_u64_u64_div_u64(t - d->head_at, rate(d, d->head), NSEC_PER_SEC) : d->head;
    *stopped = at >= limit;
    return min(at, limit);
}
static bool in_buffer(struct disk *d, const struct command *c, u64 t) {
    bool stopped;
    for (struct segment *s = d->segment; !c->write && s < d->segment + d->m.segments; s++) {
        if (c->offset < s->from ||
            c->offset + c->bytes > (d->reading && s == d->current_segment ? reach(d, t, &stopped) : s->to))
            continue;
        s->used = ++d->stamp;
        return true;
    }
    return false;
}
/* The head turns to something else: what it has read ahead stays in the segment, its newest part if it is too much. */
static void stop_reading(struct disk *d, u64 t) {
    struct segment *s = d->current_segment;
    bool stopped;
    if (!d->reading) return;
    s->to = reach(d, t, &stopped);
    if (s->to > s->from + d->m.read_ahead) s->from = s->to - d->m.read_ahead;
    d->reading = false;
}
/* A read that begins in what the head is just reading, and goes beyond it. */
static bool follows(const struct disk *d, const struct command *c, u64 t) {
    bool stopped;
    return !c->write && d->reading && c->offset >= d->current_segment->from && c->offset <= reach(d, t, &stopped);
}
static u64 follow(const struct disk *d, const struct command *c, u64 t) {
    bool stopped;
    u64 angle, wait = 0, at = reach(d, t, &stopped);
    if (stopped) {
        track(d, at, &angle);
        wait = turn_to(d, angle, t);
    }
    return wait + transfer(c->offset + c->bytes - at, rate(d, c->offset));
}
/* A read elsewhere. From its arrival on the track the head reads what passes, so that the track's part before the
 * request is kept as well; in the segment that was not used for the longest time. */
static u64 read_elsewhere(struct disk *d, const struct command *c, u64 t) {
    u64 wait = position(d, c->offset, false, t), moved = wait ? seek(d, d->head, c->offset) : 0, angle;
    struct segment *s = d->segment;
    track(d, c->offset, &angle);
    for (unsigned int i = 1; i < d->m.segments; i++)
        if (d->segment[i].used < s->used) s = &d->segment[i];
    s->used = ++d->stamp;
    s->from = c->offset -
        min(c->offset, mul_u64_u64_div_u64(min(angle, wait - moved), rate(d, c->offset), NSEC_PER_SEC));
    s->to = s->from; /* nothing is taken from it before the read is done */
    d->current_segment = s;
    return wait + transfer(c->bytes, rate(d, c->offset));
}

/* ---- data -------------------------------------------------------------------------------------------------------- */
/* A real disk's controller moves the data without the processor. Here the processor has to, with as few instructions as
 * it can: each turn of a string instruction counts as one, for 8 bytes. */
static void copy(void *to, const void *from, size_t n) {
    size_t words = n / 8;
    asm volatile("rep movsq" : "+D"(to), "+S"(from), "+c"(words) : : "memory"); /* requests are whole sectors */
}
static bool all_zeros(const void *page) {
    size_t words = PAGE_SIZE / 8;
    bool zeros;
    asm volatile("xorl %%eax, %%eax; repe scasq" : "=@cce"(zeros), "+D"(page), "+c"(words) : : "rax", "memory");
    return zeros;
}

static void set(struct version *v, struct page *page, u64 seq) {
    if (page) get_page(page);
    if (v->page) put_page(v->page);
    *v = (struct version){page, seq};
}
static void release(struct write *w) {
    for (unsigned int i = 0; i < w->pages; i++)
        if (w->page[i]) put_page(w->page[i]);
    kvfree(w);
}
static struct place *place(const struct disk *d, u64 index) { /* NULL: nothing was ever written near it */
    return d->leaf[index / LEAF] ? &d->leaf[index / LEAF][index % LEAF] : NULL;
}
static bool make_leaf(struct disk *d, u64 index) {
    struct place *leaf = d->leaf[index / LEAF] ? NULL : kvcalloc(LEAF, sizeof(*leaf), GFP_NOIO);
    spin_lock_irq(&d->lock);
    if (!d->leaf[index / LEAF]) swap(leaf, d->leaf[index / LEAF]);
    spin_unlock_irq(&d->lock);
    kvfree(leaf);
    return d->leaf[index / LEAF];
}

/* A write reaches the media, where no newer version of a page already has. */
static void settle(struct disk *d, struct write *w) {
    for (unsigned int i = 0; i < w->pages; i++) {
        struct place *p = place(d, (w->offset >> PAGE_SHIFT) + i);
        if (p->media.seq < w->seq) set(&p->media, w->page[i], w->seq);
        if (p->fresh.seq == w->seq) set(&p->fresh, NULL, 0);
    }
}
static void forget(struct disk *d, u64 index) { /* discarded: zeros from now on */
    struct place *p = place(d, index);
    if (!p) return;
    set(&p->fresh, NULL, 0);
    set(&p->media, NULL, ++d->seq);
}
static const void *newest(const struct place *p) { /* NULL: zeros */
    struct page *page = !p ? NULL : p->fresh.seq ? p->fresh.page : p->media.page;
    return page ? page_address(page) : NULL;
}

/* Copies a request's data out of the disk; says whether all of it came from the write cache. */
static bool copy_out(struct disk *d, struct request *rq) {
    struct req_iterator walk;
    struct bio_vec v;
    u64 at = blk_rq_pos(rq) << SECTOR_SHIFT;
    bool cached = true;
    rq_for_each_segment(v, rq, walk) {
        for (unsigned int done = 0, n; done < v.bv_len; done += n, at += n) {
            const struct place *p = place(d, at >> PAGE_SHIFT);
            const void *from = newest(p);
            void *to = bvec_virt(&v) + done;
            n = min_t(unsigned int, v.bv_len - done, PAGE_SIZE - offset_in_page(at));
            if (from) copy(to, from + offset_in_page(at), n);
            else memset(to, 0, n);
            cached = cached && p && p->fresh.seq;
        }
    }
    return cached;
}
/* A page that a part of a request is written to; what the request leaves of it, at its ends, is what was there. */
static struct page *new_page(struct disk *d, u64 index, const struct write *w) {
    struct page *page = alloc_page(GFP_NOIO);
    u64 from = index << PAGE_SHIFT;
    if (page && (w->offset > from || w->offset + w->bytes < from + PAGE_SIZE)) {
        const void *old;
        spin_lock_irq(&d->lock);
        old = newest(place(d, index));
        if (old) copy(page_address(page), old, PAGE_SIZE);
        else clear_page(page_address(page));
        spin_unlock_irq(&d->lock);
    }
    return page;
}
/* New versions of the pages that a request writes; they can be read from now on. NULL without memory. */
static struct write *copy_in(struct disk *d, struct request *rq) {
    u64 at = blk_rq_pos(rq) << SECTOR_SHIFT, first = at >> PAGE_SHIFT, bytes = blk_rq_bytes(rq);
    unsigned int pages = ((at + bytes - 1) >> PAGE_SHIFT) - first + 1;
    struct write *w = kvzalloc(struct_size(w, page, pages), GFP_NOIO);
    struct req_iterator walk;
    struct bio_vec v;
    if (!w) return NULL;
    w->offset = at, w->bytes = bytes, w->pages = pages;
    rq_for_each_segment(v, rq, walk) {
        for (unsigned int done = 0, n; done < v.bv_len; done += n, at += n) {
            struct page **page = &w->page[(at >> PAGE_SHIFT) - first];
            const void *from = bvec_virt(&v) + done;
            n = min_t(unsigned int, v.bv_len - done, PAGE_SIZE - offset_in_page(at));
            if (!place(d, at >> PAGE_SHIFT) && !make_leaf(d, at >> PAGE_SHIFT)) goto failed;
            if (n == PAGE_SIZE && all_zeros(from)) continue;
            if (!*page && !(*page = new_page(d, at >> PAGE_SHIFT, w))) goto failed;
            copy(page_address(*page) + offset_in_page(at), from, n);
        }
    }
    spin_lock_irq(&d->lock);
    w->seq = ++d->seq;
    for (unsigned int i = 0; i < pages; i++) set(&place(d, first + i)->fresh, w->page[i], w->seq);
    spin_unlock_irq(&d->lock);
    return w;
failed:
    release(w);
    return NULL;
}

/* ---- the course of events ---------------------------------------------------------------------------------------- */
static bool in_cache(const struct disk *d, struct command *c) {
    return d->m.write_cache && !(blk_mq_rq_from_pdu(c)->cmd_flags & REQ_FUA);
}
static void end(struct disk *d, struct command *c, u64 t, struct list_head *ended) {
    if (t > c->arrival) d->service_ns += t - c->arrival;
    d->requests++;
    list_move_tail(&c->list, ended);
}
/* In the order of time; of equal ones the earlier comes first. */
static void finish_at(struct disk *d, struct command *c, u64 t) {
    struct command *later;
    c->due = t;
    list_del_init(&c->list);
    list_for_each_entry_reverse(later, &d->done, list)
        if (later->due <= t) break;
    list_add(&c->list, &later->list);
}

static void insert_dirty(struct disk *d, struct write *w) {
    struct rb_node **at = &d->dirty.rb_node, *parent = NULL;
    struct write *older;
    while (*at) {
        parent = *at;
        at = w->offset < rb_entry(parent, struct write, node)->offset ? &parent->rb_left : &parent->rb_right;
    }
    rb_link_node(&w->node, parent, at);
    rb_insert_color(&w->node, &d->dirty);
    list_for_each_entry_reverse(older, &d->ages, age) /* nearly always the last one */
        if (older->seq < w->seq) break;
    list_add(&w->age, &older->age);
}
/* Upwards from the head, then from the start again (C-LOOK); the buffer of a solid disk is drained in the order of
 * arrival. */
static struct write *next_dirty(struct disk *d) {
    struct rb_node *n = d->dirty.rb_node, *found = NULL;
    if (list_empty(&d->ages)) return NULL;
    if (!d->m.rotating) return list_first_entry(&d->ages, struct write, age);
    while (n) {
        if (rb_entry(n, struct write, node)->offset >= d->head) found = n, n = n->rb_left;
        else n = n->rb_right;
    }
    return rb_entry(found ?: rb_first(&d->dirty), struct write, node);
}
/* Shortest positioning time first; what has waited long goes before. */
static struct command *next_command(struct disk *d, u64 t) {
    struct command *c, *best = NULL;
    u64 least = U64_MAX;
    list_for_each_entry(c, &d->queue, list) {
        u64 wait;
        if (t > c->arrival + OLD_NS) return c;
        wait = position(d, c->offset, c->write, t);
        if (wait < least) least = wait, best = c;
    }
    return best;
}

/* It crosses the link when it has been understood and the link is free. */
static void cross_link(struct disk *d, struct command *c, u64 t) {
    d->link_free = max3(t, c->arrival + d->m.overhead, d->link_free) + transfer(c->bytes, d->m.link);
    finish_at(d, c, d->link_free);
}

/* A unit of a solid disk holds a request for its latency; says until when. It is the first free one, or, where the
 * flash is modelled, the one that has the page which is read: pages lie on the units in turn. */
static u64 hold_unit(struct disk *d, struct command *c, u64 t, u64 latency) {
    u64 *unit = d->unit_free;
    u32 at = d->m.flash.blocks && req_op(blk_mq_rq_from_pdu(c)) == REQ_OP_READ ? d->flash.map[c->offset / FLASH_PAGE]
                                                                               : FLASH_NONE;
    if (at != FLASH_NONE) unit = &d->unit_free[at % d->m.parallel];
    else
        for (unsigned int i = 1; i < d->m.parallel; i++)
            if (d->unit_free[i] < *unit) unit = &d->unit_free[i];
    return *unit = max3(t, c->arrival + d->m.overhead, *unit) + latency;
}

/* How long the media of a solid disk take for a write that begins at t. An erase holds all units. */
static u64 write_solid(struct disk *d, u64 offset, u64 bytes, u64 t) {
    u64 first = offset / FLASH_PAGE, erased = d->flash.erased, took;
    if (!d->m.flash.blocks) return transfer(bytes, d->m.write_rate);
    took = flash_write(&d->flash, first, DIV_ROUND_UP(offset + bytes, FLASH_PAGE) - first, t);
    for (unsigned int i = 0; erased != d->flash.erased && i < d->m.parallel; i++)
        d->unit_free[i] = max(d->unit_free[i], t + (d->flash.erased - erased) * d->m.flash.erase_ns);
    return took;
}

/* A write enters the cache, which has room: it is done once it has crossed the link. */
static void accept(struct disk *d, struct command *c, u64 t) {
    d->filled += c->bytes;
    if (d->m.nonvolatile) settle(d, c->write);
    cross_link(d, c, d->m.rotating ? t : hold_unit(d, c, t, d->m.write_ns));
}

static void begin(struct disk *d, u64 t) { /* the actuator, if it is free, takes what is next */
    bool pressed = d->filled > d->m.cache / 4 * 3 || !list_empty(&d->flushes);
    struct command *c;
    struct write *w;
    if (d->busy) return;
    while ((c = d->m.rotating ? next_command(d, t) : NULL) && in_buffer(d, c, max(t, c->arrival + d->m.overhead)))
        cross_link(d, c, t);
    w = c && (!pressed || t > c->arrival + OLD_NS) ? NULL : next_dirty(d);
    if (c && !w) {
        u64 start = max(t, c->arrival + d->m.overhead);
        bool going_on = follows(d, c, start);
        u64 spent = going_on ? follow(d, c, start) : 0;
        stop_reading(d, start);
        if (!going_on && c->write) spent = position(d, c->offset, true, start) + transfer(c->bytes, rate(d, c->offset));
        else if (!going_on) spent = read_elsewhere(d, c, start);
        d->busy_until = start + spent;
        d->serving = c;
        list_del_init(&c->list);
    } else if (w) {
        stop_reading(d, t);
        d->busy_until = t +
            (d->m.rotating ? position(d, w->offset, true, t) + transfer(w->bytes, rate(d, w->offset))
                           : write_solid(d, w->offset, w->bytes, t));
        d->destaging = w;
        rb_erase(&w->node, &d->dirty);
        list_del(&w->age);
    } else return;
    d->busy = true;
}

static u64 oldest_dirty(struct disk *d) {
    u64 seq = list_empty(&d->ages) ? U64_MAX : list_first_entry(&d->ages, struct write, age)->seq;
    return d->destaging ? min(seq, d->destaging->seq) : seq;
}
static void end_flushes(struct disk *d, u64 t) {
    struct command *c, *next;
    list_for_each_entry_safe(c, next, &d->flushes, list)
        if (c->seq < oldest_dirty(d))
            finish_at(d, c, max(c->arrival + d->m.overhead, d->m.rotating ? t : t + d->m.flush_ns));
}

/* The actuator, or the drain, has finished what it did. */
static void media_done(struct disk *d, u64 t, struct list_head *ended) {
    struct command *c = d->serving;
    struct write *w = d->destaging;
    d->busy = false, d->serving = NULL, d->destaging = NULL;
    if (c) {
        d->head = c->offset + c->bytes, d->head_at = t, d->reading = !c->write;
        if (c->write) settle(d, c->write), release(c->write), c->write = NULL;
        end(d, c, t, ended);
    } else {
        if (d->m.rotating) d->head = w->offset + w->bytes, d->head_at = t;
        settle(d, w);
        d->filled -= w->bytes;
        release(w);
        end_flushes(d, t);
        while (!list_empty(&d->full)) {
            c = list_first_entry(&d->full, struct command, list);
            if (d->filled + c->bytes > d->m.cache) break;
            accept(d, c, t);
        }
    }
}

/* A command whose end was known is done. */
static void command_done(struct disk *d, struct command *c, u64 t, struct list_head *ended) {
    if (c->write && in_cache(d, c)) insert_dirty(d, c->write);
    else if (c->write) settle(d, c->write), release(c->write);
    c->write = NULL;
    end(d, c, t, ended);
}

/* From now on nothing reaches the media and nothing takes modelled time; the guest may discard its memory. */
static void cut_power(struct disk *d, u64 t, struct list_head *ended) {
    struct list_head *lists[] = {&d->done, &d->queue, &d->full, &d->flushes};
    d->cut = true, d->cut_at = 0;
    if (d->serving) list_add(&d->serving->list, &d->queue);
    if (d->destaging) release(d->destaging);
    d->busy = false, d->serving = NULL, d->destaging = NULL, d->filled = 0;
    while (!list_empty(&d->ages)) {
        struct write *w = list_first_entry(&d->ages, struct write, age);
        list_del(&w->age);
        release(w);
    }
    d->dirty = RB_ROOT;
    for (unsigned int i = 0; i < ARRAY_SIZE(lists); i++)
        while (!list_empty(lists[i])) {
            struct command *c = list_first_entry(lists[i], struct command, list);
            if (c->write) release(c->write);
            c->write = NULL;
            end(d, c, t, ended);
        }
}

/* Everything that happens until `now`, in the order of its times. */
static void advance(struct disk *d, u64 now, struct list_head *ended) {
    for (;;) {
        struct command *c = list_first_entry_or_null(&d->done, struct command, list);
        u64 done = c ? c->due : U64_MAX, media = d->busy ? d->busy_until : U64_MAX, cut = d->cut_at ?: U64_MAX;
        u64 t = min3(done, media, cut);
        if (t > now) break;
        if (t == cut) cut_power(d, t, ended);
        else if (t == media) media_done(d, t, ended);
        else command_done(d, c, t, ended);
        begin(d, t);
    }
}
/* What the media do while nobody waits for them is found out when somebody does. */
static void set_timer(struct disk *d) {
    struct command *c = list_first_entry_or_null(&d->done, struct command, list);
    bool awaited = d->serving || !list_empty(&d->queue) || !list_empty(&d->full) || !list_empty(&d->flushes);
    u64 t = min3(c ? c->due : U64_MAX, d->busy && awaited ? d->busy_until : U64_MAX, d->cut_at ?: U64_MAX);
    if (t != U64_MAX) hrtimer_start(&d->timer, ns_to_ktime(t), HRTIMER_MODE_ABS_HARD);
}
static void end_requests(struct list_head *ended) {
    struct command *c, *next;
    list_for_each_entry_safe(c, next, ended, list) blk_mq_end_request(blk_mq_rq_from_pdu(c), BLK_STS_OK);
}

static enum hrtimer_restart on_timer(struct hrtimer *timer) {
    struct disk *d = container_of(timer, struct disk, timer);
    u64 now = ktime_get_ns();
    LIST_HEAD(ended);
    spin_lock(&d->lock);
    advance(d, now, &ended);
    set_timer(d);
    d->cpu_ns += ktime_get_ns() - now;
    spin_unlock(&d->lock);
    end_requests(&ended);
    return HRTIMER_NORESTART; /* hrtimer_start has been called again if there is more */
}

static void arrive_solid(struct disk *d, struct command *c, u64 latency, u64 speed, u64 *pipe) {
    u64 t = hold_unit(d, c, c->arrival, latency);
    if (speed)
        t = max(t, *pipe),
        t = *pipe = t + (c->write ? write_solid(d, c->offset, c->bytes, t) : transfer(c->bytes, speed));
    finish_at(d, c, t);
}

static void arrive(struct disk *d, struct command *c, bool cached, struct list_head *ended) {
    struct request *rq = blk_mq_rq_from_pdu(c);
    u64 t = c->arrival;
    if (d->cut) {
        if (c->write) release(c->write);
        c->write = NULL;
        end(d, c, t, ended);
    } else if (req_op(rq) == REQ_OP_FLUSH) {
        c->seq = d->seq;
        list_add_tail(&c->list, &d->flushes);
        if (d->m.nonvolatile) finish_at(d, c, t + d->m.overhead + d->m.flush_ns);
        else end_flushes(d, t);
    } else if (req_op(rq) == REQ_OP_DISCARD) {
        for (u64 i = DIV_ROUND_UP(c->offset, PAGE_SIZE); i < (c->offset + c->bytes) >> PAGE_SHIFT; i++) {
            forget(d, i);
            if (d->m.flash.blocks) flash_forget(&d->flash, i);
        }
        arrive_solid(d, c, d->m.discard_ns, 0, NULL);
    } else if (c->write && in_cache(d, c)) {
        if (!list_empty(&d->full) || d->filled + c->bytes > d->m.cache) list_add_tail(&c->list, &d->full);
        else accept(d, c, t);
    } else if (!d->m.rotating) {
        arrive_solid(d, c, c->write ? d->m.write_ns : d->m.read_ns, c->write ? d->m.write_rate : d->m.read_rate,
            c->write ? &d->write_free : &d->read_free);
    } else if (!c->write && (cached || in_buffer(d, c, t + d->m.overhead))) {
        cross_link(d, c, t);
    } else list_add_tail(&c->list, &d->queue);
    begin(d, t);
}

static blk_status_t queue_rq(struct blk_mq_hw_ctx *hctx, const struct blk_mq_queue_data *data) {
    struct request *rq = data->rq;
    struct disk *d = hctx->queue->queuedata;
    struct command *c = blk_mq_rq_to_pdu(rq);
    bool cached = false;
    LIST_HEAD(ended);
    *c = (struct command){
        .arrival = ktime_get_ns(), .offset = blk_rq_pos(rq) << SECTOR_SHIFT, .bytes = blk_rq_bytes(rq)};
    INIT_LIST_HEAD(&c->list);
    if (req_op(rq) == REQ_OP_WRITE && !(c->write = copy_in(d, rq))) return BLK_STS_RESOURCE;
    blk_mq_start_request(rq);
    spin_lock_irq(&d->lock);
    advance(d, c->arrival, &ended);
    if (req_op(rq) == REQ_OP_READ) cached = copy_out(d, rq) && d->m.write_cache;
    arrive(d, c, cached, &ended);
    set_timer(d);
    d->cpu_ns += ktime_get_ns() - c->arrival;
    spin_unlock_irq(&d->lock);
    end_requests(&ended);
    return BLK_STS_OK;
}
static const struct blk_mq_ops queue_ops = {.queue_rq = queue_rq};
static const struct block_device_operations disk_ops = {.owner = THIS_MODULE};

/* ---- the files in sysfs ------------------------------------------------------------------------------------------ */
static struct disk *of(struct device *dev) { return dev_to_disk(dev)->private_data; }

static ssize_t supply_show(struct device *dev, struct device_attribute *attribute, char *text) {
    return sysfs_emit(text, "%s\n", of(dev)->cut ? "cut" : "on");
}
static void restore(struct disk *d) {
    d->lost = 0;
    for (u64 i = 0; i < d->leaves * LEAF; i++) {
        struct place *p = place(d, i);
        if (!p) i |= LEAF - 1; /* the whole leaf */
        else if (p->fresh.seq) set(&p->fresh, NULL, 0), d->lost += PAGE_SIZE;
    }
    d->cut = d->reading = false;
    memset(d->segment, 0, sizeof(d->segment));
}
static ssize_t supply_store(struct device *dev, struct device_attribute *attribute, const char *text, size_t n) {
    struct disk *d = of(dev);
    LIST_HEAD(ended);
    u64 ahead = 0, now;
    bool restoring = sysfs_streq(text, "restore"), later = !strncmp(text, "cut ", 4);
    if (!restoring && !sysfs_streq(text, "cut") && !(later && !kstrtou64(text + 4, 10, &ahead))) return -EINVAL;
    spin_lock_irq(&d->lock);
    now = ktime_get_ns();
    advance(d, now, &ended);
    if (restoring && d->cut) restore(d);
    else if (!restoring && later) d->cut_at = now + ahead;
    else if (!restoring) cut_power(d, now, &ended);
    else n = -EINVAL;
    set_timer(d);
    spin_unlock_irq(&d->lock);
    end_requests(&ended);
    return n;
}
static DEVICE_ATTR_RW(supply);

static ssize_t account_show(struct device *dev, struct device_attribute *attribute, char *text) {
    struct disk *d = of(dev);
    LIST_HEAD(ended);
    spin_lock_irq(&d->lock);
    advance(d, ktime_get_ns(), &ended);
    set_timer(d);
    spin_unlock_irq(&d->lock);
    end_requests(&ended);
    return sysfs_emit(text, "%llu %llu %llu %llu\n", d->requests, d->service_ns, d->cpu_ns, d->lost);
}
static DEVICE_ATTR_RO(account);
static ssize_t wear_show(struct device *dev, struct device_attribute *attribute, char *text) {
    const struct flash *f = &of(dev)->flash;
    return sysfs_emit(text, "%llu %llu %llu %llu\n", f->written, f->moved, f->erased, f->fast);
}
static DEVICE_ATTR_RO(wear);
static struct attribute *disk_attrs[] = {&dev_attr_supply.attr, &dev_attr_account.attr, &dev_attr_wear.attr, NULL};
ATTRIBUTE_GROUPS(disk);

/* ---- making a disk ----------------------------------------------------------------------------------------------- */
static int parse(char *text, struct model *m) {
    char *word;
    while ((word = strsep(&text, " \n"))) {
        char *value = strchr(word, '=');
        size_t k;
        if (!*word) continue;
        if (!value) return -EINVAL;
        *value++ = 0;
        if (!strcmp(word, "kind")) {
            m->rotating = !strcmp(value, "rotating");
            if (!m->rotating && strcmp(value, "solid")) return -EINVAL;
            continue;
        }
        for (k = 0; k < ARRAY_SIZE(keys) && strcmp(keys[k].name, word); k++) {}
        if (k == ARRAY_SIZE(keys) || kstrtou64(value, 10, (u64 *)((char *)m + keys[k].at))) {
            pr_err("modeldisk: '%s=%s' is not one of its settings\n", word, value);
            return -EINVAL;
        }
    }
    if (!m->size || !m->link || m->parallel > UNITS || m->segments > SEGMENTS ||
        (m->block != 512 && m->block != 4096) || (m->write_cache && m->cache < MAX_BYTES) ||
        (m->rotating ? !m->segments || !m->period || !m->zones || !m->outer || m->inner > m->outer || !m->inner
                     : !m->parallel || !m->read_rate || !m->write_rate) ||
        (m->flash.blocks && (m->rotating || m->size % FLASH_PAGE || (m->flash.slc && !m->flash.slc_rate)))) {
        pr_err("modeldisk: settings are missing or contradict each other\n");
        return -EINVAL;
    }
    return 0;
}

static int make(struct disk *d, int number) {
    struct queue_limits limits = {
        .logical_block_size = d->m.block,
        .physical_block_size = PAGE_SIZE,
        .max_hw_sectors = MAX_BYTES >> SECTOR_SHIFT,
        .max_segments = 168,
    };
    int error;
    if (!d->m.rotating && !d->m.no_discard)
        limits.max_hw_discard_sectors = (128 << 20) >> SECTOR_SHIFT, limits.discard_granularity = PAGE_SIZE;
    spin_lock_init(&d->lock);
    INIT_LIST_HEAD(&d->queue), INIT_LIST_HEAD(&d->done), INIT_LIST_HEAD(&d->full), INIT_LIST_HEAD(&d->flushes),
        INIT_LIST_HEAD(&d->ages);
    setup_timer(&d->timer, on_timer);
    d->tags.ops = &queue_ops;
    d->tags.nr_hw_queues = 1;
    d->tags.queue_depth = clamp(d->m.queue_depth, 1ULL, 256ULL);
    d->tags.numa_node = NUMA_NO_NODE;
    d->tags.cmd_size = sizeof(struct command);
    d->tags.flags = BLK_MQ_F_SHOULD_MERGE | BLK_MQ_F_BLOCKING; /* memory for the data may have to be waited for */
    d->leaves = DIV_ROUND_UP(d->m.size, (u64)LEAF << PAGE_SHIFT);
    d->leaf = kvcalloc(d->leaves, sizeof(*d->leaf), GFP_KERNEL);
    d->flash = (struct flash){.s = d->m.flash, .write_rate = d->m.write_rate, .read_rate = d->m.read_rate};
    if (!d->leaf || (d->m.flash.blocks && !flash_start(&d->flash, d->m.size))) return -ENOMEM;
    if ((error = blk_mq_alloc_tag_set(&d->tags))) return error;
    d->gendisk = new_disk(&d->tags, &limits, d->m.rotating, d->m.write_cache, d);
    if (IS_ERR(d->gendisk)) {
        blk_mq_free_tag_set(&d->tags);
        return PTR_ERR(d->gendisk);
    }
    d->gendisk->major = major;
    d->gendisk->first_minor = number * 16;
    d->gendisk->minors = 16;
    d->gendisk->fops = &disk_ops;
    d->gendisk->private_data = d;
    snprintf(d->gendisk->disk_name, DISK_NAME_LEN, "modeldisk%d", number);
    set_capacity(d->gendisk, d->m.size >> SECTOR_SHIFT);
    error = device_add_disk(NULL, d->gendisk, disk_groups);
    if (error) {
        put_disk(d->gendisk);
        blk_mq_free_tag_set(&d->tags);
    }
    return error;
}

static int add(const char *text, const struct kernel_param *parameter) {
    struct disk *d = made < DISKS ? kzalloc(sizeof(*d), GFP_KERNEL) : NULL;
    char *copy = d ? kstrdup(text, GFP_KERNEL) : NULL;
    int error = !copy ? -ENOMEM : parse(copy, &d->m) ?: make(d, made);
    kfree(copy);
    if (error && d) kvfree(d->leaf), flash_end(&d->flash);
    if (error) kfree(d);
    else made++;
    return error;
}
static const struct kernel_param_ops add_ops = {.set = add};
module_param_cb(add, &add_ops, NULL, 0200);

/* A guest ends with its trial, so that a disk is never taken away, nor the module. */
static int __init start(void) {
    major = register_blkdev(0, "modeldisk");
    return min(major, 0);
}
module_init(start);
MODULE_DESCRIPTION("Block devices with a modelled service time");
MODULE_LICENSE("Dual MIT/GPL");
