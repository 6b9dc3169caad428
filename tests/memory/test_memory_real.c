#include "tests/support/test.h"

#include "memory/formats.h"
#include "memory/from_onnx.h"
#include "tests/support/real_graphs.h"

#include <stdio.h>

// Graphs and packing problems of others, from file to answer. Beside the checker that runs in every
// schedule, what is answered is looked at here once more, as slowly as it reads.

enum { CAPACITY = 1048576, ALIGNMENT = 512 };

static void check_packing_by_pairs(const struct pack_problem *problem, const int64_t *offsets,
                                   int64_t height)
{
    for (int i = 0; i < problem->count; i++) {
        const struct pack_buffer *a = &problem->buffers[i];
        assert_true(offsets[i] >= 0 && offsets[i] % a->alignment == 0);
        assert_true(offsets[i] + a->size <= height);
        for (int j = 0; j < i; j++) {
            const struct pack_buffer *b = &problem->buffers[j];
            bool meet = a->lower < b->upper && b->lower < a->upper;
            bool overlap = offsets[i] < offsets[j] + b->size && offsets[j] < offsets[i] + a->size;
            assert_false(meet && overlap);
        }
    }
}

static bool pack(struct arena *arena, const char *name, int64_t capacity,
                 struct memory_schedule *schedule)
{
    const char *path = real_graph(arena, name);
    if (!path) return false;
    struct err err = {0};
    struct packing_file file;
    assert_true(packing_load(arena, path, &file, &err));
    file.problem.capacity = capacity;
    const struct memory_options options = {
        .method = MEMORY_ROAM, .alignment = 1, .capacity = capacity};
    struct arena scratch = {0};
    bool ok = memory_schedule_packing(arena, &scratch, &file.problem, &options, schedule, &err);
    arena_free(&scratch);
    assert_string_equal(err.text, "");
    assert_true(ok);
    check_packing_by_pairs(&file.problem, schedule->offsets, schedule->arena_bytes);
    return true;
}

static void the_buffers_of_a_resnet_step_are_placed_without_a_hole(void **state)
{
    struct memory_schedule schedule;
    if (!pack(*state, "somas/resnet50.csv", 0, &schedule)) return;
    assert_int_equal(schedule.buffer_count, 1042);
    assert_int_equal(schedule.arena_bytes, schedule.live_bytes);
    assert_true(schedule.layout_proven);
}

static void the_problems_of_minimalloc_fit_their_capacity(void **state)
{
    static const char *const LETTERS[] = {"A", "B", "C", "D", "E", "F"};
    struct memory_schedule schedule;
    for (int i = 0; i < 6; i++) {
        const char *name = arena_print(*state, "minimalloc/%s.%d.csv", LETTERS[i], CAPACITY);
        if (!pack(*state, name, CAPACITY, &schedule)) continue;
        assert_true(schedule.fits && schedule.arena_bytes <= CAPACITY);
    }
    if (!pack(*state, "minimalloc/input.12.csv", 12, &schedule)) return;
    assert_true(schedule.fits && schedule.arena_bytes <= 12);
}

// Every operator once and after those whose outputs it reads; then its addresses.
static void check_graph_by_hand(struct arena *arena, const struct memory_graph *graph,
                                const struct memory_problem *problem,
                                const struct memory_schedule *schedule)
{
    int *steps = ARENA_NEW(arena, int, graph->operator_count);
    for (int i = 0; i < graph->operator_count; i++)
        steps[schedule->order[i]] += i + 1;
    for (int i = 0; i < graph->operator_count; i++) {
        assert_int_equal(schedule->order[steps[i] - 1], i);
        const struct memory_operator *op = &graph->operators[i];
        for (int j = 0; j < op->input_count; j++) {
            int producer = graph->tensors[op->inputs[j]].producer;
            assert_true(producer < 0 || steps[producer] < steps[i]);
        }
    }
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, problem->buffer_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        int first = buffer->producer < 0 ? 0 : steps[buffer->producer] - 1, last = first;
        for (int i = 0; i < buffer->user_count; i++) {
            int step = steps[problem->users[buffer->first_user + i]] - 1;
            if (step > last) last = step;
        }
        if (buffer->kept) last = graph->operator_count - 1;
        buffers[b] = (struct pack_buffer){first, last + 1, buffer->bytes, ALIGNMENT, -1};
    }
    const struct pack_problem lives = {.buffers = buffers, .count = problem->buffer_count};
    check_packing_by_pairs(&lives, schedule->offsets, schedule->arena_bytes);
}

// Schedules by program order and by division; `limit_s` 0 where that ends by itself.
static struct memory_schedule schedule_graph(struct arena *arena, const struct memory_graph *graph,
                                             double limit_s)
{
    struct err err = {0};
    struct arena scratch = {0};
    struct memory_schedule program, ours;
    struct memory_options options = {
        .method = MEMORY_PROGRAM, .alignment = ALIGNMENT, .time_limit_s = limit_s};
    const struct memory_problem *problem = memory_problem_make(arena, graph, ALIGNMENT);
    bool ok = memory_schedule_graph(arena, &scratch, graph, problem, &options, &program, &err);
    options.method = MEMORY_ROAM;
    ok = ok && memory_schedule_graph(arena, &scratch, graph, problem, &options, &ours, &err);
    arena_free(&scratch);
    assert_string_equal(err.text, "");
    assert_true(ok);
    check_graph_by_hand(arena, graph, problem, &ours);
    assert_true(ours.live_bytes <= program.live_bytes);
    assert_true(ours.arena_bytes <= program.arena_bytes);
    assert_true(program.bound_bytes <= ours.live_bytes && ours.bound_bytes <= ours.live_bytes);
    return ours;
}

static void training_steps_of_onnx_models_need_no_more_than_is_proven(void **state)
{
    static const struct {
        const char *model;
        int batch;
    } CASES[] = {{"bvlc_alexnet", 1}, {"bvlc_alexnet", 32}, {"squeezenet", 32}, {"resnet50", 32}};
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        const char *path =
            real_graph(arena, arena_print(arena, "onnx-light/light_%s.onnx", CASES[i].model));
        if (!path) continue;
        const struct onnx_options options = {
            .batch = CASES[i].batch, .training = true, .moment_count = 2};
        const struct onnx_graph *onnx = onnx_load(arena, path, &options, &err);
        assert_string_equal(err.text, "");
        const struct memory_graph *graph = memory_graph_from_onnx(arena, path, onnx, &err);
        assert_string_equal(err.text, "");
        struct memory_schedule ours = schedule_graph(arena, graph, 0);
        assert_true(ours.order_proven && ours.layout_proven);
    }
}

// The first two end by themselves, proven; operators of BERT that hardly wait for each other end
// when the time does, with an answer nevertheless.
static void training_steps_that_others_measured_need_no_more_than_program_order(void **state)
{
    static const struct {
        const char *file;
        double limit_s;
    } CASES[] = {{"LayerGraphs_gnmt", 0},
                 {"LayerGraphs_resnet50", 0},
                 {"OperatorGraphs_bert_l-3", 0.2},
                 {"OperatorGraphs_bert_l-6", 0.2}};
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        const char *path = real_graph(
            arena, arena_print(arena, "dnn-partitioning/%s_training.json", CASES[i].file));
        if (!path) continue;
        const struct memory_graph *graph = memory_graph_load(arena, path, &err);
        assert_string_equal(err.text, "");
        struct memory_schedule ours = schedule_graph(arena, graph, CASES[i].limit_s);
        assert_true(CASES[i].limit_s > 0 || (ours.order_proven && ours.layout_proven));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_buffers_of_a_resnet_step_are_placed_without_a_hole),
        cmocka_unit_test(the_problems_of_minimalloc_fit_their_capacity),
        cmocka_unit_test(training_steps_of_onnx_models_need_no_more_than_is_proven),
        cmocka_unit_test(training_steps_that_others_measured_need_no_more_than_program_order),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
