/* Doing the operations, and taking their time. */
#ifndef REPROFS_COMPILE_TREE_RUN_H
#define REPROFS_COMPILE_TREE_RUN_H

#include "clients.h"
#include "files.h"
#include "measure.h"
#include "order.h"
#include "program.h"
#include "results.h"
#include "samples.h"
#include "sequence.h"
#include "states.h"
#include "walk.h"
#include "write.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

static int caches = -1;
static void drop_caches(int folder) {
    syncfs(folder);
    if (caches >= 0 && pwrite(caches, "3", 1, 0) != 1) caches = -1;
}

static int do_step(const struct step *s, struct account *a) {
    struct kernel *k = &kernels[s->tree];
    char name[64];
    sprintf(name, "kernel-%llu", (unsigned long long)s->tree);
    if (s->op == CREATE && mkdir(name, 0755)) return cannot("make", name, "");
    if (s->op == READ) return walk_tree(name, READ, visit_read, a);
    if (s->op == STAT) return walk_tree(name, STAT, visit_stat, a);
    if (s->op == DELETE) {
        if (walk_tree(name, DELETE, visit_delete, a)) return 1;
        return rmdir(name) ? cannot("remove", name, "") : 0;
    }
    int root = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad = 0;
    if (root < 0) return cannot("open", name, "");
    enum set set = set_of(k, s->op);
    int to = set == PATCH_SET || set == COMPILE_PATCHED_SET;
    if (s->op != CLEAN) bad = write_list(root, name, order[set], member_count[set], k, s->tree, to, s->op == CREATE, a);
    for (uint64_t j = 0; s->op == CLEAN && j < member_count[set] && !bad; j++) {
        if (unlinkat(root, file_path(order[set][j]), 0)) bad = cannot("unlink", name, file_path(order[set][j]));
        a->items++, a->bytes += size_at[to][order[set][j]];
    }
    close(root);
    return bad;
}

static void open_caches(int folder) {
    if (o.no_sync) {
        printf("neither sync nor dropped caches (-n)\n");
        return;
    }
    caches = open("/proc/sys/vm/drop_caches", O_WRONLY | O_CLOEXEC);
    drop_caches(folder); /* the first time shows whether it may */
    if (caches >= 0) printf("caches are dropped\n");
    else printf("caches are NOT dropped: /proc/sys/vm/drop_caches: %s\n", strerror(errno));
}

static void add_result(enum tag tag, const struct account *a, uint64_t start, uint64_t wall,
    const struct rusage *before, const struct rusage *after) {
    double t = (double)(wall ? wall : 1) / 1e9;
    results[tag].runs++;
    results[tag].sum += tags[tag].rate ? (double)a->bytes / 1048576.0 / t : t;
    results[tag].user += seconds(after->ru_utime) - seconds(before->ru_utime);
    results[tag].system += seconds(after->ru_stime) - seconds(before->ru_stime);
    sample_put(SAMPLE(.name = tags[tag].sample, .start_ns = start - program_began, .wall_ns = wall, .items = a->items,
        .bytes = a->bytes, .iteration = (int64_t)results[tag].runs - 1));
}

/* Does a step and takes its time. together: with the other clients, whose steps are the same. */
static int run_step(const struct step *s, int folder, bool together) {
    struct kernel *k = &kernels[s->tree];
    enum tag tag = tag_of(s);
    struct account a = {0};
    uint64_t expected, count;
    measure(k, &expected, &count);
    if (together) meet(); /* nobody drops the caches while another one works */
    if (s->settle && !o.no_sync) drop_caches(folder);
    if (together) meet();
    struct rusage before, after;
    getrusage(RUSAGE_SELF, &before);
    uint64_t start = now_ns();
    int bad = do_step(s, &a);
    if (bad) return bad;
    if (s->sync && !o.no_sync && syncfs(folder)) bad = cannot("sync", ".", "");
    uint64_t wall = now_ns() - start;
    getrusage(RUSAGE_SELF, &after);
    if ((s->op == READ && a.bytes != expected) || (set_of(k, s->op) == SETS && a.items != count))
        bad = broken("kernel-%llu has %llu files, %llu bytes read, not %llu files of %llu bytes",
            (unsigned long long)s->tree, (unsigned long long)a.items, (unsigned long long)a.bytes,
            (unsigned long long)count, (unsigned long long)expected);
    add_result(tag, &a, start, wall, &before, &after);
    const char *from = state_name[k->state];
    advance(k, s->op);
    if (o.trace)
        printf("trace %s kernel-%llu %s %s\n", op_name[s->op], (unsigned long long)s->tree, from, state_name[k->state]);
    return bad;
}

static int print_results(void) {
    printf("run complete:\n==========================================================================\n");
    for (int t = 0; t < TAGS; t++) {
        double n = (double)results[t].runs;
        if (!results[t].runs) printf("no runs for %s\n", tags[t].native);
        else
            printf("%s total runs %llu avg %.2f %s (user %.2fs sys %.2fs)\n", tags[t].native,
                (unsigned long long)results[t].runs, results[t].sum / n, tags[t].rate ? "MB/s" : "seconds",
                results[t].user / n, results[t].system / n);
    }
    return fflush(stdout) ? broken("cannot write the results: %s", strerror(errno)) : 0;
}

static int run_all(void) {
    int folder = open(".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), bad = 0;
    if (folder < 0) return cannot("open", ".", "");
    make_content(), make_orders();
    if (!o.no_native && (bad = native_orders())) return bad;
    open_caches(folder);
    begin();
    bool together = o.orders || o.make; /* the random phase has steps of its own in every client */
    for (struct step s; !bad && next(&s);) {
        if (s.possible) bad = run_step(&s, folder, together);
        else if (o.trace) printf("trace %s - - -\n", op_name[s.op]);
    }
    return bad ? bad : print_results();
}

#endif
