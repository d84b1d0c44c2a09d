/* What the runner says: JSON on standard output. */
#ifndef REPROFS_OUTPUT_H
#define REPROFS_OUTPUT_H

#include <stddef.h>
#include <stdint.h>

#include "step.h"

void json_text(const char *s, size_t n);           /* a string; bytes that are not ASCII become '?' */
void json_key(const char *key, const char *s);     /* ,"key":"…" */
void json_number(const char *key, uint64_t v);     /* ,"key":… */
void json_bool(const char *key, bool v);           /* ,"key":… */
void json_argv(const struct step *s);              /* ,"argv":[…], the values of arg */

#endif
