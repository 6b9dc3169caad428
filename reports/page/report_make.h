#pragma once
#include "reports/page/report.h"

// What a report is made from, asked of the rooms below: the plan and its alternatives evaluated
// again, what would change their order, what slow ranks and links cost, other numbers of GPUs.

struct report_options {
    int64_t gpus_least, gpus_most;  // of the scaling curve; 0: from an eighth of the plan's GPUs to
                                    // eight times as many
    bool no_scaling;
    // While other numbers of GPUs are searched, which is what takes long; NULL: not told.
    void (*progress)(void *context, int done, int count);
    void *progress_context;
};

// Fills the report but for plan, request, plan_path, version and planner, which are the caller's.
// `plan_schedule` of the plan must already be read by whoever wants it applied. Lives in `arena`.
// False with ERR_USAGE or ERR_INPUT where the file is no plan.
MUST_CHECK bool report_make(struct arena *arena, struct arena *scratch,
                            const struct report_options *options, struct report *report,
                            struct err *err);

// Reads the run of the plan of a report that is made, and what its ranks did. False with ERR_INPUT
// where it is no run of this plan.
MUST_CHECK bool report_measured(struct arena *arena, struct arena *scratch, const char *path,
                                struct report *report, struct err *err);

// What slow ranks, degraded links and jitter cost the plan of a report that is made. False with
// ERR_USAGE for ranks and nodes that the plan does not have. Keeps the pointer.
MUST_CHECK bool report_inject(struct arena *arena, struct arena *scratch,
                              const struct injection *injection, struct report *report,
                              struct err *err);
