#pragma once
#include "planner/branches.h"
#include "planner/meshes.h"
#include "planner/search.h"

// Plans whose replicas and stages are as unlike as the devices that they lie on: faster replicas
// take more micro-batches, faster stages more layers; so do, of like devices, stages on faster
// links. The closed form of the search knows one device, and the slowest links; here plans are
// played by the events, each rank at the pace of its own. For each way to share the ranks out
// between replicas and stages the best plan of the search (of like devices its best plans), with
// the axes in either order and smaller micro-batches too, is split by the speed of the stages, and
// the best few of these are then changed a micro-batch and a layer at a time as long as that helps.
// Proven of the answer is a bound on all plans (planner/bound.h, bound_work_s). Every stage has the
// same mesh, but where others are asked for
// (planner/meshes.h).

struct uneven_alone {  // the nodes of one kind by themselves
    const struct cluster *cluster;
    bool is_found;  // a plan fits
    double step_s;
    struct parallel parallel;
};

struct uneven_answer {
    bool is_asked;  // false: all nodes are alike and nothing was pinned: the search's own answer
    bool has_even;  // an even split of all ranks fits
    double even_s;
    struct parallel even;
    struct uneven_alone *alone;  // [device kind]; more than one
    int alone_count;
    int played_count;
    struct meshes_answer meshes;
    struct branches_answer branches;
};

// As search_plans, where pins may hold micro-batches of each replica. Lives in `arena`.
MUST_CHECK bool uneven_search(struct arena *arena, const struct search_request *request,
                              struct search_result *result, struct uneven_answer *answer,
                              struct err *err);
