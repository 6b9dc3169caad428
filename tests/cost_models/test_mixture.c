#include "cost_models/parameters.h"
#include "models/op.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// Prices of a mixture of experts (8 experts of 4096 x 14336, 2 a token) and of its traffic, against
// numbers computed by hand.

static struct priced mixture(struct arena *arena, const char *cluster, int ep, int etp, bool sp)
{
    struct priced of = priced_start(arena, "tests/data/mixture.json", cluster, "megatron-core");
    of.parallel.degree[AXIS_EP] = ep;
    of.parallel.degree[AXIS_ETP] = etp;
    of.parallel.degree[AXIS_TP] = etp;
    of.parallel.sp = sp;
    of.workload.seq_len = 4096;
    return of;
}

static const struct instr *find_instr(const struct block_program *block, enum op_kind kind,
                                      enum dim dim)
{
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->collective != COLLECTIVE_NONE || instr->kind != kind) continue;
        if (!dim || op_has_dim(block->block, &block->block->ops[instr->op], dim)) return instr;
    }
    return NULL;
}

// Large groups whose rows fill whole tiles take as long as one GEMM of all rows, but for the ratio.
static void a_grouped_gemm_fills_the_device_with_all_its_groups(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 1, 1, false);
    priced_finish(&of);
    // Without traffic, which is more where each group has a weight of its own.
    struct device device = *of.context.compute.device;
    device.memory_bandwidth_bytes_per_s = 1e30;
    of.context.compute.device = &device;
    const struct compute_context *context = &of.context.compute;
    enum bound bound;
    struct gemm groups = {8, 1024, 14336, 4096}, one = {1, 8192, 14336, 4096};
    double gap_s = context->device->launch_latency_s;
    double groups_s = gemm_s(context, &groups, GEMM_GROUPED, &bound) - gap_s;
    assert_int_equal(bound, BOUND_COMPUTE);
    double one_s = gemm_s(context, &one, 0, &bound) - gap_s;
    assert_true(fabs(groups_s * of.stack->grouped_gemm_ratio / one_s - 1) < 1e-9);
    // Rows that fill a tile by half cost as much as whole ones.
    struct gemm halves = {64, 64, 14336, 4096}, whole = {64, 128, 14336, 4096};
    double halves_s = gemm_s(context, &halves, GEMM_GROUPED, &bound);
    assert_true(halves_s > 0.5 * gemm_s(context, &whole, GEMM_GROUPED, &bound));
}

// 16 rows an expert: all weights are read, 8 * 4096 * 14336 * 2 bytes, for little work.
static void a_grouped_gemm_of_few_rows_reads_every_weight(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 1, 1, false);
    priced_finish(&of);
    const struct device *device = of.context.compute.device;
    enum bound bound;
    struct gemm few = {8, 16, 14336, 4096};
    double s = gemm_s(&of.context.compute, &few, GEMM_GROUPED, &bound);
    double bytes = 8 * 2.0 * (4096.0 * 14336 + 16 * 4096 + 16 * 14336);
    double memory_s = bytes / (3.35e12 * device->efficiency.gemm_memory_ratio);
    assert_int_equal(bound, BOUND_MEMORY);
    assert_true(s - device->launch_latency_s > memory_s && s < 1.3 * memory_s);
    // As if matrix units took no time.
    struct device quick = *device;
    quick.peak_flop_per_s[PRECISION_BF16] = 1e30;
    struct compute_context without = of.context.compute;
    without.device = &quick;
    double least_s = gemm_s(&without, &few, GEMM_GROUPED, &bound) - device->launch_latency_s;
    assert_true(fabs(least_s / memory_s - 1) < 1e-9);
    // A side that is no multiple of 8 slows batched products of activations, not groups.
    struct gemm odd = {8, 4099, 14336, 4096}, even = {8, 4104, 14336, 4096};
    double odd_s = gemm_s(&of.context.compute, &odd, GEMM_GROUPED, &bound);
    double even_s = gemm_s(&of.context.compute, &even, GEMM_GROUPED, &bound);
    assert_true(odd_s <= even_s && odd_s > 0.998 * even_s);
}

// On 8 ranks with ep 8 one expert each has 2/8 of 8 * 4096 tokens; alone all 8 experts share 8192
// rows. The router's product stays whole.
static void experts_are_priced_as_groups(void **state)
{
    for (int ep = 1; ep <= 8; ep *= 8) {
        struct priced of = mixture(*state, "dgx-h100", ep, 1, false);
        struct stack apart = *of.stack;
        apart.merge_contractions = false;
        of.stack = &apart;
        priced_finish(&of);
        const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
        const struct instr *instr = find_instr(layer, OP_CONTRACT, DIM_EXPERT);
        assert_non_null(instr);
        assert_int_equal(instr->gemm.batch, 8 / ep);
        assert_int_equal(instr->gemm.m, 8192 / (8 / ep));
        struct stack fused = *of.stack;
        struct compute_context context = of.context.compute;
        context.stack = &fused;
        enum bound bound;
        double s = gemm_s(&context, &instr->gemm, GEMM_GROUPED, &bound);
        fused.grouped_gemm_fused = true;
        struct compute_cost cost = compute_price(&context, layer, instr);
        assert_true(cost.s == s && cost.kernel_count == 1);
        fused.grouped_gemm_fused = false;
        assert_true(compute_price(&context, layer, instr).kernel_count == 8 / ep);
    }
}

// Two rows of 4096 bf16 a token, read once and written once, and once more where they are sorted by
// expert behind the all-to-all; combining reads the rows and writes the tokens. Routing is kernels.
static void dispatching_moves_rows_and_routing_launches(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 8, 1, false);
    priced_finish(&of);
    struct stack stack = *of.stack;
    of.context.compute.stack = &stack;
    const struct compute_context *context = &of.context.compute;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    double rows = 2 * 4096 * 4096 * 2.0, tokens = rows / 2,
           gap_s = context->device->launch_latency_s;
    for (int passes = 1; passes <= 2; passes++) {
        stack.permute_passes = passes;
        double dispatch_s = compute_price(context, layer, find_instr(layer, OP_DISPATCH, 0)).s;
        double combine_s = compute_price(context, layer, find_instr(layer, OP_COMBINE, 0)).s;
        double sort_s = (passes - 1) * (stream_s(context, 2 * rows) + gap_s);
        double gather_s = stream_s(context, 2 * rows) + gap_s + sort_s;
        double sum_s = stream_s(context, rows + tokens) + gap_s + sort_s;
        assert_true(fabs(dispatch_s / gather_s - 1) < 0.01);
        assert_true(fabs(combine_s / sum_s - 1) < 0.01);
    }
    struct compute_cost route = compute_price(context, layer, find_instr(layer, OP_ROUTE, 0));
    assert_true(route.kernel_count == of.stack->route_kernels);
    assert_true(route.s >= of.stack->route_kernels * gap_s && route.bound == BOUND_LAUNCH);
    assert_true(route.host_s == of.stack->expert_host_s && route.host_s > 0);
}

// Software that splits experts over its tensor ranks sorts the rows of all of them behind the
// gather: on tp 8 a rank holds an eighth of two rows of 4096 bf16 a token, and sorts all.
static void shared_experts_sort_the_rows_of_all_tensor_ranks(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 1, 8, true);
    priced_finish(&of);
    struct stack stack = *of.stack;
    of.context.compute.stack = &stack;
    const struct compute_context *context = &of.context.compute;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    const struct instr *dispatch = find_instr(layer, OP_DISPATCH, 0);
    double rows = 2 * 4096 * 4096 * 2.0, gap_s = context->device->launch_latency_s;
    stack.permute_passes = 1;
    double once_s = compute_price(context, layer, dispatch).s;
    assert_true(fabs(once_s / (stream_s(context, 2 * rows / 8) + gap_s) - 1) < 0.01);
    stack.permute_passes = 3;
    for (int share = 8; share >= 1; share -= 7) {
        stack.splits_experts_as_tp = share == 1;
        double sort_s = 2 * (stream_s(context, 2 * rows / share) + gap_s);
        double s = compute_price(context, layer, dispatch).s;
        assert_true(fabs(s / (once_s + sort_s) - 1) < 0.01);
    }
}

static void some_software_splits_experts_as_all_else(void **state)
{
    (void)state;
    struct stack stack = {.name = "theirs", .splits_experts_as_tp = true};
    struct err err = {0}, none = {0};
    assert_true(stack_check_experts(&stack, 8, 4, 4, &none));
    assert_true(stack_check_experts(&stack, 0, 4, 1, &none));
    assert_false(stack_check_experts(&stack, 8, 4, 1, &err));
    assert_int_equal(err.kind, ERR_USAGE);
    assert_string_equal(err.text, "--etp 1: stack theirs splits experts as all else, by tp 4");
    stack.splits_experts_as_tp = false;
    assert_true(stack_check_experts(&stack, 8, 4, 1, &none));
}

static double layer_s(const struct priced *of)
{
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    struct block_price price = block_price(&of->context, &of->program->mesh, layer, 0);
    double sum_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        for (int part = 0; part < PART_COUNT; part++)
            sum_s += price.phase_s[phase][part];
    }
    return sum_s;
}

// A host that takes a second a pass is all that counts, once forward and once backward; unless a
// graph replays the layer, narrow experts where matrix units take block scales, or a part of it.
static void the_host_of_experts_sets_the_pace_unless_a_graph_replays_them(void **state)
{
    static const struct {
        const char *cluster;
        enum precision precision;
        bool has_graph;
        double left_s;
    } CASES[] = {
        {"dgx-h100", PRECISION_BF16, true, 2},   {"dgx-h100", PRECISION_FP8, true, 2},
        {"dgx-b200", PRECISION_BF16, true, 0.5}, {"dgx-b200", PRECISION_FP8, true, 0},
        {"dgx-b200", PRECISION_FP8, false, 2},   {"dgx-b200", PRECISION_FP4, true, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct priced of = mixture(*state, CASES[i].cluster, 8, 1, false);
        struct stack stack = *of.stack;
        of.stack = &stack;
        of.workload.precision = CASES[i].precision;
        stack.expert_graph = CASES[i].has_graph;
        stack.expert_host_s = stack.host_op_s = 0;
        priced_finish(&of);
        double device_s = layer_s(&of);
        stack.expert_host_s = 1;
        stack.host_op_s = 1e-6;
        stack.expert_graph_host_ratio = 0.25;
        assert_true(device_s > 0 && device_s < 0.1);
        assert_true(fabs(layer_s(&of) - (CASES[i].left_s > 0 ? CASES[i].left_s : device_s)) < 0.01);
    }
}

// Grouped kernels that hold the activation cost it nothing, quantise what they hand on, and fill
// the device as one GEMM does; where the device takes no block scales there are none.
static void what_stands_between_grouped_products_is_fused_into_them(void **state)
{
    static const char *const CLUSTERS[] = {"dgx-b200", "dgx-h100"};
    for (int i = 0; i < 2; i++) {
        struct priced of = mixture(*state, CLUSTERS[i], 8, 1, false);
        of.workload.precision = PRECISION_FP8;
        priced_finish(&of);
        struct stack stack = *of.stack;
        stack.grouped_gemm_ratio = 1;
        struct compute_context apart = of.context.compute;
        apart.stack = &stack;
        stack.expert_fusion = false;
        struct stack fused_stack = stack;
        fused_stack.expert_fusion = true;
        struct compute_context fused = apart;
        fused.stack = &fused_stack;
        const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
        double activation_s = 0, saved_s = 0, cast_s = 0;
        for (int n = 0; n < layer->instr_count; n++) {
            const struct instr *instr = &layer->instrs[n];
            if (instr->collective != COLLECTIVE_NONE) continue;
            double s = compute_price(&apart, layer, instr).s;
            saved_s += s - compute_price(&fused, layer, instr).s;
            bool has_rows = op_has_dim(layer->block, &layer->block->ops[instr->op], DIM_EXPERT);
            if (instr->kind == OP_ELEMENTWISE && has_rows) activation_s += s;
        }
        // 8192 rows, of the activation and of the gradients of gate and up.
        double elements = 8192.0 * 14336 * 3;
        cast_s = stream_s(&apart, elements * stack.cast_bytes) + 2 * apart.device->launch_latency_s;
        assert_true(activation_s > 0 && cast_s > 0);
        assert_true(fabs(saved_s - (i == 0 ? activation_s + cast_s : 0)) < 1e-9);
        struct gemm groups = {8, 1024, 14336, 4096};
        stack.grouped_gemm_ratio = fused_stack.grouped_gemm_ratio = 0.5;
        enum bound bound;
        double ratio = gemm_s(&apart, &groups, GEMM_GROUPED, &bound) /
                       gemm_s(&fused, &groups, GEMM_GROUPED, &bound);
        assert_true(i == 0 ? ratio > 1.6 : ratio == 1);
    }
}

// 8192 rows of a rank: what the first product reads (4096, narrow), gate and up (2 * 14336) and
// what the last one reads (14336, narrow), read and written once forward and once backward.
static void replayed_experts_copy_the_rows_they_keep(void **state)
{
    struct priced of = mixture(*state, "dgx-b200", 8, 1, false);
    struct stack stack = *of.stack;
    of.stack = &stack;
    of.workload.precision = PRECISION_FP8;
    stack.expert_stash_ratio = 0;
    priced_finish(&of);
    double without_s = layer_s(&of), bytes = 8192.0 * (4096 + 2 * 2 * 14336 + 14336);
    double copy_s = stream_s(&of.context.compute, 2 * bytes);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    assert_true(fabs(compute_stash_s(&of.context.compute, layer) / copy_s - 1) < 1e-6);
    stack.expert_stash_ratio = 0.25;
    assert_true(fabs(layer_s(&of) - without_s - 0.5 * copy_s) < 1e-9);
    stack.expert_graph = false;
    without_s = layer_s(&of);
    stack.expert_stash_ratio = 0;
    assert_true(layer_s(&of) == without_s);
}

// Exchanges of rows hide behind compute, by the stack's share, and slow it by the multiprocessors
// that they take; without room they do not hide. What etp gathers and scatters waits all the same.
static void exchanges_of_rows_hide_behind_compute(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 8, 1, false);
    struct stack stack = *of.stack;
    of.stack = &stack;
    stack.host_op_s = stack.expert_host_s = 0;
    stack.ep_overlap_ratio = 0.75;
    stack.expert_comm_units = 33;  // a quarter of an H100
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    const struct mesh *mesh = &of.program->mesh;
    struct block_price apart = block_price(&of.context, mesh, layer, 0);
    struct block_price beside = block_price(&of.context, mesh, layer, OVERLAP_EP);
    double counts_s = 4e-5;
    for (int phase = PHASE_FORWARD; phase <= PHASE_BACKWARD; phase++) {
        double apart_s = apart.phase_s[phase][PART_EP], beside_s = beside.phase_s[phase][PART_EP];
        assert_true(apart_s > 5 * counts_s && beside_s >= 0.2499 * apart_s);
        assert_true(beside_s < 0.25 * apart_s + counts_s);
        double slowed_s = beside.phase_s[phase][PART_COMPUTE] - apart.phase_s[phase][PART_COMPUTE];
        assert_true(fabs(slowed_s / (apart_s - beside_s) - 0.25) < 1e-6);
    }
    stack.overlap_ratio = 0;
    beside = block_price(&of.context, mesh, layer, OVERLAP_EP);
    assert_true(beside.phase_s[PHASE_FORWARD][PART_EP] == apart.phase_s[PHASE_FORWARD][PART_EP]);

    struct priced cut = mixture(*state, "dgx-h100", 1, 8, true);
    cut.stack = of.stack;
    priced_finish(&cut);
    layer = priced_block(&cut, BLOCK_LAYER);
    stack.overlap_ratio = 1;
    apart = block_price(&cut.context, &cut.program->mesh, layer, 0);
    beside = block_price(&cut.context, &cut.program->mesh, layer, OVERLAP_EP);
    assert_true(apart.phase_s[PHASE_FORWARD][PART_EP] > 0);
    assert_true(beside.phase_s[PHASE_FORWARD][PART_EP] == apart.phase_s[PHASE_FORWARD][PART_EP]);
}

// Two micro-batches meet on a stage where there is no other or where it has several chunks.
static void exchanges_hide_only_where_micro_batches_meet(void **state)
{
    static const struct {
        int pp, vpp;
        bool wants_chunks, is_hidden;
    } CASES[] = {{1, 1, true, true}, {4, 1, true, false}, {4, 2, true, true}, {4, 1, false, true}};
    struct priced of = mixture(*state, "dgx-h100", 8, 1, false);
    struct stack stack = *of.stack;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        of.parallel.degree[AXIS_PP] = CASES[i].pp;
        of.parallel.vpp = CASES[i].vpp;
        of.parallel.overlap = OVERLAP_EP | OVERLAP_GRAD_REDUCE;
        stack.ep_overlap_interleaved = CASES[i].wants_chunks;
        unsigned overlap = step_overlap(&stack, &of.parallel);
        assert_int_equal(overlap, CASES[i].is_hidden ? of.parallel.overlap : OVERLAP_GRAD_REDUCE);
    }
}

// In an fp8 run the groups are narrow and the router's product is not.
static void experts_are_narrow_and_the_router_is_not(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 8, 1, false);
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    struct compute_context narrow = of.context.compute;
    narrow.precision = PRECISION_FP8;
    const struct instr *router = find_instr(layer, OP_CONTRACT, DIM_GATE);
    const struct instr *experts = find_instr(layer, OP_CONTRACT, DIM_EXPERT);
    double router_s = compute_price(&of.context.compute, layer, router).s;
    assert_true(compute_price(&narrow, layer, router).s == router_s);
    double experts_s = compute_price(&of.context.compute, layer, experts).s;
    assert_true(compute_price(&narrow, layer, experts).s < 0.75 * experts_s);
}

static double part_s(const struct block_price *price, enum part part)
{
    double sum_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        sum_s += price->phase_s[phase][part];
    return sum_s;
}

// Two all-to-alls forward and two backward of 2 * 4096 rows of 8192 bytes; their counts before.
static void experts_communicate_over_their_own_axes(void **state)
{
    struct priced of = mixture(*state, "dgx-h100-x16", 8, 1, false);
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    unsigned axes = mesh_axes_of(&of.program->mesh, AXIS_EP);
    struct group_shape group = mesh_group(&of.program->mesh, of.cluster, axes);
    assert_int_equal(group.rank_count, 8);
    double bytes = 2.0 * 4096 * 8192;
    struct stack stack = *of.stack;
    of.context.compute.stack = &stack;
    stack.dispatch_once = false;
    double one_s = collective_price(of.fabrics, &group, COLLECTIVE_ALL_TO_ALL, bytes, 1).s;
    struct block_price exposed = block_price(&of.context, &of.program->mesh, layer, 0);
    double all_s = part_s(&exposed, PART_EP);
    assert_true(all_s > 4 * one_s && all_s < 4.2 * one_s);
    stack.dispatch_once = true;
    one_s = dispatch_price(of.fabrics, &group, &(struct routing){.rows = 2}, bytes, 1).s;
    exposed = block_price(&of.context, &of.program->mesh, layer, 0);
    assert_true(part_s(&exposed, PART_EP) < all_s);
    all_s = part_s(&exposed, PART_EP);
    assert_true(all_s > 4 * one_s && all_s < 4.2 * one_s);
    assert_true(part_s(&exposed, PART_DP) == 0 && part_s(&exposed, PART_TP) == 0);
    struct block_price hidden = block_price(&of.context, &of.program->mesh, layer, OVERLAP_EP);
    double shown_s = (1 - stack.ep_overlap_ratio) * all_s;
    assert_true(part_s(&hidden, PART_EP) >= shown_s * 0.999 &&
                part_s(&hidden, PART_EP) < shown_s + 0.05 * all_s);
}

// With sequence parallelism ep lies over tp and dp: still one exchange each way.
static void rows_split_by_sequence_reach_their_experts_at_once(void **state)
{
    struct priced of =
        priced_start(*state, "tests/data/mixture.json", "dgx-h100-x16", "megatron-core");
    of.parallel.degree[AXIS_TP] = 2;
    of.parallel.degree[AXIS_EP] = 8;
    of.parallel.sp = true;
    of.workload.seq_len = 4096;
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    int count = 0;
    double bytes = 2.0 * 4096 / 2 * 8192;
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *instr = &layer->instrs[i];
        if (instr->collective != COLLECTIVE_ALL_TO_ALL) continue;
        assert_true(fabs((double)instr->bytes / bytes - 1) < 0.01);
        count++;
    }
    assert_int_equal(count, 4);
    struct block_price price = block_price(&of.context, &of.program->mesh, layer, 0);
    assert_true(part_s(&price, PART_EP) > 0 && part_s(&price, PART_TP) > 0);
}

// Experts cut in two by etp gather their rows before and scatter them behind, which is their
// communication, not that of the dense layers.
static void cut_experts_exchange_rows_over_etp(void **state)
{
    struct priced of = mixture(*state, "dgx-h100", 1, 2, true);
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    struct block_price price = block_price(&of.context, &of.program->mesh, layer, 0);
    double expert_s = 0, dense_s = 0;
    unsigned axes = mesh_axes_of(&of.program->mesh, AXIS_ETP);
    struct group_shape group = mesh_group(&of.program->mesh, of.cluster, axes);
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *instr = &layer->instrs[i];
        if (instr->collective == COLLECTIVE_NONE || instr->parameter) continue;
        double s =
            collective_price(of.fabrics, &group, instr->collective, (double)instr->bytes, 1).s;
        bool is_of_experts = instr->ragged || instr->inner;  // and how many rows are coming
        *(is_of_experts ? &expert_s : &dense_s) += s;
    }
    assert_true(expert_s > 0 && dense_s > 0);
    assert_true(fabs(part_s(&price, PART_EP) / expert_s - 1) < 1e-9);
    assert_true(fabs(part_s(&price, PART_TP) / dense_s - 1) < 1e-9);
}

// 8 experts of 3 * 4096 * 14336 parameters over ep 8 and 16 data ranks of their own; all else over
// 128. Gradients of 4 bytes are scattered, weights of 2 gathered, each over its own group.
static void experts_reduce_their_gradients_over_their_own_ranks(void **state)
{
    struct priced of = mixture(*state, "dgx-h100-x16", 8, 1, false);
    of.parallel.zero = 1;
    struct stack *stack = ARENA_NEW(*state, struct stack, 1);
    *stack = *of.stack;
    stack->bucket_bytes = (int64_t)1e15;
    of.stack = stack;
    priced_finish(&of);
    const struct mesh *mesh = &of.program->mesh;
    double experts = 32 * 3.0 * 4096 * 14336;
    double others = (double)graph_parameter_count(of.graph) - 8 * experts;
    struct group_shape all = mesh_group(mesh, of.cluster, mesh_axes_of(mesh, AXIS_DP));
    struct group_shape own = mesh_group(
        mesh, of.cluster, mesh_shard_axes(mesh, &of.parallel, PARAMETER_EXPERT, STORED_STATES));
    assert_int_equal(all.rank_count, 128);
    assert_int_equal(own.rank_count, 16);
    enum collective scatter = COLLECTIVE_REDUCE_SCATTER, gather = COLLECTIVE_ALL_GATHER;
    double scale = stack->network_scale;
    double reduce_s = collective_price(of.fabrics, &all, scatter, 4 * others, scale).s +
                      collective_price(of.fabrics, &own, scatter, 4 * experts, scale).s;
    double gather_s = collective_price(of.fabrics, &all, gather, 2 * others, scale).s +
                      collective_price(of.fabrics, &own, gather, 2 * experts, scale).s;
    const struct chunk_price *chunk = &of.price->classes[0];
    assert_true(fabs(chunk->gradient_reduce_s / reduce_s - 1) < 1e-6);
    assert_true(fabs(chunk->parameter_gather_s / gather_s - 1) < 1e-6);
    struct parameter_sums sums = parameter_sums(of.program, &of.program->chunks[0]);
    double stored = parameter_stored(of.program, &sums, STORED_STATES);
    assert_true(fabs(stored / (others / 128 + experts / 16) - 1) < 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_grouped_gemm_fills_the_device_with_all_its_groups),
        cmocka_unit_test(a_grouped_gemm_of_few_rows_reads_every_weight),
        cmocka_unit_test(experts_are_priced_as_groups),
        cmocka_unit_test(dispatching_moves_rows_and_routing_launches),
        cmocka_unit_test(shared_experts_sort_the_rows_of_all_tensor_ranks),
        cmocka_unit_test(some_software_splits_experts_as_all_else),
        cmocka_unit_test(the_host_of_experts_sets_the_pace_unless_a_graph_replays_them),
        cmocka_unit_test(what_stands_between_grouped_products_is_fused_into_them),
        cmocka_unit_test(replayed_experts_copy_the_rows_they_keep),
        cmocka_unit_test(exchanges_of_rows_hide_behind_compute),
        cmocka_unit_test(exchanges_hide_only_where_micro_batches_meet),
        cmocka_unit_test(experts_are_narrow_and_the_router_is_not),
        cmocka_unit_test(experts_communicate_over_their_own_axes),
        cmocka_unit_test(rows_split_by_sequence_reach_their_experts_at_once),
        cmocka_unit_test(cut_experts_exchange_rows_over_etp),
        cmocka_unit_test(experts_reduce_their_gradients_over_their_own_ranks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
