#pragma once
#include "planner/space_list.h"

// What `plan --space` prints: the values of every choice that the search goes through, and what it
// leaves out. In the arena.
char *space_text(struct arena *arena, const struct search_request *request,
                 const struct space_list *list);
