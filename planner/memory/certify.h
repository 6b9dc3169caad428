#pragma once
#include "planner/memory/order.h"
#include "planner/memory/pack.h"
#include "planner/milp.h"

// What the searches find, asked again by integer programs that share no code with them.

// Precedence model: p[u,v] = 1 where u runs before v, triangles, and for every buffer and operator
// whether it is alive then. Exact; for problems of up to 30 operators (50 with patience). The
// optimum is in `objective` (bytes), the order in `order` (may be NULL).
struct milp_result certify_order(struct arena *arena, const struct memory_problem *problem,
                                 int64_t upper_bytes, const struct milp_options *options,
                                 int *order);

// Layout model: an offset a buffer, one binary for each pair that lives at once, big M. Exact; for
// up to 15 buffers.
struct milp_result certify_pack(struct arena *arena, const struct pack_problem *problem,
                                const struct milp_options *options, int64_t *offsets);

// The whole graph as one program, as MODeL does it (Steiner et al. 2023, arXiv 2210.12924: create
// and preserve variables a tensor and step, windows from ASAP to ALAP): what the division is
// compared with. Starts from program order; `order` is always filled with a feasible one.
struct milp_result global_order(struct arena *arena, const struct memory_problem *problem,
                                const struct milp_options *options, int *order);
