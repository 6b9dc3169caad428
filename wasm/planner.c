#include "reports/page/replan.h"

#include <stdlib.h>

// What a page calls, beside the module's memory: an answer takes its memory from an instance of its
// own, which is thrown away with it, so that nothing is freed here.
#ifdef __wasm__
#define EXPORTED(name) __attribute__((export_name(name)))
#else
#define EXPORTED(name)
#endif

EXPORTED("text_new") char *text_new(size_t bytes);
EXPORTED("planner_answer")
const struct replan_answer *planner_answer(const char *base, const char *change);

// Room for a text and its NUL.
char *text_new(size_t bytes)
{
    return memory_get(bytes + 1);
}

// Four words of the memory: the status and where plan, reason and words stand, 0 where there are
// none.
const struct replan_answer *planner_answer(const char *base, const char *change)
{
    struct arena *arena = memory_get(sizeof *arena);
    *arena = (struct arena){0};
    struct replan_answer *answer = ARENA_NEW(arena, struct replan_answer, 1);
    *answer = replan(arena, base, change);
    return answer;
}
