#pragma once
#include "models/graph.h"
#include "plan/parallel.h"

// Stages with meshes of their own (struct parallel, stage_tp): which can be. Each stage has as many
// ranks, shared out between tp and dp; tp of one divides that of another, so that all are made of
// the same finer axes and what crosses is cut in even pieces (plan/boundary.h).
//
// Layouts of operators (plan/layout/rules.h) hold in all stages for what they have of tp, and are
// checked in each. Refused are tied parameters that would lie in two layouts, unlike replicas,
// spatial and axial splits, and where axes cannot be cut for all stages at once (mesh_folds).
// ERR_USAGE, with what would do.
//
// Or stages have unlike numbers of ranks (stage_ranks) and meshes that are made by themselves: the
// ranks of each are tp times cp times a dp that divides the sequences of a round. What cannot be
// told of two such meshes yet is refused by name.
//
// Numbers come first: what they have to be for there to be meshes at all.
MUST_CHECK bool stage_meshes_check_numbers(const struct parallel *parallel, struct err *err);
MUST_CHECK bool stage_meshes_check(const struct graph *graph, const struct workload *workload,
                                   const struct parallel *parallel, struct err *err);
// Stages with as many ranks each and as much tp, none of which has a layout of its own, are one
// mesh: the plan as that, whatever it is written as. Any other as it is.
struct parallel stage_meshes_plain(const struct parallel *parallel);
// Last: whether the mesh of each stage could be that of all.
MUST_CHECK bool stage_meshes_check_each(const struct graph *graph, const struct cluster *cluster,
                                        const struct workload *workload,
                                        const struct parallel *parallel, struct err *err);
