/* A job is text: one step a line, `verb<TAB>key=value<TAB>key=value...`; \t \n \\ stand for tab, line feed, backslash.
 * The first step that fails ends the work; the steps after the line `teardown` run in any case. */
#ifndef REPROFS_JOB_H
#define REPROFS_JOB_H

int job_run(const char *path); /* runs the job in a file; returns the exit code */

#endif
