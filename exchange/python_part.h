#pragma once
#include "core/err.h"

#include <stdbool.h>

// A Python file of recipes, of which one is wanted: functions that say options, and those that
// they call.

// The text without the functions that the recipe `name` does not come by, as many lines as before,
// so that places stay right. NULL for `*name`: the only recipe of the file, whose name it becomes.
// Blocks under "if NAME:" where NAME is an argument of the function that is False unless given go
// as well. NULL and ERR_INPUT, with the names of all, where there are several or none of that name.
// Whether the text has words of recipes.
bool python_has_recipes(const char *text);
const char *python_part(struct arena *arena, const char *path, const char *text, const char **name,
                        struct err *err);
