#define _GNU_SOURCE
#include "trees.h"
#include "operations.h"
#include "output.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct tree trees[CLIENTS];
static unsigned clients = 1;
unsigned trees_count(void) { return clients; }

/* Where a client has what one alone has in `path`: /mnt/trial/tree -> /mnt/trial/c7/tree. */
static void place(const char *path, unsigned client, char *out, size_t n) {
    const char *last = strrchr(path, '/');
    if (clients == 1 || !last) snprintf(out, n, "%s", path);
    else snprintf(out, n, "%.*s/c%u%s", (int)(last - path), path, client, last);
}

void step_tree(const struct step *s) {
    struct tree t = {0};
    t.seed = number(s, "seed");
    t.files = number(s, "files");
    t.directories = number(s, "directories");
    t.fan_out = number(s, "fan_out");
    t.size_max = number(s, "size_max");
    t.size_median = strtod(need(s, "size_median"), NULL);
    t.size_sigma = strtod(need(s, "size_sigma"), NULL);
    if (!t.files || !t.directories || !t.fan_out) failed("job: a tree needs files, directories and fan_out above zero");
    uint64_t n = number_or(s, "clients", 1);
    if (n < 1 || n > CLIENTS)
        return failed("job: %s clients, but from 1 to %d are possible", get(s, "clients", ""), CLIENTS);
    clients = (unsigned)n;
    for (unsigned i = 0; i < clients; i++) {
        trees[i] = t;
        place(need(s, "root"), i, trees[i].root, sizeof trees[i].root);
        if (clients > 1) trees[i].seed = t.seed * 1000 + i; /* as {client} makes of the seeds of commands */
    }
    tree_pool(t.seed);
}

static void judge(const char *folder, const char *name, const struct outcome *o) {
    printf("{\"event\":\"verification\"");
    json_key("name", name);
    json_number("files", o->items);
    json_number("bytes", o->bytes);
    json_number("mismatches", o->mismatches);
    printf(",\"digest\":\"%016llx\"}\n", (unsigned long long)o->digest);
    if (!o->error && o->mismatches)
        failed("verification of %s: %llu of %llu files are not what was written, the first is %s", folder,
            (unsigned long long)o->mismatches, (unsigned long long)o->items, o->where);
}

static void count(const struct outcome *o) {
    uint64_t lost = o->mismatches - o->extra;
    printf("{\"event\":\"survivors\",\"written\":%llu", (unsigned long long)o->items);
    json_number("kept", o->items - lost);
    json_number("short", o->cut_short);
    json_number("wrong", lost - o->missing - o->cut_short);
    json_number("missing", o->missing);
    json_number("extra", o->extra);
    printf("}\n");
}

/* count: what a power cut left is counted, not judged. */
void step_verify(const struct step *s) {
    struct outcome o = {.digest = 0xcbf29ce484222325u};
    const char *folder = get(s, "root", NULL);
    for (unsigned i = 0; i < clients && !o.error; i++) {
        char root[PATH_BYTES];
        if (folder) place(folder, i, root, sizeof root);
        tree_verify(&trees[i], folder ? root : trees[i].root, &o);
    }
    if (!folder) folder = trees[0].root;
    if (get(s, "count", NULL)) count(&o);
    else judge(folder, need(s, "name"), &o);
    if (o.error) failed("verification of %s: %s", folder, strerror(o.error));
}
