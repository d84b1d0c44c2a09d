/* What must hold after a cut, of what is seen. `done` calls had returned, `begun` had begun.
 *
 * A call p that flushed a file promises its content as in world p, or in any world up to `begun`, sector by sector. One
 * that flushed a folder promises its names in the same way; each folder may lag behind the others. What was there
 * before is promised by p = 0. A file must be found under a name that it may have: a rename that nobody flushed need
 * not have happened. Content that a file never had, of another file or of what the disk had before, is never right.
 * Sources: POSIX.1-2017 fsync(); fsync(2) of Linux, which adds that the folder must be flushed for a file's name. */
#ifndef REPROFS_CRASH_JUDGE_H
#define REPROFS_CRASH_JUDGE_H

#include "look.h"

/* The kinds of finding, the worst first: scripts/reprofs/stats/states.py says what they mean. */
enum finding {
    WRONG,
    MOUNT,
    LOST,
    DAMAGED,
    UNREADABLE,
    NAME,
    TWICE,
    OVERWRITTEN,
    UNUSABLE,
    CONTRADICTS,
    LEAK,
    CHECKER,
    UNNAMED,
    FINDINGS
};
static const char *const finding_words[FINDINGS] = {"wrong", "mount", "lost", "damaged", "unreadable", "name", "twice",
    "overwritten", "unusable", "contradicts", "leak", "checker", "unnamed"};
/* What a file system promises: the content of a flushed file, the names of a flushed folder, both by sync(2), and that
 * a file that is renamed is never nowhere. */
static struct { bool fsync, folder, sync, rename; } promises = {true, true, true, true};

/* broken: a promise of this file system. */
static void found(enum finding kind, bool broken, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* The last call, up to `done`, that flushed a node: 0: it was there before; NOTHING: none did. */
static int flushed_at(int x, int done) {
    for (int q = torn_at[x] && torn_at[x] <= done ? torn_at[x] - 1 : done; q > 0; q--) {
        if (calls[q].persists == FILE_ && calls[q].node == x) return q;
        if (calls[q].persists == ALL && worlds[q].node[x].type) return q;
    }
    return worlds[0].node[x].type ? 0 : NOTHING;
}

/* The last call, up to `done`, that flushed the folder which has name n. */
static int names_flushed_at(int n, int done) {
    char room[LETTERS];
    const char *folder = folder_of(names[n], room);
    for (int q = done; q > 0; q--)
        if (calls[q].persists == ALL || (calls[q].persists == FOLDER && !strcmp(calls[q].word[1], folder))) return q;
    return 0;
}

static bool is_promised(int q) {
    enum persists how = q > 0 ? calls[q].persists : NO;
    return how == ALL ? promises.sync : how == FOLDER ? promises.folder : how == FILE_ ? promises.fsync : true;
}

static bool may_have(int n, int x, int done, int begun);

/* The same in another place of a folder above it, which is renamed: name n ends with `rest`, a slash and more. */
static bool may_have_elsewhere(int n, const char *rest, int x, int done, int begun) {
    char place[LETTERS];
    snprintf(place, sizeof place, "%.*s", (int)(rest - names[n]), names[n]);
    int here = name_of(place);
    for (int m = 0; m < n_names; m++) {
        long letters = (long)strlen(names[m]) - (long)strlen(rest);
        if (m == n || letters <= 0 || strcmp(names[m] + letters, rest)) continue;
        snprintf(place, sizeof place, "%.*s", (int)letters, names[m]);
        for (int q = names_flushed_at(m, done), there = name_of(place); q <= begun; q++)
            if (worlds[q].at[m] == x && worlds[q].at[there] != NOTHING &&
                may_have(here, worlds[q].at[there], done, begun))
                return true;
    }
    return false;
}

static bool may_have(int n, int x, int done, int begun) {
    for (int q = names_flushed_at(n, done); q <= begun; q++)
        if (worlds[q].at[n] == x) return true;
    for (const char *rest = strchr(names[n], '/'); rest; rest = strchr(rest + 1, '/'))
        if (may_have_elsewhere(n, rest, x, done, begun)) return true;
    return false;
}

static bool has_name(int x, int q) {
    for (int n = 0; n < n_names; n++)
        if (worlds[q].at[n] == x) return true;
    return false;
}

/* The last call, up to `done`, that flushed a name of node x; NOTHING: none did. */
static int named_at(int x, int done) {
    int last = NOTHING;
    for (int n = 0; n < n_names; n++) {
        int q = names_flushed_at(n, done);
        if (worlds[q].at[n] == x && q > last) last = q;
    }
    return last;
}

static bool may_be_nowhere(int x, int named, int begun) {
    if (named == NOTHING) return true;
    for (int q = named; q <= begun; q++)
        if (!has_name(x, q)) return true;
    return false;
}

static bool was_renamed(int x, int begun) {
    for (int q = 1; q <= begun; q++)
        for (int n = 0; n < n_names; n++)
            if (!strcmp(calls[q].word[0], "rename") && worlds[q - 1].at[n] == x && worlds[q].at[n] != x) return true;
    return false;
}

/* ---- content ----------------------------------------------------------------------------------------------------- */
static bool may_contain(int x, int i, const struct seen *s, int p, int begun) {
    for (int q = p; q <= begun; q++)
        if (worlds[q].node[x].tag[i] == s->tag[i] && (s->tag[i] == 0 || s->node[i] == x)) return true;
    return false;
}

/* The words for a sector that is not what it should be. */
static const char *words_of(const struct seen *s, int i, int x) {
    if (!s->tag[i]) return "zeros";
    if (s->tag[i] == LEFT) return "what the disk had before";
    if (s->tag[i] == GARBAGE) return "what nobody wrote";
    return s->node[i] == x ? "content of another time" : "another's content";
}

/* The last call, up to p, that flushed the attribute of a node: fdatasync(2) flushes content only. */
static int attribute_flushed_at(int x, int p) {
    for (int q = p; q > 0; q--)
        if (calls[q].persists == ALL ||
            (calls[q].persists == FILE_ && calls[q].node == x && strcmp(calls[q].word[0], "fdatasync")))
            return q;
    return 0;
}

/* Whether what is seen is node x as call p promised it, and its attribute as call `since` did; why not, in words. */
static bool is_as(const struct seen *s, int x, int p, int since, int begun, char *why, size_t room) {
    const struct node *was = &worlds[p].node[x];
    long least = was->bytes, most = least;
    bool attribute = s->type != 'f';
    if (s->type != was->type) return snprintf(why, room, "is of another type"), false;
    if (s->type == 'l' && strcmp(s->target, was->target)) return snprintf(why, room, "leads elsewhere"), false;
    for (int q = p; q <= begun; q++) {
        long bytes = worlds[q].node[x].bytes;
        least = bytes < least ? bytes : least;
        most = bytes > most ? bytes : most;
    }
    for (int q = since; q <= begun; q++) attribute = attribute || worlds[q].node[x].attribute == s->attribute;
    if (s->type == 'f' && (s->bytes < least || s->bytes > most))
        return snprintf(why, room, "has %ld bytes instead of %ld", s->bytes, least), false;
    for (int i = 0; i * SECTOR < least && s->type == 'f'; i++)
        if (!may_contain(x, i, s, p, begun))
            return snprintf(why, room, "has %s in sector %d", words_of(s, i, x), i), false;
    return attribute || (snprintf(why, room, "has another attribute"), false);
}
static bool is_whole(const struct seen *s, int x, int p, int begun, char *why, size_t room) {
    return is_as(s, x, p, attribute_flushed_at(x, p), begun, why, room);
}

/* In what a name differs from node x of world q, or from nothing, without a cut; NULL: in nothing. */
static inline const char *unlike(int n, int x, int q) {
    static char why[80];
    const struct seen *s = &seen[n];
    if (x != NOTHING && torn_at[x] && s->type == worlds[q].node[x].type) return NULL;
    if (x == NOTHING) return s->type ? "is there" : NULL;
    if (s->type == 'e') return words_for(s->error);
    return !s->type ? "is missing" : is_as(s, x, q, q, q, why, sizeof why) ? NULL : why;
}

/* Whether a name rightly shows another node than x. */
static bool shows_another(int n, int x, int done, int begun) {
    char why[80];
    for (int y = 0; y < n_nodes; y++) {
        int p = flushed_at(y, done);
        if (y == x || !may_have(n, y, done, begun)) continue;
        if (p != NOTHING && is_whole(&seen[n], y, p, begun, why, sizeof why)) return true;
        /* A file that nobody flushed may have lost its content; what it shows instead is a leak. */
        bool without = seen[n].node[0] == y || !seen[n].tag[0] || seen[n].tag[0] == LEFT;
        if (p == NOTHING && seen[n].type == worlds[begun].node[y].type && without) return true;
    }
    return false;
}

/* ---- judging ----------------------------------------------------------------------------------------------------- */
static bool is_lost[NODES], is_somewhere[NODES];

/* How a node that call p promised is found, under the names that it may have: FINDINGS: whole; times: under how many.
 */
static enum finding find_node(int x, int p, int done, int begun, int *times, char *what, size_t room) {
    char why[80] = "";
    enum finding kind = LOST;
    for (int n = 0; n < n_names; n++) {
        if (!seen[n].type || !may_have(n, x, done, begun)) continue;
        if (seen[n].type != 'e' && is_whole(&seen[n], x, p, begun, why, sizeof why)) {
            *times += seen[n].type == 'f' && seen[n].node[0] == x; /* folders do not tell who they are */
            kind = FINDINGS;
        } else if (kind == LOST && !shows_another(n, x, done, begun)) {
            kind = seen[n].type == 'e' ? UNREADABLE : DAMAGED;
            if (kind == DAMAGED) snprintf(what, room, "%s %s", names[n], why);
            else snprintf(what, room, "%s: %s", names[n], words_for(seen[n].error));
        }
    }
    return kind;
}

/* The most names that a node ever had. */
static int most_names(int x, int begun) {
    int most = 0;
    for (int q = 0; q <= begun; q++) {
        int count = 0;
        for (int n = 0; n < n_names; n++) count += worlds[q].at[n] == x;
        most = count > most ? count : most;
    }
    return most;
}

/* A node that was flushed is there, under a name that it may have, and whole. */
static void judge_node(int x, int done, int begun) {
    int p = flushed_at(x, done), named = named_at(x, done), times = 0;
    char what[160] = "";
    is_lost[x] = is_somewhere[x] = false;
    if (p == NOTHING) return;
    enum finding kind = find_node(x, p, done, begun, &times, what, sizeof what);
    is_somewhere[x] = kind != LOST;
    bool renamed = was_renamed(x, begun), promised = is_promised(p) && is_promised(named == NOTHING ? 0 : named);
    if (renamed && times > most_names(x, begun)) found(TWICE, promises.rename, "a renamed file has both names");
    if (kind == DAMAGED || kind == UNREADABLE) found(kind, promised, "%s", what);
    if (kind != LOST || may_be_nowhere(x, named, begun)) return;
    is_lost[x] = true;
    for (int n = 0; n < n_names; n++)
        if (worlds[named].at[n] == x)
            return found(LOST, promised && (promises.rename || !renamed), "%s is nowhere", names[n]);
}

/* A folder that was flushed has its names, and no others. */
static void judge_name(int n, int done, int begun) {
    char room[LETTERS];
    const char *folder = folder_of(names[n], room);
    int since = names_flushed_at(n, done), in = strcmp(folder, ".") ? name_of(folder) : NOTHING, x = NOTHING;
    bool always = true, never = true, replaced = false;
    for (int q = since; q <= begun; q++) {
        x = worlds[q].at[n];
        replaced = replaced || x != worlds[since].at[n];
        always = always && x != NOTHING;
        never = never && x == NOTHING;
        /* One that was itself renamed or removed is judged by its own name. */
        if (in != NOTHING && (seen[in].type != 'd' || worlds[q].at[in] != worlds[since].at[in])) return;
    }
    bool promised = is_promised(since) && (promises.rename || !replaced);
    if (always && !seen[n].type && !is_lost[x]) found(NAME, promised, "%s is missing", names[n]);
    if (never && seen[n].type) found(NAME, is_promised(since), "%s is there again", names[n]);
}

/* The last call, up to `done`, that flushed a file or folder itself; NOTHING: none did. */
static int flushed_itself_at(int x, int done) {
    for (int q = done; q > 0; q--) {
        bool folder = calls[q].persists == FOLDER && strcmp(calls[q].word[1], ".");
        if (calls[q].persists == FILE_ && calls[q].node == x) return q;
        if (folder && worlds[q].at[name_of(calls[q].word[1])] == x) return q;
    }
    return NOTHING;
}

/* What was flushed itself has the names that it had then. POSIX leaves that to a flush of the folder; Linux's file
 * systems do more, and Mohan et al. (OSDI 2018) expect it. */
static void judge_own_names(int x, int done, int begun) {
    int p = flushed_itself_at(x, done);
    bool named = p != NOTHING && !is_lost[x], is_file = worlds[begun].node[x].type == 'f';
    for (int q = p; q <= begun && named; q++) named = has_name(x, q);
    for (int n = 0; n < n_names && named; n++) {
        bool always = true;
        for (int q = p; q <= begun; q++) always = always && worlds[q].at[n] == x;
        if (always && !seen[n].type) return found(UNNAMED, false, "%s is missing", names[n]);
    }
    for (int n = 0; n < n_names && named && is_file && !is_somewhere[x]; n++)
        if (worlds[p].at[n] == x) return found(UNNAMED, false, "%s is nowhere", names[n]);
}

/* No file shows what it never had, whether it was flushed or not. */
static void judge_leak(int n, int begun) {
    for (int i = 0; i < SECTORS && i * SECTOR < seen[n].bytes; i++) {
        const struct seen *s = &seen[n];
        bool written = s->tag[i] && s->tag[i] < LEFT, own = !s->tag[i];
        own = own || (written && s->node[i] >= 0 && may_have(n, s->node[i], 0, begun));
        if (!own) return found(LEAK, false, "%s has %s in sector %d", names[n], words_of(s, i, NOTHING), i);
    }
}

static void judge(int done, int begun) {
    for (int x = 0; x < n_nodes; x++) judge_node(x, done, begun);
    for (int x = 0; x < n_nodes; x++) judge_own_names(x, done, begun);
    for (int n = 0; n < n_names; n++) {
        judge_name(n, done, begun);
        if (seen[n].type == 'f') judge_leak(n, begun);
        if (seen[n].type == 'e') found(UNREADABLE, false, "%s: %s", names[n], words_for(seen[n].error));
    }
    if (*odd) found(CONTRADICTS, false, "%s", odd);
}
#endif
