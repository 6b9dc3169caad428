#pragma once
#include "planner/search.h"

// The choices of a plan as one table: every row names a member of struct parallel, the pin that
// fixes it, and how its values are written. Pins, forbidden values, `--why KEY=VALUE`, the legal
// values in an error and the order that breaks ties all walk this table, so a new choice is a row.

enum choice {
    CHOICE_TP,
    CHOICE_SP,
    CHOICE_CP,
    CHOICE_CP_KIND,
    CHOICE_PP,
    CHOICE_DP,
    CHOICE_EP,
    CHOICE_ETP,
    CHOICE_VPP,
    CHOICE_MICRO_BATCH,
    CHOICE_ZERO,
    CHOICE_ZERO_GROUP,
    CHOICE_RECOMPUTE,
    CHOICE_RECOMPUTE_LAYERS,
    CHOICE_OFFLOAD,
    CHOICE_SCHEDULE,
    CHOICE_IN_FLIGHT,
    CHOICE_ATTENTION,
    CHOICE_OVERLAP,
    CHOICE_BUCKET_BYTES,
    CHOICE_PASSES,
    CHOICE_COUNT
};

const char *choice_name(enum choice choice);  // "micro_batch", as in plan.json
// The same as an option of the command line: "--micro-batch".
const char *choice_option(struct arena *arena, enum choice choice);
// Takes the name with '_' or '-', also with leading "--". False with ERR_USAGE and the nearest
// name.
MUST_CHECK bool choice_from_name(const char *name, enum choice *choice, struct err *err);
int64_t choice_value(const struct parallel *parallel, enum choice choice);
// Recompute with its classes is one value.
int recompute_value(enum recompute recompute, unsigned classes);
enum recompute recompute_of_value(int value, unsigned *classes);
// A value as people write it ("full", "on", "8"), in the arena or static.
const char *choice_text(struct arena *arena, enum choice choice, int64_t value);
// The value of such a text. False with ERR_USAGE that names the choice.
MUST_CHECK bool choice_parse(enum choice choice, const char *text, int64_t *value, struct err *err);

// Nothing pinned. (A zeroed struct pins would pin sp, recompute, ... to their first value.)
struct pins pins_none(void);
struct int_range pins_get(const struct pins *pins, enum choice choice);
void pins_set(struct pins *pins, enum choice choice, int64_t low, int64_t high);
void pins_clear(struct pins *pins, enum choice choice);  // the pin and what is forbidden of it
// Whether the pins and the forbidden values leave this value.
bool pins_allow(const struct pins *pins, enum choice choice, int64_t value);
// Whether degree, schedule and micro-batch of the pipeline are all one value. Such pins describe a
// run rather than ask for one, and what they leave out is taken to be as software has it by itself.
// Supposed pins describe nothing.
bool pins_describe_pipeline(const struct pins *pins);
// Whether such pins decide the stages of this search: even ones, where they are not pinned;
bool search_describes_stages(const struct search_request *request);
// and its attention: where that is not pinned, a described run in fp16 has what the stack says of
// those (struct stack, fp16_attention). The first of them that is allowed goes to `attention`.
bool search_describes_attention(const struct search_request *request, enum attention *attention);
// Every choice of the record; with `broken`, the first that the pins do not leave.
bool pins_allow_all(const struct pins *pins, const struct parallel *parallel, enum choice *broken);
// Unknown keys among the forbidden values are ERR_USAGE.
MUST_CHECK bool pins_check(const struct pins *pins, struct err *err);
