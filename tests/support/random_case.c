#include "tests/support/random_case.h"

#include "models/op_linear_loss.h"

#include <stdio.h>

enum { RANK_MAX = 16 };

static void shuffle_order(struct draw *draw, struct parallel *parallel)
{
    parallel_default_order(parallel);
    for (int i = parallel->order_count - 1; i > 0; i--) {
        int other = draw_int(draw, 0, i);
        enum axis kept = parallel->order[i];
        parallel->order[i] = parallel->order[other];
        parallel->order[other] = kept;
    }
}

// A grid in place of a line: with more ranks for tp, and sequences for all of them.
static void draw_grid(struct draw *draw, struct parallel *parallel)
{
    static const int DEGREES[] = {2, 4, 4, 6, 8, 9, 12};
    struct parallel drawn = *parallel;
    drawn.tp_kind = (enum tp_kind)draw_int(draw, 0, 2 * TP_KIND_COUNT) % (TP_KIND_COUNT + 1);
    if (drawn.tp_kind == TP_1D || drawn.tp_kind == TP_KIND_COUNT) return;
    drawn.degree[AXIS_TP] = DRAW_ONE(draw, DEGREES);
    drawn.sp = false;
    if (parallel_rank_count(&drawn) > RANK_MAX || grid_of(&drawn).y == 0) return;
    drawn.micro_batch *= (int)grid_batch_parts(&drawn);
    bool hands_out_heads = drawn.cp_kind == CP_ULYSSES && drawn.degree[AXIS_CP] > 1;
    if (SUMMA_GRIDS >> drawn.tp_kind & 1 && hands_out_heads) return;
    *parallel = drawn;
}

static struct parallel draw_parallel(struct draw *draw)
{
    static const int DEGREES[] = {1, 1, 2, 2, 3, 4};
    static const int RECOMPUTE[] = {RECOMPUTE_NONE, RECOMPUTE_NONE, RECOMPUTE_SELECTIVE,
                                    RECOMPUTE_FULL};
    struct parallel parallel = {
        .degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .recompute_layers = -1};
    do {
        parallel.degree[AXIS_TP] = DRAW_ONE(draw, DEGREES);
        parallel.degree[AXIS_CP] = DRAW_ONE(draw, DEGREES);
        parallel.degree[AXIS_DP] = DRAW_ONE(draw, DEGREES);
    } while (parallel_rank_count(&parallel) > RANK_MAX);
    parallel.micro_batch = draw_int(draw, 1, 2);
    parallel.sp = draw_int(draw, 0, 1);
    parallel.zero = draw_int(draw, 0, 3);
    parallel.cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel.recompute = (enum recompute)DRAW_ONE(draw, RECOMPUTE);
    parallel.recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    parallel.passes = (unsigned)draw_int(draw, 0, (1 << PASS_COUNT) - 1);
    // As many parts as ranks, without another draw.
    if (parallel.passes >> PASS_BUCKETS & 1) parallel.tp_relay = RANK_MAX;
    shuffle_order(draw, &parallel);
    bool has_replicas = draw_int(draw, 0, 2) == 0 && parallel.degree[AXIS_DP] % 2 == 0;
    if (has_replicas) {
        parallel.zero_group = parallel.degree[AXIS_CP] * (parallel.degree[AXIS_DP] / 2);
    }
    draw_grid(draw, &parallel);
    return parallel;
}

// kv heads: whole groups for tp, or fewer than tp.
static struct random_sizes draw_sizes(struct draw *draw, const struct parallel *parallel)
{
    int tp = grid_of(parallel).y, cp = parallel->degree[AXIS_CP];
    int parts = parallel->cp_kind == CP_ULYSSES ? tp * cp : tp, kv = parts;
    for (int divisor = draw_int(draw, 1, parts); divisor > 1; divisor--) {
        if (kv % divisor == 0 && (kv / divisor) % tp == 0) kv /= divisor;
    }
    if (tp % 2 == 0 && kv == tp && draw_int(draw, 0, 1)) kv = tp / 2;
    int heads = kv * draw_int(draw, 1, 2);
    if (heads % parts) heads = parts * (kv % parts == 0 || parts % kv == 0 ? 1 : kv);
    return (struct random_sizes){.kv_heads = kv,
                                 .heads_per_kv_head = heads / kv,
                                 .head_dim = 2,
                                 .hidden = draw_int(draw, 2, 3) * (int)grid_hidden_parts(parallel),
                                 .ffn = draw_int(draw, 1, 2) * tp,
                                 .vocab = draw_int(draw, 1, 2) * tp,
                                 .flash = draw_int(draw, 0, 1)};
}

static void draw_experts(struct draw *draw, struct random_case *drawn)
{
    struct parallel *parallel = &drawn->parallel;
    int ranks = (int)parallel_rank_count(parallel);
    if (draw_int(draw, 0, 1) || parallel->tp_kind != TP_1D) return;
    drawn->sizes.experts = 2;
    for (int tries = 0; tries < 8; tries++) {
        struct parallel folded = *parallel;
        folded.degree[AXIS_ETP] = draw_int(draw, 0, 2) ? 1 : 2;
        folded.degree[AXIS_EP] = draw_int(draw, 1, ranks);
        if (folded.degree[AXIS_EP] == 1 || !mesh_folds(&folded, drawn->sizes.kv_heads)) continue;
        *parallel = folded;
        drawn->sizes.experts = folded.degree[AXIS_EP] * draw_int(draw, 1, 2);
        if (drawn->sizes.ffn % folded.degree[AXIS_ETP]) {
            drawn->sizes.ffn *= folded.degree[AXIS_ETP];
        }
        return;
    }
}

// Where its loss can be, of every other way to shard, without another draw.
static void chunk_loss(struct arena *arena, struct random_case *drawn)
{
    struct block *block = ARENA_COPY(arena, struct block, drawn->block, 1);
    struct graph graph = {.blocks = block, .block_count = 1};
    bool is_asked = drawn->parallel.zero % 2 && drawn->parallel.tp_kind == TP_1D;
    if (is_asked && match_loss_graph(arena, &graph, 3)) drawn->block = block;
}

static void lower(struct arena *arena, struct draw *draw, struct random_case *drawn)
{
    struct parallel *parallel = &drawn->parallel;
    chunk_loss(arena, drawn);
    drawn->mesh = mesh_make(parallel, drawn->sizes.kv_heads);
    if (drawn->seq_len == 0) {
        drawn->seq_len = (int64_t)parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP];
        if (drawn->seq_len <= 4) drawn->seq_len *= draw_int(draw, 1, 2);
    }
    drawn->capacity_factor = draw_int(draw, 0, 2) ? 0 : 1.5;
    block_differentiate(arena, drawn->block, &drawn->facts);
    struct lower_request request = {.block = drawn->block,
                                    .mesh = &drawn->mesh,
                                    .parallel = parallel,
                                    .recompute = parallel->recompute,
                                    .seq_len = drawn->seq_len,
                                    .precision = PRECISION_BF16,
                                    .capacity_factor = drawn->capacity_factor,
                                    .expert_imbalance = 1.2,
                                    .joins = (unsigned)(parallel->micro_batch & 1) << JOIN_APART,
                                    .differentiated = &drawn->facts};
    drawn->program = lower_block(arena, &request);
}

void random_case_draw(struct arena *arena, struct draw *draw, struct random_case *drawn)
{
    static const enum block_role ROLES[] = {BLOCK_LAYER, BLOCK_LAYER, BLOCK_LAYER, BLOCK_EMBEDDING,
                                            BLOCK_HEAD};
    *drawn = (struct random_case){.parallel = draw_parallel(draw)};
    drawn->sizes = draw_sizes(draw, &drawn->parallel);
    draw_experts(draw, drawn);
    drawn->block = random_block(arena, draw, &drawn->sizes, DRAW_ONE(draw, ROLES));
    lower(arena, draw, drawn);
}

void random_case_draw_row(struct arena *arena, struct draw *draw, const struct parallel *parallel,
                          const struct block *block, int64_t seq_len, struct random_case *drawn)
{
    *drawn = (struct random_case){.parallel = *parallel, .block = block, .seq_len = seq_len};
    drawn->sizes = draw_sizes(draw, &drawn->parallel);
    if (!block) drawn->block = random_block(arena, draw, &drawn->sizes, BLOCK_LAYER);
    lower(arena, draw, drawn);
}

// Whether tp can split everything that it prefers. Where only a part of its axes can, a sum over
// the rest cannot be reduced into a slice of the sequence: no model is that narrow.
static bool is_wide_enough(const struct graph *graph, int tp)
{
    for (int b = 0; b < graph->block_count; b++) {
        const struct block *block = &graph->blocks[b];
        for (int t = 0; t < block->tensor_count; t++) {
            int ffn = tensor_find_dim(&block->tensors[t], DIM_FFN);
            if (ffn >= 0 && block->tensors[t].extents[ffn].size < tp) return false;
        }
    }
    return true;
}

// kv heads are split as far as they go and shared by whole groups beyond; query heads and experts
// divide.
static bool is_legal(const struct graph *graph, const struct parallel *parallel)
{
    int64_t tp = grid_of(parallel).y, cp = parallel->degree[AXIS_CP];
    if (parallel->tp_kind != TP_1D &&
        (graph->expert_count > 0 || graph->hidden % grid_hidden_parts(parallel) != 0))
        return false;
    int64_t parts = parallel->cp_kind == CP_ULYSSES ? tp * cp : tp, kv = graph->kv_head_count;
    bool shares = kv >= tp ? kv % tp == 0 : tp % kv == 0;
    bool has_experts = graph->expert_count > 0;
    int ep = parallel->degree[AXIS_EP], etp = parallel->degree[AXIS_ETP];
    bool splits =
        has_experts ? graph->expert_count % ep == 0 && graph->expert_ffn % etp == 0 : ep * etp == 1;
    bool divides = graph->head_count % parts == 0 && shares && splits;
    return divides && is_wide_enough(graph, (int)tp) && mesh_folds(parallel, kv);
}

void random_case_draw_model(struct arena *arena, struct draw *draw, const struct graph *graph,
                            struct random_case *drawn)
{
    *drawn = (struct random_case){.sizes.kv_heads = graph->kv_head_count};
    do {
        drawn->parallel = draw_parallel(draw);
        if (graph->expert_count == 0) continue;
        drawn->parallel.degree[AXIS_EP] = draw_int(draw, 1, (int)graph->expert_count);
        drawn->parallel.degree[AXIS_ETP] = draw_int(draw, 0, 3) ? 1 : 2;
    } while (!is_legal(graph, &drawn->parallel));
    drawn->block = &graph->blocks[draw_int(draw, 0, graph->block_count - 1)];
    lower(arena, draw, drawn);
}

struct sets_case random_case_sets(const struct random_case *drawn)
{
    return (struct sets_case){.facts = &drawn->facts,
                              .program = drawn->program,
                              .mesh = &drawn->mesh,
                              .parallel = &drawn->parallel,
                              .seq_len = drawn->seq_len,
                              .has_capacity = drawn->capacity_factor > 0,
                              .element_bytes = 2};
}

void random_case_print(const struct random_case *drawn, int number)
{
    const struct block *block = drawn->block;
    const struct parallel *p = &drawn->parallel;
    printf("# case %d: tp %d %s, cp %d %s, dp %d, ep %d, etp %d, sp %d, zero %d (group %d), "
           "recompute %s, micro_batch %d, seq %lld, kv heads %lld of %lld\n# mesh",
           number, p->degree[AXIS_TP], tp_kind_name(p->tp_kind), p->degree[AXIS_CP],
           cp_kind_name(p->cp_kind), p->degree[AXIS_DP], p->degree[AXIS_EP], p->degree[AXIS_ETP],
           p->sp, p->zero, p->zero_group, recompute_name(p->recompute), p->micro_batch,
           (long long)drawn->seq_len, (long long)drawn->sizes.kv_heads,
           (long long)(drawn->sizes.kv_heads * drawn->sizes.heads_per_kv_head));
    for (int a = 0; a < drawn->mesh.axis_count; a++) {
        const struct mesh_axis *axis = &drawn->mesh.axes[a];
        printf(" %s=%d(%s)", axis->name, axis->size, axis_name(axis->expert));
    }
    printf("\n");
    for (int o = 0; o < block->op_count; o++) {
        const struct op *op = &block->ops[o];
        printf("# %s kind %d:", op->name, (int)op->kind);
        for (int i = 0; i < op->input_count + op->output_count; i++) {
            bool output = i >= op->input_count;
            int t = output ? op->outputs[i - op->input_count] : op->inputs[i];
            const struct tensor *tensor = &block->tensors[t];
            printf(" %s%s(", output ? "-> " : "", tensor->name);
            for (int e = 0; e < tensor->rank; e++)
                printf("%s%s %lld", e ? ", " : "", dim_name(tensor->extents[e].dim),
                       (long long)tensor->extents[e].size);
            printf(")");
        }
        printf("\n");
    }
}
