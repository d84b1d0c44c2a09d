/* Phases: what is measured. */
#ifndef REPROFS_PHASE_H
#define REPROFS_PHASE_H

#include "step.h"

void step_phase(const struct step *s);

#endif
