#pragma once
#include "cli/plan_options.h"
#include "reports/whatif/scaling.h"

// What the parts of `whatif` share: cli/whatif*.c.

struct whatif_arguments {
    struct plan_arguments plan;  // its model, workload, pins and search
    struct text_list clusters;
    const char *lists[SWEEP_AXIS_COUNT];  // as written; NULL: not given
    int64_t batch_per_gpu;
    const char *offers;
    const char *deadline;
    double budget;
    bool min_gpus, largest_model, tensor_kinds, releases;
    bool scaling;
    const char *calibrate, *measured;
    int workers, top;
    const char *folder;
    bool json, csv;
};

struct whatif_job {
    const struct whatif_arguments *arguments;
    struct scenario_request request;
    struct sweep sweep;
    struct whatif_question question;
    struct whatif_words words;
    bool refines;  // sizes between those of a range are asked as well
};

enum { WHATIF_OPTION_COUNT = PLAN_OPTION_COUNT + 40 };

// The rows of the table, without the end row.
int whatif_options(struct whatif_arguments *arguments, struct option options[WHATIF_OPTION_COUNT]);

// Every option has its say or is refused (cli/whatif_modes.c): ERR_USAGE where one has none in what
// is asked. Before anything is loaded.
MUST_CHECK bool whatif_modes_check(const struct whatif_arguments *arguments, int argc, char **argv,
                                   struct err *err);

// Loads what the arguments name. Notes about what was not given go to stderr.
MUST_CHECK bool whatif_job_make(struct arena *arena, const struct whatif_arguments *arguments,
                                int argc, char **argv, struct whatif_job *job, struct err *err);

// --scaling, or what only a curve has.
bool whatif_is_scaling(const struct whatif_arguments *arguments);
// The stack of the job, one for all these clusters; see plan_stack.
MUST_CHECK bool whatif_stack(struct arena *arena, struct whatif_job *job,
                             const struct cluster *const *clusters, int cluster_count,
                             struct err *err);

// The table of `--scaling` with what was measured, and what it is calibrated by.
struct whatif_scaling {
    bool is_asked;
    struct scaling_points measured;
    struct scaling_point calibrated;  // gpus 0: not
};
MUST_CHECK bool whatif_scaling_read(struct arena *arena, const struct whatif_arguments *arguments,
                                    struct whatif_scaling *scaling, struct err *err);

// A warning on stderr where this batch, which was asked for, is past what the optimizer is known to
// bear; nothing where it is not.
void whatif_batch_note(struct arena *arena, const struct whatif_job *job, int64_t batch);

// Files of -o: the page, tables and plots. `scaling` may be NULL.
// The page alone, on standard output.
void whatif_print_page(struct arena *arena, const struct whatif *whatif,
                       const struct scaling *scaling, const struct whatif_words *words);
MUST_CHECK bool whatif_write(struct arena *arena, const char *folder, const struct whatif *whatif,
                             const struct scaling *scaling, const struct whatif_words *words,
                             struct err *err);

// The questions of sizes: what a model alone needs (no CLUSTER), --min-gpus, --largest-model. Each
// prints its answer and returns the exit status.
int whatif_needs(struct arena *arena, struct whatif_job *job, struct err *err);
int whatif_least(struct arena *arena, const struct whatif_job *job, struct err *err);
// --tensor-kinds (cli/whatif_kinds.c).
int whatif_kinds(struct arena *arena, const struct whatif_job *job, struct err *err);
// --releases (cli/whatif_releases.c).
int whatif_releases(struct arena *arena, const struct whatif_job *job, struct err *err);
int whatif_largest(struct arena *arena, const struct whatif_job *job, struct err *err);
