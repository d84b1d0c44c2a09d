/* The arguments of a program: one table says what it takes, which is read, checked and told by --help. */
#ifndef REPROFS_OPTIONS_H
#define REPROFS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One row: -n or --name, or (without a dash) an argument in its place; where its value goes, which has the default
 * before; from which to which number it goes; what it means. */
struct option {
    const char *name;
    enum { FLAG_, NUMBER_, DECIMAL_, WORD_, CHOICE_, SIZES_, TEXT_ } kind;
    union {
        bool *flag;
        uint64_t *number;
        double *decimal;
        const char **word;
        unsigned *choice;
        struct sizes *sizes;
        int (*read)(const char *name, char *text);
    };
    uint64_t least, most;
    const char *const *words;
    const char *meaning;
};
#define FLAG(n, to, m) {.name = n, .kind = FLAG_, .flag = &(to), .meaning = m}
/* 12, 4K, 16M, 1G (1024 each) */
#define NUMBER(n, to, from, until, m) \
    {.name = n, .kind = NUMBER_, .number = &(to), .least = from, .most = until, .meaning = m}
#define DECIMAL(n, to, from, until, m) \
    {.name = n, .kind = DECIMAL_, .decimal = &(to), .least = from, .most = until, .meaning = m}
/* A place may be left out when its word has a default. */
#define WORD(n, to, m) {.name = n, .kind = WORD_, .word = &(to), .meaning = m}
/* Which of the words, a list that NULL ends. */
#define CHOICE(n, to, list, m) {.name = n, .kind = CHOICE_, .choice = &(to), .words = list, .meaning = m}
/* Numbers above zero with commas between them. */
#define SIZES(n, to, m) {.name = n, .kind = SIZES_, .sizes = &(to), .meaning = m}
/* What a function of the program reads; it returns 0, or what `wrong` returned. */
#define TEXT(n, function, m) {.name = n, .kind = TEXT_, .read = function, .meaning = m}
#define OPTIONS(table) .options = table, .count = sizeof table / sizeof *table

enum { SIZES_MOST = 64 };
struct sizes {
    unsigned n;
    uint64_t at[SIZES_MOST];
};
#define NOT_GIVEN UINT64_MAX /* as a default: a number that has none */

enum asked { RUN, CHECK, HELP };
int options_read(int argc, char **argv, enum asked *asked); /* returns 0, or what `wrong` returned */
int options_tell(void);
int cannot_be(const char *name, const char *text, const char *instead); /* says so, returns what `wrong` does */
bool parse_number(const char *text, uint64_t *value);

#endif
