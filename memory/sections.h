#pragma once
#include "core/arena.h"
#include "memory/pack/pack.h"

// Time cut into sections at the instants where a lifetime starts or ends: as many as matter,
// whatever the unit of time is. A buffer lives in whole sections.

struct pack_sections {
    int count;         // of sections, at least 1
    int *first, *end;  // buffer b lives in sections first[b] .. end[b] - 1; first = end: never
    int64_t *load;     // size alive in each section
    int64_t load_most;
};
struct pack_sections *pack_sections_make(struct arena *arena, const struct pack_problem *problem);

// For each buffer that lives the section with the most size alive, the earliest of equals.
int *pack_sections_fullest(struct arena *arena, const struct pack_sections *sections, int count);
