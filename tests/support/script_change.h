#pragma once
#include "plan/script/script.h"

// Scripts with a task less or more. Waits name the tasks that they did, whatever their numbers are
// now; those for a task that is gone go with it.
void script_change_drop(struct script *script, int task);
// A copy of `task`, without its waits.
void script_change_insert(struct arena *arena, struct script *script, int at,
                          struct script_task task);
