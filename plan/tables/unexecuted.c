#include "plan/tables/unexecuted.h"

const char *table_unexecuted(const struct table_placement *placement,
                             const struct table_workload *workload)
{
    if (workload->precision != PRECISION_FP32)
        return "recommendation models run on CPU ranks, which exchange fp32 alone (--precision "
               "fp32)";
    for (int i = 0; i < placement->piece_count; i++) {
        if (placement->pieces[i].tier != TIER_DEVICE)
            return "tables on the host or on NVMe are not executed (--tables-on device)";
    }
    return NULL;
}
