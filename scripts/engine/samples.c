#define _GNU_SOURCE
#include "samples.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

void sample_put(const struct sample *s) {
    static FILE *out;
    if (!out) {
        const char *path = getenv("REPROFS_SAMPLES");
        if (!path || !(out = fopen(path, "ae"))) return;
        setvbuf(out, NULL, _IOLBF, 1024); /* a line is written whole, also beside other clients */
    }
    fprintf(out, "{\"name\":\"%s\",\"start_ns\":%llu,\"wall_ns\":%llu,\"items\":%llu,\"bytes\":%llu", s->name,
        (unsigned long long)s->start_ns, (unsigned long long)s->wall_ns, (unsigned long long)s->items,
        (unsigned long long)s->bytes);
    const char *self = getenv("REPROFS_CLIENT"); /* whose command this program is; its own tasks are beneath that */
    const struct {
        const char *key;
        int64_t value;
    } more[] = {{"iteration", s->iteration}, {"client", self ? atoll(self) : s->client}, {"file_bytes", s->file_bytes},
        {"record_bytes", s->record_bytes}, {"extents", s->extents}, {"blocks", s->blocks},
        {"contiguous", s->contiguous}};
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (more[i].value != NONE) fprintf(out, ",\"%s\":%lld", more[i].key, (long long)more[i].value);
    fputs("}\n", out);
}
