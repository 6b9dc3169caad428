#pragma once
#include <stdbool.h>

// The rules by which instructions become one kernel. Masks of them are of 1 << enum join.

enum join {
#define JOIN(id, name, is_executed, is_pass) JOIN_##id,
#include "plan/lower/joins.inc"
    JOIN_COUNT
};

const char *join_name(enum join join);
// Those that our engine runs, and those that the pass fusion switches.
unsigned joins_executed(void);
// Whether a mask is of our engine: it has no chains, which other software joins.
bool joins_are_executed(unsigned joins);
unsigned joins_of_pass(void);
