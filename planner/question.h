#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"

// A plan of a search, to be evaluated; without bands.
static inline struct evaluation_request search_question(const struct search_request *request,
                                                        const struct parallel *parallel)
{
    return (struct evaluation_request){
        .model = request->model,
        .cluster = request->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = request->workload,
        .parallel = *parallel,
    };
}
