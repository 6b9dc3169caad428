#include "tests/support/test.h"

#include "plan/stages.h"

// Graphs of an embedding, some layers and a head; only their roles matter here.

enum { LAYERS_MAX = 200, SPANS_MAX = 256 };

struct model {
    struct block blocks[3];
    int sequence[LAYERS_MAX + 2];
    struct graph graph;
};

static const struct graph *make(struct model *model, int layers)
{
    assert_true(layers <= LAYERS_MAX);
    *model = (struct model){
        .blocks = {{.role = BLOCK_EMBEDDING}, {.role = BLOCK_LAYER}, {.role = BLOCK_HEAD}}};
    for (int i = 0; i < layers; i++)
        model->sequence[i + 1] = 1;
    model->sequence[layers + 1] = 2;
    model->graph = (struct graph){.blocks = model->blocks,
                                  .block_count = 3,
                                  .sequence = model->sequence,
                                  .sequence_count = layers + 2,
                                  .layer_count = layers};
    return &model->graph;
}

static struct parallel pipeline(int pp, int vpp)
{
    struct parallel parallel = {
        .degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = vpp, .micro_batch = 1};
    parallel.degree[AXIS_PP] = pp;
    parallel.schedule = vpp > 1 ? SCHEDULE_INTERLEAVED : SCHEDULE_1F1B;
    return parallel;
}

// Blocks of each span, in the order of stages and chunks.
static void check(int layers, struct parallel parallel, const int *counts)
{
    struct model model;
    struct chunk_span spans[SPANS_MAX];
    struct err err = {0};
    assert_true(stages_split(make(&model, layers), &parallel, spans, &err));
    for (int i = 0; i < parallel.degree[AXIS_PP] * parallel.vpp; i++) {
        assert_int_equal(spans[i].count, counts[i]);
    }
}

static void check_error(int layers, struct parallel parallel, const char *text)
{
    struct model model;
    struct err err = {0};
    assert_false(stages_split(make(&model, layers), &parallel, NULL, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, text);
}

static void layers_that_divide_go_evenly(void **state)
{
    (void)state;
    check(32, pipeline(4, 1), (const int[]){9, 8, 8, 9});
    check(32, pipeline(1, 1), (const int[]){34});
    check(8, pipeline(2, 2), (const int[]){3, 2, 2, 3});
}

static void layers_that_do_not_divide_count_embedding_and_head_as_layers(void **state)
{
    (void)state;
    // 30 layers and two more blocks are four stages of eight.
    check(30, pipeline(4, 1), (const int[]){8, 8, 8, 8});
    check(31, pipeline(4, 1), (const int[]){8, 8, 9, 8});
    // llama-3.1-405b on 16 stages: 126 layers.
    check(126, pipeline(16, 1), (const int[]){8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8, 8});
}

static void every_block_is_in_one_span_and_no_stage_is_much_larger(void **state)
{
    (void)state;
    struct model model;
    struct chunk_span spans[SPANS_MAX];
    for (int layers = 1; layers <= 40; layers++) {
        for (int pp = 1; pp <= layers; pp++) {
            for (int vpp = 1; pp * vpp <= layers; vpp++) {
                struct parallel parallel = pipeline(pp, vpp);
                struct err err = {0};
                assert_true(stages_split(make(&model, layers), &parallel, spans, &err));
                int covered = 0, least = LAYERS_MAX, most = 0;
                for (int v = 0; v < pp * vpp; v++) {
                    struct chunk_span span = spans[v % pp * vpp + v / pp];
                    assert_int_equal(span.first, covered);
                    covered += span.count;
                    least = span.count < least ? span.count : least;
                    most = span.count > most ? span.count : most;
                }
                assert_int_equal(covered, layers + 2);
                assert_true(most - least <= (layers % (pp * vpp) == 0 ? 2 : 1));
            }
        }
    }
}

static void pinned_layers_are_kept_and_spread_over_chunks(void **state)
{
    (void)state;
    struct parallel parallel = pipeline(3, 1);
    parallel.stage_layers_count = 3;
    parallel.stage_layers = (const int[]){10, 14, 8};
    check(32, parallel, (const int[]){11, 14, 9});
    parallel = pipeline(2, 2);
    parallel.stage_layers_count = 2;
    parallel.stage_layers = (const int[]){5, 3};
    check(8, parallel, (const int[]){4, 2, 2, 2});
    // Where the ends have fewer layers than chunks, embedding and head fill theirs alone.
    parallel.stage_layers = (const int[]){1, 7};
    check(8, parallel, (const int[]){1, 1, 4, 4});
    parallel.stage_layers = (const int[]){7, 1};
    check(8, parallel, (const int[]){5, 3, 1, 1});
    parallel = pipeline(4, 1);
    parallel.stage_layers_count = 4;
    parallel.stage_layers = (const int[]){0, 4, 4, 4};
    check(12, parallel, (const int[]){1, 4, 4, 5});
}

// A plan that was found without --stages is itself when its numbers are pinned.
static void the_numbers_of_the_free_split_are_that_split(void **state)
{
    (void)state;
    for (int layers = 2; layers <= 40; layers++) {
        for (int vpp = 1; vpp <= 4; vpp++) {
            struct model model;
            struct chunk_span free[SPANS_MAX], pinned[SPANS_MAX];
            struct parallel parallel = pipeline(3, vpp);
            struct err err = {0};
            int numbers[3] = {-1, 0, -1};
            if (!stages_split(make(&model, layers), &parallel, free, &err)) continue;
            for (int i = 0; i < 3 * vpp; i++)
                numbers[i / vpp] += free[i].count;
            parallel.stage_layers = numbers;
            parallel.stage_layers_count = 3;
            assert_true(stages_split(&model.graph, &parallel, pinned, &err));
            assert_memory_equal(free, pinned, (size_t)(3 * vpp) * sizeof *free);
        }
    }
}

// 22 layers over 24 chunks, as zero-bubble's 1.5B runs them: the embedding and the head stand
// alone.
static void the_ends_may_hold_no_layer(void **state)
{
    (void)state;
    check(22, pipeline(8, 3),
          (const int[]){1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1});
}

// Layers of each stage where the one before the head is a prediction module, without it.
static void check_module(int pp, int vpp, const int *layers)
{
    enum { COUNT = 62 };
    struct model model;
    struct chunk_span spans[SPANS_MAX];
    struct err err = {0};
    struct graph graph = *make(&model, COUNT);
    struct block blocks[] = {model.blocks[0], model.blocks[1], model.blocks[2], model.blocks[1]};
    blocks[3].mtp = true;
    graph.blocks = blocks;
    graph.sequence[COUNT] = 3;
    struct parallel parallel = pipeline(pp, vpp);
    assert_true(stages_split(&graph, &parallel, spans, &err));
    for (int stage = 0; stage < pp; stage++) {
        int count = -(stage == 0) - 2 * (stage == pp - 1);
        for (int chunk = 0; chunk < vpp; chunk++)
            count += spans[stage * vpp + chunk].count;
        assert_int_equal(count, layers[stage]);
    }
}

// DeepSeek-V3 as Megatron-Bridge lays it out (recipes/deepseek/deepseek_v3.py).
static void a_module_leaves_the_last_stage_two_layers_short(void **state)
{
    (void)state;
    check_module(4, 1, (const int[]){16, 16, 16, 13});
    check_module(4, 4, (const int[]){16, 16, 16, 13});
    check_module(2, 8, (const int[]){32, 29});
    check_module(8, 1, (const int[]){8, 8, 8, 8, 8, 8, 8, 5});
    check_module(16, 1, (const int[]){4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 4, 1});
    // 62 layers with the module and two passes through the head are 64 units, of which 4 are left.
    check_module(5, 1, (const int[]){13, 13, 13, 13, 9});
}

static void errors_name_what_would_work(void **state)
{
    (void)state;
    check_error(
        4, pipeline(7, 1),
        "--pp 7: 6 layers, embedding and head included, cannot fill 7 stages; the most is 6");
    check_error(7, pipeline(2, 5),
                "--vpp 5: 9 layers, embedding and head included, cannot fill 5 chunks on each of 2 "
                "stages; the most is 4");
    struct parallel parallel = pipeline(2, 1);
    parallel.stage_layers_count = 3;
    parallel.stage_layers = (const int[]){2, 2, 2};
    check_error(6, parallel, "--stages: 3 numbers for --pp 2; one a stage is wanted");
    parallel = pipeline(3, 1);
    parallel.stage_layers_count = 3;
    parallel.stage_layers = (const int[]){2, 3, 2};
    check_error(6, parallel, "--stages: the numbers add up to 7; the model has 6 layers");
    parallel.stage_layers = (const int[]){3, 0, 3};
    check_error(6, parallel, "--stages: 0 layers for stage 1; its chunks need 1 at least");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_that_divide_go_evenly),
        cmocka_unit_test(layers_that_do_not_divide_count_embedding_and_head_as_layers),
        cmocka_unit_test(every_block_is_in_one_span_and_no_stage_is_much_larger),
        cmocka_unit_test(pinned_layers_are_kept_and_spread_over_chunks),
        cmocka_unit_test(the_numbers_of_the_free_split_are_that_split),
        cmocka_unit_test(the_ends_may_hold_no_layer),
        cmocka_unit_test(a_module_leaves_the_last_stage_two_layers_short),
        cmocka_unit_test(errors_name_what_would_work),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
