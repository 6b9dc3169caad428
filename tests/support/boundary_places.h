#pragma once
#include "plan/boundary.h"
#include "plan/program.h"

// What crosses between two stages, element by element against places that are worked out here from
// the numbers of ranks alone: every part of a receiver's box comes once, from a rank that has it,
// and is what that one sends. Of sequences of so many tokens.
enum { BOUNDARY_SEQ = 4096 };
void boundary_places_check(struct arena *arena, const struct program *program,
                           const struct boundary_message *message);
