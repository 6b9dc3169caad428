#include "plan/unexecuted.h"
#include "plan/passes.h"

static bool takes_norms(enum optimizer optimizer)
{
    return optimizer == OPTIMIZER_LAMB || optimizer == OPTIMIZER_LARS;
}

static bool moves_layer_norms(const struct workload *workload, const struct parallel *parallel)
{
    return takes_norms(workload->optimizer) && parallel->offload.optimizer != TIER_DEVICE;
}

static bool overlaps(const struct parallel *parallel, enum axis axis, unsigned overlap)
{
    return parallel->degree[axis] > 1 && passes_overlap(parallel) & overlap;
}

static bool overlaps_tensor(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return overlaps(parallel, AXIS_TP, OVERLAP_TP);
}

static bool overlaps_experts(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return overlaps(parallel, AXIS_EP, OVERLAP_EP) || overlaps(parallel, AXIS_ETP, OVERLAP_EP);
}

static bool splits_images(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return parallel->degree[AXIS_SP_H] > 1 || parallel->degree[AXIS_SP_W] > 1;
}

static bool trains_adapters(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return parallel->lora.rank > 0;
}

static const struct unexecuted ROWS[] = {
    {"--sp-h or --sp-w above 1", "no back end exchanges the halos of images", splits_images},
    {"--lora", "no back end keeps weights that are not trained", trains_adapters},
    {"--offload optimizer with --optimizer lamb or lars",
     "the norms of parameters and steps are taken where the device has them", moves_layer_norms},
    {"--overlap tp with --tp above 1",
     "what tensor parallel ranks exchange is waited for where it stands", overlaps_tensor},
    {"--overlap ep with --ep or --etp above 1",
     "what ranks exchange of experts is waited for where it stands", overlaps_experts},
};

const struct unexecuted *unexecuted_rows(int *count)
{
    *count = sizeof ROWS / sizeof *ROWS;
    return ROWS;
}

const struct unexecuted *unexecuted_of(const struct workload *workload,
                                       const struct parallel *parallel)
{
    for (size_t i = 0; i < sizeof ROWS / sizeof *ROWS; i++) {
        if (ROWS[i].holds(workload, parallel)) return &ROWS[i];
    }
    return NULL;
}

const char *unexecuted_text(struct arena *arena, const struct unexecuted *row)
{
    return arena_print(arena, "%s is not executed, because %s", row->what, row->why);
}

bool unexecuted_check(const struct workload *workload, const struct parallel *parallel,
                      struct err *err)
{
    const struct unexecuted *row = unexecuted_of(workload, parallel);
    if (!row) return true;
    return err_set(err, ERR_USAGE, "%s is not executed, because %s", row->what, row->why);
}

bool unexecuted_check_graph(const struct graph *graph, struct err *err)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            enum op_kind kind = block->ops[o].kind;
            if (kind != OP_PRODUCT && kind != OP_OPERATOR) continue;
            return err_set(err, ERR_USAGE,
                           "a model of imported operators (%s) is not executed, because no back "
                           "end has kernels for them",
                           graph->name);
        }
    }
    return true;
}
