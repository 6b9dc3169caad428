#pragma once
#include "planner/search.h"
#include "tests/support/draw.h"

// What searches do, in whole numbers: the plans that their spaces hold, how many of them were
// priced, played and left out, the bounds that they end with, and the best plans. A bound that
// holds less, or a move that is tried no longer, costs time or a certificate more often than the
// answer, which other tests look at. The numbers stand in RECORD; UPDATE=1 writes them anew, for
// who changed the space or a bound and has read what became of them.

// What is asked beside the question itself.
enum way {
    WAY_TIME,
    WAY_MEMORY,
    WAY_OFFLOAD,
    WAY_GRADIENTS,
    WAY_PARAMETERS,
    WAY_MEMORY_OFFLOAD,
    WAY_PER_OPERATOR,
    WAY_STAGE_TP,
    WAY_STAGE_RANKS,
    WAY_RANKS_PINNED,
    WAY_BRANCHES,
    WAY_ALL,
    WAY_COUNT
};

void recorded_way(struct search_request *request, enum way way, int seed);
const char *recorded_name(enum way way);
// A line of what became of a search, which begins with its name.
const char *recorded_line(struct arena *arena, const char *name,
                          const struct search_request *request);
// The lines of the record that begin so are these.
void recorded_check(struct arena *arena, const char *begins, const char *lines);

// Drawn questions, in ways that follow each other; a list of seeds ends with 0.
struct recorded_draws {
    enum way way;
    int seeds[24];
};
void recorded_check_draws(struct arena *arena, const struct recorded_draws *draws, int count);
