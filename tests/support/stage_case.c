#include "tests/support/stage_case.h"

#include "tests/support/priced.h"
#include "tests/support/test.h"

struct stage_graph *stage_case_graph(struct arena *arena, const struct stage_case *of, int stage,
                                     int micro_batches)
{
    struct err err = {0};
    struct stage_graph *graph =
        stage_graph_of(arena, of->program, of->stack, stage, micro_batches, &err);
    assert_string_equal(err.text, "");
    assert_non_null(graph);
    return graph;
}

void stage_case_print(const struct stage_case *of, int stage)
{
    const struct parallel *parallel = &of->program->parallel;
    print_error(
        "# %s stage %d: tp %d cp %d (%s) dp %d pp %d vpp %d ep %d sp %d zero %d schedule %s "
        "recompute %s classes %x overlap %x passes %x micro-batches %d offload %llx\n",
        of->model, stage, parallel->degree[AXIS_TP], parallel->degree[AXIS_CP],
        cp_kind_name(parallel->cp_kind), parallel->degree[AXIS_DP], parallel->degree[AXIS_PP],
        parallel->vpp, parallel->degree[AXIS_EP], parallel->sp, parallel->zero,
        schedule_name(parallel->schedule), recompute_name(parallel->recompute),
        parallel->recompute_classes, parallel->overlap, parallel->passes,
        of->program->shape.micro_batch_count,
        (unsigned long long)offload_value(&parallel->offload));
}

static void draw_parallel(struct draw *draw, struct parallel *parallel, int *micro_batches)
{
    static const int DEGREES[] = {1, 1, 2};
    parallel->degree[AXIS_TP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_CP] = DRAW_ONE(draw, DEGREES);
    parallel->degree[AXIS_DP] = DRAW_ONE(draw, DEGREES);
    parallel->sp = draw_int(draw, 0, 1);
    parallel->cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel->schedule = (enum schedule_kind)draw_int(draw, 0, SCHEDULE_KIND_COUNT - 1);
    parallel->recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    parallel->recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1) & ~1u;
    parallel->recompute_layers = draw_int(draw, -1, 2);
    parallel->passes = (unsigned)draw_int(draw, 0, (1 << PASS_COUNT) - 1);
    parallel->overlap = (unsigned)draw_int(draw, 0, 63);
    parallel->degree[AXIS_PP] = draw_int(draw, 1, 4);
    *micro_batches = draw_int(draw, 1, 9);
    if (parallel->schedule == SCHEDULE_ZB_V) parallel->vpp = 2;
    if (parallel->schedule == SCHEDULE_INTERLEAVED) {
        parallel->vpp = draw_int(draw, 2, 3);
        *micro_batches = draw_int(draw, 1, 3) * parallel->degree[AXIS_PP];
    }
    if (parallel->schedule == SCHEDULE_ZB_AUTO) parallel->in_flight = draw_int(draw, 0, 8);
}

static struct offload draw_offload(struct draw *draw)
{
    struct offload offload = {0};
    if (draw_int(draw, 0, 2)) return offload;
    offload.activations = TIER_HOST;
    for (int class = 0; class < OP_CLASS_COUNT; class ++)
        offload.layers[class] = (int16_t)draw_int(draw, -1, 3);
    return offload;
}

bool stage_case_draw(struct arena *arena, struct draw *draw, struct stage_case *of)
{
    static const char *const MODELS[] = {"gpt2", "llama-2-7b", "mixtral-8x7b", "deepseek-v2-lite",
                                         "deepseek-v3"};
    of->model = DRAW_ONE(draw, MODELS);
    struct priced priced = priced_start(arena, of->model, "dgx-a100-80g", "megatron-core");
    int micro_batches;
    draw_parallel(draw, &priced.parallel, &micro_batches);
    struct parallel *parallel = &priced.parallel;
    if (priced.graph->expert_count > 0 && draw_int(draw, 0, 1))
        parallel->degree[AXIS_EP] = parallel->degree[AXIS_DP];
    parallel->micro_batch = draw_int(draw, 1, 2);
    struct workload workload = {.seq_len = 128, .precision = PRECISION_BF16};
    workload.global_batch =
        (int64_t)micro_batches * parallel->micro_batch * parallel->degree[AXIS_DP];
    workload.expert_imbalance = 1 + draw_int(draw, 0, 1);
    struct cluster cluster = *priced.cluster;
    cluster.rank_count = (int)parallel_rank_count(parallel);
    parallel->zero = draw_int(draw, 0, 3);
    parallel->offload = draw_offload(draw);
    struct err err = {0};
    if (!program_check(priced.graph, &cluster, &workload, parallel, &err)) return false;
    of->program = program_lower(arena, priced.graph, &cluster, &workload, parallel,
                                1u << JOIN_CHAIN | 1u << JOIN_MERGED);
    of->stack = priced.stack;
    return true;
}

int stage_case_count(int otherwise)
{
    const char *text = getenv("MESHWRIGHT_CASES");
    return text ? atoi(text) : otherwise;
}
