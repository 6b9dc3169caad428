#pragma once
#include "planner/search.h"
#include "tests/support/draw.h"

// A search that both its pruned and its exhaustive form finish quickly: a small dense model or a
// mixture on a few GPUs of a shipped cluster, each with so little memory that it often decides.
// Lives in `arena`.
struct search_request random_search(struct arena *arena, struct draw *draw);
