#pragma once
#include "planner/tables/place.h"

// The plan of a recommendation model: a file that simulate, memory, report and run take as they
// take a decoder's plan, and that holds all they need. Schema table-plan.

struct table_plan {
    struct place_request request;  // model, cluster, stack, workload
    struct table_placement *placement;
    struct table_prediction prediction;  // priced again
};

// Whether a file holds such a plan; false where there is none, and with a set `err` where the
// machine fails to read it.
bool table_plan_is(const char *path, struct err *err);
// NULL and a set `err` if it is wrong; lives as long as `arena`.
MUST_CHECK struct table_plan *table_plan_load(struct arena *arena, const char *path,
                                              struct err *err);
char *table_plan_document(struct arena *arena, const struct place_request *request,
                          const struct place_result *result);
// The object {"prediction": {...}} and its member.
void table_prediction_write(struct json_writer *writer, const struct place_request *request,
                            const struct table_prediction *prediction);
void table_memory_write(struct json_writer *writer, const struct table_prediction *prediction);
