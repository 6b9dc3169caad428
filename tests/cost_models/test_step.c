#include "cost_models/parameters.h"
#include "simulator/closed_form.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

static double block_s(const struct block_price *price)
{
    double sum_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (int part = 0; part < PART_COUNT; part++)
            sum_s += price->phase_s[phase][part];
    }
    return sum_s;
}

static double part_s(const double phase_s[PHASE_COUNT][PART_COUNT], enum part part)
{
    double sum_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        sum_s += phase_s[phase][part];
    return sum_s;
}

static double chunk_s(const struct chunk_price *price)
{
    double sum_s = 0;
    for (enum part part = 0; part < PART_COUNT; part++)
        sum_s += part_s(price->phase_s, part);
    return sum_s;
}

static struct block_price layer_price(const struct priced *of)
{
    return block_price(&of->context, &of->program->mesh, priced_block(of, BLOCK_LAYER),
                       of->parallel.overlap);
}

static struct priced korthikanti_22b(struct arena *arena, bool selective)
{
    struct priced of = priced_start(arena, "megatron-22b", "dgx-a100-80g", "megatron-2021");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.micro_batch = 4;
    of.parallel.sp = selective;
    of.parallel.recompute = selective ? RECOMPUTE_SELECTIVE : RECOMPUTE_FULL;
    of.workload.precision = PRECISION_FP16;
    of.workload.global_batch = 4;
    priced_finish(&of);
    return of;
}

// Korthikanti et al. 2022, table 5: 1.42 s with full recompute, 1.10 s with sequence parallelism
// and selective recompute. One micro-batch, no pipeline, no data parallelism: nothing but blocks.
static void the_22b_model_on_8_a100_takes_its_published_time(void **state)
{
    static const double MEASURED_S[] = {1.42, 1.10};
    for (int selective = 0; selective < 2; selective++) {
        struct priced of = korthikanti_22b(*state, selective);
        assert_int_equal(of.price->class_count, 1);
        const struct chunk_price *chunk = &of.price->classes[0];
        double step_s = chunk_s(chunk) + chunk->small_reduce_s + chunk->update_s +
                        of.price->norm_s + of.price->overhead_s;
        assert_true(fabs(step_s / MEASURED_S[selective] - 1) < 0.15);
        assert_true(chunk->gradient_reduce_s == 0 && chunk->parameter_gather_s == 0);
        assert_true((chunk->small_reduce_s > 0) == (selective == 1));
    }
}

static void a_chunk_is_the_sum_of_its_blocks(void **state)
{
    struct priced of = korthikanti_22b(*state, true);
    const struct program_chunk *chunk = &of.program->chunks[0];
    double sum_s = 0;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = of.program->blocks[chunk->uses[u].block_program];
        struct block_price price = block_price(&of.context, &of.program->mesh, block, 0);
        sum_s += chunk->uses[u].count * block_s(&price);
    }
    assert_true(fabs(chunk_s(&of.price->classes[0]) / sum_s - 1) < 1e-12);
}

static void full_recompute_repeats_forward_and_tp_communication(void **state)
{
    struct priced of = korthikanti_22b(*state, false);
    struct block_price layer = layer_price(&of);
    double forward_s = layer.phase_s[PHASE_FORWARD][PART_COMPUTE];
    double again_s = layer.phase_s[PHASE_BACKWARD][PART_RECOMPUTE];
    assert_true(fabs(again_s / forward_s - 1) < 0.02);
    double forward_comm_s = layer.phase_s[PHASE_FORWARD][PART_TP];
    assert_true(fabs(layer.phase_s[PHASE_BACKWARD][PART_TP] / forward_comm_s - 2) < 0.01);
    assert_true(layer.phase_s[PHASE_FORWARD][PART_RECOMPUTE] == 0);
}

static void overlap_hides_the_stated_share_of_tp(void **state)
{
    struct priced of = priced_start(*state, "llama-2-70b", "dgx-h100", "megatron-core");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.sp = true;
    of.parallel.overlap &= ~(unsigned)OVERLAP_TP;
    priced_finish(&of);
    struct block_price plain = layer_price(&of);
    of.parallel.overlap |= OVERLAP_TP;
    struct block_price hidden = layer_price(&of);
    double left = part_s(hidden.phase_s, PART_TP) / part_s(plain.phase_s, PART_TP);
    assert_true(fabs(left - (1 - of.stack->tp_overlap_ratio)) < 1e-9);
    assert_true(block_s(&hidden) < block_s(&plain));
}

// FSDP keeps gradients in fp32 and sends them in the dtype of the parameters.
static void gradients_travel_in_the_width_of_their_reduction(void **state)
{
    double scatter_s[2];
    for (int i = 0; i < 2; i++) {
        struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g-x16", "fsdp");
        struct stack *stack = ARENA_NEW(*state, struct stack, 1);
        *stack = *of.stack;
        stack->reduce_bytes = i ? 4 : 2;
        of.stack = stack;
        of.parallel.zero = 3;
        of.parallel.overlap = 0;
        priced_finish(&of);
        scatter_s[i] = layer_price(&of).phase_s[PHASE_WEIGHT][PART_DP];
    }
    assert_true(scatter_s[1] > 1.8 * scatter_s[0] && scatter_s[1] < 2 * scatter_s[0]);
}

// The host's share of a forward and of a backward; W sends nothing, and one stage has no schedule.
static void a_stage_loses_time_between_tasks(void **state)
{
    for (int pp = 1; pp <= 4; pp += 3) {
        double phase_s[2][PHASE_COUNT];
        for (int i = 0; i < 2; i++) {
            struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
            struct stack *stack = ARENA_NEW(*state, struct stack, 1);
            *stack = *of.stack;
            stack->host_task_s = i * 1e-3;
            of.stack = stack;
            of.parallel.degree[AXIS_PP] = pp;
            priced_finish(&of);
            for (int phase = 0; phase < PHASE_COUNT; phase++)
                phase_s[i][phase] = of.price->classes[0].phase_s[phase][PART_COMPUTE];
        }
        double wanted_s = pp > 1 ? 1e-3 : 0;
        assert_true(fabs(phase_s[1][PHASE_FORWARD] - phase_s[0][PHASE_FORWARD] - wanted_s) < 1e-12);
        assert_true(fabs(phase_s[1][PHASE_BACKWARD] - phase_s[0][PHASE_BACKWARD] - wanted_s) <
                    1e-12);
        assert_true(phase_s[1][PHASE_WEIGHT] == phase_s[0][PHASE_WEIGHT]);
    }
}

// Hybrid sharding: what is left once a step is the sum of a node's shards over the nodes, in pieces
// that backward hides; of whole shards nothing is left.
static void replicas_of_shards_are_summed_in_pieces(void **state)
{
    for (int group = 0; group <= 8; group += 8) {
        struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g-x16", "fsdp");
        of.parallel.zero = 3;
        of.parallel.zero_group = group;
        priced_finish(&of);
        const struct chunk_price *chunk = &of.price->classes[0];
        double shard_bytes = 2.0 * (double)graph_parameter_count(of.graph) / 8;
        double pieces = ceil(shard_bytes / (double)of.stack->bucket_bytes);
        int blocks = of.graph->layer_count + 2;  // whose shards are not cut
        assert_true((chunk->gradient_reduce_s > 0) == (group > 0) && pieces > blocks);
        assert_int_equal(chunk->bucket_count, group ? blocks : 1);
    }
}

// What userbuffers hide is sent piece by piece; without sequence parallelism nothing is.
static void an_all_reduce_of_tp_is_not_hidden(void **state)
{
    struct priced of = priced_start(*state, "llama-2-70b", "dgx-h100", "megatron-core");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.overlap = 0;
    priced_finish(&of);
    struct block_price plain = layer_price(&of);
    of.parallel.overlap = OVERLAP_TP;
    struct block_price same = layer_price(&of);
    assert_true(part_s(plain.phase_s, PART_TP) > 0);
    assert_true(part_s(same.phase_s, PART_TP) == part_s(plain.phase_s, PART_TP));
}

static struct priced with_zero(struct arena *arena, int zero)
{
    const char *stack = zero == 0 || zero == 1 ? "megatron-core" : "fsdp";
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g-x16", stack);
    of.parallel.zero = zero;
    of.parallel.micro_batch = 2;
    of.workload.seq_len = 4096;
    priced_finish(&of);
    return of;
}

static void zero_moves_the_reduction_into_the_micro_batch(void **state)
{
    struct priced of[4];
    for (int zero = 0; zero < 4; zero++)
        of[zero] = with_zero(*state, zero);
    const struct chunk_price *chunks[4];
    for (int zero = 0; zero < 4; zero++)
        chunks[zero] = &of[zero].price->classes[0];

    // An all-reduce of 4 bytes; or a reduce-scatter of 4 and a gather of 2.
    double reduced_s = chunks[0]->gradient_reduce_s;
    assert_true(chunks[0]->parameter_gather_s == 0 && chunks[2]->parameter_gather_s > 0);
    assert_true(fabs(chunks[1]->gradient_reduce_s / reduced_s - 0.5) < 0.1);
    assert_true(fabs(chunks[1]->parameter_gather_s / reduced_s - 0.25) < 0.1);
    for (int zero = 2; zero < 4; zero++) {
        assert_true(chunks[zero]->gradient_reduce_s == 0);
        // Weights of ZeRO 2 come back block by block, as they are stored.
        assert_int_equal(chunks[zero]->bucket_count, zero == 2 ? of[2].graph->layer_count + 2 : 1);
    }
    assert_true(chunks[3]->parameter_gather_s == 0);
    for (int zero = 0; zero < 2; zero++)
        assert_true(part_s(chunks[zero]->phase_s, PART_DP) == 0);
    assert_true(chunks[1]->update_s < 0.5 * chunks[0]->update_s);
    assert_true(chunks[3]->update_s < chunks[1]->update_s);
}

// 16384 tokens hide the gathers of a 7B layer on 8 rails; a twentieth of the network does not.
static void parameters_hide_behind_compute_as_far_as_it_lasts(void **state)
{
    struct priced of = with_zero(*state, 3);
    struct stack stack = *of.stack;
    of.context.compute.stack = &stack;
    struct block_price fast = layer_price(&of);
    assert_true(part_s(fast.phase_s, PART_DP) < 1e-9);
    of.parallel.overlap = 0;
    struct block_price exposed = layer_price(&of);
    assert_true(part_s(exposed.phase_s, PART_DP) > 1e-3);
    assert_true(block_s(&exposed) > block_s(&fast));

    of.parallel.overlap = OVERLAP_GRAD_REDUCE | OVERLAP_PARAM_GATHER;
    stack.network_scale = 0.05;
    struct block_price slow = layer_price(&of);
    of.parallel.overlap = 0;
    struct block_price all = layer_price(&of);
    double hidden_s = part_s(all.phase_s, PART_DP) - part_s(slow.phase_s, PART_DP);
    double window_s = part_s(all.phase_s, PART_COMPUTE);
    assert_true(part_s(slow.phase_s, PART_DP) > 0);
    assert_true(fabs(hidden_s / (stack.overlap_ratio * window_s) - 1) < 0.01);
}

static void gradients_in_buckets_cost_more_latency(void **state)
{
    struct priced of = priced_start(*state, "gpt2-xl", "dgx-a100-80g-x16", "megatron-core");
    struct stack stack = *of.stack;
    of.stack = &stack;
    of.workload.seq_len = 1024;
    stack.bucket_bytes_per_rank = 0;
    double before_s = 0;
    int before_count = 0;
    for (stack.bucket_bytes = (int64_t)1e11; stack.bucket_bytes >= 100000;
         stack.bucket_bytes /= 10) {
        priced_finish(&of);
        const struct chunk_price *chunk = &of.price->classes[0];
        assert_true(chunk->bucket_count >= before_count);
        assert_true(chunk->gradient_reduce_s >= before_s);
        before_count = chunk->bucket_count;
        before_s = chunk->gradient_reduce_s;
    }
    // No bucket is smaller than a tensor.
    struct parameter_sums sums = parameter_sums(of.program, &of.program->chunks[0]);
    assert_int_equal(before_count, sums.tensor_count[PARAMETER_DENSE]);
}

// Megatron-Core: no fewer than a million elements a data rank, so that 128 ranks take 512 MB
// pieces.
static void buckets_grow_with_the_ranks_that_reduce(void **state)
{
    struct priced near = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
    priced_finish(&near);
    struct priced far = with_zero(*state, 0);
    double bytes = 4 * (double)graph_parameter_count(near.graph);
    assert_int_equal(near.price->classes[0].bucket_count, (int)ceil(bytes / 160e6));
    assert_int_equal(far.price->classes[0].bucket_count, (int)ceil(bytes / 512e6));
    far.parallel.bucket_bytes = 250000000;  // the plan's own size goes before the stack's
    priced_finish(&far);
    assert_int_equal(far.price->classes[0].bucket_count, (int)ceil(bytes / 250e6));
}

// A host that needs 1 ms an operator decides alone; one that needs 1 ns does not count.
static void a_slow_host_sets_the_pace(void **state)
{
    struct priced of = priced_start(*state, "gpt2", "dgx-h100", "megatron-deepspeed");
    struct stack stack = *of.stack;
    of.stack = &stack;
    of.workload.seq_len = 128;
    stack.host_op_s = 0;
    priced_finish(&of);
    struct block_price free_host = layer_price(&of);
    stack.host_op_s = 1e-9;
    struct block_price fast_host = layer_price(&of);
    stack.host_op_s = 1e-3;
    struct block_price slow_host = layer_price(&of);
    assert_true(fabs(block_s(&fast_host) / block_s(&free_host) - 1) < 1e-6);
    double kernels = 0;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    for (int i = 0; i < layer->instr_count; i++) {
        if (layer->instrs[i].collective != COLLECTIVE_NONE) continue;
        kernels += compute_price(&of.context.compute, layer, &layer->instrs[i]).kernel_count;
    }
    assert_true(fabs(block_s(&slow_host) / (kernels * 1e-3) - 1) < 0.01);
}

static struct priced pipelined(struct arena *arena, const char *stack, bool sp)
{
    struct priced of = priced_start(arena, "megatron-175b", "dgx-a100-80g-x16", stack);
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.degree[AXIS_PP] = 8;
    of.parallel.sp = sp;
    of.workload.precision = PRECISION_FP16;
    priced_finish(&of);
    return of;
}

// 2048 * 12288 fp16 are 50 MB; a rank owns one NIC of 25 GB/s.
static void a_hop_sends_the_boundary_over_the_rail_of_each_rank(void **state)
{
    struct priced whole = pipelined(*state, "colossalai", false);
    struct priced scattered = pipelined(*state, "megatron-2021", false);
    struct priced split = pipelined(*state, "megatron-2021", true);
    double bytes = 2.0 * 2048 * 12288;
    assert_true(whole.price->hop_s > bytes / 25e9 && whole.price->hop_s < 1.5 * bytes / 25e9);
    assert_true(split.price->hop_s > bytes / 8 / 25e9);
    assert_true(split.price->hop_s < scattered.price->hop_s);
    assert_true(scattered.price->hop_s < 0.4 * whole.price->hop_s);
    assert_false(whole.price->hop_overlapped);
}

static void tied_tables_on_two_stages_are_added_up(void **state)
{
    struct priced of = pipelined(*state, "megatron-2021", true);
    assert_int_equal(of.program->tie_count, 1);
    // Gradients of fp16 runs are kept, and travel, in fp16.
    double bytes = 2.0 * (double)of.program->ties[0].elements;
    assert_true(of.price->ties[0].s > bytes / 25e9);
    assert_true(of.price->ties[0].s < 2 * bytes / 25e9);
    struct priced one_stage = korthikanti_22b(*state, true);
    assert_true(one_stage.price->tie_count == 0);
}

// On one stage the table is one parameter: counted, reduced and updated once.
static void tied_tables_on_one_stage_count_once(void **state)
{
    struct priced of = priced_start(*state, "gpt2", "dgx-a100-80g", "megatron-core");
    of.workload.seq_len = 1024;
    priced_finish(&of);
    struct parameter_sums sums = parameter_sums(of.program, &of.program->chunks[0]);
    assert_true(sums.elements[PARAMETER_DENSE] == (double)graph_parameter_count(of.graph));
    const struct step_rules rules = step_rules_of(of.stack, of.program);
    struct step_end end = step_end_of(of.program, &of.program->chunks[0], &rules);
    double elements = 0;
    for (int i = 0; i < end.group_count; i++)
        elements += end.groups[i].elements;
    assert_int_equal(end.group_count, 2);
    assert_true(elements == sums.elements[PARAMETER_DENSE]);
}

static void hybrid_shards_are_gathered_in_the_group_and_summed_over_the_replicas(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g-x16", "fsdp");
    of.parallel.zero = 3;
    of.parallel.zero_group = 8;
    of.workload.seq_len = 4096;
    priced_finish(&of);
    const struct chunk_price *chunk = &of.price->classes[0];
    struct priced full = with_zero(*state, 3);
    assert_true(chunk->gradient_reduce_s > 0);
    of.parallel.overlap = full.parallel.overlap = 0;
    struct block_price near = layer_price(&of), far = layer_price(&full);
    assert_true(part_s(near.phase_s, PART_DP) < part_s(far.phase_s, PART_DP));
}

// Llama-2-7B: a layer of 202,383,360 parameters, a table of 131,072,000 and as much in the head.
static const double LAYER = 202383360, TABLE = 131072000;

static double group_s(const struct priced *of, unsigned axes, enum collective collective,
                      double bytes)
{
    struct group_shape group = mesh_group(&of->program->mesh, of->cluster, axes);
    return collective_price(of->fabrics, &group, collective, bytes, of->stack->network_scale).s;
}

// ZeRO 3: gathered for forward, again for backward, scattered behind the weight gradients; 2 bytes
// a weight and a gradient.
static void a_full_shard_gathers_twice_and_scatters_once_a_micro_batch(void **state)
{
    struct priced of = with_zero(*state, 3);
    of.parallel.overlap = 0;
    struct block_price layer = layer_price(&of);
    unsigned axes = mesh_axes_of(&of.program->mesh, AXIS_DP);
    double gather_s = group_s(&of, axes, COLLECTIVE_ALL_GATHER, 2 * LAYER);
    double scatter_s = group_s(&of, axes, COLLECTIVE_REDUCE_SCATTER, 2 * LAYER);
    assert_true(fabs(layer.phase_s[PHASE_FORWARD][PART_DP] / gather_s - 1) < 1e-6);
    assert_true(fabs(layer.phase_s[PHASE_BACKWARD][PART_DP] / gather_s - 1) < 1e-6);
    assert_true(fabs(layer.phase_s[PHASE_WEIGHT][PART_DP] / scatter_s - 1) < 1e-6);
}

// Nothing runs before the table's gather that could hide it: a lookup covers a trifle.
static void the_first_gather_of_a_step_is_exposed(void **state)
{
    struct priced of = with_zero(*state, 3);
    const struct block_program *table = priced_block(&of, BLOCK_EMBEDDING);
    struct block_price price =
        block_price(&of.context, &of.program->mesh, table, of.stack->overlap_default);
    unsigned axes = mesh_axes_of(&of.program->mesh, AXIS_DP);
    double gather_s = group_s(&of, axes, COLLECTIVE_ALL_GATHER, 2 * TABLE);
    double left_s = price.phase_s[PHASE_FORWARD][PART_DP];
    double lookup_s = price.phase_s[PHASE_FORWARD][PART_COMPUTE];
    assert_true(left_s < gather_s && left_s > 0.9 * gather_s);
    assert_true(gather_s - left_s <= lookup_s);
    struct block_price layer = layer_price(&of);
    assert_true(layer.phase_s[PHASE_FORWARD][PART_DP] < 1e-9);
}

// Groups of 8, a node each: gathers and scatters stay inside; once a step the 16 replicas of a
// shard add up an eighth of the gradient.
static void hybrid_shards_move_known_bytes(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g-x16", "fsdp");
    struct stack stack = *of.stack;
    of.stack = &stack;
    stack.bucket_bytes = (int64_t)1e15;
    of.parallel.zero = 3;
    of.parallel.zero_group = 8;
    of.parallel.overlap = 0;
    of.workload.seq_len = 4096;
    priced_finish(&of);
    const struct mesh *mesh = &of.program->mesh;
    unsigned shard = mesh_shard_axes(mesh, &of.parallel, PARAMETER_DENSE, STORED_STATES);
    unsigned replicas = mesh_axes_of(mesh, AXIS_DP) & ~shard;
    assert_int_equal(mesh_size(mesh, shard), 8);
    assert_int_equal(mesh_group(mesh, of.cluster, shard).node_count, 1);
    double all = (double)graph_parameter_count(of.graph);
    double across_s = group_s(&of, replicas, COLLECTIVE_ALL_REDUCE, 2 * all / 8);
    const struct chunk_price *chunk = &of.price->classes[0];
    assert_true(fabs(chunk->gradient_reduce_s / across_s - 1) < 1e-6);
    struct block_price layer = layer_price(&of);
    double inside_s = group_s(&of, shard, COLLECTIVE_REDUCE_SCATTER, 2 * LAYER);
    assert_true(fabs(layer.phase_s[PHASE_WEIGHT][PART_DP] / inside_s - 1) < 1e-6);
    assert_true(chunk->parameter_gather_s == 0);
}

// A distributed optimizer hands out its weights once a step, and the next forward hides them as far
// as it lasts; ranks of a replica group have them already.
static void a_distributed_optimizer_gathers_beside_the_next_forward(void **state)
{
    struct priced of = with_zero(*state, 1);
    double all = (double)graph_parameter_count(of.graph);
    int count = of.price->classes[0].bucket_count;
    unsigned axes = mesh_axes_of(&of.program->mesh, AXIS_DP);
    double gather_s = count * group_s(&of, axes, COLLECTIVE_ALL_GATHER, 2 * all / count);
    assert_true(fabs(of.price->classes[0].parameter_gather_s / gather_s - 1) < 1e-6);
    struct step_price price = *of.price;
    price.gather_overlapped = false;
    double exposed_s = closed_form(&price).step_s;
    price.gather_overlapped = true;
    double hidden_s = exposed_s - closed_form(&price).step_s;
    assert_true(hidden_s > 0.9 * gather_s && hidden_s <= gather_s * (1 + 1e-9));
}

static void equal_inputs_give_equal_prices(void **state)
{
    struct priced a = pipelined(*state, "megatron-2021", true);
    struct priced b = pipelined(*state, "megatron-2021", true);
    assert_int_equal(a.price->class_count, b.price->class_count);
    assert_memory_equal(a.price->classes, b.price->classes,
                        (size_t)a.price->class_count * sizeof *a.price->classes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_22b_model_on_8_a100_takes_its_published_time),
        cmocka_unit_test(a_chunk_is_the_sum_of_its_blocks),
        cmocka_unit_test(full_recompute_repeats_forward_and_tp_communication),
        cmocka_unit_test(overlap_hides_the_stated_share_of_tp),
        cmocka_unit_test(an_all_reduce_of_tp_is_not_hidden),
        cmocka_unit_test(replicas_of_shards_are_summed_in_pieces),
        cmocka_unit_test(a_stage_loses_time_between_tasks),
        cmocka_unit_test(gradients_travel_in_the_width_of_their_reduction),
        cmocka_unit_test(zero_moves_the_reduction_into_the_micro_batch),
        cmocka_unit_test(parameters_hide_behind_compute_as_far_as_it_lasts),
        cmocka_unit_test(gradients_in_buckets_cost_more_latency),
        cmocka_unit_test(buckets_grow_with_the_ranks_that_reduce),
        cmocka_unit_test(a_slow_host_sets_the_pace),
        cmocka_unit_test(a_hop_sends_the_boundary_over_the_rail_of_each_rank),
        cmocka_unit_test(tied_tables_on_two_stages_are_added_up),
        cmocka_unit_test(tied_tables_on_one_stage_count_once),
        cmocka_unit_test(hybrid_shards_are_gathered_in_the_group_and_summed_over_the_replicas),
        cmocka_unit_test(a_full_shard_gathers_twice_and_scatters_once_a_micro_batch),
        cmocka_unit_test(the_first_gather_of_a_step_is_exposed),
        cmocka_unit_test(hybrid_shards_move_known_bytes),
        cmocka_unit_test(a_distributed_optimizer_gathers_beside_the_next_forward),
        cmocka_unit_test(equal_inputs_give_equal_prices),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
