#pragma once
#include "core/json_write.h"
#include "cost_models/input.h"

// What is said of a step's sequences before there is a run: what reading and handing on take.
// Texts live in `arena`.

// The line under a table that was asked for.
const char *input_text(struct arena *arena, const struct input_price *price);
// NULL, or the line that says that ranks wait for their data.
const char *input_warning(struct arena *arena, const struct input_price *price);
void input_write(struct json_writer *writer, const struct input_price *price);
