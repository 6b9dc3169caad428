#pragma once
#include "planner/search.h"
#include "validation/rows.h"

// What `plan` would be asked about a row. Config and cluster are texts that the ordinary readers
// read; the pins are what the command line would pin.

// A Hugging Face config.json of the row's model: the family of models that its attention, its
// feed-forward and its experts belong to.
const char *question_config(struct arena *arena, const struct row *row);
// One group of like nodes. A row whose network is not stated gets one NIC of 25e9 bytes/s a GPU.
const char *question_cluster(struct arena *arena, const struct row *row);
struct workload question_workload(const struct row *row);

// Coarse: the degrees, schedule, sharding, attention and kind of recompute that the row states.
// Stated: also which communication overlaps, which classes of operators are recomputed and how many
// ranks a shard group spans, as far as the row says so and the stack can do it; the rest is as the
// stack does by default.
enum question_detail { QUESTION_STATED, QUESTION_COARSE };
struct pins question_pins(const struct row *row, const struct stack *stack,
                          enum question_detail detail);
