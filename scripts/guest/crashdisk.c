// SPDX-License-Identifier: GPL-2.0 OR MIT
/* A disk in memory, /dev/crashdisk, that can hold whatever a power cut would have left of what was written to it, and
 * whose requests can fail.
 *
 * It has three layers of pages, the upper ones first: what is written now, the state that was asked for, the base. A
 * log keeps every write with its content, every flush, and marks. A state is the base with chosen sectors of chosen
 * writes of the log; what a file system writes while it recovers lies above it and is dropped with the next state.
 * Pages that nobody wrote read as a pattern, so that what was on the disk before can be told from zeros.
 * Each request completes when it is made. It takes no discards: nothing written is ever forgotten.
 *
 * Commands, one a write to /dev/crashdisk-control:
 *   plain       writes go into the base; the log and the other layers are dropped
 *   record      the same, but writes go above the base and into the log
 *   resume      writes go on into the log, above the state: a recovery, say
 *   stop        nothing more goes into the log
 *   mark N      N goes into the log
 *   forget N    the log ends after N events
 *   state E:F:N ...  the base with N sectors, from the F-th on, of event E, and so on; nothing is above it
 *   reads       from now on the log has reads, too
 *   fail OPERATIONS ACTION CONTENT SKIP COUNT FIRST:LAST ...  of the requests that match, the first SKIP are served and
 *               the next COUNT (0: all) fail; those before are no rule any more. Operations are letters: r (read), w
 *               (write), f (flush). Action: error; of writes that are acknowledged lost, torn (only the first half is
 *               written) or astray (it is written a page farther on); slow (by 30 s). Content of writes: any, data (of
 *               the calls of scripts/engine/programs/crash/content.h) or other. Sectors: none named are all.
 *   heal        no request fails any more
 * Reading gives the log, one event a line: `w SECTOR SECTORS FUA`, `f` (a flush), `m N`, `r SECTOR SECTORS`,
 * `x SECTOR SECTORS` (failed, before what the request did). After the command `pages` it gives the numbers of all pages
 * that somebody wrote. */
#include <linux/bio.h>
#include <linux/blkdev.h>
#include <linux/ctype.h>
#include <linux/delay.h>
#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>
#include <linux/xarray.h>

#include "crashdisk_kernels.h"

enum { EVENTS = 1 << 18, COMMAND_BYTES = 4 << 20, SECTORS = PAGE_SIZE / SECTOR_SIZE };
static ulong size_mib = 512, pattern = 0xeeeeeeeeeeeeeeee;
static uint block = 512;
static bool cache = true;
module_param(size_mib, ulong, 0444);
module_param(pattern, ulong, 0444); /* eight bytes of what was on the disk before */
module_param(block, uint, 0444); /* bytes of a logical block */
module_param(cache, bool, 0444); /* volatile: what was written is only safe when it was flushed */

static struct event {
    char kind; /* as in the log */
    bool fua;
    u32 sectors, pages;
    u64 number; /* first sector, or the mark */
    struct page **page; /* as they were after the write */
} *events;
static u32 n_events;
static struct xarray base, state, now;
static enum { PLAIN, LOGGING, STOPPED } mode;
static bool tell_pages, log_reads;
enum { READS = 1, WRITES = 2, FLUSHES = 4, RANGES = 4096, SLOW_MS = 30000 };
static const u64 DATA_BEGINS = 0x5346525052; /* above the lowest 16 bits of the first word of data */
enum action { NOTHING, ERROR, LOST, TORN, ASTRAY, SLOW };
enum content { ANY, DATA, OTHER };
static const char *const actions[] = {"nothing", "error", "lost", "torn", "astray", "slow"};
static const char *const contents[] = {"any", "data", "other"};
static struct {
    u32 operations, skip, count, ranges;
    bool ever;
    enum action action;
    enum content content;
    struct place { u64 first, last; } range[RANGES];
} rule;
static DEFINE_MUTEX(lock); /* of all above */

/* ---- layers ------------------------------------------------------------------------------------------------------ */
static void drop(struct xarray *layer) {
    struct page *page;
    unsigned long at;
    xa_for_each(layer, at, page) put_page(page);
    xa_destroy(layer);
}

/* Puts a page into a layer, which keeps the reference. */
static int put(struct xarray *layer, u64 at, struct page *page) {
    struct page *old = xa_store(layer, at, page, GFP_NOIO);
    if (xa_is_err(old)) {
        put_page(page);
        return xa_err(old);
    }
    if (old) put_page(old);
    return 0;
}

static struct page *seen(u64 at) { return xa_load(&now, at) ?: xa_load(&state, at) ?: xa_load(&base, at); }

static struct page *copied(const struct page *from) {
    struct page *page = alloc_page(GFP_NOIO);
    if (page && from) copy_page(page_address(page), page_address((struct page *)from));
    else if (page) memset64(page_address(page), pattern, PAGE_SIZE / 8);
    return page;
}

/* The page that a write changes: in the base it is changed in place, above it is a new one for each request, which the
 * log may keep. */
static struct page *changed(u64 at, struct event *v, u64 first) {
    struct xarray *layer = mode == PLAIN ? &base : &now;
    struct page *page = v ? v->page[at - first] : xa_load(layer, at);
    if (page && (v || page_count(page) == 1)) return page;
    page = copied(seen(at));
    if (!page) return NULL;
    if (v) {
        get_page(page);
        v->page[at - first] = page;
    }
    return put(layer, at, page) ? NULL : page;
}

/* ---- the log ----------------------------------------------------------------------------------------------------- */
static void forget(u32 from) {
    while (n_events > from) {
        struct event *v = &events[--n_events];
        for (u32 i = 0; i < v->pages; i++)
            if (v->page[i]) put_page(v->page[i]);
        kvfree(v->page);
    }
}

static struct event *note(char kind, u64 number, u32 sectors, bool fua) {
    struct event *v;
    if (n_events == EVENTS) return NULL;
    v = &events[n_events];
    *v = (struct event){.kind = kind, .number = number, .sectors = sectors, .fua = fua};
    if (kind == 'w') {
        v->pages = (number + sectors - 1) / SECTORS - number / SECTORS + 1;
        v->page = kvcalloc(v->pages, sizeof *v->page, GFP_NOIO);
        if (!v->page) return NULL;
    }
    n_events++;
    return v;
}

/* ---- the disk ---------------------------------------------------------------------------------------------------- */
static int move(struct bio *bio, bool writes, struct event *v, u64 astray, u32 bytes) {
    struct bvec_iter it;
    struct bio_vec b;
    u64 at = (bio->bi_iter.bi_sector << SECTOR_SHIFT) + astray, first = at >> PAGE_SHIFT;
    bio_for_each_segment(b, bio, it) {
        u8 *memory = page_address(b.bv_page) + b.bv_offset;
        u32 length = min(b.bv_len, bytes);
        bytes -= length;
        for (u32 done = 0, n; done < length; done += n, at += n, memory += n) {
            struct page *page = writes ? changed(at >> PAGE_SHIFT, v, first) : seen(at >> PAGE_SHIFT);
            n = min_t(u32, length - done, PAGE_SIZE - offset_in_page(at));
            if (writes && !page) return -ENOMEM;
            if (writes) memcpy(page_address(page) + offset_in_page(at), memory, n);
            else if (page) memcpy(memory, page_address(page) + offset_in_page(at), n);
            else memset64((u64 *)memory, pattern, n / 8);
        }
    }
    return 0;
}

static bool holds(struct bio *bio, enum content content) {
    struct bio_vec b = bio_iovec(bio);
    const u64 *word = page_address(b.bv_page) + b.bv_offset;
    return content == ANY || (*word >> 16 == DATA_BEGINS) == (content == DATA);
}

/* What a request meets. */
static enum action met(struct bio *bio) {
    u64 first = bio->bi_iter.bi_sector, end = first + bio_sectors(bio);
    bool flushes = bio->bi_opf & REQ_PREFLUSH, moves = bio->bi_iter.bi_size, writes = bio_op(bio) == REQ_OP_WRITE;
    bool matches = flushes && rule.operations & FLUSHES;
    if (!rule.action) return NOTHING;
    if (moves && rule.operations & (writes ? WRITES : READS) && (!writes || holds(bio, rule.content))) {
        matches = matches || !rule.ranges;
        for (u32 i = 0; i < rule.ranges && !matches; i++)
            matches = first <= rule.range[i].last && end > rule.range[i].first;
    }
    if (!matches) return NOTHING;
    if (rule.skip) {
        rule.skip--;
        return NOTHING;
    }
    if (!rule.ever && !rule.count) return NOTHING;
    if (!rule.ever) rule.count--;
    note('x', first, bio_sectors(bio), false);
    return rule.action;
}

static int take(struct bio *bio, enum action action) {
    struct event *v = NULL;
    u32 bytes = bio->bi_iter.bi_size, torn = round_up(bytes / 2, SECTOR_SIZE);
    u64 end = bio->bi_iter.bi_sector + bio_sectors(bio) + SECTORS;
    if (action == ERROR) return -EIO;
    if (mode == LOGGING && bio->bi_opf & REQ_PREFLUSH && !note('f', 0, 0, false)) return -ENOSPC;
    if (bio_op(bio) == REQ_OP_FLUSH || !bytes) return 0;
    if (bio_op(bio) == REQ_OP_READ) {
        if (log_reads) note('r', bio->bi_iter.bi_sector, bio_sectors(bio), false);
        return move(bio, false, NULL, 0, bytes);
    }
    if (bio_op(bio) != REQ_OP_WRITE) return -EOPNOTSUPP;
    if (action == LOST || (action == ASTRAY && end > size_mib << (20 - SECTOR_SHIFT))) return 0;
    if (mode == LOGGING && action != ASTRAY) {
        v = note('w', bio->bi_iter.bi_sector, bio_sectors(bio), bio->bi_opf & REQ_FUA);
        if (!v) return -ENOSPC;
    }
    return move(bio, true, v, action == ASTRAY ? PAGE_SIZE : 0, action == TORN ? torn : bytes);
}

static SUBMITTED submit(struct bio *bio) {
    enum action action;
    int error;
    mutex_lock(&lock);
    action = met(bio);
    error = take(bio, action);
    mutex_unlock(&lock);
    if (action == SLOW) msleep(SLOW_MS);
    bio->bi_status = errno_to_blk_status(error);
    bio_endio(bio);
    return DONE;
}
static const struct block_device_operations disk_operations = {.owner = THIS_MODULE, .submit_bio = submit};

/* ---- commands ---------------------------------------------------------------------------------------------------- */
static int pick(u32 number, u32 first, u32 count) {
    const struct event *v = &events[number];
    u64 at, end;
    if (number >= n_events || v->kind != 'w' || first >= v->sectors) return -EINVAL;
    at = v->number + first;
    end = at + min(count, v->sectors - first);
    for (u64 next; at < end; at = next) {
        u64 page = at / SECTORS;
        struct page *from = v->page[page - v->number / SECTORS], *to = from;
        next = min(end, (page + 1) * SECTORS);
        if (next - at == SECTORS) get_page(to);
        else {
            u32 offset = at % SECTORS << SECTOR_SHIFT;
            to = copied(xa_load(&state, page) ?: xa_load(&base, page));
            if (!to) return -ENOMEM;
            memcpy(page_address(to) + offset, page_address(from) + offset, (next - at) << SECTOR_SHIFT);
        }
        if (put(&state, page, to)) return -ENOMEM;
    }
    return 0;
}

static int make_state(const char *text) {
    u32 event, first, count;
    int n, error = 0;
    drop(&now);
    drop(&state);
    mode = STOPPED;
    while (!error && *(text = skip_spaces(text))) {
        if (sscanf(text, "%u:%u:%u%n", &event, &first, &count, &n) != 3) return -EINVAL;
        error = pick(event, first, count);
        text += n;
    }
    return error;
}

static void renew(int next) {
    drop(&now);
    drop(&state);
    forget(0);
    mode = next;
    log_reads = false;
    rule.action = NOTHING;
}

static int make_rule(const char *text) {
    char operations[8], action[8], content[8];
    int n, a, c;
    rule.action = NOTHING;
    rule.operations = rule.ranges = 0;
    if (sscanf(text, "%7s %7s %7s %u %u%n", operations, action, content, &rule.skip, &rule.count, &n) != 5)
        return -EINVAL;
    a = match_string(actions, ARRAY_SIZE(actions), action);
    c = match_string(contents, ARRAY_SIZE(contents), content);
    if (a < 0 || c < 0) return -EINVAL;
    for (text += n; *(text = skip_spaces(text)); text += n) {
        struct place *r = &rule.range[rule.ranges];
        if (rule.ranges++ == RANGES || sscanf(text, "%llu:%llu%n", &r->first, &r->last, &n) != 2) return -EINVAL;
    }
    if (strchr(operations, 'r')) rule.operations |= READS;
    if (strchr(operations, 'w')) rule.operations |= WRITES;
    if (strchr(operations, 'f')) rule.operations |= FLUSHES;
    rule.content = c;
    rule.ever = !rule.count;
    rule.action = a;
    return 0;
}

static int obey(const char *text) {
    u64 number;
    if (!strncmp(text, "state", 5)) return make_state(text + 5);
    if (!strncmp(text, "fail ", 5)) return make_rule(text + 5);
    if (sscanf(text, "mark %llu", &number) == 1) return mode != LOGGING || note('m', number, 0, false) ? 0 : -ENOSPC;
    if (sscanf(text, "forget %llu", &number) == 1) forget(number);
    else if (!strcmp(text, "plain")) renew(PLAIN);
    else if (!strcmp(text, "record")) renew(LOGGING);
    else if (!strcmp(text, "resume")) mode = LOGGING;
    else if (!strcmp(text, "stop")) mode = STOPPED;
    else if (!strcmp(text, "pages")) tell_pages = true;
    else if (!strcmp(text, "reads")) log_reads = true;
    else if (!strcmp(text, "heal")) rule.action = NOTHING;
    else return -EINVAL;
    return 0;
}

static ssize_t command(struct file *file, const char __user *from, size_t bytes, loff_t *at) {
    char *text = bytes < COMMAND_BYTES ? kvmalloc(bytes + 1, GFP_KERNEL) : NULL;
    int error = !text ? -ENOMEM : copy_from_user(text, from, bytes) ? -EFAULT : 0;
    if (!error) {
        text[bytes] = 0;
        mutex_lock(&lock);
        error = obey(strim(text));
        mutex_unlock(&lock);
    }
    kvfree(text);
    return error ?: bytes;
}

static int tell(struct seq_file *to, void *unused) {
    struct xarray *const layers[] = {&base, &state, &now};
    struct page *page;
    unsigned long at;
    mutex_lock(&lock);
    for (int i = 0; tell_pages && i < 3; i++) xa_for_each(layers[i], at, page) seq_printf(to, "%lu\n", at);
    for (u32 i = 0; !tell_pages && i < n_events; i++) {
        const struct event *v = &events[i];
        if (v->kind == 'w') seq_printf(to, "w %llu %u %d\n", v->number, v->sectors, v->fua);
        else if (v->kind == 'm') seq_printf(to, "m %llu\n", v->number);
        else if (v->kind != 'f') seq_printf(to, "%c %llu %u\n", v->kind, v->number, v->sectors);
        else seq_puts(to, "f\n");
    }
    mutex_unlock(&lock);
    return 0;
}
static int opened(struct inode *inode, struct file *file) { return single_open(file, tell, NULL); }
static const struct file_operations control = {.owner = THIS_MODULE,
    .open = opened,
    .read = seq_read,
    .llseek = seq_lseek,
    .release = single_release,
    .write = command};
static struct miscdevice control_device = {MISC_DYNAMIC_MINOR, "crashdisk-control", &control};

static int __init start(void) {
    int major = register_blkdev(0, "crashdisk"), error;
    struct gendisk *disk = new_disk(block, cache);
    xa_init(&base);
    xa_init(&state);
    xa_init(&now);
    events = vzalloc(EVENTS * sizeof *events);
    if (!events || IS_ERR(disk) || major < 0) return -ENOMEM;
    disk->major = major;
    disk->minors = 1;
    disk->fops = &disk_operations;
    strscpy(disk->disk_name, "crashdisk", DISK_NAME_LEN);
    set_capacity(disk, size_mib << (20 - SECTOR_SHIFT));
    error = add_disk(disk);
    return error ?: misc_register(&control_device);
}
module_init(start);
MODULE_DESCRIPTION("A disk whose every crash state can be made");
MODULE_LICENSE("Dual MIT/GPL");
