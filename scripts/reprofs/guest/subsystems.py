"""To which part of the system a function of the guest belongs: by its module, or by how its name begins.

The names are those of Linux 5.10 to 7.x; underscores before them do not count, and the first part that has a matching
beginning is taken. The table is for reading a profile, not for measuring: the sum of all parts is exact, where one part
ends and the next begins is a matter of names.
"""

from __future__ import annotations

import functools
import re

from reprofs.guest.symbols import Function

FILE_SYSTEMS = """
    bcachefs btrfs ceph cifs exfat ext4 f2fs fuse jfs libceph lockd nfs nfsd nfsv3 nfsv4 nilfs2 ntfs3 reiserfs spl
    sunrpc udf xfs zfs
"""
MODULES = {
    "journal": "jbd2",
    "checksums": "crc32c_intel crc32c_generic crct10dif_pclmul libcrc32c xxhash_generic",
    "parity": "xor raid6_pq async_xor async_tx async_pq async_memcpy",
    "device": "null_blk modeldisk nd_pmem libnvdimm loop virtio_blk",
    "MD and device mapper": "raid0 raid1 raid10 raid456 md_mod dm_mod dm_crypt linear",
}
NAMES = {
    "security modules": """
        aa_ apparmor bpf_lsm cap_ check_heap_object check_object_size check_stack_object common_perm hook_ ima_
        process_measurement security_ selinux tomoyo virt_addr_valid
    """,
    "file systems' common code": "current_time dquot fs_umode fscrypt fsverity inode_set mb_cache mbcache posix_acl",
    "checksums": "blake2 chksum_ crc16 crc32 crc64 crc_ crypto_shash sha1 sha256 shash_ xxh",
    "compression": "FSE_ HUF_ LZ4 ZSTD deflate inflate lz4 lzo zlib zstd",
    "copying and clearing": """
        clear_page copy_from copy_page copy_to copy_user copyin memchr memcmp memcpy memmove memset rep_
    """,
    "RCU": "call_rcu note_gp rcu srcu",
    "locks": """
        down_read down_write mutex native_queued osq_ raw_read raw_spin raw_write read_lock read_unlock rwsem
        spin_lock spin_unlock up_read up_write write_lock write_unlock
    """,
    "allocator": """
        alloc_pages allocate_slab cgroup_rstat drain_ folio_batch free_ get_mem get_page_from get_partial kfree
        kmalloc kmem_ kvfree kvmalloc lru_ lruvec mem_cgroup memcg mempool mod_lruvec mod_memcg mod_node
        mod_objcg mod_zone obj_cgroup pcpu_ percpu policy_node post_alloc prep_new put_cpu refill_ rmqueue
        setup_object slab slub this_cpu_cmpxchg vmalloc vmap zone_
    """,
    "scheduler": """
        autoremove check_preempt dequeue_ do_idle enqueue_ finish_task finish_wait idle insert_work kthread
        pick_next place_entity prepare_to_wait process_one_work put_prev pwq_ queue queue_work reweight sched
        schedule select_task set_next switch_ try_to_wake ttwu update_cfs update_curr update_load update_rq
        wake_up worker_
    """,
    "timers and interrupts": """
        apic clock clockevents hrtimer irq ktime lapic ntp_ read_tsc softirq sysvec tick_ timekeep timer
    """,
    "page cache": """
        balance_dirty bdev_getblk bdi_ bh_ brelse buffer end_bio errseq filemap find_get find_lock_entries folio
        generic_perform iomap mapping_ mark_page page_cache page_mapping pagecache ra_ readahead submit_bh
        truncate wb_ workingset write_cache writeback xa_ xas_
    """,
    "block layer": "bio blk bvec dd_ deadline_ disk_ elv_ mq_ null_ nullb part_ plug rq sbitmap scsi submit_bio",
    "VFS": """
        alloc_empty alloc_fd alloc_file alloc_inode atime attr build_open call_read call_write close_fd
        complete_walk cp_new_stat d_ dentry do_dentry do_filp do_last do_mkdir do_open do_rename do_rmdir
        do_stat do_sys do_unlink dput evict expand_files fd_install fdget fget file_ filename filp find_inode
        fput fsnotify full_name generic_ getattr getname handle_ hash_name iget init_file inode iput iterate_dir
        ksys_ legitimize link_path list_lru lock_for_kill lockref locks_remove lookup make_vfs map_id mark_inode
        may_ mnt nd_ new_sync notify open_ path_ permission putname rw_verify sb_ select_collect set_nameid
        shrink_dentry simple_ step_into strncpy_from sys_ terminate_ to_shrink touch_atime try_to_unlazy vfs_
        walk_ x64_sys
    """,
    "system calls": """
        arch_exit asm_ do_syscall entry_ error_ exit_to_user fpregs irqentry native_iret paranoid ret_from
        swapgs syscall
    """,
    "memory of processes": """
        copy_process do_anon do_exit do_fault do_user_addr do_wp dup_ elf exc_page exec exit_ fork handle_mm mm_
        mmap munmap page_fault pmd pte signal tlb unmap vma wait4 zap_
    """,
    "helpers": """
        bitmap bsearch chacha cond_resched cpumask div64 find_first find_last find_next gcd get_random hash
        hweight ida_ idr_ kernel_fpu kobject lib_ list_ number radix_tree rb_ refcount sip sort sprintf str
        vsnprintf
    """,
}
OTHER = "rest of the kernel"
_MODULES = {name: f"file system {name}" for name in FILE_SYSTEMS.split()} | {
    name: part for part, names in MODULES.items() for name in names.split()
}
_NAMES = [(part, re.compile("_*(" + "|".join(names.split()) + ")")) for part, names in NAMES.items()]


@functools.cache
def subsystem(function: Function) -> str:
    """The name of the part."""
    if function.program:
        return function.program
    if function.module in _MODULES:
        return _MODULES[function.module]
    return next((part for part, names in _NAMES if names.match(function.name)), OTHER)
