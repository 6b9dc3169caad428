#pragma once
#include "planner/search.h"

// What a search left out through which a plan could be faster, and by how much at most:
// " Left out, at most 2.1 % faster: other bucket sizes. Left out, not bounded: offload." Empty
// where nothing was. In the arena.
const char *cuts_text(struct arena *arena, const struct search_result *result);
