#include "memory/plan_script.h"

#include "plan/script/check.h"
#include "simulator/engine.h"
#include "tests/support/script_case.h"
#include "tests/support/script_exchanges.h"
#include "tests/support/test.h"

static int count_kind(const struct script *script, enum task_kind kind)
{
    int count = 0;
    for (int i = 0; i < script->task_count; i++)
        count += script->tasks[i].kind == kind;
    return count;
}

static int find_kind(const struct script *script, enum task_kind kind, int from)
{
    while (from < script->task_count && script->tasks[from].kind != kind)
        from++;
    return from;
}

static void gpt2_of(struct arena *arena, int stages, int micro_batches, struct script_case *of)
{
    script_case_gpt2(arena, stages, micro_batches, of);
    script_case_write(of);
}

static void tasks_have_the_numbers_of_simulated_ones(void **state)
{
    static const enum task_kind ONCE[] = {TASK_GRADIENT_REDUCE, TASK_PARAMETER_GATHER,
                                          TASK_TIED_REDUCE, TASK_NORM, TASK_UPDATE};
    struct script_case of;
    gpt2_of(*state, 2, 3, &of);
    const struct script *script = of.scripts[0];
    for (size_t i = 0; i < sizeof ONCE / sizeof *ONCE; i++) {
        int task = find_kind(script, ONCE[i], 0);
        assert_true(task < script->task_count);
        assert_int_equal(script_task_id(script, task).kind, ONCE[i]);
    }
    for (int i = 0; i < script->task_count; i++) {
        const struct script_task *task = &script->tasks[i];
        struct task_id id = script_task_id(script, i);
        if (task->kind == TASK_SEND || task->kind == TASK_RECEIVE) {
            assert_int_equal(id.kind, task->kind);
            assert_int_equal(id.item, 2 * task->micro_batch + (task->slot_kind != TASK_FORWARD));
        }
        if (task->kind == TASK_INSTR) {
            assert_int_equal(id.kind, task->slot_kind);
            assert_int_equal(id.item, task->micro_batch);
        }
        int number = task_number(&of.program->shape, &id);
        assert_int_equal(task_id_of(&of.program->shape, number).kind, id.kind);
    }
}

static void tasks_are_named_by_slot_and_operator(void **state)
{
    struct script_case of;
    gpt2_of(*state, 2, 3, &of);
    const struct script *first = of.scripts[0], *last = of.scripts[1];
    assert_string_equal(script_task_name(*state, first, 0), "F0.0 0 embedding.token");
    int send = find_kind(first, TASK_SEND, 0);
    assert_string_equal(script_task_name(*state, first, send), "F0.0 6 send");
    int tied = find_kind(last, TASK_TIED_REDUCE, 0);
    assert_string_equal(script_task_name(*state, last, tied),
                        "tied gradients of 0.6 head.lm.weight");
    int norm = find_kind(last, TASK_NORM, 0);
    assert_string_equal(script_task_name(*state, last, norm), "norm");
    assert_string_equal(script_task_name(*state, last, norm + 1), "update of 0.3 block and 3 more");
    for (int kind = 0; kind < TASK_KIND_COUNT; kind++)
        assert_true(strlen(task_kind_name((enum task_kind)kind)) > 0);
}

static int tied_unit(const struct script *script, int from)
{
    while (from < script->unit_count) {
        const struct script_parameter *of =
            &script->parameters[script->units[from].first_parameter];
        if (script->program->blocks[of->block]->parameters[of->index].tie) break;
        from++;
    }
    return from;
}

static void what_is_tied_on_one_stage_is_stored_once(void **state)
{
    struct script_case of;
    gpt2_of(*state, 1, 2, &of);
    const struct script *script = of.scripts[0];
    int first = tied_unit(script, 0), second = tied_unit(script, first + 1);
    assert_true(second < script->unit_count);
    assert_int_equal(script->units[first].same_as, -1);
    assert_int_equal(script->units[second].same_as, first);
    assert_int_equal(script->parameters[script->units[second].first_parameter].same_as,
                     script->units[first].first_parameter);
    assert_int_equal(count_kind(script, TASK_TIED_REDUCE), 0);
    assert_int_equal(count_kind(script, TASK_UPDATE), script->bucket_count);
    // GPT-2 124M, its vocabulary padded to a multiple of 128.
    int64_t elements = 0;
    for (int u = 0; u < script->unit_count; u++)
        elements += script->units[u].same_as < 0 ? script->units[u].elements : 0;
    int64_t padding = of.program->graph->vocab_padded - of.program->graph->vocab;
    assert_int_equal(elements, of.program->graph->parameter_count + padding * 768);
}

static void what_is_tied_on_two_stages_is_summed_when_it_is_reduced(void **state)
{
    struct script_case of;
    gpt2_of(*state, 4, 8, &of);
    for (int s = 0; s < 4; s++) {
        const struct script *script = of.scripts[s];
        bool is_end = s == 0 || s == 3;
        assert_int_equal(count_kind(script, TASK_TIED_REDUCE), is_end);
        if (!is_end) continue;
        int tied = find_kind(script, TASK_TIED_REDUCE, 0);
        const struct script_task *task = &script->tasks[tied];
        const struct tied *of_ends = &of.program->ties[script->units[task->unit].tied];
        assert_int_equal(of_ends->stage_count, 2);
        assert_int_equal(of_ends->stages[s > 0], s);
        int reduce = find_kind(script, TASK_GRADIENT_REDUCE, 0);
        while (script->tasks[reduce].unit != task->unit)
            reduce = find_kind(script, TASK_GRADIENT_REDUCE, reduce + 1);
        assert_true(reduce < tied);
        struct script_exchange exchanges[SCRIPT_EXCHANGE_MAX];
        assert_int_equal(script_exchanges(script, tied, exchanges), 1);
        assert_int_equal(exchanges[0].elements, of_ends->elements);
        // ZeRO 1: scattered to the two replicas, gathered after the update.
        assert_int_equal(script_exchanges(script, reduce, exchanges), 1);
        assert_int_equal(exchanges[0].collective, COLLECTIVE_REDUCE_SCATTER);
    }
}

// Gradients of the last layers are complete first; their reduction stands inside the slot that
// makes them, where it may run beside the rest of it.
static void reductions_stand_behind_the_task_that_completes_them(void **state)
{
    struct script_case of;
    gpt2_of(*state, 2, 3, &of);
    of.program->parallel.bucket_bytes = 1 << 24;
    script_case_write(&of);
    const struct script *script = of.scripts[1];
    int first = find_kind(script, TASK_GRADIENT_REDUCE, 0);
    const struct script_task *before = &script->tasks[first - 1], *task = &script->tasks[first];
    assert_true(before->slot_kind == TASK_BACKWARD || before->slot_kind == TASK_WEIGHT);
    assert_int_equal(before->micro_batch, 2);
    assert_int_equal(before->slot, task->slot);
    assert_int_equal(script->tasks[first + 1].slot, task->slot);
    assert_int_equal(script->tasks[first + 1].kind, TASK_INSTR);
    assert_true(before->position <= task->position);
    of.program->parallel.overlap = 0;
    script_case_write(&of);
    script = of.scripts[1];
    assert_int_equal(script->tasks[find_kind(script, TASK_GRADIENT_REDUCE, 0)].slot, -1);
}

static int under_way(struct arena *arena, enum schedule_kind schedule, int stages,
                     int micro_batches)
{
    struct script_case of;
    struct arena scratch = {0};
    script_case_gpt2(arena, stages, micro_batches, &of);
    of.program->parallel.schedule = schedule;
    script_case_write(&of);
    int most =
        script_messages_under_way(&scratch, (const struct script *const *)of.scripts, stages);
    arena_free(&scratch);
    return most;
}

// GPipe's first stage sends all of a step before it needs an answer; under 1F1B it has as many on
// the way as there are stages.
static void as_many_messages_are_under_way_as_the_schedule_allows(void **state)
{
    assert_int_equal(under_way(*state, SCHEDULE_GPIPE, 2, 7), 7);
    assert_int_equal(under_way(*state, SCHEDULE_1F1B, 2, 7), 2);
    assert_int_equal(under_way(*state, SCHEDULE_1F1B, 4, 9), 4);
    assert_int_equal(under_way(*state, SCHEDULE_1F1B, 1, 3), 0);
}

static const struct memory_options GREEDY = {.method = MEMORY_GREEDY, .alignment = 256};

static struct script **make_scripts(struct arena *arena, const struct script_case *of,
                                    const struct plan_schedule *schedule, bool *is_planned,
                                    struct err *err)
{
    struct arena scratch = {0};
    struct script **scripts = plan_scripts_make(arena, &scratch, of->program, of->stack, schedule,
                                                &GREEDY, is_planned, err);
    arena_free(&scratch);
    return scripts;
}

static void scripts_are_made_without_a_schedule(void **state)
{
    struct script_case of;
    struct err err = {0};
    bool is_planned = true;
    script_case_gpt2(*state, 3, 5, &of);
    struct script **scripts = make_scripts(*state, &of, NULL, &is_planned, &err);
    assert_string_equal(err.text, "");
    assert_false(is_planned);
    for (int s = 0; s < 3; s++) {
        assert_int_equal(scripts[s]->stage, s);
        assert_int_equal(scripts[s]->alignment, 256);
    }
}

// Offsets and size of the arena are those of the plan; without a pipeline its one micro-batch is
// repeated.
static void scripts_use_the_schedule_of_the_plan(void **state)
{
    struct script_case of;
    struct err err = {0};
    struct arena scratch = {0};
    bool is_planned = false;
    script_case_gpt2(*state, 1, 3, &of);
    struct plan_stages stages;
    struct memory_options options = GREEDY;
    options.alignment = 512;
    assert_true(
        plan_schedule_make(*state, &scratch, of.program, of.stack, &options, &stages, &err));
    const struct plan_schedule *schedule = plan_schedule_of(*state, &stages, 512);
    struct script **scripts = make_scripts(*state, &of, schedule, &is_planned, &err);
    assert_string_equal(err.text, "");
    assert_true(is_planned);
    assert_int_equal(scripts[0]->alignment, 512);
    assert_int_equal(scripts[0]->arena_bytes, schedule->stages[0].arena_bytes);
    assert_int_equal(count_kind(scripts[0], TASK_LOSS), 3);
    int64_t highest = 0;
    for (int i = 0; i < scripts[0]->task_count; i++) {
        const struct script_task *task = &scripts[0]->tasks[i];
        for (int k = 0; k < task->output_count; k++) {
            int64_t end = task->outputs[k].offset + task->outputs[k].bytes;
            if (task->outputs[k].place == PLACE_ARENA && end > highest) highest = end;
        }
    }
    assert_true(highest <= scripts[0]->arena_bytes && highest > scripts[0]->arena_bytes - 512);
    arena_free(&scratch);
}

static void steps_too_long_to_be_written_out_are_refused(void **state)
{
    struct script_case of;
    struct err err = {0};
    bool is_planned;
    script_case_gpt2(*state, 1, 2, &of);
    of.program->shape.micro_batch_count = 1 << 20;
    assert_null(make_scripts(*state, &of, NULL, &is_planned, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_non_null(strstr(err.text, "more than can be run"));
}

static void shards_over_axes_that_split_a_parameter_are_refused(void **state)
{
    struct script_case of;
    struct err err = {0};
    bool is_planned;
    script_case_gpt2(*state, 1, 2, &of);
    of.program->blocks[1]->parameters[0].layout.of[0] = DIM_HIDDEN;
    of.program->storage[PARAMETER_DENSE].gradient_axes = 1;
    assert_null(make_scripts(*state, &of, NULL, &is_planned, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_non_null(strstr(err.text, "over which zero 1 shards as well"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_have_the_numbers_of_simulated_ones),
        cmocka_unit_test(tasks_are_named_by_slot_and_operator),
        cmocka_unit_test(what_is_tied_on_one_stage_is_stored_once),
        cmocka_unit_test(what_is_tied_on_two_stages_is_summed_when_it_is_reduced),
        cmocka_unit_test(reductions_stand_behind_the_task_that_completes_them),
        cmocka_unit_test(as_many_messages_are_under_way_as_the_schedule_allows),
        cmocka_unit_test(scripts_are_made_without_a_schedule),
        cmocka_unit_test(scripts_use_the_schedule_of_the_plan),
        cmocka_unit_test(steps_too_long_to_be_written_out_are_refused),
        cmocka_unit_test(shards_over_axes_that_split_a_parameter_are_refused),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
