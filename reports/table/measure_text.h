#pragma once
#include "core/json_write.h"
#include "validation/measure_next.h"

// The table that `measure-next` prints, and the object of its --json.
char *measure_text(struct arena *arena, const struct measure_next *next);
char *measure_json_text(struct arena *arena, const struct measure_next *next);
