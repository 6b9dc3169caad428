#include "tests/support/test.h"

#include "plan/layout/rules.h"
#include "plan/layout/strategy.h"
#include "tests/support/layout_rules_draw.h"
#include "tests/support/machine.h"
#include "tests/support/tiny_models.h"

// Rules of single operators: what they say is what strategies are, and every set of them that is
// accepted computes what one rank does. MESHWRIGHT_CASES=N for more.

enum { CASES = 40, HEADS = 8 };

#define SIZES                                                            \
    "\"vocab_size\": 16, \"hidden_size\": 8, \"num_hidden_layers\": 1, " \
    "\"num_attention_heads\": 8, \"intermediate_size\": 16, \"num_key_value_heads\": 4, "

static const char *const MODELS[] = {
    "{\"model_type\": \"llama\", " SIZES "\"head_dim\": 4}",
    "{\"model_type\": \"qwen2\", " SIZES "\"tie_word_embeddings\": true}",
    ("{\"model_type\": \"mixtral\", " SIZES
     "\"head_dim\": 4, \"num_local_experts\": 8, \"num_experts_per_tok\": 2}"),
    ("{\"model_type\": \"gpt2\", \"vocab_size\": 16, \"n_embd\": 16, \"n_layer\": 1, "
     "\"n_head\": 8, \"n_positions\": 16}"),
};

static struct parallel draw_parallel(struct draw *draw)
{
    static const int DEGREES[] = {1, 1, 2};
    struct parallel parallel = {.vpp = 1};
    parallel_default_order(&parallel);
    for (int i = 0; i < AXIS_COUNT; i++) {
        // None of the models has an image whose height or width could be split.
        bool is_one = i == AXIS_PP || i == AXIS_SP_H || i == AXIS_SP_W;
        parallel.degree[i] =
            is_one || !axis_takes_ranks((enum axis)i) ? 1 : DRAW_ONE(draw, DEGREES);
    }
    parallel.degree[AXIS_TP] = 1 << draw_int(draw, 1, 3);
    parallel.micro_batch = 1 << draw_int(draw, 0, 2);
    parallel.sp = draw_int(draw, 0, 1);
    parallel.zero = draw_int(draw, 0, 3);
    parallel.cp_kind = (enum cp_kind)draw_int(draw, 0, CP_ULYSSES);
    parallel.recompute = (enum recompute)draw_int(draw, 0, RECOMPUTE_COUNT - 1);
    parallel.recompute_classes = (unsigned)draw_int(draw, 0, (1 << OP_CLASS_COUNT) - 1);
    return parallel;
}

static bool is_legal(const struct parallel *parallel, int64_t kv_head_count)
{
    int tp = parallel->degree[AXIS_TP], cp = parallel->degree[AXIS_CP];
    int64_t left = kv_head_count > tp ? kv_head_count / tp : 1;
    if (parallel_rank_count(parallel) > MACHINE_RANK_MAX || MACHINE_SEQ % (tp * cp) != 0)
        return false;
    bool fits_heads = HEADS % (tp * cp) == 0 && (left % cp == 0 || cp % left == 0);
    if (parallel->cp_kind == CP_ULYSSES && !fits_heads) return false;
    return mesh_folds(parallel, kv_head_count);
}

static void drawn_rules_compute_what_one_rank_does(void **state)
{
    struct draw draw = draw_start("rules of operators", 2026);
    const char *more = getenv("MESHWRIGHT_CASES");
    int wanted = more ? atoi(more) : CASES, found = 0, refused = 0;
    const struct workload workload = {.seq_len = MACHINE_SEQ};
    for (int tries = 0; found < wanted; tries++) {
        assert_true(tries < 1000 * wanted);
        struct arena_mark mark = arena_mark(*state);
        struct import_options options = {.flash = draw_int(&draw, 0, 2) > 0, .vocab_multiple = 8};
        struct graph *graph = tiny_graph(*state, DRAW_ONE(&draw, MODELS), &options);
        struct parallel parallel = draw_parallel(&draw);
        struct drawn_rules drawn = layout_rules_draw(*state, &draw, graph, draw_int(&draw, 1, 8));
        parallel.layouts = drawn.rules;
        parallel.layout_count = drawn.count;
        struct err err = {0};
        bool is_asked = is_legal(&parallel, graph->kv_head_count) && parallel.layout_count > 0;
        bool is_accepted = is_asked && layout_rules_check(graph, &workload, &parallel, &err);
        refused += is_asked && !is_accepted;
        if (is_accepted) {
            struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
            for (int b = 0; b < graph->block_count; b++)
                machine_check(*state, &graph->blocks[b], &mesh, &parallel, parallel.recompute);
            found++;
        }
        arena_reset(*state, mark);
    }
    printf("# %d of %d sets of rules refused\n", refused, refused + found);
    assert_true(refused > 0 && refused < 20 * found);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(drawn_rules_compute_what_one_rank_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
