/* The small steps of a job. */
#ifndef REPROFS_STEPS_H
#define REPROFS_STEPS_H

#include "step.h"

void step_write(const struct step *s);
void step_mkdir(const struct step *s);
void step_seed(const struct step *s);
void step_processor(const struct step *s);
void step_pause(const struct step *s);
void step_clock(const struct step *s);
void step_offset(const struct step *s);
void step_rest(const struct step *s);
void step_drop(const struct step *s);
void step_evict(const struct step *s);
void step_pin(const struct step *s);
void step_mounted(const struct step *s);
void write_text(const char *path, const char *text); /* into a file that is there */

#endif
