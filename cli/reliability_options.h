#pragma once
#include "cli/options.h"
#include "topologies/cluster.h"

// What the command line says of failures and checkpoints; it overrides the cluster file.

struct reliability_arguments {
    double checkpoint_interval_s, checkpoint_bytes_per_s, restart_s, repair_s;  // < 0: not given
    int spare_nodes;                                                            // < 0: not given
    bool async_checkpoints;
};

enum { RELIABILITY_OPTION_COUNT = 7 };

struct reliability_arguments reliability_arguments_default(void);
// The rows of the table, without the end row. Returns how many were written.
int reliability_options(struct reliability_arguments *arguments,
                        struct option options[RELIABILITY_OPTION_COUNT]);
void reliability_apply(const struct reliability_arguments *arguments, struct failures *failures);
