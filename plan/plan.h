#pragma once
#include "core/json_write.h"
#include "models/import.h"
#include "plan/parallel.h"

// plan.json: self-contained, can be simulated, executed, reported and exported with nothing else.
// Keys: version, model {name, counts of parameters, config}, cluster, stack, workload, parallel,
// stages, memory, prediction, alternatives, provenance; schema in plan/plan.schema.json. Reading is
// strict, but takes only what identifies the plan (version .. parallel): stages, memory,
// prediction, alternatives and provenance are results and are computed again, but for
// memory.schedule, which whoever knows the program reads.

enum { PLAN_VERSION = 1 };

struct plan {
    const struct model_config *model;
    struct json document;  // the whole object
    struct json config;    // the Hugging Face object that `model` was read from
    const struct cluster *cluster;
    struct json stack;   // the embedded stack object; value NULL when the plan was built in memory
    struct json memory;  // the object, for the schedule in it (memory/plan_schedule.h)
    struct workload workload;
    struct parallel parallel;
};

// Reads a plan file. NULL and a set `err` if it is wrong; the plan lives as long as `arena`.
MUST_CHECK struct plan *plan_load(struct arena *arena, const char *path, struct err *err);
// The same from an object inside another document; both must live as long as the plan.
MUST_CHECK struct plan *plan_read(struct arena *arena, const struct json *object, struct err *err);

void workload_write(struct json_writer *writer, const char *key, const struct workload *workload);
void parallel_write(struct json_writer *writer, const char *key, const struct parallel *parallel);
MUST_CHECK bool workload_read(const struct json *object, struct workload *workload,
                              struct err *err);
// A list of whole numbers from 0 on; NULL where the object has none of that name.
const int *plan_numbers(struct arena *arena, const struct json *object, const char *key, int *count,
                        struct err *err);
MUST_CHECK bool parallel_read(struct arena *arena, const struct json *object,
                              struct parallel *parallel, struct err *err);
