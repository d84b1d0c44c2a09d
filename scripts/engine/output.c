#define _GNU_SOURCE
#include "output.h"

#include <stdio.h>
#include <string.h>

void json_text(const char *s, size_t n) {
    putchar('"');
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)s[i];
        if (c == '"' || c == '\\') printf("\\%c", c);
        else if (c == '\n') fputs("\\n", stdout);
        else if (c < 0x20) printf("\\u%04x", c);
        else putchar(c < 0x7f ? c : '?');
    }
    putchar('"');
}
void json_key(const char *key, const char *s) {
    printf(",\"%s\":", key);
    json_text(s, strlen(s));
}
void json_number(const char *key, uint64_t v) { printf(",\"%s\":%llu", key, (unsigned long long)v); }
void json_bool(const char *key, bool v) { printf(",\"%s\":%s", key, v ? "true" : "false"); }

void json_argv(const struct step *s) {
    const char *comma = "";
    printf(",\"argv\":[");
    for (int i = 0; i < s->fields; i++) {
        if (strcmp(s->key[i], "arg")) continue;
        printf("%s", comma);
        json_text(s->value[i], strlen(s->value[i]));
        comma = ",";
    }
    putchar(']');
}
