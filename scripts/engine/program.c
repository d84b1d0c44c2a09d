/* The main of every program, and its sentences. */
#define _GNU_SOURCE
#include "program.h"
#include "measure.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char **program_words;
uint64_t program_began;

static int say(int code, const char *format, va_list a) {
    fprintf(stderr, "engine: %s: ", program.name);
    vfprintf(stderr, format, a);
    fputc('\n', stderr);
    return code;
}
int wrong(const char *format, ...) {
    va_list a;
    va_start(a, format);
    int code = say(2, format, a);
    va_end(a);
    return code;
}
int broken(const char *format, ...) {
    va_list a;
    va_start(a, format);
    int code = say(1, format, a);
    va_end(a);
    return code;
}
const char *reason(int error) {
    return error == ENOSPC || error == EDQUOT ? "no space left on the device" : strerror(error);
}
int needs(uint64_t bytes, uint64_t names) {
    printf("{\"bytes\":%llu,\"names\":%llu}\n", (unsigned long long)bytes, (unsigned long long)names);
    return 0;
}

int main(int argc, char **argv) {
    const char *began = getenv("REPROFS_BEGAN");
    enum asked asked;
    program_began = began ? strtoull(began, NULL, 10) : now_ns();
    program_words = argv;
    int code = options_read(argc, argv, &asked);
    if (!code && asked == HELP) return options_tell();
    if (!code && program.prepare) code = program.prepare();
    if (code) return code;
    return asked == CHECK ? program.check() : program.run();
}
