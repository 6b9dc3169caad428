#include "memory/plan_schedule.h"

#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <stdio.h>

// A plan's memory schedule in its file: written beside what is there, read back, and refused where
// it is none of this plan. Schedules here are program order and one greedy rule.

static const char FILE_TEXT[] = "{\n  \"version\": 1,\n  \"memory\": {\n    \"fits\": true,\n"
                                "    \"worst_stage\": 0\n  },\n  \"prediction\": {}\n}\n";

enum { ALIGNMENT = 256 };

struct plan_of {
    struct arena *arena;
    struct priced priced;
    struct plan_stages stages;
    struct plan_schedule *schedule;
};

static void schedule_plainly(struct arena *arena, struct plan_stage *stage)
{
    const struct memory_problem *problem = stage->problem;
    int count = problem->buffer_count;
    int *order = ARENA_NEW(arena, int, problem->operator_count);
    for (int o = 0; o < problem->operator_count; o++)
        order[o] = o;
    int *birth = ARENA_NEW(arena, int, count), *death = ARENA_NEW(arena, int, count);
    int64_t live_bytes = memory_lifetimes(arena, problem, order, birth, death);
    struct pack_buffer *buffers = ARENA_NEW(arena, struct pack_buffer, count);
    for (int b = 0; b < count; b++) {
        buffers[b] =
            (struct pack_buffer){birth[b], death[b], problem->buffers[b].bytes, ALIGNMENT, -1};
    }
    int64_t *offsets = ARENA_NEW(arena, int64_t, count);
    struct pack_problem packing = {buffers, count, 0};
    stage->result = (struct memory_schedule){
        .order = order,
        .offsets = offsets,
        .live_bytes = live_bytes,
        .bound_bytes = live_bytes / 2,
        .arena_bytes = pack_long_lived_best_fit(arena, &packing, offsets),
    };
}

// Three groups of stages or more: GPipe on four.
static struct plan_of plan_start(struct arena *arena)
{
    struct plan_of of = {.arena = arena};
    of.priced = priced_start(arena, "gpt2", "dgx-a100-80g", "megatron-core");
    of.priced.parallel.degree[AXIS_PP] = 4;
    of.priced.parallel.schedule = SCHEDULE_GPIPE;
    of.priced.workload.seq_len = 64;
    of.priced.workload.global_batch = 4;
    priced_finish(&of.priced);
    struct err err = {0};
    bool made =
        plan_stages_make(arena, of.priced.program, of.priced.stack, ALIGNMENT, &of.stages, &err);
    assert_string_equal(err.text, "");
    assert_true(made);
    for (int i = 0; i < of.stages.count; i++)
        schedule_plainly(arena, &of.stages.stages[i]);
    of.schedule = plan_schedule_of(arena, &of.stages, ALIGNMENT);
    return of;
}

static struct json memory_of(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    assert_true(json_parse(arena, "plan.json", text, strlen(text), document, &err));
    struct json *root = ARENA_NEW(arena, struct json, 1);
    *root = json_root(document);
    struct json memory = json_get(root, "memory", &err);
    assert_int_equal(err.kind, ERR_NONE);
    return memory;
}

static const char *written(const struct plan_of *of, const char *text)
{
    struct json memory = memory_of(of->arena, text);
    return plan_schedule_text(of->arena, &memory, of->schedule);
}

static bool reads(const struct plan_of *of, const char *text, const struct plan_schedule **read,
                  struct err *err)
{
    *err = (struct err){0};
    struct json memory = memory_of(of->arena, text);
    return plan_schedule_read(of->arena, &memory, of->priced.program, of->priced.stack, read, err);
}

static void stages_that_are_alike_are_scheduled_once(void **state)
{
    struct plan_of of = plan_start(*state);
    assert_int_equal(of.stages.count, 3);
    assert_int_equal(of.stages.stages[1].stage, 1);
    assert_int_equal(of.stages.stages[1].stage_count, 2);
    assert_int_equal(of.stages.stages[1].stages[1], 2);
    assert_int_equal(of.stages.stages[2].stage, 3);
}

static void a_schedule_reads_back_as_it_was_written(void **state)
{
    struct plan_of of = plan_start(*state);
    const char *text = written(&of, FILE_TEXT);
    const struct plan_schedule *read;
    struct err err;
    bool done = reads(&of, text, &read, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    assert_int_equal(read->alignment, ALIGNMENT);
    assert_int_equal(read->count, of.schedule->count);
    for (int i = 0; i < read->count; i++) {
        const struct stage_schedule *a = &read->stages[i], *b = &of.schedule->stages[i];
        assert_int_equal(a->stage, b->stage);
        assert_int_equal(a->micro_batches, b->micro_batches);
        assert_int_equal(a->live_bytes, b->live_bytes);
        assert_int_equal(a->arena_bytes, b->arena_bytes);
        assert_int_equal(a->bound_bytes, b->bound_bytes);
        assert_memory_equal(a->order, b->order, (size_t)b->operator_count * sizeof *b->order);
        assert_memory_equal(a->offsets, b->offsets, (size_t)b->tensor_count * sizeof *b->offsets);
    }
}

static void all_other_bytes_of_the_file_stay(void **state)
{
    struct plan_of of = plan_start(*state);
    const char *text = written(&of, FILE_TEXT);
    const char *at = strstr(text, ",\n    \"schedule\": {");
    assert_non_null(at);
    size_t before = (size_t)(at - text), all = strlen(text), added = all - strlen(FILE_TEXT);
    assert_memory_equal(text, FILE_TEXT, before);
    assert_string_equal(at + added, FILE_TEXT + before);
    // A second time replaces the first.
    assert_string_equal(written(&of, text), text);
    int64_t arena_bytes = of.schedule->stages[0].arena_bytes;
    of.schedule->stages[0].arena_bytes = 2 * arena_bytes;
    const char *other = written(&of, text);
    assert_string_not_equal(other, text);
    of.schedule->stages[0].arena_bytes = arena_bytes;
    assert_string_equal(written(&of, other), text);
    assert_string_equal(written(&of, "{\"memory\": {}}") + strlen("{\"memory\": {"),
                        arena_print(of.arena, "%.*s}}", (int)(added - 1), at + 1));
}

static void a_plan_without_a_schedule_has_none(void **state)
{
    struct plan_of of = plan_start(*state);
    const struct plan_schedule *read;
    struct err err;
    assert_true(reads(&of, FILE_TEXT, &read, &err));
    assert_null(read);
}

// Reads the schedule as it now is; it is wrong, and the line ends like this.
static void refuses(const struct plan_of *of, const char *end)
{
    const struct plan_schedule *read;
    struct err err;
    assert_false(reads(of, written(of, FILE_TEXT), &read, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    size_t length = strlen(err.text), wanted = strlen(end);
    if (length >= wanted && strcmp(err.text + length - wanted, end) == 0) return;
    print_error("found    %s\nexpected %s\n", err.text, end);
    fail();
}

static void wrong_orders_are_refused(void **state)
{
    struct plan_of of = plan_start(*state);
    struct stage_schedule *stage = &of.schedule->stages[0];
    int *order = (int *)of.stages.stages[0].result.order, kept = order[1];
    order[1] = order[0];
    refuses(&of, "$.memory.schedule.stages[0].order[1]: operator 0 stands there twice");
    order[1] = stage->operator_count;
    refuses(&of, arena_print(of.arena, "order[1]: must be between 0 and %d, found %d",
                             stage->operator_count - 1, stage->operator_count));
    order[1] = kept;
    int last = stage->operator_count - 1;
    order[0] = last, order[last] = 0;
    const struct memory_graph *graph = of.stages.stages[0].graph->graph;
    const struct memory_problem *problem = of.stages.stages[0].problem;
    int before = problem->predecessors[problem->first_predecessor[last]];
    refuses(&of, arena_print(of.arena, "order[0]: operator %d (%s) needs %d (%s) before it", last,
                             graph->operators[last].name, before, graph->operators[before].name));
    order[0] = 0, order[last] = last;
    stage->operator_count--;
    refuses(&of, arena_print(of.arena, "order: expected %d operators, found %d", last + 1, last));
    stage->operator_count++;
}

// A tensor that has a place, behind at least `skip` others.
static int placed_tensor(const struct plan_of *of, int skip)
{
    const struct memory_graph *graph = of->stages.stages[0].graph->graph;
    for (int t = 0; t < graph->tensor_count; t++) {
        bool has_place = !graph->tensors[t].persistent && graph->tensors[t].storage == t &&
                         of->schedule->stages[0].offsets[t] > 0;
        if (has_place && skip-- == 0) return t;
    }
    fail();
    return -1;
}

static void wrong_offsets_are_refused(void **state)
{
    struct plan_of of = plan_start(*state);
    struct stage_schedule *stage = &of.schedule->stages[0];
    const struct memory_graph *graph = of.stages.stages[0].graph->graph;
    int64_t *offsets = (int64_t *)stage->offsets;
    int t = placed_tensor(&of, 0);
    int64_t kept = offsets[t];
    offsets[t] = kept + 1;
    refuses(&of, arena_print(of.arena, "offsets[%d]: %lld is no multiple of the alignment, 256", t,
                             (long long)kept + 1));
    offsets[t] = -1;
    refuses(&of, arena_print(of.arena, "offsets[%d]: %s has no place", t, graph->tensors[t].name));
    offsets[t] = stage->arena_bytes;
    refuses(&of, arena_print(of.arena, "offsets[%d]: %s of %lld bytes ends above the arena", t,
                             graph->tensors[t].name, (long long)graph->tensors[t].bytes));
    offsets[t] = kept;
    offsets[0] = 0;
    refuses(&of, "offsets[0]: weights has no place in the arena, expected -1");
    offsets[0] = -1;
    stage->tensor_count--;
    refuses(&of, arena_print(of.arena, "offsets: expected %d tensors, found %d",
                             stage->tensor_count + 1, stage->tensor_count));
}

// Every pair that lives at once is found, whichever comes first and whichever lies lower.
static void overlaps_are_refused(void **state)
{
    struct plan_of of = plan_start(*state);
    const struct plan_stage *group = &of.stages.stages[0];
    const struct memory_problem *problem = group->problem;
    int *birth = ARENA_NEW(of.arena, int, problem->buffer_count);
    int *death = ARENA_NEW(of.arena, int, problem->buffer_count);
    memory_lifetimes(of.arena, problem, group->result.order, birth, death);
    const struct memory_graph *graph = group->graph->graph;
    int64_t *offsets = (int64_t *)of.schedule->stages[0].offsets;
    int tried = 0;
    for (int b = 1; b < problem->buffer_count && tried < 12; b += 7) {
        int a = b - 1;
        if (birth[a] >= death[b] || birth[b] >= death[a]) continue;
        int upper = problem->buffers[b].tensor, lower = problem->buffers[a].tensor;
        int64_t kept = offsets[upper];
        int64_t moved = offsets[lower] + problem->buffers[a].bytes - ALIGNMENT;
        if (moved + problem->buffers[b].bytes > of.schedule->stages[0].arena_bytes) continue;
        for (int t = 0; t < graph->tensor_count; t++) {
            if (graph->tensors[t].storage == upper) offsets[t] = moved;
        }
        refuses(&of, ", which lives with it");
        for (int t = 0; t < graph->tensor_count; t++) {
            if (graph->tensors[t].storage == upper) offsets[t] = kept;
        }
        tried++;
    }
    assert_true(tried > 3);
}

static void wrong_numbers_and_stages_are_refused(void **state)
{
    struct plan_of of = plan_start(*state);
    struct stage_schedule *stage = &of.schedule->stages[1];
    int64_t live_bytes = stage->live_bytes;
    stage->live_bytes++;
    refuses(&of, arena_print(of.arena,
                             "stages[1].live_bytes: the order has %lld bytes alive at once, found "
                             "%lld",
                             (long long)live_bytes, (long long)live_bytes + 1));
    stage->live_bytes--;
    stage->bound_bytes = live_bytes + 1;
    refuses(&of, arena_print(of.arena,
                             "stages[1].bound_bytes: the bound is above what the order needs, %lld",
                             (long long)live_bytes));
    stage->bound_bytes = live_bytes;
    stage->micro_batches++;
    refuses(&of, "stages[1].micro_batches: expected 2, found 3");
    stage->micro_batches--;
    stage->stage_count--;
    refuses(&of, "stages[1].stages: expected 2 stages that are alike, found 1");
    stage->stage_count++;
    static const int OTHERS[] = {1, 3};
    stage->stages = OTHERS;
    refuses(&of, "stages[1].stages[1]: expected stage 2, found 3");
    of.schedule->count--;
    refuses(&of, "schedule.stages: expected 3 groups of stages, found 2");
}

// Weights, gradients, optimizer and reserve stay; one arena stands for what comes and goes.
static void numbers_out_of_range_are_refused(void **state)
{
    struct plan_of of = plan_start(*state);
    struct stage_schedule *stage = &of.schedule->stages[0];
    int64_t *const BYTES[] = {&stage->live_bytes, &stage->arena_bytes, &stage->bound_bytes};
    static const char *const NAMES[] = {"live", "arena", "bound"};
    for (int i = 0; i < 3; i++) {
        int64_t kept = *BYTES[i];
        *BYTES[i] = 9000000000000002;
        refuses(&of, arena_print(of.arena,
                                 "stages[0].%s_bytes: must be between 0 and 9000000000000000, "
                                 "found 9000000000000002",
                                 NAMES[i]));
        *BYTES[i] = -1;
        refuses(&of, arena_print(of.arena,
                                 "stages[0].%s_bytes: must be between 0 and 9000000000000000, "
                                 "found -1",
                                 NAMES[i]));
        *BYTES[i] = kept;
    }
    stage->micro_batches = 0;
    refuses(&of, "stages[0].micro_batches: must be between 1 and 1073741824, found 0");
    stage->micro_batches = (1 << 30) + 1;
    refuses(&of, "stages[0].micro_batches: must be between 1 and 1073741824, found 1073741825");
    of.schedule->alignment = 0;
    refuses(&of, "schedule.alignment: must be between 1 and 1073741824, found 0");
    of.schedule->alignment = (1 << 30) + 1;
    refuses(&of, "schedule.alignment: must be between 1 and 1073741824, found 1073741825");
}

static void a_schedule_replaces_what_comes_and_goes(void **state)
{
    struct plan_of of = plan_start(*state);
    enum { STAGES = 4 };
    struct memory_parts parts[STAGES], before[STAGES];
    for (int i = 0; i < STAGES; i++)
        parts[i] = before[i] = memory_of_stage(of.priced.program, of.priced.stack, i);
    struct evaluation evaluation = {.program = of.priced.program, .stage_memory = parts};
    plan_schedule_apply(of.schedule, &evaluation);
    int64_t most_bytes = 0;
    for (int i = 0; i < STAGES; i++) {
        int group = i == 0 ? 0 : i == 3 ? 2 : 1;
        int64_t arena_bytes = of.schedule->stages[group].arena_bytes;
        assert_int_equal(parts[i].planned_bytes, arena_bytes);
        assert_int_equal(parts[i].activations_bytes + parts[i].transient_bytes, 0);
        assert_int_equal(parts[i].logits_bytes, 0);
        int64_t state_bytes =
            before[i].weights_bytes + before[i].gradients_bytes + before[i].optimizer_bytes;
        assert_int_equal(parts[i].peak_bytes, state_bytes + arena_bytes + before[i].standing_bytes);
        assert_int_equal(parts[i].reserved_bytes, parts[i].peak_bytes + before[i].reserve_bytes);
        if (parts[i].reserved_bytes > most_bytes) most_bytes = parts[i].reserved_bytes;
    }
    assert_int_equal(evaluation.prediction.reserved_bytes, most_bytes);
    assert_int_equal(parts[evaluation.worst_stage].reserved_bytes, most_bytes);
    assert_int_equal(evaluation.prediction.planned_bytes,
                     parts[evaluation.worst_stage].planned_bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stages_that_are_alike_are_scheduled_once),
        cmocka_unit_test(a_schedule_reads_back_as_it_was_written),
        cmocka_unit_test(all_other_bytes_of_the_file_stay),
        cmocka_unit_test(a_plan_without_a_schedule_has_none),
        cmocka_unit_test(wrong_orders_are_refused),
        cmocka_unit_test(wrong_offsets_are_refused),
        cmocka_unit_test(overlaps_are_refused),
        cmocka_unit_test(wrong_numbers_and_stages_are_refused),
        cmocka_unit_test(numbers_out_of_range_are_refused),
        cmocka_unit_test(a_schedule_replaces_what_comes_and_goes),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
