#pragma once
#include "planner/search.h"

// A plan asked again with a few numbers changed: the question behind the sliders of a report's
// page. It needs no file: everything is in the two texts. The answer's plan is what `plan --json`
// prints for the same question, byte for byte, whether the binary or the page's module (wasm/)
// gives it.
//
// The base is a JSON object that holds at least
//   "plan"     what `plan` wrote (plan/plan.schema.json): model, cluster, stack, workload, parallel
//   "fabrics"  cost_models/fabrics.json
//   "bands"    cost_models/bands.json
// and may hold other keys. The change is an object of which every key is optional; what is absent
// stays as the plan has it:
//   "gpus"            whole nodes first; past what the cluster has, more of its nodes, where they
//                     are of one kind
//   "seq_len", "global_batch", "tokens"    of the workload
//   "network_ratio", "intra_ratio"         on the bandwidth of NICs, of the fabric inside a node
//   "memory_ratio", "flop_ratio"           on the devices' memory, on their peak rates
//   "price_per_gpu_hour", "currency"       the latter where the cluster has none
//   "pins"            {"tp": 8, "zero": "1..3", "recompute": "full"}: as on the command line
//   "precision"       "fp8": of the matrix products
//   "stack", "cluster"                     whole objects, as a plan holds them; the cluster is cut
//                                          or extended to the GPUs of "gpus", else of the plan
//   "keep"            true: every choice of the plan is pinned but dp, which follows from "gpus"
// Nothing else is pinned: the other choices are searched again, by time. What a plan moves off its
// devices is a choice that the search makes only when it is asked to, so that it stays as it is.

struct replan_answer {
    int status;          // as the exit of `plan`: 0, 1 nothing fits, 2 impossible, 3 a wrong text
    const char *plan;    // the whole plan.json; NULL past 1, and at 1 unless everything is pinned
    const char *reason;  // one line; NULL at 0
    const char
        *words;  // the plan beside the base's (reports/page/replan_words.h); NULL without one
};

// All in `arena`.
struct replan_answer replan(struct arena *arena, const char *base, const char *change);

// What is asked: the plan's model, cluster and workload as the change has them.
MUST_CHECK bool replan_request(struct arena *arena, const struct json *base,
                               const struct json *change, struct search_request *request,
                               struct err *err);

// The pins among the members of an object, "pins"; it need not have any.
MUST_CHECK bool replan_pins(struct arena *arena, const struct json *change, struct pins *pins,
                            struct err *err);
