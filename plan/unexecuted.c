#include "plan/unexecuted.h"
#include "models/op_image.h"
#include "plan/passes.h"

#include <stdio.h>
#include <string.h>

static bool takes_norms(enum optimizer optimizer)
{
    return optimizer == OPTIMIZER_LAMB || optimizer == OPTIMIZER_LARS;
}

static bool moves_layer_norms(const struct workload *workload, const struct parallel *parallel)
{
    return takes_norms(workload->optimizer) && parallel->offload.optimizer != TIER_DEVICE;
}

static bool moves_shards(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return offload_moves_gradients(&parallel->offload) && parallel->zero >= 2;
}

static bool overlaps(const struct parallel *parallel, enum axis axis, unsigned overlap)
{
    return parallel->degree[axis] > 1 && passes_overlap(parallel) & overlap;
}

static bool overlaps_tensor(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return overlaps(parallel, AXIS_TP, OVERLAP_TP) && parallel->tp_relay < 2;
}

static bool overlaps_experts(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return overlaps(parallel, AXIS_EP, OVERLAP_EP) || overlaps(parallel, AXIS_ETP, OVERLAP_EP);
}

static bool trains_adapters(const struct workload *workload, const struct parallel *parallel)
{
    (void)workload;
    return parallel->lora.rank > 0;
}

static const struct unexecuted ROWS[] = {
    {"--lora", "no back end keeps weights that are not trained", trains_adapters, false},
    {"--offload optimizer with --optimizer lamb or lars",
     "the norms of parameters and steps are taken where the device has them", moves_layer_norms,
     true},
    {"--zero 2 or 3 with --offload gradients", "shards of gradients stay where they are added up",
     moves_shards, true},
    {"--overlap tp with --tp above 1",
     "what tensor parallel ranks exchange is waited for where it stands, but for what is handed "
     "on in parts (--tp-relay)",
     overlaps_tensor, true},
    {"--overlap ep with --ep or --etp above 1",
     "what ranks exchange of experts is waited for where it stands", overlaps_experts, true},
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

// Of a plug-in's operators those that CPUs alone have kernels for.
static bool is_of_cpus(const struct op *op)
{
    bool is_pooled = op->rate > 0 || op->kind == OP_SINKHORN ||
                     op->function == FUNCTION_ROPE_BACK || op->function == FUNCTION_ROUTE_ROOT;
    return is_pooled || imported_is_of_cpus(&op->work);
}

// Operators of the file that no back end has a kernel for, by name: all of them where they are few.
static bool check_kernels(const struct graph *graph, struct err *err)
{
    enum { NAMED_MOST = 12 };
    char names[1024] = "";
    int count = 0, length = 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            bool is_imported = op->kind == OP_PRODUCT || op->kind == OP_OPERATOR;
            if (!is_imported || op->work.type || count++ >= NAMED_MOST) continue;
            int room = (int)sizeof names - length;
            int wrote =
                snprintf(names + length, (size_t)room, "%s%s", length ? ", " : "", op->name);
            length += wrote < room ? wrote : room - 1;
        }
    }
    if (count == 0) return true;
    if (count > NAMED_MOST)
        snprintf(names + length, sizeof names - (size_t)length, " and %d more", count - NAMED_MOST);
    return err_set(err, ERR_USAGE,
                   "%s is not executed, because no back end has a kernel for its operator%s %s",
                   graph->name, count > 1 ? "s" : "", names);
}

bool unexecuted_check_graph(const struct graph *graph, const char *device, struct err *err)
{
    bool is_elsewhere = device && strcmp(device, "cpu") != 0;
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (is_elsewhere && is_of_cpus(op))
                return err_set(err, ERR_USAGE,
                               "%s is not executed on a %s, because CPUs alone have a kernel for "
                               "its operator %s",
                               graph->name, device, op->name);
        }
    }
    return check_kernels(graph, err);
}

bool unexecuted_check_positions(const struct graph *graph, int64_t seq_len, struct err *err)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int o = 0; o < block->op_count; o++) {
            const struct op *op = &block->ops[o];
            if (op->kind != OP_GATHER) continue;
            const struct tensor *ids = &block->tensors[op->inputs[0]];
            const struct extent *rows = &block->tensors[op->inputs[1]].extents[0];
            bool counts = rows->dim == DIM_POSITION && ids->rank == 1 &&
                          ids->extents[0].dim == DIM_SEQ && ids->extents[0].size == 0;
            if (!counts || seq_len <= rows->size) continue;
            return err_set(err, ERR_USAGE,
                           "sequences of %lld tokens are not executed, because %s has a table of "
                           "%lld positions",
                           (long long)seq_len, graph->name, (long long)rows->size);
        }
    }
    return true;
}
