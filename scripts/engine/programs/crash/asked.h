/* What states (crash/visit.h) are asked for: the options, and the sequences of calls. */
#ifndef REPROFS_CRASH_ASKED_H
#define REPROFS_CRASH_ASKED_H

#include "calls.h"
#include "judge.h"
#include "measure.h"
#include "mounts.h"
#include "program.h"
#include "subsets.h"
#include "world.h"

#include <limits.h>

static struct {
    const char *before, *sequences, *image;
#ifdef MAINTAINED
    const char *maintenance;
#endif
    uint64_t again, check_every, at, again_at, room;
} p = {.before = "", .check_every = 16, .at = NOT_GIVEN, .again_at = NOT_GIVEN};
static enum { NOT_FULL, FULL_OF_BYTES, FULL_OF_INODES } full;

static int read_words(const char *name, char *text, const char *const *words, bool *to) {
    for (char *word; (word = strsep(&text, ","));) {
        size_t i = 0;
        while (words[i] && strcmp(words[i], word)) i++;
        if (!words[i]) return cannot_be(name, word, "see workflow/schemas");
        to[i] = true;
    }
    return 0;
}
static int read_subsets(const char *name, char *text) { return read_words(name, text, subset_words, chosen); }
static int read_full(const char *name, char *text) {
    full = !strcmp(text, "bytes") ? FULL_OF_BYTES : !strcmp(text, "inodes") ? FULL_OF_INODES : NOT_FULL;
    return full ? 0 : cannot_be(name, text, "bytes or inodes");
}
static int read_promises(const char *name, char *text) {
    static const char *const words[] = {"none", "fsync", "folder", "sync", "rename", NULL};
    bool given[5] = {false};
    int said = read_words(name, text, words, given);
    promises.fsync = given[1];
    promises.folder = given[2];
    promises.sync = given[3];
    promises.rename = given[4];
    return said;
}

static const struct option options[] = {
    WORD("--before", p.before, "calls that make what is there before, separated by ;"),
    WORD("--sequences", p.sequences, "sequences of calls, separated by | or lines; calls by ;"),
    TEXT("--subsets", read_subsets, "none,all and any of without,alone,torn-4k,torn-512 of what was not flushed"),
    NUMBER("--again", p.again, 0, UINT32_MAX, "a second cut while every N-th state recovers; 0: none"),
    NUMBER("--check-every", p.check_every, 1, UINT32_MAX, "the checker looks at every N-th state"),
    NUMBER("--at", p.at, 0, UINT32_MAX, "only that state of the only sequence, told at length"),
    NUMBER("--again-at", p.again_at, 0, UINT32_MAX, "with --at: that state after a second cut, in its recovery"),
    WORD("--save", p.image, "with --at: file for what is on the disk, pages with their numbers"),
#ifdef MAINTAINED
    WORD("--maintenance", p.maintenance, "what calls `maintain NAME` run: lines NAME=COMMANDS"),
#endif
    TEXT("--full", read_full, "there is no room: of bytes or inodes"),
    NUMBER("--room", p.room, 0, UINT32_MAX, "with --full bytes: but for so many bytes"),
    TEXT("--promises", read_promises, "what the file system promises: none, or fsync,folder,sync,rename"),
    WORD("--mountpoint", m.mountpoint, "where the file system is mounted"),
    WORD("--type", m.type, "of a mount without commands"),
    WORD("--options", m.options, "of that mount"),
    WORD("--mount", m.mount, "commands, in place of type and options"),
    WORD("--unmount", m.unmount, "commands; without --mount, of the first unmount"),
    WORD("--recover", m.recover, "commands before a mount after a cut"),
    WORD("--checker", m.checker, "commands that check the unmounted file system and change nothing"),
};

#ifdef MAINTAINED
/* The commands of a call `maintain NAME`: of a line NAME=COMMANDS of --maintenance. NULL: it is another call. */
static const char *maintenance(const char *text) {
    static char script[PATH_MAX];
    char name[LETTERS];
    if (sscanf(text, "maintain %40s", name) != 1) return NULL;
    strcat(name, "=");
    for (const char *line = p.maintenance; line; line = strchr(line, '\n') ? strchr(line, '\n') + 1 : NULL)
        if (!strncmp(line, name, strlen(name))) {
            snprintf(script, sizeof script, "%.*s", (int)strcspn(line, "\n"), line);
            return script + strlen(name);
        }
    exit(wrong(
        "the file system has no maintenance %.*s: see the key maintenance in its file", (int)strlen(name) - 1, name));
}
#define MAINTAIN(text) maintenance(text) ? (shell(maintenance(text)) ? ECANCELED : 0):
/* The model knows as little of it as of dropped caches. */
#define AS_CALL(text) (strncmp(text, "maintain ", 9) ? text : "drop")
#else
#define MAINTAIN(text)
#define AS_CALL(text) text
#endif

static int try_call(const char *text) {
    struct call c;
    return read_call(AS_CALL(text), &c);
}

/* The next of the sequences, of at least one call; NULL: that was the last one. */
static char *next_sequence(char **rest) {
    char *one;
    while ((one = strsep(rest, "|\n")) && !one[strspn(one, " ;")]) {}
    return one ? one + strspn(one, " ") : NULL;
}

static int prepare(void) {
    if (!p.sequences) return wrong("--sequences is missing");
    if (p.at == NOT_GIVEN && (p.image || p.again_at != NOT_GIVEN)) return wrong("--save and --again-at go with --at");
    int said = for_calls(p.before, try_call);
    char *copy = strdup(p.sequences), *rest = copy, *one;
    while (!said && (one = next_sequence(&rest))) said = for_calls(one, try_call);
    free(copy);
    return said;
}
static int check(void) { return needs((uint64_t)NAMES * SECTORS * SECTOR, NAMES); }
#endif
