#include "cost_models/parameters.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

#include <math.h>

// The end of a step as it is said (plan/step_end.h), priced and written out.

static void cut(const double *elements, int count, int buckets, const int *expected)
{
    struct step_cut cut = {.count = count, .bucket_count = buckets};
    for (int i = 0; i < count; i++)
        cut.total += elements[i];
    for (int i = 0; i < count; i++)
        assert_int_equal(step_cut_next(&cut, elements[i]), expected[i]);
}

static void buckets_are_as_even_as_whole_pieces_allow(void **state)
{
    (void)state;
    cut((const double[]){[0 ... AXIS_COUNT - 1] = 1}, 6, 3, (const int[]){0, 0, 1, 1, 2, 2});
    cut((const double[]){5, 1, 1, 1}, 4, 2, (const int[]){0, 1, 1, 1});
    cut((const double[]){1, 1, 1, 5}, 4, 2, (const int[]){0, 0, 0, 1});
    cut((const double[]){9, 1, 1}, 3, 3, (const int[]){0, 1, 2});
    cut((const double[]){1, 1, 9}, 3, 3, (const int[]){0, 1, 2});
    cut((const double[]){2, 3, 4}, 3, 1, (const int[]){0, 0, 0});
    cut((const double[]){3, 3, 3, 3, 3}, 5, 2, (const int[]){0, 0, 0, 1, 1});
}

static int count_kind(const struct script *script, enum task_kind kind)
{
    int count = 0;
    for (int t = 0; t < script->task_count; t++)
        count += script->tasks[t].kind == kind;
    return count;
}

// Elements of gradients that the buckets of a script have room for, on the rank with most.
static double kept_elements(const struct script *script)
{
    const struct mesh *mesh = &script->program->mesh;
    double elements = 0;
    bool is_used[256] = {false};
    assert_true(script->room_count <= 256);
    for (int b = 0; b < script->bucket_count; b++) {
        const struct script_bucket *bucket = &script->buckets[b];
        if (bucket->room >= 0) {
            elements += is_used[bucket->room] ? 0 : (double)script->rooms[bucket->room].elements;
            is_used[bucket->room] = true;
        } else {
            elements += (double)bucket->elements / mesh_size(mesh, bucket->storage.gradient_axes);
        }
    }
    return elements;
}

static void check_stage(struct script_case *of, const struct step_price *price, int stage)
{
    const struct program *program = of->program;
    const struct script *script = of->scripts[stage];
    struct step_counts sum = {0};
    double elements = 0;
    for (int c = 0; c < program->shape.chunk_count; c++) {
        int class = program->class_of[stage * program->shape.chunk_count + c];
        const struct step_counts *counts = &price->classes[class].counts;
        sum.reduce += counts->reduce;
        sum.small += counts->small;
        sum.update += counts->update;
        sum.gather += counts->gather;
        struct parameter_sums sums = parameter_sums(program, &program->chunks[class]);
        elements += parameter_gradients(program, of->stack, &program->chunks[class], &sums);
    }
    assert_int_equal(count_kind(script, TASK_GRADIENT_REDUCE), sum.reduce);
    assert_int_equal(count_kind(script, TASK_SMALL_REDUCE), sum.small);
    assert_int_equal(count_kind(script, TASK_UPDATE), sum.update);
    assert_int_equal(count_kind(script, TASK_PARAMETER_GATHER), sum.gather);
    assert_int_equal(count_kind(script, TASK_NORM), step_takes_norm(&program->workload));
    assert_int_equal(count_kind(script, TASK_TRUST), step_takes_trust(&program->workload));
    assert_true(fabs(kept_elements(script) - elements) <= 1e-9 * elements + script->room_count);
}

// Over drawn plans, optimizers and sizes of buckets, with a norm and without.
static void what_is_priced_is_what_is_written(void **state)
{
    (void)state;
    struct draw draw = draw_start("step end", 11);
    int wanted = script_case_count(60), roomy = 0, early = 0, shards = 0;
    for (int done = 0, tries = 0; done < wanted; tries++) {
        struct arena arena = {0};
        struct script_case of;
        assert_true(tries < 300 * wanted + 300);
        if (script_case_draw(&arena, &draw, &of)) {
            of.program->workload.unclipped = draw_int(&draw, 0, 1);
            of.program->workload.optimizer =
                (enum optimizer)draw_int(&draw, 0, OPTIMIZER_COUNT - 1);
            of.program->parallel.bucket_bytes =
                draw_int(&draw, 0, 3) ? 1 << draw_int(&draw, 8, 20) : 0;
            if (of.program->shape.stage_count == 1 && draw_int(&draw, 0, 1)) {
                struct parallel *parallel = &of.program->parallel;
                of.program->shape.micro_batch_count = 1;
                of.program->workload.global_batch =
                    (int64_t)parallel->micro_batch * parallel->degree[AXIS_DP];
            }
            // Gradients that leave, whole or in shards.
            if (of.program->shape.stage_count == 1 && of.stack->copy_ratio > 0 &&
                draw_int(&draw, 0, 1)) {
                struct offload *offload = &of.program->parallel.offload;
                offload->optimizer = TIER_HOST;
                offload->gradients = true;
                offload->optimizer_layers = offload->gradient_layers = 0;
                shards += of.program->parallel.zero >= 2;
            }
            script_case_write(&of);
            const struct step_price *price = step_price(&arena, &of.context, of.program);
            for (int s = 0; s < of.program->shape.stage_count; s++) {
                check_stage(&of, price, s);
                roomy += of.scripts[s]->room_count > 0;
                early += step_streams(&of.program->workload);
            }
            done++;
        }
        arena_free(&arena);
    }
    assert_true(script_case_count(60) < 60 || (roomy > 0 && early > 3 && shards > 0));
}

// Updates of a step without a norm stand behind the last reader of the weights and before the end.
static void buckets_are_updated_as_they_come(void **state)
{
    struct script_case of;
    script_case_gpt2(*state, 1, 1, &of);
    of.program->workload.unclipped = true;
    of.program->parallel.bucket_bytes = 1 << 22;
    script_case_write(&of);
    const struct script *script = of.scripts[0];
    int inside = 0;
    for (int t = 0; t < script->task_count; t++) {
        const struct script_task *task = &script->tasks[t];
        if (task->kind != TASK_UPDATE) continue;
        inside += task->slot >= 0;
        for (int later = t + 1; later < script->task_count; later++) {
            const struct script_task *reader = &script->tasks[later];
            for (int i = 0; i < reader->input_count; i++) {
                const struct script_operand *input = &reader->inputs[i];
                if (input->place != PLACE_WEIGHT) continue;
                int unit = script->parameters[input->parameter].unit;
                int same_as = script->units[unit].same_as;
                assert_true(script->units[same_as < 0 ? unit : same_as].bucket != task->bucket);
            }
        }
    }
    assert_true(inside >= script->bucket_count - 4 && script->room_count == 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(buckets_are_as_even_as_whole_pieces_allow),
        cmocka_unit_test(what_is_priced_is_what_is_written),
        cmocka_unit_test(buckets_are_updated_as_they_come),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
