/* A sample is one timed part of a program's work. Samples go to the file that $REPROFS_SAMPLES names, one JSON object a
 * line. */
#ifndef REPROFS_SAMPLES_H
#define REPROFS_SAMPLES_H

#include <stdint.h>

enum { NONE = -1 };
struct sample {
    const char *name; /* what was timed, in words of the workload: "create", "file-stat" */
    uint64_t start_ns, wall_ns, items, bytes;
    int64_t iteration, client, file_bytes, record_bytes; /* NONE when it has none */
    int64_t extents, blocks, contiguous; /* of a layout: programs/age.c has what they mean */
};
#pragma clang diagnostic ignored "-Winitializer-overrides" /* defaults first, then what the caller names */
#define SAMPLE(...) \
    (&(struct sample){.iteration = NONE, \
        .client = NONE, \
        .file_bytes = NONE, \
        .record_bytes = NONE, \
        .extents = NONE, \
        .blocks = NONE, \
        .contiguous = NONE, \
        __VA_ARGS__})
void sample_put(const struct sample *s);

#endif
