// SPDX-License-Identifier: MIT
/* Loaded into the programs of a workload (LD_PRELOAD), it makes their syncs do nothing, so that a comparison shows what
 * they cost. The load engine is static and not touched: every phase still ends with its syncfs. */

int fsync(int fd) { return fd < 0 ? -1 : 0; }
int fdatasync(int fd) { return fd < 0 ? -1 : 0; }
int syncfs(int fd) { return fd < 0 ? -1 : 0; }
void sync(void) {}
int sync_file_range(int fd, long from, long bytes, unsigned int flags) {
    (void)from, (void)bytes, (void)flags;
    return fd < 0 ? -1 : 0;
}
int msync(void *at, unsigned long bytes, int flags) {
    (void)at, (void)bytes, (void)flags;
    return 0;
}
