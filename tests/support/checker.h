#pragma once
#include <stdbool.h>
#include <stddef.h>

// An independent judge of plan.json: it shares no code with plan/, cost_models/ or planner/, reads
// the text with plain cJSON and recomputes what must hold of every emitted plan:
//   - gpus = dp*tp*cp*pp, at most those of the cluster; the order is a permutation of the axes
//   - heads divide over tp (Ulysses: tp*cp), the sequence over cp (sp: and tp), the batch over
//     dp*micro_batch into whole micro-batches, experts over ep, their width over etp, and
//     dp*cp*tp over ep*etp; a shard group is whole cp's and divides dp
//   - schedule, ZeRO stage, recompute, attention, context kind, passes and overlaps are among
//     those of the stack; chunks are as many as the schedule runs and lie where it puts them
//   - stages sum to the layers of the config, none is empty, chunks have a layer each
//   - memory is the sum of its parts and that of the worst stage; memory.fits is true exactly when
//     reserved_bytes <= the device's memory, and reserved_bytes is no less than a recount of weight
//     and optimizer bytes from the Hugging Face config
//   - the parts of the breakdown sum to step_s, mfu is between 0 and 1
//   - the step lies in its band, which has a source; a band is called validated only with 20 runs
//     of the device and the stack, and time and money have the same band
// Promise R2: no plan ever breaks one of these.

struct checker_result {
    int violation_count;
    char text[512];  // the first violation; empty when there is none
};

// `json` is the text of a plan. A text that is no JSON is one violation.
struct checker_result checker_check(const char *json);

// The least bytes that any rank of a plan must keep: parameters of the config (embedding, attention
// and feed-forward matrices, experts, head if not tied; norms and biases, and all that latent
// attention has, left out) over tp or ep*etp, and pp, times weight and optimizer bytes over what
// ZeRO shards them. For a plan's "model.config" text.
double checker_least_bytes(const char *json);

// The order of tasks on every stage: each once, F before B before W (W right behind B where the
// schedule fuses them), no more micro-batches held than the schedule promises (1F1B and zb-h1
// p - stage between F and B, zb-h1 p and zb-h2 2p - 1 (2p if searched) between F and W, zb-v 2p of
// half the size, zb-auto its cap), and no stage waiting for ever. Chunk c of stage s is virtual
// stage c*p + s, in a V every other time from the end.
struct checker_slot {
    int kind, chunk, micro_batch;  // kind: 0 F, 1 B, 2 W
};
struct checker_order {
    const char *schedule;  // as the plan names it
    int stages, chunks, micro_batches;
    int in_flight;  // zb-auto: its cap; 0: as many as stages; zb-h2: 0 or 2p
    const struct checker_slot *const *slots;  // by stage: 3 * chunks * micro_batches
};
struct checker_result checker_schedule(const struct checker_order *order);
