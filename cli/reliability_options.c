#include "cli/reliability_options.h"

#include <string.h>

struct reliability_arguments reliability_arguments_default(void)
{
    return (struct reliability_arguments){-1, -1, -1, -1, -1, false};
}

int reliability_options(struct reliability_arguments *a,
                        struct option options[RELIABILITY_OPTION_COUNT])
{
    const struct option rows[RELIABILITY_OPTION_COUNT] = {
        {"Reliability", OPTION_GROUP, NULL, "of the run; the cluster file may say the same", NULL,
         0, 0},
        {"--checkpoint-interval", OPTION_F64, &a->checkpoint_interval_s,
         "seconds of work between two checkpoints (default: the best)", "S", 0, 1e9},
        {"--checkpoint-bandwidth", OPTION_F64, &a->checkpoint_bytes_per_s,
         "bytes a second of the storage that all ranks share (default: 625 MB/s a host)", "B", 0,
         1e18},
        {"--async-checkpoints", OPTION_FLAG, &a->async_checkpoints,
         "training stands only while they are copied to the hosts", NULL, 0, 0},
        {"--restart-s", OPTION_F64, &a->restart_s,
         "seconds to detect a failure and start again (default 600)", "S", 0, 1e9},
        {"--spares", OPTION_INT, &a->spare_nodes, "nodes that wait to replace failed ones", "N", 0,
         SPARE_NODES_MAX},
        {"--repair-s", OPTION_F64, &a->repair_s,
         "seconds until a failed node is back (default 0: another is there at once)", "S", 0, 1e9},
    };
    memcpy(options, rows, sizeof rows);
    return RELIABILITY_OPTION_COUNT;
}

void reliability_apply(const struct reliability_arguments *arguments, struct failures *failures)
{
    if (arguments->checkpoint_interval_s >= 0)
        failures->checkpoint_interval_s = arguments->checkpoint_interval_s;
    if (arguments->checkpoint_bytes_per_s >= 0)
        failures->checkpoint_bytes_per_s = arguments->checkpoint_bytes_per_s;
    if (arguments->restart_s >= 0) failures->restart_s = arguments->restart_s;
    if (arguments->repair_s >= 0) failures->repair_s = arguments->repair_s;
    if (arguments->spare_nodes >= 0) failures->spare_nodes = arguments->spare_nodes;
    if (arguments->async_checkpoints) failures->async_checkpoints = true;
}
