/* QEMU's interface for plugins, as far as profile.c uses it: declarations of our own, after QEMU's documentation
 * (docs/devel/tcg-plugins.rst).
 *
 * It differs between versions, so what differs is looked up when the plugin is loaded, and one binary serves QEMU 7.2
 * to 10.0: the bytes of an instruction are a pointer until 8.2 and copied from 9.0 on; counters may be anywhere
 * until 8.2, and are in a scoreboard from 9.0 on.
 */
#pragma once
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_plugin_hwaddr;
enum { NO_REGISTERS = 0, ADD = 0, READS_AND_WRITES = 3 };
typedef void on_instruction(unsigned processor, void *data);
typedef void on_memory(unsigned processor, uint32_t access, uint64_t address, void *data);

void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
uint64_t qemu_plugin_insn_vaddr(const struct qemu_plugin_insn *);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *, on_instruction *, int, void *);
void qemu_plugin_register_vcpu_mem_cb(struct qemu_plugin_insn *, on_memory *, int, int, void *);
bool qemu_plugin_mem_is_store(uint32_t);
struct qemu_plugin_hwaddr *qemu_plugin_get_hwaddr(uint32_t, uint64_t);
uint64_t qemu_plugin_hwaddr_phys_addr(const struct qemu_plugin_hwaddr *);
bool qemu_plugin_hwaddr_is_io(const struct qemu_plugin_hwaddr *);

#define EXPORT __attribute__((visibility("default")))
EXPORT int qemu_plugin_version = 1; /* of the interface; QEMU refuses what it no longer has */

struct place {
    void *board;
    size_t offset;
}; /* a counter in a scoreboard, by value */
static void *board;
static void (*add_in_place)(void *, int, struct place, uint64_t);
static void (*add_at_address)(void *, int, void *, uint64_t);
static size_t (*copy_bytes)(const void *, void *, size_t);
static const void *(*bytes_of)(const void *);
static uint64_t *counters, counters_used;
enum { COUNTERS = 4 << 20 };

#define FIND(variable, name) (*(void **)&(variable) = dlsym(RTLD_DEFAULT, "qemu_plugin_" name))

static __attribute__((constructor)) void find_interface(void) { /* before QEMU reads qemu_plugin_version */
    FIND(add_in_place, "register_vcpu_insn_exec_inline_per_vcpu");
    FIND(add_at_address, "register_vcpu_insn_exec_inline");
    if (dlsym(RTLD_DEFAULT, "qemu_plugin_update_ns")) qemu_plugin_version = 3, FIND(copy_bytes, "insn_data");
    else FIND(bytes_of, "insn_data");
}

/* The next of all counters, or NULL when there are no more. Not before there is a processor. */
static uint64_t *counter_new(void) {
    if (!counters && add_in_place) {
        void *(*new_board)(size_t), *(*of_processor)(void *, unsigned);
        FIND(new_board, "scoreboard_new"), FIND(of_processor, "scoreboard_find");
        counters = of_processor(board = new_board(COUNTERS * sizeof *counters), 0);
    } else if (!counters) counters = calloc(COUNTERS, sizeof *counters);
    return counters && counters_used < COUNTERS ? &counters[counters_used++] : NULL;
}

/* Each time the instruction is executed, one is added to the counter. */
static void count(struct qemu_plugin_insn *instruction, uint64_t *counter) {
    size_t offset = (size_t)((char *)counter - (char *)counters);
    if (add_in_place) add_in_place(instruction, ADD, (struct place){board, offset}, 1);
    else add_at_address(instruction, ADD, counter, 1);
}

static void bytes(struct qemu_plugin_insn *instruction, uint8_t to[16]) {
    size_t size = qemu_plugin_insn_size(instruction);
    if (size > 16) size = 16;
    if (copy_bytes) copy_bytes(instruction, to, size);
    else __builtin_memcpy(to, bytes_of(instruction), size);
}
