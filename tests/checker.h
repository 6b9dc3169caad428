#pragma once
#include <stdbool.h>
#include <stddef.h>

// An independent judge of plan.json: it shares no code with plan/, cost_models/ or planner/, reads
// the text with plain cJSON and recomputes what must hold of every emitted plan:
//   - gpus = dp*tp*cp*pp, at most those of the cluster; the order is a permutation of the axes
//   - heads divide over tp, the batch over dp*micro_batch into whole micro-batches
//   - stages sum to the layers of the config, none is empty, chunks have a layer each
//   - memory.fits is true exactly when reserved_bytes <= the device's memory, and reserved_bytes is
//     no less than a recount of weight and optimizer bytes from the Hugging Face config
//   - the parts of the breakdown sum to step_s, mfu is between 0 and 1, low <= step <= high
// Promise R2: no plan ever breaks one of these.

struct checker_result {
    int violation_count;
    char text[512];  // the first violation; empty when there is none
};

// `json` is the text of a plan. A text that is no JSON is one violation.
struct checker_result checker_check(const char *json);

// The least bytes that any rank of a plan must keep: parameters of the config (embedding, attention
// and feed-forward matrices, head if not tied; norms and biases left out) over tp*pp, times
// weight and optimizer bytes over what ZeRO shards them. For a plan's "model.config" text.
double checker_least_bytes(const char *json);
