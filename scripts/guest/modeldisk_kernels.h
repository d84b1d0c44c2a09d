// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What differs between the kernels, from 5.10 on, for which modeldisk.c is compiled. */
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 14, 0)
#define BLK_MQ_F_SHOULD_MERGE 0 /* always on */
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 15, 0)
#define device_add_disk(...) (device_add_disk(__VA_ARGS__), 0)
static void *bvec_virt(struct bio_vec *v) { return page_address(v->bv_page) + v->bv_offset; }
#endif

static void setup_timer(struct hrtimer *timer, enum hrtimer_restart (*function)(struct hrtimer *)) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 13, 0)
    hrtimer_setup(timer, function, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
#else
    hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_ABS_HARD);
    timer->function = function;
#endif
}

/* A disk with a queue of these limits, or an error pointer. */
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 9, 0)
static struct gendisk *limited_disk(struct blk_mq_tag_set *tags, struct queue_limits *limits, void *data) {
    return blk_mq_alloc_disk(tags, limits, data);
}
#else
static struct gendisk *limited_disk(struct blk_mq_tag_set *tags, struct queue_limits *limits, void *data) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
    struct gendisk *disk = blk_mq_alloc_disk(tags, data);
    struct request_queue *q = IS_ERR(disk) ? NULL : disk->queue;
    if (!q) return disk;
#else
    struct gendisk *disk = alloc_disk(16);
    struct request_queue *q = disk ? blk_mq_init_queue_data(tags, data) : NULL;
    if (!disk) return ERR_PTR(-ENOMEM);
    if (IS_ERR(q)) {
        put_disk(disk);
        return ERR_CAST(q);
    }
    disk->queue = q;
#endif
    blk_queue_logical_block_size(q, limits->logical_block_size);
    blk_queue_physical_block_size(q, limits->physical_block_size);
    blk_queue_max_hw_sectors(q, limits->max_hw_sectors);
    blk_queue_max_segments(q, limits->max_segments);
    blk_queue_max_discard_sectors(q, limits->max_hw_discard_sectors);
    q->limits.discard_granularity = limits->discard_granularity;
#ifdef QUEUE_FLAG_DISCARD /* before 5.19 */
    if (limits->max_hw_discard_sectors) blk_queue_flag_set(QUEUE_FLAG_DISCARD, q);
#endif
    return disk;
}
#endif

static struct gendisk *new_disk(
    struct blk_mq_tag_set *tags, struct queue_limits *limits, bool rotating, bool write_cache, void *data) {
    struct gendisk *disk;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
    limits->features = (rotating ? BLK_FEAT_ROTATIONAL : 0) | (write_cache ? BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA : 0);
    disk = limited_disk(tags, limits, data);
#else
    disk = limited_disk(tags, limits, data);
    if (IS_ERR(disk)) return disk;
    blk_queue_write_cache(disk->queue, write_cache, write_cache);
    if (!rotating) blk_queue_flag_set(QUEUE_FLAG_NONROT, disk->queue);
#endif
    return disk;
}
