#pragma once
#include "plan/choice.h"
#include "planner/search.h"

// Pins: what of the choices of a plan (plan/choice.h) is fixed or forbidden.

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
// Whether tensor, pipeline and data degrees and the micro-batch are all one value: a run that is
// described, or a layout that somebody has chosen.
bool pins_describe_run(const struct pins *pins);
// Whether such pins decide the stages of this search: even ones, or those of the stack, where
// they are not pinned.
bool search_describes_stages(const struct search_request *request);
// Whether no split of the layers over stages is searched: pins say or describe it, or the stack
// decides it by itself.
bool search_fixes_stages(const struct search_request *request);
// Whether such pins decide its attention: where that is not pinned, a described run in fp16 has
// what the stack says of those (struct stack, fp16_attention). The first of them that is allowed
// goes to `attention`.
bool search_describes_attention(const struct search_request *request, enum attention *attention);
// Every choice of the record; with `broken`, the first that the pins do not leave.
bool pins_allow_all(const struct pins *pins, const struct parallel *parallel, enum choice *broken);
// Unknown keys among the forbidden values are ERR_USAGE.
MUST_CHECK bool pins_check(const struct pins *pins, struct err *err);
