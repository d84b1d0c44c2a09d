/* The model: names, what they name, and how calls change that. World q is what there is after q calls; world 0 is what
 * there was before, flushed. */
#ifndef REPROFS_CRASH_WORLD_H
#define REPROFS_CRASH_WORLD_H

#include "program.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    SECTOR = 512,
    SECTORS = 128,
    NAMES = 128,
    NODES = 64,
    CALLS = 64,
    WORDS = 4,
    LETTERS = 48,
    DEPTH = 3,
    NOTHING = -1,
    BEFORE = 0x7000
};

/* A file, folder or symbolic link. tag: of each sector the number of the call that wrote it, 0 for zeros. */
struct node {
    char type; /* f, d, l; 0: none */
    int bytes, attribute; /* the call that set the attribute, 0: none */
    uint16_t tag[SECTORS];
    char target[LETTERS];
};
struct world {
    int at[NAMES]; /* the node that a name has, or NOTHING */
    struct node node[NODES];
};
enum persists { NO, FILE_, FOLDER, ALL };
struct call {
    char word[WORDS][LETTERS];
    int words, node; /* node: that is flushed */
    enum persists persists;
};

static char names[NAMES][LETTERS];
static int n_names, n_nodes, n_calls;
static struct world worlds[CALLS + 1];
static struct call calls[CALLS + 1]; /* from 1 */
static int torn_at[NODES]; /* the first call that failed and may have changed a part of the node; 0: none */

static int name_of(const char *text) {
    int n = 0;
    while (n < n_names && strcmp(names[n], text)) n++;
    if (n == NAMES) exit(wrong("a sequence has more than %d names: make it shorter", NAMES));
    if (n < n_names) return n;
    snprintf(names[n_names], LETTERS, "%s", text);
    for (int q = 0; q <= n_calls; q++) worlds[q].at[n_names] = NOTHING;
    return n_names++;
}

/* The folder of a name; "." is the top. */
static inline const char *folder_of(const char *name, char *room) {
    const char *slash = strrchr(name, '/');
    if (slash) snprintf(room, LETTERS, "%.*s", (int)(slash - name), name);
    else strcpy(room, ".");
    return room;
}

static int new_node(struct world *w, char type) {
    if (n_nodes == NODES) exit(wrong("a sequence makes more than %d files and folders: make it shorter", NODES));
    w->node[n_nodes] = (struct node){.type = type};
    return n_nodes++;
}

static int read_call(const char *text, struct call *c) {
    memset(c, 0, sizeof *c);
    c->words = sscanf(text, "%47s %47s %47s %47s", c->word[0], c->word[1], c->word[2], c->word[3]);
    const char *verb = c->word[0];
    static const struct {
        const char *verb;
        int words;
        enum persists persists;
    } known[] = {{"create", 2, NO}, {"mkdir", 2, NO}, {"write", 4, NO}, {"dwrite", 4, NO}, {"mwrite", 4, NO},
        {"allocate", 4, NO}, {"keep", 4, NO}, {"punch", 4, NO}, {"zero", 4, NO}, {"truncate", 3, NO}, {"link", 3, NO},
        {"symlink", 3, NO}, {"rename", 3, NO}, {"unlink", 2, NO}, {"rmdir", 2, NO}, {"setxattr", 2, NO},
        {"wait", 2, NO}, {"drop", 1, NO}, {"remount", 1, ALL}, {"fsync", 2, FILE_}, {"fdatasync", 2, FILE_},
        {"fsyncdir", 2, FOLDER}, {"sync", 1, ALL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        if (strcmp(verb, known[i].verb)) continue;
        if (c->words != known[i].words) return wrong("the call `%s` has not %d words", text, known[i].words);
        c->persists = known[i].persists;
        int from = c->words == 4 ? atoi(c->word[2]) : 0, n = c->words == 4 ? atoi(c->word[3]) : 0;
        if (!strcmp(verb, "truncate")) from = atoi(c->word[2]);
        if (from < 0 || n < 0 || from % SECTOR || n % SECTOR || from + n > SECTORS * SECTOR)
            return wrong(
                "the call `%s` must have sizes in whole sectors of %d, at most %d", text, SECTOR, SECTORS * SECTOR);
        return 0;
    }
    return wrong("`%.60s` is no call: see workflow/sequences", text);
}

static void change_bytes(struct node *x, const char *verb, int from, int n, int tag) {
    int until = (from + n) / SECTOR;
    if (strstr(verb, "write"))
        for (int i = from / SECTOR; i < until; i++) x->tag[i] = (uint16_t)tag;
    if (!strcmp(verb, "punch") || !strcmp(verb, "zero"))
        for (int i = from / SECTOR; i < until; i++) x->tag[i] = 0;
    if (strcmp(verb, "punch") && strcmp(verb, "keep") && x->bytes < from + n) x->bytes = from + n;
}

static void move_name(struct world *w, int from, int to) {
    size_t letters = strlen(names[from]);
    if (w->at[from] == w->at[to]) return; /* two names of one file: nothing happens, rename(2) */
    w->at[to] = w->at[from];
    w->at[from] = NOTHING;
    for (int n = 0, known = n_names; n < known; n++) {
        char moved[2 * LETTERS];
        if (strncmp(names[n], names[from], letters) || names[n][letters] != '/' || w->at[n] == NOTHING) continue;
        snprintf(moved, sizeof moved, "%s%s", names[to], names[n] + letters);
        if (strlen(moved) >= LETTERS) exit(wrong("the name %s is too long", moved));
        w->at[name_of(moved)] = w->at[n];
        w->at[n] = NOTHING;
    }
}

/* What a call does to a world, when it succeeds. */
static void apply(const struct call *c, struct world *w, int tag) {
    const char *verb = c->word[0];
    if (c->persists || !strcmp(verb, "wait") || !strcmp(verb, "drop")) return;
    int a = name_of(c->word[1]), from = atoi(c->word[2]);
    struct node *x = w->at[a] == NOTHING ? NULL : &w->node[w->at[a]];
    if (!strcmp(verb, "create")) w->at[a] = new_node(w, 'f');
    else if (!strcmp(verb, "mkdir")) w->at[a] = new_node(w, 'd');
    else if (!strcmp(verb, "symlink")) {
        int made = new_node(w, 'l');
        strcpy(w->node[made].target, c->word[1]);
        w->at[name_of(c->word[2])] = made;
    } else if (!strcmp(verb, "link")) w->at[name_of(c->word[2])] = w->at[a];
    else if (!strcmp(verb, "rename")) move_name(w, a, name_of(c->word[2]));
    else if (!strcmp(verb, "unlink") || !strcmp(verb, "rmdir")) w->at[a] = NOTHING;
    else if (!x) return;
    else if (!strcmp(verb, "setxattr")) x->attribute = tag;
    else if (!strcmp(verb, "truncate")) {
        for (int i = from / SECTOR; i < SECTORS; i++) x->tag[i] = 0;
        x->bytes = from;
    } else change_bytes(x, verb, from, atoi(c->word[3]), tag);
}

static int depth_of(const char *path) {
    int slashes = 0;
    for (; *path; path++) slashes += *path == '/';
    return slashes;
}

/* The names in folder f, in any world, under another name of it. Returns whether one is new. */
static bool name_there(const char *folder, int f, bool (*could)[NODES]) {
    char room[LETTERS], path[2 * LETTERS];
    bool new = false;
    for (int q = 0; q <= n_calls; q++)
        for (int m = 0, known = n_names; m < known; m++) {
            const char *last = strrchr(names[m], '/');
            int x = worlds[q].at[m];
            if (!last || x == NOTHING || worlds[q].at[name_of(folder_of(names[m], room))] != f) continue;
            snprintf(path, sizeof path, "%s%s", folder, last);
            /* Folders that were in each other, one after the other, have no end of names. */
            if (strlen(path) >= LETTERS || depth_of(path) > DEPTH || n_names == NAMES) continue;
            int n = name_of(path);
            new = new || !could[n][x];
            could[n][x] = true;
        }
    return new;
}

/* What was made in a renamed folder may be seen in its other place: nobody need have flushed the rename. */
static void name_both_places(void) {
    static bool could[NAMES][NODES];
    memset(could, 0, sizeof could);
    for (int q = 0; q <= n_calls; q++)
        for (int n = 0; n < n_names; n++)
            if (worlds[q].at[n] != NOTHING) could[n][worlds[q].at[n]] = true;
    for (bool new = true; new;) {
        new = false;
        for (int n = 0; n < n_names; n++)
            for (int f = 0; f < n_nodes; f++)
                if (could[n][f] && worlds[n_calls].node[f].type == 'd') new = name_there(names[n], f, could) || new;
    }
}

/* The next call of a sequence: the world after it. Returns 0, or what `wrong` returned. */
static inline int next_call(const char *text) {
    if (n_calls == CALLS) return wrong("a sequence has more than %d calls: make it shorter", CALLS);
    struct call *c = &calls[n_calls + 1];
    int said = read_call(text, c);
    if (said) return said;
    n_calls++;
    worlds[n_calls] = worlds[n_calls - 1];
    c->node = c->persists == FILE_ ? worlds[n_calls].at[name_of(c->word[1])] : NOTHING;
    apply(c, &worlds[n_calls], n_calls);
    if (!strcmp(c->word[0], "rename") || strchr(c->word[c->words - 1], '/')) name_both_places();
    return 0;
}

/* The last call has failed. Names are as they were; of content a part may be as the call wanted it. What failed to
 * flush a file has flushed nothing. */
static inline void call_failed(void) {
    struct call *c = &calls[n_calls];
    const char *verb = c->word[0];
    bool content = strstr(verb, "write") || !strcmp(verb, "truncate") || !strcmp(verb, "allocate") ||
        !strcmp(verb, "keep") || !strcmp(verb, "punch") || !strcmp(verb, "zero");
    int x = c->persists == FILE_ ? c->node : content ? worlds[n_calls].at[name_of(c->word[1])] : NOTHING;
    if (x != NOTHING && !torn_at[x]) torn_at[x] = n_calls;
    if (!content) worlds[n_calls] = worlds[n_calls - 1];
    c->persists = NO;
}

/* Calls of a text, separated by semicolons, each given to `each`. Returns the first answer that is not 0. */
static int for_calls(const char *text, int (*each)(const char *)) {
    char *copy = strdup(text), *rest = copy, *one;
    int said = 0;
    while (!said && (one = strsep(&rest, ";"))) {
        one += strspn(one, " \n");
        if (*one) said = each(one);
    }
    free(copy);
    return said;
}
#endif
