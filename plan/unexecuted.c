#include "plan/unexecuted.h"

static bool takes_norms(enum optimizer optimizer)
{
    return optimizer == OPTIMIZER_LAMB || optimizer == OPTIMIZER_LARS;
}

static bool moves_layer_norms(const struct workload *workload, const struct offload *offload)
{
    return takes_norms(workload->optimizer) && offload->optimizer != TIER_DEVICE;
}

static const struct unexecuted ROWS[] = {
    {"--offload optimizer with --optimizer lamb or lars",
     "the norms of parameters and steps are taken where the device has them", moves_layer_norms},
};

const struct unexecuted *unexecuted_rows(int *count)
{
    *count = sizeof ROWS / sizeof *ROWS;
    return ROWS;
}

const struct unexecuted *unexecuted_of(const struct workload *workload,
                                       const struct offload *offload)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (ROWS[i].holds(workload, offload)) return &ROWS[i];
    }
    return NULL;
}

const char *unexecuted_text(struct arena *arena, const struct unexecuted *row)
{
    return arena_print(arena, "%s is not executed, because %s", row->what, row->why);
}

bool unexecuted_check(const struct workload *workload, const struct offload *offload,
                      struct err *err)
{
    const struct unexecuted *row = unexecuted_of(workload, offload);
    if (!row) return true;
    return err_set(err, ERR_USAGE, "%s is not executed, because %s", row->what, row->why);
}
