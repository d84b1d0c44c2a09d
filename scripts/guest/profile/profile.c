/* A plugin of QEMU that counts where the guest's instructions go, phase by phase. It changes nothing of the guest.
 *
 *   -plugin file=profile.so,out=FOLDER[,misses=on]
 *
 * A phase is what is executed between two no-ops of the runner (scripts/engine/phase.c), known by their bytes. Written
 * for phase N, counted from 0, where all numbers but counts are hexadecimal:
 *   N.count   "ADDRESS BYTES COUNT": an instruction, at most eight of its bytes, how often it was executed
 *   N.stack   "ADDRESS;…;ADDRESS COUNT": instructions that were executed below these calls; the last address is where
 *             the piece of code ended (a call, a return or the end of the phase)
 *   N.wait    "ADDRESS;…;ADDRESS COUNT": time in which the processor was idle and these calls slept, in ticks of its
 *             counter (TSC), of which one is an instruction's; what sleeps at the end is not told
 *   N.misses  "accesses N l1 N llc N": of data, with misses=on
 *
 * Exact for one processor. QEMU counts an instruction when it begins: one that is interrupted and begun again counts
 * twice (a few in a million).
 */
#include "plugin.h"
#include <stdio.h>
#include <string.h>

/* What a guest can make it keep: many times what programs need. Tests take less. */
#ifndef NODES
#define NODES (1 << 24) /* places in the tree of calls, of 40 bytes */
#define ALL_STACKS (1 << 17) /* of 4 KiB */
#define PHASES (1 << 12)
#endif
#define MEBIBYTES 1024ul /* of files */

static const char *folder = ".";
static bool misses, inside;
static int phase;

static void at_most(bool fits, unsigned most, const char *what) {
    if (!fits) fprintf(stderr, "profile: the guest has more than %u %s\n", most, what), exit(3);
}

static void *room(size_t n, size_t size) {
    void *got = calloc(n, size);
    if (!got) fprintf(stderr, "profile: no memory\n"), exit(3);
    return got;
}

static uint64_t hash(uint64_t key) { return key * 0x9E3779B97F4A7C15u; }

/* ---- instructions ------------------------------------------------------------------------------------------------ */
/* One for each address and content, however often QEMU translates it anew. */
enum { BYTES = 8 }; /* of the content that tell two programs apart that lie at the same addresses */
struct instruction {
    uint64_t address, *count;
    uint8_t size, content[BYTES];
    struct instruction *next;
};
enum { BUCKETS = 1 << 20 };
static struct instruction *known[BUCKETS];

static struct instruction *instruction_at(uint64_t address, uint8_t size, const uint8_t *content) {
    struct instruction **at = &known[hash(address) >> 44];
    if (size > BYTES) size = BYTES;
    while (*at && ((*at)->address != address || (*at)->size != size || memcmp((*at)->content, content, size)))
        at = &(*at)->next;
    if (!*at) {
        *at = room(1, sizeof **at);
        **at = (struct instruction){.address = address, .size = size, .count = counter_new()};
        memcpy((*at)->content, content, size);
        at_most((*at)->count, COUNTERS, "instructions");
    }
    return *at;
}

/* ---- call stacks ------------------------------------------------------------------------------------------------- */
/* A tree of calls. */
struct node {
    uint64_t site, own, waited;
    uint32_t parent, child, sibling;
};
static struct node *nodes;
static uint32_t nodes_used = 1, nodes_room = 1 << 16;

static uint32_t node_below(uint32_t parent, uint64_t site) {
    uint32_t before = 0;
    for (uint32_t i = nodes[parent].child; i; before = i, i = nodes[i].sibling) {
        if (nodes[i].site != site) continue;
        if (before) { /* to the front: the same calls come again */
            nodes[before].sibling = nodes[i].sibling;
            nodes[i].sibling = nodes[parent].child;
            nodes[parent].child = i;
        }
        return i;
    }
    at_most(nodes_used < NODES, NODES, "calls");
    if (nodes_used == nodes_room) {
        nodes = realloc(nodes, 2 * (size_t)nodes_room * sizeof *nodes);
        if (!nodes) fprintf(stderr, "profile: no memory\n"), exit(3);
        nodes_room *= 2;
    }
    nodes[nodes_used] = (struct node){.site = site, .parent = parent, .sibling = nodes[parent].child};
    return nodes[parent].child = nodes_used++;
}

/* What the guest has on its stacks, by where the return addresses lie. The kernel has one of 16 KiB, aligned, for each
 * task and one for interrupts; which is in use shows at each call and return. */
enum { STACK_BITS = 14, DEPTH = 256, STACKS = 1 << 14 };
struct stack {
    uint64_t key, left; /* how long the processor had been idle when it was left */
    bool idle; /* of the task that halts the processor */
    int depth;
    struct {
        uint64_t slot;
        uint32_t node;
    } frame[DEPTH];
    struct stack *next;
};
static struct stack *stacks[STACKS], *current;
static unsigned stacks_used;
static uint64_t *executed, charged; /* instructions, and how many of them have a place */
static uint64_t idle_until_now, idle_at_begin;

static void use_stack(uint64_t slot) {
    uint64_t key = slot >> STACK_BITS;
    bool other = !current || current->key != key;
    if (other) {
        if (current) current->left = idle_until_now;
        struct stack **at = &stacks[hash(key) >> 50];
        while (*at && (*at)->key != key) at = &(*at)->next;
        if (!*at) {
            at_most(stacks_used++ < ALL_STACKS, ALL_STACKS, "stacks");
            *at = room(1, sizeof **at), (*at)->key = key;
        }
        current = *at;
    }
    while (current->depth && current->frame[current->depth - 1].slot <= slot) current->depth--;
    if (!other || !inside || !current->depth || current->idle) return; /* an interrupt or a new task has no calls yet */
    uint64_t since = current->left > idle_at_begin ? current->left : idle_at_begin;
    nodes[current->frame[current->depth - 1].node].waited += idle_until_now - since;
}

static uint32_t caller(void) { return current && current->depth ? current->frame[current->depth - 1].node : 0; }

/* What was executed since the last call or return ended at this address. */
static void charge(uint64_t address) {
    if (inside && *executed != charged) {
        uint32_t here = node_below(caller(), address);
        nodes[here].own += *executed - charged;
    }
    charged = *executed;
}

static void on_call(unsigned processor, uint32_t access, uint64_t slot, void *site) {
    (void)processor;
    if (!qemu_plugin_mem_is_store(access)) return; /* an indirect call reads where it leads */
    charge((uint64_t)site);
    use_stack(slot);
    if (current->depth == DEPTH) return;
    uint32_t node = node_below(caller(), (uint64_t)site);
    current->frame[current->depth].slot = slot;
    current->frame[current->depth++].node = node;
}

static void on_return(unsigned processor, uint32_t access, uint64_t slot, void *site) {
    (void)processor, (void)access;
    charge((uint64_t)site);
    use_stack(slot);
}

/* ---- what waits -------------------------------------------------------------------------------------------------- */
/* A tick of the counter is an instruction, or the processor is idle. The kernel reads it whenever it switches tasks. */
static uint64_t counted_before; /* instructions, before the counters began anew */
enum { READS = 1 << 10 };
static uint64_t after_reads[READS]; /* addresses */
static unsigned reads_used;

/* Where the address is, or the free place for it. */
static uint64_t *after_read(uint64_t address) {
    uint64_t *at = &after_reads[hash(address) >> 54];
    while (*at && *at != address)
        if (++at == after_reads + READS) at = after_reads;
    return at;
}

/* That of the instruction after one that reads the time. */
static void add_read(uint64_t address) {
    uint64_t *at = after_read(address);
    if (*at) return;
    at_most(++reads_used < READS, READS - 1, "instructions that read the time"); /* one place stays free */
    *at = address;
}

static bool reads_time(const uint8_t *b) { return b[0] == 0x0f && (b[1] == 0x31 || (b[1] == 1 && b[2] == 0xf9)); }

static void on_time_read(unsigned processor, void *data) {
    (void)processor, (void)data;
    uint64_t idle = (register_value(RDX) << 32 | (uint32_t)register_value(RAX)) - *executed - counted_before;
    if ((int64_t)(idle - idle_until_now) > 0) idle_until_now = idle;
}

static void on_halt(unsigned processor, void *data) {
    (void)processor, (void)data;
    if (current) current->idle = true;
}

/* A call and a return, after their prefixes. */
static bool is_call(const uint8_t *b) {
    while ((*b & 0xf0) == 0x40 || *b == 0x2e || *b == 0x3e || *b == 0x66 || *b == 0xf2) b++;
    return *b == 0xe8 || (*b == 0xff && (b[1] >> 3 & 7) == 2);
}

static bool is_return(const uint8_t *b) {
    while (*b == 0xf3 || *b == 0xf2) b++;
    return *b == 0xc3 || *b == 0xc2;
}

/* Whether it only computes in registers, so that what comes after it is always executed, too. Of instructions with one
 * byte, or 0f and one more; of no others is it known. */
static bool only_computes(const uint8_t *b) {
    while ((*b & 0xf0) == 0x40 || *b == 0x66) b++;
    bool two = *b == 0x0f;
    b += two;
    uint8_t code = *b, which = b[1] >> 3 & 7;
    bool registers = b[1] >= 0xc0;
    if (two) /* cmov, set, imul, movzx, movsx */
        return registers && ((code & 0xf0) == 0x40 || (code & 0xf0) == 0x90 || code == 0xaf || (code & 0xf6) == 0xb6);
    switch (code) {
        case 0x00 ... 0x3f:
            return (code & 7) < 4 ? registers : (code & 7) < 6; /* add, or, adc, sbb, and, sub, xor, cmp */
        case 0x63: /* movsxd */
        case 0x69:
        case 0x6b: /* imul */
        case 0x80 ... 0x81:
        case 0x83 ... 0x8b: /* add to cmp with a number, test, xchg, mov */
        case 0xc0 ... 0xc1:
        case 0xd0 ... 0xd3: return registers; /* shifts */
        case 0x8d: /* lea */
        case 0x90 ... 0x99: /* nop, xchg, sign extension */
        case 0xa8 ... 0xa9: /* test */
        case 0xb0 ... 0xbf: return true; /* mov of a number */
        case 0xf6 ... 0xf7: return registers && which < 6; /* test, not, neg, mul; div may fail */
        case 0xfe ... 0xff: return registers && which < 2; /* inc, dec */
        default: return false;
    }
}

/* ---- caches of data ---------------------------------------------------------------------------------------------- */
/* A first level of 32 KiB, and a last one of 16 MiB: lines of 64 bytes, least recently used goes, writes allocate. */
struct level {
    unsigned sets, ways;
    uint64_t *line, missed;
};
/* Of each set of the first level the line of the last access, as the guest addresses it: another access to that line is
 * a hit that changes no order. The number of a set is in the part of an address that is the same in memory, and what an
 * address means cannot change before the guest says so (is_remapping). Asking QEMU for it would take most of the time.
 */
enum { L1_SETS = 64 };
static struct level l1 = {L1_SETS, 8, NULL, 0}, llc = {16384, 16, NULL, 0};
static uint64_t accesses, last[L1_SETS];

static bool hit(struct level *level, uint64_t line) {
    uint64_t *set = level->line + (line & (level->sets - 1)) * level->ways;
    unsigned way = 0;
    if (set[0] == line) return true;
    while (way < level->ways && set[way] != line) way++;
    bool found = way < level->ways;
    memmove(set + 1, set, (found ? way : level->ways - 1) * sizeof *set);
    set[0] = line;
    level->missed += !found;
    return found;
}

static void on_access(unsigned processor, uint32_t access, uint64_t address, void *data) {
    (void)processor, (void)data;
    if (!inside) return;
    accesses++;
    uint64_t *before = &last[address >> 6 & (L1_SETS - 1)];
    if (*before == address >> 6) return;
    *before = address >> 6;
    struct qemu_plugin_hwaddr *at = qemu_plugin_get_hwaddr(access, address);
    if (!at || qemu_plugin_hwaddr_is_io(at)) return;
    uint64_t line = (qemu_plugin_hwaddr_phys_addr(at) >> 6) + 1;
    if (!hit(&l1, line)) hit(&llc, line);
}

static void forget(unsigned processor, void *data) {
    (void)processor, (void)data;
    memset(last, 0xff, sizeof last);
}

/* Whether other pages may be at the same addresses after it: a write of a control register, invlpg, invpcid. */
static bool is_remapping(const uint8_t *b) {
    while ((*b & 0xf0) == 0x40 || *b == 0x66) b++;
    if (*b != 0x0f) return false;
    bool one_page = b[1] == 0x01 && (b[2] >> 3 & 7) == 7 && b[2] < 0xc0, some = b[1] == 0x38 && b[2] == 0x82;
    return b[1] == 0x22 || one_page || some;
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */
static FILE *file(const char *ending) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%d.%s", folder, phase, ending);
    FILE *opened = fopen(path, "w");
    if (!opened) fprintf(stderr, "profile: cannot write %s\n", path), exit(3);
    return opened;
}

static void done(FILE *opened) {
    static uint64_t written;
    written += (uint64_t)ftell(opened);
    at_most(written < MEBIBYTES << 20, MEBIBYTES, "MiB of calls and instructions");
    if (fclose(opened)) fprintf(stderr, "profile: cannot write into %s\n", folder), exit(3);
}

static void on_begin(unsigned processor, void *data) {
    (void)processor, (void)data;
    counted_before += *executed;
    memset(counters, 0, counters_used * sizeof *counters);
    for (uint32_t i = 0; i < nodes_used; i++) nodes[i].own = nodes[i].waited = 0;
    idle_at_begin = idle_until_now;
    charged = accesses = l1.missed = llc.missed = 0;
    forget(0, NULL);
    inside = true;
}

static void write_stack(FILE *to, uint32_t node, uint64_t number) {
    uint64_t path[DEPTH + 2];
    int n = 0;
    for (uint32_t i = node; i && n < DEPTH + 2; i = nodes[i].parent) path[n++] = nodes[i].site;
    while (n--) fprintf(to, "%lx%c", path[n], n ? ';' : ' ');
    fprintf(to, "%lu\n", number);
}

static void on_end(unsigned processor, void *address) {
    (void)processor;
    if (!inside) return;
    charge((uint64_t)address);
    inside = false;
    at_most(phase < PHASES, PHASES, "phases");
    FILE *to = file("count");
    for (int i = 0; i < BUCKETS; i++)
        for (struct instruction *one = known[i]; one; one = one->next) {
            if (!*one->count) continue;
            fprintf(to, "%lx ", one->address);
            for (int byte = 0; byte < one->size; byte++) fprintf(to, "%02x", one->content[byte]);
            fprintf(to, " %lu\n", *one->count);
        }
    done(to);
    to = file("stack");
    for (uint32_t i = 1; i < nodes_used; i++)
        if (nodes[i].own) write_stack(to, i, nodes[i].own);
    done(to);
    to = file("wait");
    for (uint32_t i = 1; i < nodes_used; i++)
        if (nodes[i].waited) write_stack(to, i, nodes[i].waited);
    done(to);
    if (misses) {
        to = file("misses");
        fprintf(to, "accesses %lu l1 %lu llc %lu\n", accesses, l1.missed, llc.missed);
        done(to);
    }
    phase++;
}

enum { PAGE_BITS = 12, LONGEST = 15 };

static void on_translate(plugin_id id, struct qemu_plugin_tb *block) {
    (void)id;
    if (!executed) executed = counter_new();
    struct qemu_plugin_insn *before = NULL;
    unsigned together = 0; /* instructions that are executed all or none: one addition is enough for them */
    for (size_t i = 0, n = qemu_plugin_tb_n_insns(block); i < n; i++) {
        struct qemu_plugin_insn *one = qemu_plugin_tb_get_insn(block, i);
        uint64_t address = qemu_plugin_insn_vaddr(one);
        uint8_t b[16] = {0}, size = qemu_plugin_insn_size(one);
        bytes(one, b);
        bool begin = !memcmp(b, "\x0f\x1f\x84\x00RFS1", 8), end = !memcmp(b, "\x0f\x1f\x84\x00RFS2", 8);
        /* One in two pages QEMU may leave to the next block after all, and then it does not tell all its bytes. */
        bool apart = begin || end || address >> PAGE_BITS != (address + LONGEST) >> PAGE_BITS;
        if (together && apart) count(before, executed, together), together = 0;
        count(one, instruction_at(address, size, b)->count, 1);
        together++;
        if (!only_computes(b) || i + 1 == n) count(one, executed, together), together = 0;
        before = one;
        if (can_read_registers() && *after_read(address))
            qemu_plugin_register_vcpu_insn_exec_cb(one, on_time_read, NO_REGISTERS, NULL);
        if (reads_time(b)) add_read(address + size);
        if (*b == 0xf4) qemu_plugin_register_vcpu_insn_exec_cb(one, on_halt, NO_REGISTERS, NULL);
        bool call = is_call(b);
        if (call || is_return(b))
            qemu_plugin_register_vcpu_mem_cb(
                one, call ? on_call : on_return, NO_REGISTERS, READS_AND_WRITES, (void *)address);
        if (misses) qemu_plugin_register_vcpu_mem_cb(one, on_access, NO_REGISTERS, READS_AND_WRITES, NULL);
        if (misses && is_remapping(b)) qemu_plugin_register_vcpu_insn_exec_cb(one, forget, NO_REGISTERS, NULL);
        if (begin) qemu_plugin_register_vcpu_insn_exec_cb(one, on_begin, NO_REGISTERS, NULL);
        if (end) qemu_plugin_register_vcpu_insn_exec_cb(one, on_end, NO_REGISTERS, (void *)address);
    }
}

EXPORT int qemu_plugin_install(plugin_id id, const void *about, int words, char **word) {
    (void)about;
    for (int i = 0; i < words; i++) {
        if (!strncmp(word[i], "out=", 4)) folder = strdup(word[i] + 4);
        if (!strcmp(word[i], "misses=on")) misses = true;
    }
    nodes = room(nodes_room, sizeof *nodes);
    l1.line = room(l1.sets * l1.ways, sizeof *l1.line);
    llc.line = room(llc.sets * llc.ways, sizeof *llc.line);
    qemu_plugin_register_vcpu_tb_trans_cb(id, on_translate);
    return 0;
}
