#pragma once
#include "memory/milp.h"
#include "memory/order/order.h"
#include "memory/pack/pack.h"

// What the searches find, asked again by integer programs that share no code with them.

// Of the options start and cutoff are not used; the results' `values` are those of the program.

// Precedence model: p[u,v] = 1 where u runs before v, triangles, and for every buffer and operator
// whether it is alive then. Exact; for problems of up to 30 operators (50 with patience, above 100
// the answer is MILP_UNKNOWN). The optimum is in `objective` (bytes, counted from the order), the
// order in `order` (may be NULL; filled where `values` are not NULL). Orders above `upper_bytes`
// are left out (0 = none are): MILP_INFEASIBLE where that leaves none.
// `bound`: bytes. Where all sizes are multiples of a millionth of `upper_bytes` it is the optimum,
// else it may be 1e-6 below: agreement is bound <= peak <= objective.
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
