#pragma once
#include "core/json_write.h"
#include "memory/placement/placement_plan.h"

// What `memory PLAN --policies` prints: what each policy moves in a step and what of it is waited
// for, with the states updated on the device and on the host.

struct placement_place {
    bool fits;
    int64_t least_bytes;  // that some moment needs alone
    struct placed_plan plan;
    struct placement_solution solution;
};

struct placement_report {
    const char *name;
    int stage, stage_count;
    int micro_batch_count;  // of the plan's step; the placed one may have fewer
    int64_t device_bytes;
    // Updates on the device, on the host; there, behind a norm, in the faster of two orders.
    struct placement_place places[2];
};
enum { PLACEMENT_DEVICE_UPDATES, PLACEMENT_HOST_UPDATES };

// Of the planned placements the faster; NULL where neither fits.
const struct placed_result *placement_report_best(const struct placement_report *report);
char *placement_table_text(struct arena *arena, const struct placement_report *report);
void placement_report_write(struct json_writer *writer, const struct placement_report *report);
