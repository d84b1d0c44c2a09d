/* Reading a program's arguments by its table. */
#define _GNU_SOURCE
#include "options.h"
#include "program.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_place(const struct option *o) { return *o->name != '-'; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool parse_number(const char *text, uint64_t *value) {
    char *end;
    if (!is_digit(*text)) return false; /* no sign, no space */
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    static const char units[] = "KMGT";
    const char *unit = *end ? strchr(units, *end) : NULL;
    if (unit) end++;
    unsigned shift = unit ? 10 * (unsigned)(unit - units + 1) : 0;
    if (*end || errno || (shift && v >> (64 - shift))) return false;
    *value = (uint64_t)v << shift;
    return true;
}

static bool parse_decimal(const char *text, double *value) {
    char *end;
    *value = strtod(text, &end);
    return is_digit(*text) && !*end;
}

static bool parse_sizes(char *text, struct sizes *list) {
    list->n = 0;
    for (char *part; (part = strsep(&text, ","));) {
        if (list->n == SIZES_MOST || !parse_number(part, &list->at[list->n]) || !list->at[list->n]) return false;
        list->n++;
    }
    return true;
}

/* ---- sentences --------------------------------------------------------------------------------------------------- */
int cannot_be(const char *name, const char *text, const char *instead) {
    return wrong("%s cannot be %s%s", name, text, instead);
}

static void add(char *text, size_t room, const char *word, const char *between) {
    size_t n = strlen(text);
    snprintf(text + n, room - n, "%s%s", n ? between : "", word);
}

static int unknown(const char *given) {
    char names[1024] = "";
    for (size_t i = 0; i < program.count; i++)
        if (!is_place(&program.options[i])) add(names, sizeof names, program.options[i].name, ", ");
    return wrong("unknown option %s; known are %s, --check, --help", given, names);
}

static int bad_choice(const struct option *o, const char *text) {
    char known[512] = "";
    for (const char *const *word = o->words; *word; word++) add(known, sizeof known, *word, ", ");
    return wrong("%s cannot be %s; known are %s", o->name, text, known);
}

static bool may_be_left_out(const struct option *o) { return o->kind == WORD_ && *o->word; }

static void put_usage(char *text, size_t room) {
    snprintf(text, room, "%s [options]", program.name);
    for (size_t i = 0; i < program.count; i++) {
        const struct option *o = &program.options[i];
        char name[64];
        snprintf(name, sizeof name, may_be_left_out(o) ? "[%s]" : "%s", o->name);
        if (is_place(o)) add(text, room, name, " ");
    }
}

/* ---- reading ----------------------------------------------------------------------------------------------------- */
static int read_number(const struct option *o, const char *text) {
    bool any = !o->least && o->most == UINT64_MAX;
    uint64_t v;
    char range[96];
    if (parse_number(text, &v) && v >= o->least && v <= o->most) return *o->number = v, 0;
    if (any) return wrong("%s needs a number such as 512, 4K or 16M, not '%s'", o->name, text);
    snprintf(range, sizeof range, ": give a whole number from %llu to %llu", (unsigned long long)o->least,
        (unsigned long long)o->most);
    return cannot_be(o->name, text, range);
}

static int read_decimal(const struct option *o, const char *text) {
    double v;
    char range[96];
    if (parse_decimal(text, &v) && v >= (double)o->least && v <= (double)o->most) return *o->decimal = v, 0;
    snprintf(range, sizeof range, ": give a number from %llu to %llu", (unsigned long long)o->least,
        (unsigned long long)o->most);
    return cannot_be(o->name, text, range);
}

static int read_choice(const struct option *o, const char *text) {
    for (unsigned i = 0; o->words[i]; i++)
        if (!strcmp(text, o->words[i])) return *o->choice = i, 0;
    return bad_choice(o, text);
}

static int read_sizes(const struct option *o, const char *text) {
    char *copy = strdup(text);
    bool fits = copy && parse_sizes(copy, o->sizes);
    free(copy);
    if (fits) return 0;
    return wrong("%s needs sizes above zero such as 4K,16K,1M, at most %d, not '%s'", o->name, SIZES_MOST, text);
}

static int read_value(const struct option *o, char *text) {
    if (!*text) return wrong("%s needs a value", o->name);
    switch (o->kind) {
        case FLAG_: return 0; /* has none */
        case NUMBER_: return read_number(o, text);
        case DECIMAL_: return read_decimal(o, text);
        case WORD_: return *o->word = text, 0;
        case CHOICE_: return read_choice(o, text);
        case SIZES_: return read_sizes(o, text);
        case TEXT_: return o->read(o->name, text);
    }
    return 0;
}

static const struct option *named(const char *word) {
    for (size_t i = 0; i < program.count; i++)
        if (!is_place(&program.options[i]) && !strcmp(word, program.options[i].name)) return &program.options[i];
    return NULL;
}
static const struct option *place(size_t number) {
    for (size_t i = 0; i < program.count; i++)
        if (is_place(&program.options[i]) && !number--) return &program.options[i];
    return NULL;
}

int options_read(int argc, char **argv, enum asked *asked) {
    char usage[256];
    size_t places = 0;
    int code = 0;
    put_usage(usage, sizeof usage); /* before defaults are overwritten */
    *asked = RUN;
    for (int i = 1; i < argc && !code; i++) {
        const struct option *o = named(argv[i]);
        if (o && o->kind == FLAG_) *o->flag = true;
        else if (o && i + 1 == argc) return wrong("%s needs a value", o->name);
        else if (o) code = read_value(o, argv[++i]);
        else if (!strcmp(argv[i], "--check")) *asked = CHECK;
        else if (!strcmp(argv[i], "--help")) return *asked = HELP, 0;
        else if (*argv[i] == '-' && !is_digit(argv[i][1])) return unknown(argv[i]);
        else if (!(o = place(places++))) return wrong("%s is one argument too many", argv[i]);
        else code = read_value(o, argv[i]);
    }
    const struct option *missing = place(places);
    if (code || !missing || may_be_left_out(missing)) return code;
    return wrong("the %s is missing; usage: %s", missing->name, usage);
}

/* ---- --help ------------------------------------------------------------------------------------------------------ */
static void put_value(const struct option *o, char *text, size_t room) {
    static const char *const kinds[] = {"", " N", " X", " WORD", " WORD", " SIZES", " TEXT"};
    snprintf(text, room, "%s%s", o->name, is_place(o) ? "" : kinds[o->kind]);
}

/* What a value can be, and what it is without the option. */
static void put_limits(const struct option *o, char *text, size_t room) {
    char part[96];
    *text = 0;
    if (o->kind == CHOICE_)
        for (const char *const *word = o->words; *word; word++) add(text, room, *word, ", ");
    if ((o->kind == NUMBER_ || o->kind == DECIMAL_) && (o->least || o->most != UINT64_MAX)) {
        snprintf(part, sizeof part, "%llu to %llu", (unsigned long long)o->least, (unsigned long long)o->most);
        add(text, room, part, ", ");
    }
    *part = 0;
    if (o->kind == NUMBER_ && *o->number && *o->number != NOT_GIVEN)
        snprintf(part, sizeof part, "default %llu", (unsigned long long)*o->number);
    if (o->kind == DECIMAL_) snprintf(part, sizeof part, "default %g", *o->decimal);
    if (may_be_left_out(o) && **o->word) snprintf(part, sizeof part, "default %.80s", *o->word);
    if (*part) add(text, room, part, ", ");
}

static void print_row(const char *name, const char *meaning, const char *limits) {
    printf("  %-20s %s", name, meaning);
    printf(*limits ? " (%s)\n" : "\n", limits);
}

int options_tell(void) {
    char text[512];
    put_usage(text, sizeof text);
    printf("%s\n\nusage: engine %s\n\n", program.about, text);
    for (size_t i = 0; i < program.count; i++) {
        const struct option *o = &program.options[i];
        char name[64];
        put_value(o, name, sizeof name);
        put_limits(o, text, sizeof text);
        print_row(name, o->meaning, text);
    }
    print_row("--check", "say how many bytes and names that makes, and do nothing", "");
    print_row("--help", "this text", "");
    return fflush(stdout) ? 1 : 0;
}
