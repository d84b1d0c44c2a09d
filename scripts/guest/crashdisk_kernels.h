// SPDX-License-Identifier: GPL-2.0 OR MIT
/* What differs between the kernels, from 5.10 on, for which crashdisk.c is compiled. */
#include <linux/version.h>

#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 16, 0)
#define SUBMITTED void
#define DONE
#else
#define SUBMITTED blk_qc_t
#define DONE BLK_QC_T_NONE
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 15, 0)
#define add_disk(disk) (add_disk(disk), 0)
#endif

/* A disk whose driver takes bios, with a volatile cache or without, or an error pointer. */
static struct gendisk *new_disk(unsigned block, bool cache) {
#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 11, 0)
    struct queue_limits limits = {.logical_block_size = block,
        .physical_block_size = PAGE_SIZE,
        .features = cache ? BLK_FEAT_WRITE_CACHE | BLK_FEAT_FUA : 0};
    return blk_alloc_disk(&limits, NUMA_NO_NODE);
#else
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 15, 0)
    struct gendisk *disk = blk_alloc_disk(NUMA_NO_NODE);
    if (!disk) return ERR_PTR(-ENOMEM);
#else
    struct gendisk *disk = alloc_disk(1);
    struct request_queue *q = disk ? blk_alloc_queue(NUMA_NO_NODE) : NULL;
    if (!q) return ERR_PTR(-ENOMEM);
    disk->queue = q;
#endif
    blk_queue_logical_block_size(disk->queue, block);
    blk_queue_physical_block_size(disk->queue, PAGE_SIZE);
    blk_queue_write_cache(disk->queue, cache, cache);
    return disk;
#endif
}
