/* A plugin of QEMU that counts the instructions of programs and those of the kernel. It changes nothing of the guest.
 *
 *   -plugin file=split.so,out=FOLDER
 *
 * Counted is what is executed after a no-op `begin`, each of which starts anew, until the next `end` (the marks of
 * scripts/engine/phase.c and programs/whole-program.c, known by their bytes). FOLDER/N.split has "user N kernel N" for
 * the Nth end, from 0. The kernel's addresses are those with the highest bit. With several processors, which execute
 * one after the other, both are of all together. */
#pragma clang diagnostic ignored "-Wunused-function" /* of registers, which only the profile reads */
#include "../profile/plugin.h"
#include <stdio.h>
#include <string.h>

enum { PHASES = 1 << 12 }; /* more come from no job */
static const char *folder = ".";
static bool inside;
static int phase;
static uint64_t *user, *kernel;

static void on_begin(unsigned processor, void *data) {
    (void)processor, (void)data;
    *user = *kernel = 0;
    inside = true;
}

static void on_end(unsigned processor, void *data) {
    (void)processor, (void)data;
    char path[4096];
    if (!inside) return;
    inside = false;
    if (phase == PHASES) fprintf(stderr, "split: the guest has more than %d phases\n", PHASES), exit(3);
    snprintf(path, sizeof path, "%s/%d.split", folder, phase++);
    FILE *to = fopen(path, "w");
    if (!to) fprintf(stderr, "split: cannot write %s\n", path), exit(3);
    fprintf(to, "user %lu kernel %lu\n", *user, *kernel);
    if (fclose(to)) fprintf(stderr, "split: cannot write %s\n", path), exit(3);
}

static void on_translate(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    if (!user) user = counter_new(), kernel = counter_new();
    for (size_t i = 0, n = qemu_plugin_tb_n_insns(block); i < n; i++) {
        struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, i);
        uint8_t b[16] = {0};
        bytes(one, b);
        count(one, qemu_plugin_insn_vaddr(one) >> 63 ? kernel : user, 1);
        if (!memcmp(b, "\x0f\x1f\x84\x00RFS1", 8))
            qemu_plugin_register_vcpu_insn_exec_cb(one, on_begin, NO_REGISTERS, NULL);
        if (!memcmp(b, "\x0f\x1f\x84\x00RFS2", 8))
            qemu_plugin_register_vcpu_insn_exec_cb(one, on_end, NO_REGISTERS, NULL);
    }
}

EXPORT int qemu_plugin_install(plugin_id id, const void *about, int words, char **word) {
    (void)about;
    for (int i = 0; i < words; i++)
        if (!strncmp(word[i], "out=", 4)) folder = strdup(word[i] + 4);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
