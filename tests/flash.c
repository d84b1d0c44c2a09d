/* The flash of modelled disks (scripts/guest/modeldisk_flash.h) outside of the kernel.
 *
 *   flash BYTES blocks spare fifo erase_ns slc slc_full slc_rate filled overwritten write_rate read_rate < LINES
 *
 * Lines: `w FIRST COUNT NS` (a write at a time; -1: when the one before is done), `t FIRST COUNT` (discarded),
 * `r COUNT SEED` (so many random pages), `p` (prints written, moved, erased, fast, ns since the start). */
#include "../scripts/guest/modeldisk_flash.h"

#include <stdio.h>

int main(int argc, char **argv) {
    struct flash f = {0};
    u64 *numbers[] = {&f.s.blocks, &f.s.spare, &f.s.fifo, &f.s.erase_ns, &f.s.slc, &f.s.slc_full, &f.s.slc_rate,
        &f.s.filled, &f.s.overwritten, &f.write_rate, &f.read_rate};
    char what;
    if (argc != 13) return 2;
    for (int i = 0; i < 11; i++) *numbers[i] = strtoull(argv[i + 2], NULL, 10);
    if (!flash_start(&f, strtoull(argv[1], NULL, 10))) return 1;
    while (scanf(" %c", &what) == 1) {
        long long a = 0, b = 0, t = 0;
        if (what == 'w' && scanf("%lld %lld %lld", &a, &b, &t) == 3) flash_write(&f, a, b, t < 0 ? f.free_at : (u64)t);
        if (what == 't' && scanf("%lld %lld", &a, &b) == 2)
            for (long long page = a; page < a + b; page++) flash_forget(&f, page);
        if (what == 'r' && scanf("%lld %lld", &a, &b) == 2)
            for (u64 x = b; a > 0; a--) {
                x = x * 6364136223846793005ULL + 1442695040888963407ULL;
                flash_write(&f, mul_u64_u64_div_u64(x >> 11, f.pages, 1ULL << 53), 1, f.free_at);
            }
        if (what == 'p')
            printf("%llu %llu %llu %llu %llu\n", (unsigned long long)f.written, (unsigned long long)f.moved,
                (unsigned long long)f.erased, (unsigned long long)f.fast, (unsigned long long)f.free_at);
    }
    flash_end(&f);
    return 0;
}
