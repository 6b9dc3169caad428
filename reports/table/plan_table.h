#pragma once
#include "planner/search.h"
#include "simulator/evaluate.h"

// What `plan` prints for people: the ranked table, what was rejected and why, how sure the answer
// is.

// "tp8 sp pp4 dp4 z1 mb2 v2 full": only what differs from 1, off and none is named, and of what
// runs beside compute only what differs from the stack's.
const char *parallel_text(struct arena *arena, const struct parallel *parallel,
                          const struct stack *stack);
// "16 x 8 a100-sxm4-80g"
const char *cluster_text(struct arena *arena, const struct cluster *cluster);
// What the cluster's devices are called, one of them: "GPU", "NPU", "CPU rank".
const char *cluster_device_noun(const struct cluster *cluster);
// The term that costs the loser most over the winner, and in `*share_ratio` how much, as a share of
// the winner's step; NULL where there is none.
const char *lost_to(const struct cost *loser, const struct cost *winner, double *share_ratio);
// The same in a column: "bubble 6.1%"; "-" where there is none.
const char *lost_to_text(struct arena *arena, const struct cost *loser, const struct cost *winner);

// Tables and sentences of a search that found something. `best` is the evaluation of the first.
char *plan_table_text(struct arena *arena, const struct search_request *request,
                      const struct search_result *result, const struct evaluation *best);
// Why nothing fits, which limit failed by how much, and the smallest changes that would fit.
char *plan_nothing_text(struct arena *arena, const struct search_request *request,
                        const struct search_result *result);
