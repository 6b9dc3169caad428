#pragma once
#include <stdatomic.h>
#include <stdbool.h>

// Ctrl-C while something long runs. The first SIGINT sets a flag, which the work polls and ends
// with what it has; the second ends the process at once, as every SIGINT does outside. A SIGINT
// that is ignored (nohup, a job in the background of a script) stays ignored.

// The exit status of an answer that was cut short: what a shell reports of a process that SIGINT
// ended, so that scripts see both alike.
enum { INTERRUPT_STATUS = 130 };

// From here on SIGINT sets the flag, which is false at first. Not nested.
const atomic_bool *interrupt_catch(void);
// From here on SIGINT ends the process again; the flag keeps what it says.
void interrupt_release(void);
// Whether a SIGINT came since interrupt_catch.
bool interrupt_seen(void);
