/* The oracle and the states of `engine states` without a file system: lines on standard input say what is seen, or what
 * the log has.
 *
 * promises WORDS | before CALLS | sequence CALLS | as N (seen is what world N has) | gone NAME | error NAME
 * shows NAME BYTES TAG[@NAME]xSECTORS,...: a file; TAG a call, old (before), left (what the disk had) or 0
 * now: prints the names that are not as in the last world, before any cut
 * failed: the last call of the sequence has failed
 * judge DONE BEGUN: prints what is found, `!` after what breaks a promise
 * log w:SECTOR:SECTORS[:fua] f ...; subsets WORDS; states: prints of each its first and last place, how, and its picks
 */
#define _GNU_SOURCE
#include "programs/crash/judge.h"
#include "programs/crash/subsets.h"

static char told[4096];
int wrong(const char *format, ...) {
    (void)format;
    return 2;
}
int broken(const char *format, ...) {
    (void)format;
    return 1;
}
const char *reason(int error) { return strerror(error); }

static void found(enum finding kind, bool is_broken, const char *format, ...) {
    char word[32];
    (void)format;
    snprintf(word, sizeof word, "%s%s ", finding_words[kind], is_broken ? "!" : "");
    if (!strstr(told, word)) strcat(told, word);
}

static int before(const char *text) {
    struct call c;
    if (read_call(text, &c)) exit(3);
    apply(&c, &worlds[0], BEFORE);
    return 0;
}
static int add(const char *text) { return next_call(text) ? exit(4), 1 : 0; }

static void as_in(int q) {
    *odd = 0;
    memset(seen, 0, sizeof seen);
    for (int n = 0; n < n_names; n++) {
        int x = worlds[q].at[n];
        if (x == NOTHING) continue;
        const struct node *node = &worlds[q].node[x];
        seen[n].type = node->type;
        seen[n].bytes = node->bytes;
        seen[n].attribute = node->attribute;
        strcpy(seen[n].target, node->target);
        for (int i = 0; i < SECTORS; i++) {
            seen[n].tag[i] = node->tag[i];
            seen[n].node[i] = (int16_t)(node->tag[i] ? x : NOTHING);
        }
    }
}

static int node_named(const char *name) {
    int x = NOTHING;
    for (int q = 0; q <= n_calls; q++)
        if (worlds[q].at[name_of(name)] != NOTHING) x = worlds[q].at[name_of(name)];
    return x;
}

static void shows(const char *name, long bytes, char *content) {
    struct seen *s = &seen[name_of(name)];
    int i = 0;
    memset(s, 0, sizeof *s);
    s->type = 'f';
    s->bytes = bytes;
    for (char *part; (part = strsep(&content, ","));) {
        char *count = strrchr(part, 'x'), *owner = strchr(part, '@');
        *count++ = 0;
        if (owner) *owner++ = 0;
        int tag = !strcmp(part, "old") ? BEFORE : !strcmp(part, "left") ? LEFT : atoi(part);
        for (int k = atoi(count); k-- > 0; i++) {
            s->tag[i] = (uint16_t)tag;
            s->node[i] = (int16_t)(tag && tag != LEFT ? node_named(owner ? owner : name) : NOTHING);
        }
    }
}

static void read_events(char *text) {
    for (char *word; (word = strsep(&text, " "));) {
        events = realloc(events, (n_events + 1) * sizeof *events);
        events[n_events] = (struct event){.kind = *word};
        if (*word == 'w') {
            char fua[8] = "";
            unsigned long long sector;
            sscanf(word, "w:%llu:%u:%7s", &sector, &events[n_events].sectors, fua);
            events[n_events].number = sector;
            events[n_events].fua = *fua;
        }
        n_events++;
    }
}

static void tell_states(uint32_t most) {
    open_subsets();
    enumerate(0, 0, most);
    for (uint32_t i = 0; i < n_states; i++) {
        split(states[i].first);
        pick(states[i].first, states[i].how, states[i].which);
        printf("%u-%u %s", states[i].first, states[i].last, subset_words[states[i].how]);
        for (uint32_t k = 0; k < n_picks; k++) printf(" %u:%u", picks[k].event, picks[k].sectors);
        printf("\n");
    }
}

static void obey(char *line) {
    char *verb = strsep(&line, " "), *word;
    if (!strcmp(verb, "promises"))
        promises.fsync = strstr(line, "fsync"), promises.folder = strstr(line, "folder"),
        promises.sync = strstr(line, "sync,"), promises.rename = strstr(line, "rename");
    if (!strcmp(verb, "before")) for_calls(line, before);
    if (!strcmp(verb, "sequence")) for_calls(line, add);
    if (!strcmp(verb, "failed")) call_failed();
    if (!strcmp(verb, "as")) as_in(atoi(line));
    if (!strcmp(verb, "gone")) seen[name_of(line)].type = 0;
    if (!strcmp(verb, "error")) seen[name_of(line)].type = 'e', seen[name_of(line)].error = EIO;
    if (!strcmp(verb, "shows")) {
        char *name = strsep(&line, " ");
        word = strsep(&line, " ");
        shows(name, atol(word), line);
    }
    if (!strcmp(verb, "judge")) {
        word = strsep(&line, " ");
        *told = 0;
        judge(atoi(word), atoi(line));
        printf("%s\n", told);
    }
    if (!strcmp(verb, "now")) {
        *told = 0;
        for (int n = 0; n < n_names; n++) {
            const char *why = unlike(n, worlds[n_calls].at[n], n_calls);
            if (why) snprintf(told + strlen(told), 100, "%s %s, ", names[n], why);
        }
        printf("%s\n", told);
    }
    if (!strcmp(verb, "log")) read_events(line);
    if (!strcmp(verb, "subsets"))
        while ((word = strsep(&line, ",")))
            for (int i = 0; i < SUBSETS; i++) chosen[i] = chosen[i] || !strcmp(word, subset_words[i]);
    if (!strcmp(verb, "states")) tell_states(line ? (uint32_t)atoi(line) : UINT32_MAX);
}

int main(void) {
    char line[4096];
    for (int n = 0; n < NAMES; n++) worlds[0].at[n] = NOTHING;
    while (fgets(line, sizeof line, stdin)) {
        line[strcspn(line, "\n")] = 0;
        obey(line);
    }
    return 0;
}
