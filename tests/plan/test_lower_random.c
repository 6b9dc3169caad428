#include "tests/support/test.h"

#include "tests/support/draw.h"
#include "tests/support/machine.h"
#include "tests/support/tiny_models.h"

// Random meshes: degrees, order of ranks, foldings of experts, kinds of context parallelism, shard
// groups and recompute of all sorts, each carried out with real numbers. MESHWRIGHT_CASES=N for
// more.

enum { CASES = 40, HEADS = 8 };

#define SIZES                                                            \
    "\"vocab_size\": 11, \"hidden_size\": 8, \"num_hidden_layers\": 1, " \
    "\"num_attention_heads\": 8, \"intermediate_size\": 8"
#define HEADS_AND "\"num_key_value_heads\": 4, \"head_dim\": 4, " SIZES

static const char *const MIXTURES[] = {
    "{\"model_type\": \"mixtral\", " HEADS_AND ", \"num_local_experts\": 8, "
    "\"num_experts_per_tok\": 2}",
    "{\"model_type\": \"qwen2_moe\", " HEADS_AND ", \"num_experts\": 8, "
    "\"num_experts_per_tok\": 3, \"moe_intermediate_size\": 8, "
    "\"shared_expert_intermediate_size\": 8}",
    "{\"model_type\": \"gpt_oss\", " HEADS_AND ", \"num_local_experts\": 8, "
    "\"num_experts_per_tok\": 2, \"sliding_window\": 3}",
    "{\"model_type\": \"deepseek_v3\", " SIZES ", \"num_key_value_heads\": null, "
    "\"q_lora_rank\": 5, \"kv_lora_rank\": 6, \"qk_nope_head_dim\": 3, \"qk_rope_head_dim\": 4, "
    "\"v_head_dim\": 5, \"n_group\": null, \"n_routed_experts\": 8, \"n_shared_experts\": 1, "
    "\"num_experts_per_tok\": 3, "
    "\"moe_intermediate_size\": 8, \"first_k_dense_replace\": 0}",
};

static const enum axis ORDERS[][AXIS_COUNT] = {
    {AXIS_TP, AXIS_CP, AXIS_DP, AXIS_PP}, {AXIS_CP, AXIS_TP, AXIS_DP, AXIS_PP},
    {AXIS_DP, AXIS_TP, AXIS_CP, AXIS_PP}, {AXIS_TP, AXIS_DP, AXIS_CP, AXIS_PP},
    {AXIS_CP, AXIS_DP, AXIS_TP, AXIS_PP}, {AXIS_DP, AXIS_CP, AXIS_TP, AXIS_PP},
};

static struct parallel draw_parallel(struct draw *draw)
{
    static const int DEGREES[] = {1, 1, 2, 2, 4, 8};
    struct parallel parallel = {.vpp = 1, .order_count = 4};
    for (int i = 0; i < AXIS_COUNT; i++) {
        bool is_alone = i == AXIS_PP || i == AXIS_SP_H || i == AXIS_SP_W;
        parallel.degree[i] = is_alone ? 1 : DRAW_ONE(draw, DEGREES);
    }
    const enum axis *order = draw_int(draw, 0, 1) ? DRAW_ONE(draw, ORDERS) : ORDERS[0];
    memcpy(parallel.order, order, sizeof parallel.order);
    parallel_complete_order(&parallel);
    parallel.micro_batch = draw_int(draw, 1, 2);
    parallel.sp = draw_int(draw, 0, 1);
    parallel.zero = draw_int(draw, 0, 3);
    parallel.cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel.recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    parallel.recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1);
    int dp = parallel.degree[AXIS_DP], cp = parallel.degree[AXIS_CP];
    if (draw_int(draw, 0, 1)) parallel.zero_group = dp > 1 ? cp * dp / 2 : cp;
    return parallel;
}

// What program_check asks of a plan, for these models.
static bool is_legal(const struct parallel *parallel, int64_t kv_head_count)
{
    int tp = parallel->degree[AXIS_TP], cp = parallel->degree[AXIS_CP];
    int64_t ranks = parallel_rank_count(parallel),
            left = kv_head_count > tp ? kv_head_count / tp : 1;
    if (ranks < 2 || ranks > MACHINE_RANK_MAX || MACHINE_SEQ % (tp * cp) != 0) return false;
    bool fits_heads = HEADS % (tp * cp) == 0 && (left % cp == 0 || cp % left == 0);
    if (parallel->cp_kind == CP_ULYSSES && !fits_heads) return false;
    return mesh_folds(parallel, kv_head_count);
}

static void random_meshes_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("random meshes", 2026);
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : CASES, found = 0;
    for (int tries = 0; found < wanted; tries++) {
        assert_true(tries < 1000 * wanted);
        struct arena_mark mark = arena_mark(*state);
        const char *model = DRAW_ONE(&draw, MIXTURES);
        struct import_options options = {.flash = draw_int(&draw, 0, 2) > 0, .vocab_multiple = 8};
        struct parallel parallel = draw_parallel(&draw);
        struct graph *graph = tiny_graph(*state, model, &options);
        if (is_legal(&parallel, graph->kv_head_count)) {
            struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
            for (int b = 0; b < graph->block_count; b++) {
                machine_check(*state, &graph->blocks[b], &mesh, &parallel, parallel.recompute);
            }
            found++;
        }
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(random_meshes_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
