/* The trees of a job: one, or one for each client. */
#ifndef REPROFS_TREES_H
#define REPROFS_TREES_H

#include "step.h"
#include "tree.h"

enum { CLIENTS = 256 };
extern struct tree trees[CLIENTS];
unsigned trees_count(void); /* of clients; one unless the job says otherwise */

void step_tree(const struct step *s);
void step_verify(const struct step *s);

#endif
