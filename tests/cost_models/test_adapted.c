#include "cost_models/parameters.h"
#include "models/adapters.h"
#include "tests/support/draw.h"
#include "tests/support/machine.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// What adapters leave of a block: no work, no state and no messages for what is frozen.

static int count(const struct block_program *program, enum op_kind kind, enum phase phase)
{
    int found = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        found += !instr->collective && instr->kind == kind && instr->phase == phase;
    }
    return found;
}

static struct priced llama(struct arena *arena, const char *said, int zero)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g", "automodel");
    bool is_read = adapters_parse(said, &of.parallel.lora);
    assert_true(is_read);
    adapters_add(arena, of.graph, of.parallel.lora);
    of.parallel.zero = zero;
    priced_finish(&of);
    return of;
}

// Seven projections, each with two products forward, the gradients of their inputs and of their
// weights: 7 + 14 products forward and backward, 14 weight gradients. Frozen: none of those, and in
// the head neither; nothing at all goes back into the embedding.
static void frozen_weights_have_no_gradients(void **state)
{
    struct priced of = llama(*state, "16", 0);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    assert_int_equal(count(layer, OP_CONTRACT, PHASE_FORWARD), 21);
    assert_int_equal(count(layer, OP_CONTRACT, PHASE_BACKWARD), 21);
    assert_int_equal(count(layer, OP_CONTRACT, PHASE_WEIGHT), 14);
    const struct block_program *head = priced_block(&of, BLOCK_HEAD);
    assert_int_equal(count(head, OP_CONTRACT, PHASE_BACKWARD), 1);
    assert_int_equal(head->instr_count, head->phase_first[PHASE_WEIGHT]);
    const struct block_program *first = priced_block(&of, BLOCK_EMBEDDING);
    assert_int_equal(first->instr_count, first->phase_first[PHASE_BACKWARD]);
    of = llama(*state, "16:q,v", 0);
    layer = priced_block(&of, BLOCK_LAYER);
    assert_int_equal(count(layer, OP_CONTRACT, PHASE_FORWARD), 7 + 4);
    assert_int_equal(count(layer, OP_CONTRACT, PHASE_WEIGHT), 4);
}

// Of llama-2-7b (hidden 4096, mlp 11008) adapters of rank 16 have in a layer 16 (4 x 8192 +
// 3 x 15104) elements. Two bytes a weight; of adapters four a gradient and twelve of state, all
// divided by ZeRO as its stage says, frozen weights by stage 3 alone.
static void states_are_those_of_the_adapters(void **state)
{
    const double adapters = 32.0 * 16 * (4 * 8192 + 3 * 15104);
    for (int zero = 0; zero < 4; zero += zero ? 1 : 2) {
        struct priced of = llama(*state, "16", zero);
        double frozen = (double)of.graph->frozen_parameter_count;
        assert_true(frozen == 6738415616.0 &&
                    (double)of.graph->parameter_count == frozen + adapters);
        struct memory_parts parts = memory_of_stage(of.program, of.stack, 0);
        double ranks = zero == 3 ? 8 : 1, kept = zero >= 1 ? 8 : 1;
        // FSDP2 shards the master copy, and keeps no other of what is trained.
        double weights = 2 * (frozen + (zero == 3 ? 0 : adapters)) / ranks;
        assert_true(fabs((double)parts.weights_bytes - weights) < 2);
        assert_true(fabs((double)parts.optimizer_bytes - 12 * adapters / kept) < 2);
        // Gradients are added up whole until the last micro-batch.
        of.parallel.accumulates = false;
        assert_true(fabs((double)parts.gradients_bytes - 4 * adapters / (zero >= 2 ? 8 : 1)) < 2);
    }
}

static double reduced(const struct priced *of)
{
    const struct step_rules rules = step_rules_of(of->stack, of->program);
    const struct step_end end = step_end_of(of->program, &of->program->chunks[0], &rules);
    double elements = 0;
    for (int i = 0; i < end.group_count; i++) {
        assert_true(parameter_kind_is_trained(end.groups[i].kind));
        elements += end.groups[i].elements;
    }
    return elements;
}

static void only_adapters_are_reduced_and_updated(void **state)
{
    struct priced of = llama(*state, "8:q,k,v,o", 0);
    assert_true(reduced(&of) == 32.0 * 8 * 4 * 8192);
    of = llama(*state, "none", 0);
    assert_true(reduced(&of) == 6738415616.0);
}

static double blocks_s(const struct priced *of, enum phase phase)
{
    double sum_s = 0;
    for (int i = 0; i < of->program->block_count; i++) {
        struct block_price price =
            block_price(&of->context, &of->program->mesh, of->program->blocks[i], 0);
        for (int part = 0; part < PART_COUNT; part++)
            sum_s += price.phase_s[phase][part];
    }
    return sum_s;
}

// Longer than forward and the gradients of inputs alone, shorter than with those of all weights.
static void a_step_lacks_the_weight_gradients(void **state)
{
    struct priced all = llama(*state, "none", 0), few = llama(*state, "16", 0);
    double least_s = blocks_s(&all, PHASE_FORWARD) + blocks_s(&all, PHASE_BACKWARD);
    double whole_s = least_s + blocks_s(&all, PHASE_WEIGHT), found_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        found_s += blocks_s(&few, (enum phase)phase);
    assert_true(found_s > least_s && found_s < whole_s);
}

// Adapters on any mesh compute what they do on one rank: outputs, and the gradients of inputs and
// of both factors (tests/support/machine.h). Models, projections and meshes are drawn.
static void split_adapters_compute_what_whole_ones_do(void **state)
{
    enum { DRAWS = 60 };
    struct draw draw = {.state = 20261124};
    int model_count = 0;
    while (TINY_MODELS[model_count])
        model_count++;
    for (int i = 0; i < DRAWS; i++) {
        struct arena_mark mark = arena_mark(*state);
        struct import_options options = {.flash = true, .vocab_multiple = 4};
        struct graph *graph =
            tiny_graph(*state, TINY_MODELS[draw_int(&draw, 0, model_count - 1)], &options);
        struct adapters adapters = {(int)draw_int(&draw, 1, 3),
                                    (unsigned)draw_int(&draw, 1, (int)ADAPTERS_ALL)};
        if (adapters_misfit(graph)) {
            arena_reset(*state, mark);
            continue;
        }
        adapters_add(*state, graph, adapters);
        struct parallel parallel = {
            .degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .micro_batch = 2};
        int tp = 1 << draw_int(&draw, 0, 1), heads = (int)graph->kv_head_count;
        bool is_split = graph->head_count % tp == 0 && (heads % tp == 0 || tp % heads == 0);
        parallel.degree[AXIS_TP] = is_split ? tp : 1;
        parallel.sp = parallel.degree[AXIS_TP] > 1 && draw_int(&draw, 0, 1);
        parallel.degree[AXIS_DP] = 1 << draw_int(&draw, 0, 1);
        parallel.zero = (int)draw_int(&draw, 0, 3);
        bool has_parts = graph->expert_count > 0 && graph->expert_count % 2 == 0;
        if (has_parts && parallel.degree[AXIS_DP] == 2) parallel.degree[AXIS_EP] = 2;
        struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
        for (int b = 0; b < graph->block_count; b++)
            machine_check(*state, &graph->blocks[b], &mesh, &parallel,
                          (enum recompute)draw_int(&draw, 0, RECOMPUTE_COUNT - 1));
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(frozen_weights_have_no_gradients),
        cmocka_unit_test(states_are_those_of_the_adapters),
        cmocka_unit_test(only_adapters_are_reduced_and_updated),
        cmocka_unit_test(a_step_lacks_the_weight_gradients),
        cmocka_unit_test(split_adapters_compute_what_whole_ones_do),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
