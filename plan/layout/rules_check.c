#include "plan/layout/rules.h"
#include "plan/layout/strategy.h"
#include "plan/stages.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// What the rules of a plan have to keep, asked of the strategies that follow from them.

struct question {
    const struct workload *workload;
    const struct parallel *parallel;
    struct mesh mesh;
    const struct block *block;
    struct strategy *strategies;  // by forward operator
    bool ties_alone;
    struct err *err;
};

static bool refuse(struct question *question, const struct op *op, const char *why)
{
    return err_set(question->err, ERR_USAGE, "--tp %d: %s.%s %s",
                   question->parallel->degree[AXIS_TP], question->block->name, op->name, why);
}

static int64_t size_of(const struct question *question, const struct op *op, enum dim dim)
{
    const struct block *block = question->block;
    int64_t batch = (int64_t)question->parallel->micro_batch * question->parallel->degree[AXIS_DP];
    for (int i = 0; i < op->input_count + op->output_count; i++) {
        int t = i < op->input_count ? op->inputs[i] : op->outputs[i - op->input_count];
        int at = tensor_find_dim(&block->tensors[t], dim);
        if (at >= 0)
            return extent_size(&block->tensors[t].extents[at], batch, question->workload->seq_len);
    }
    return 0;
}

// Of kv heads tp.0 takes as many parts as there are, and tp.1 none: that is even by itself.
static bool check_even(struct question *question, const struct op *op,
                       const struct layout_rule *rule)
{
    if (rule->dim == DIM_NONE || rule->dim == DIM_KV_HEAD) return true;
    const struct strategy *strategy = &question->strategies[op - question->block->ops];
    int64_t parts = 1, size = size_of(question, op, rule->dim);
    for (int a = 0; a < question->mesh.axis_count; a++)
        if (strategy->of[a] == rule->dim) parts *= question->mesh.axes[a].size;
    if (!strategy->used_up && size % parts == 0) return true;
    char why[160];
    snprintf(why, sizeof why, "has a %s of %lld, which %lld ranks cannot split evenly",
             dim_name(rule->dim), (long long)size,
             (long long)(strategy->used_up ? question->parallel->degree[AXIS_TP] : parts));
    return refuse(question, op, why);
}

// A partial sum is reduced before anybody else sees it.
static struct layout reduced(struct layout layout)
{
    for (int a = 0; a < MESH_AXIS_MAX; a++)
        if (layout.of[a] < 0) layout.of[a] = LAYOUT_WHOLE;
    return layout;
}

// Forward the tensor goes from its maker to its reader, backward its gradient the other way, by
// the sum of those of all readers.
static bool check_order(struct question *question, const struct op *op, int tensor,
                        const struct layout *made, const struct layout *read)
{
    const struct mesh *mesh = &question->mesh;
    const struct strategy *strategy = &question->strategies[op - question->block->ops];
    struct layout gradient = strategy_gradient(mesh, strategy, *read), back = reduced(*made);
    struct layout sum =
        strategy_boundary(mesh, question->parallel, &question->block->tensors[tensor]);
    if (layout_keeps_order(mesh, made, read) && layout_keeps_order(mesh, &gradient, &back) &&
        layout_keeps_order(mesh, &gradient, &sum) && layout_keeps_order(mesh, &sum, &back))
        return true;
    return refuse(question, op,
                  "would read what another axis splits inside of tp, so that no rank has "
                  "neighbouring parts of it");
}

static struct layout made_by(const struct question *question, int tensor)
{
    assert(question->block->tensors[tensor].producer >= 0 && "what a block makes itself");
    const struct block *block = question->block;
    const struct op *maker = &block->ops[block->tensors[tensor].producer];
    int output = 0;
    while (maker->outputs[output] != tensor)
        output++;
    return strategy_output(&question->mesh, &question->strategies[maker - block->ops], block, maker,
                           output);
}

// A loss over parts of the vocabulary reads its logits again behind each of its exchanges: a slice
// of whole ones would be gone by then.
static bool check_reduced(struct question *question, const struct op *op, const struct layout *made,
                          const struct layout *read)
{
    if (op_inner_reductions(op) == 0) return true;
    for (int a = 0; a < question->mesh.axis_count; a++) {
        bool is_sliced = made->of[a] == LAYOUT_WHOLE && read->of[a] > 0;
        if (is_sliced &&
            op_rule(op->kind)->split(question->block, op, (enum dim)read->of[a]) == SPLIT_REDUCED)
            return refuse(question, op, "cannot be split over what its input has whole");
    }
    return true;
}

static bool check_reads(struct question *question, const struct op *op)
{
    const struct block *block = question->block;
    for (int i = 0; i < op->input_count; i++) {
        const struct tensor *tensor = &block->tensors[op->inputs[i]];
        bool is_inside = tensor->producer >= 0;
        if (tensor->role != TENSOR_ACTIVATION) continue;
        struct layout read =
            strategy_input(&question->mesh, &question->strategies[op - block->ops], block, op, i);
        struct layout made = is_inside
                                 ? made_by(question, op->inputs[i])
                                 : strategy_boundary(&question->mesh, question->parallel, tensor);
        if (!check_reduced(question, op, &made, &read) ||
            !check_order(question, op, op->inputs[i], &made, &read))
            return false;
    }
    return true;
}

static bool check_outputs(struct question *question)
{
    const struct block *block = question->block;
    for (int i = 0; i < block->output_count && block->role != BLOCK_HEAD; i++) {
        const struct tensor *tensor = &block->tensors[block->outputs[i]];
        if (tensor->producer < 0) continue;
        struct layout made = made_by(question, block->outputs[i]);
        struct layout sent = strategy_boundary(&question->mesh, question->parallel, tensor);
        const struct op *maker = &block->ops[tensor->producer];
        if (!check_order(question, maker, block->outputs[i], &made, &sent)) return false;
    }
    return true;
}

// A parameter lies as its first reader needs it; the layout is that of its gradient, which says
// over what ranks hold terms of it as well.
struct lying {
    const char *tie;
    const struct block *block;
    const struct op *reader;
    struct layout layout;
};

static bool hold(struct question *question, const struct op *op, const struct lying *first,
                 const struct layout *layout)
{
    if (layout_equal(&first->layout, layout)) return true;
    return err_set(question->err, ERR_USAGE,
                   "--tp %d: %s.%s and %s.%s read one parameter, which cannot lie in two layouts",
                   question->parallel->degree[AXIS_TP], first->block->name, first->reader->name,
                   question->block->name, op->name);
}

// Whether the question is about what this operator reads.
static bool is_asked(const struct question *question, const struct op *op)
{
    bool is_tied = false;
    for (int i = 0; i < op->input_count; i++)
        is_tied |= question->block->tensors[op->inputs[i]].tie != NULL;
    return is_tied || !question->ties_alone;
}

static bool check_parameters(struct question *question, struct lying ties[TIE_MAX], int *tie_count)
{
    const struct block *block = question->block;
    struct arena spare = {0};
    struct lying *first = ARENA_NEW(&spare, struct lying, block->tensor_count);
    bool ok = true;
    for (int o = 0; o < block->op_count && ok; o++) {
        const struct op *op = &block->ops[o];
        for (int i = 0; i < op->input_count && ok; i++) {
            int t = op->inputs[i];
            const char *tie = block->tensors[t].tie;
            if (block->tensors[t].role != TENSOR_PARAMETER || !is_asked(question, op)) continue;
            const struct strategy *strategy = &question->strategies[o];
            struct layout layout = strategy_gradient(
                &question->mesh, strategy, strategy_input(&question->mesh, strategy, block, op, i));
            if (first[t].reader) ok = hold(question, op, &first[t], &layout);
            first[t] = (struct lying){tie, block, op, layout};
            int k = 0;
            while (tie && k < *tie_count && strcmp(ties[k].tie, tie) != 0)
                k++;
            if (tie && k < *tie_count) ok = ok && hold(question, op, &ties[k], &layout);
            if (tie && k == *tie_count && k < TIE_MAX) ties[(*tie_count)++] = first[t];
        }
    }
    arena_free(&spare);
    return ok;
}

// Keys and their gradients pass by in the layout of the table.
static bool shares_keys(const struct question *question, const struct op *op)
{
    const struct block *block = question->block;
    bool is_attention = strategy_in_attention(block, op) || op_has_dim(block, op, DIM_HEAD) ||
                        op_has_dim(block, op, DIM_KV_HEAD) || op_has_dim(block, op, DIM_HEAD_DIM);
    return question->parallel->degree[AXIS_CP] > 1 && is_attention;
}

static bool check_block(struct question *question, struct lying ties[TIE_MAX], int *tie_count)
{
    const struct block *block = question->block;
    for (int o = 0; o < block->op_count; o++)
        if (is_asked(question, &block->ops[o]))
            question->strategies[o] =
                strategy_of(&question->mesh, question->parallel, block, &block->ops[o]);
    for (int o = 0; o < block->op_count && !question->ties_alone; o++) {
        const struct op *op = &block->ops[o];
        const struct layout_rule *rule = layout_rule_of(question->parallel, AXIS_TP, block, op);
        if (rule && !check_even(question, op, rule)) return false;
        if (rule && shares_keys(question, op))
            return refuse(question, op,
                          "passes keys between the ranks of cp, for which attention is as the "
                          "table of techniques has it: only --cp 1 works");
        if (!check_reads(question, op)) return false;
    }
    return (question->ties_alone || check_outputs(question)) &&
           check_parameters(question, ties, tie_count);
}

// As the ranks of stages with so much of tp see them.
static bool check_at(const struct graph *graph, const struct workload *workload,
                     const struct parallel *parallel, const struct mesh *mesh, bool ties_alone,
                     struct err *err)
{
    struct arena spare = {0};
    struct lying ties[TIE_MAX];
    int tie_count = 0;
    bool ok = true;
    for (int b = 0; b < graph->block_count && ok && parallel->degree[AXIS_TP] > 1; b++) {
        const struct block *block = &graph->blocks[b];
        struct question question = {
            .workload = workload,
            .parallel = parallel,
            .mesh = *mesh,
            .block = block,
            .strategies = ARENA_NEW(&spare, struct strategy, block->op_count),
            .ties_alone = ties_alone,
            .err = err,
        };
        ok = check_block(&question, ties, &tie_count);
    }
    arena_free(&spare);
    return ok;
}

static bool is_of_block(const struct layout_rule *rule, const struct block *block)
{
    size_t length = strlen(block->name);
    return strncmp(rule->operator, block->name, length) == 0 && rule->operator[length] == '.';
}

static bool is_on_stage(const struct graph *graph, const struct parallel *parallel,
                        const struct chunk_span *spans, const struct layout_rule *rule)
{
    assert(rule->stage >= 0 && rule->stage < parallel->degree[AXIS_PP]);
    for (int c = 0; c < parallel->vpp; c++) {
        const struct chunk_span *span = &spans[rule->stage * parallel->vpp + c];
        for (int i = span->first; i < span->first + span->count; i++) {
            int kind = graph->sequence[i], alone = graph->alone ? graph->alone[kind] : -1;
            if (is_of_block(rule, &graph->blocks[kind])) return true;
            if (alone >= 0 && is_of_block(rule, &graph->blocks[alone])) return true;
        }
    }
    return false;
}

static bool has_tie(const struct graph *graph, const struct layout_rule *rule)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int t = 0; t < block->tensor_count && is_of_block(rule, block); t++)
            if (block->tensors[t].tie) return true;
    }
    return false;
}

static bool check_stage(const struct graph *graph, const struct parallel *parallel,
                        const struct chunk_span *spans, const struct layout_rule *rule,
                        struct err *err)
{
    if (!rule->is_of_stage) return true;
    if (parallel->stage_ranks_count == 0)
        return err_set(err, ERR_USAGE,
                       "layouts: %s is said of stage %d, but stages have no numbers of ranks "
                       "(--stage-ranks), which alone tell them apart",
                       rule->operator, rule->stage);
    if (rule->stage >= parallel->stage_ranks_count)
        return err_set(err, ERR_USAGE, "layouts: %s is said of stage %d; there are %d of them",
                       rule->operator, rule->stage, parallel->stage_ranks_count);
    if (!is_on_stage(graph, parallel, spans, rule))
        return err_set(err, ERR_USAGE, "layouts: %s is said of stage %d, which has none",
                       rule->operator, rule->stage);
    return !has_tie(graph, rule) ||
           err_set(err, ERR_USAGE,
                   "layouts: %s is said of stage %d, but what it shares with another stage lies in "
                   "one layout: it can only be said of all",
                   rule->operator, rule->stage);
}

static bool check_stages(const struct graph *graph, const struct parallel *parallel,
                         struct err *err)
{
    struct arena scratch = {0};
    struct chunk_span *spans =
        ARENA_NEW(&scratch, struct chunk_span, parallel->degree[AXIS_PP] * parallel->vpp);
    bool ok = stages_split(graph, parallel, spans, err);
    for (int i = 0; i < parallel->layout_count && ok; i++)
        ok = check_stage(graph, parallel, spans, &parallel->layouts[i], err);
    arena_free(&scratch);
    return ok;
}

bool layout_rules_check(const struct graph *graph, const struct workload *workload,
                        const struct parallel *parallel, struct err *err)
{
    if (parallel->layout_count == 0) return true;
    if (layout_rules_are_staged(parallel) && !check_stages(graph, parallel, err)) return false;
    return layout_rules_hold(graph, workload, parallel, false, err);
}

bool layout_rules_hold_at(const struct graph *graph, const struct workload *workload,
                          const struct parallel *parallel, int stage, bool ties_alone,
                          struct err *err)
{
    struct parallel own = parallel_at(parallel, stage);
    struct mesh mesh = mesh_make(parallel, graph->kv_head_count);
    struct mesh seen = mesh_at(&mesh, &own, stage, graph->kv_head_count);
    return check_at(graph, workload, &own, &seen, ties_alone, err);
}

bool layout_rules_hold(const struct graph *graph, const struct workload *workload,
                       const struct parallel *parallel, bool ties_alone, struct err *err)
{
    bool has_ranks = parallel->stage_ranks_count > 0, ok = true;
    if (parallel->degree[AXIS_TP] == 1) return true;
    for (int s = 0; s < parallel->stage_ranks_count && ok; s++)
        ok = layout_rules_hold_at(graph, workload, parallel, s, ties_alone, err);
    if (has_ranks) return ok;
    struct mesh mesh = mesh_make(parallel, graph->kv_head_count);
    ok = check_at(graph, workload, parallel, &mesh, ties_alone, err);
    int stages = parallel_has_meshes(parallel) ? parallel->degree[AXIS_PP] : 0;
    for (int s = 0; s < stages && ok; s++) {
        struct parallel own = parallel_at(parallel, s);
        struct mesh seen = mesh_at(&mesh, &own, s, graph->kv_head_count);
        bool is_known = own.degree[AXIS_TP] == parallel->degree[AXIS_TP];
        ok = is_known || check_at(graph, workload, &own, &seen, ties_alone, err);
    }
    return ok;
}
