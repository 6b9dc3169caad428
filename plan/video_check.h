#pragma once
#include "models/graph.h"
#include "plan/parallel.h"

// What a plan for a model of videos may hold: two sequence dims, frames and places, of which
// context parallelism splits places, or both in turn (axial). Of other models axial is refused.

// A video is as long as its config says.
MUST_CHECK bool video_check_seq_len(const struct graph *graph, const struct workload *workload,
                                    struct err *err);
// Whether ranks get even parts; true of what is no video.
bool video_cp_divides(const struct graph *graph, enum cp_kind kind, int64_t cp);
// Whether these choices can be had together with --cp.
bool video_has_choices(const struct graph *graph, const struct parallel *parallel);
MUST_CHECK bool video_check_choices(const struct graph *graph, const struct parallel *parallel,
                                    struct err *err);
// The error where ranks get no even parts; false.
bool video_refuse_cp(const struct graph *graph, const struct parallel *parallel,
                     const char *nearest, struct err *err);
