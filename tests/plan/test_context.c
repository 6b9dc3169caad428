#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

// Context parallelism: what attention costs when its keys come in pieces or are split unevenly,
// and what of the exchange is waited for. Llama-3-8B, 32768 tokens over cp 4.

enum { SEQ = 32768, RANKS = 4 };

static struct stack *own_stack(struct arena *arena)
{
    struct stack *stack = ARENA_NEW(arena, struct stack, 1);
    *stack = *stack_load(arena, "megatron-core", &(struct err){0});
    return stack;
}

static struct priced context(struct arena *arena, enum cp_kind kind, int tp,
                             const struct stack *stack)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100-x4", "megatron-core");
    of.stack = stack;
    of.parallel.degree[AXIS_CP] = RANKS;
    of.parallel.degree[AXIS_TP] = tp;
    of.parallel.sp = tp > 1;
    of.parallel.cp_kind = kind;
    of.workload.seq_len = SEQ;
    priced_finish(&of);
    return of;
}

static struct instr *attention_of(const struct priced *of, enum op_kind kind)
{
    const struct block_program *block = priced_block(of, BLOCK_LAYER);
    for (int i = 0; i < block->instr_count; i++) {
        if (block->instrs[i].kind == kind && block->instrs[i].collective == COLLECTIVE_NONE) {
            return &block->instrs[i];
        }
    }
    return NULL;
}

static struct compute_cost attention_cost(const struct priced *of, enum op_kind kind)
{
    return compute_price(&of->context.compute, priced_block(of, BLOCK_LAYER),
                         attention_of(of, kind));
}

// Without pieces and zig-zag the last rank has 2 - 1/4 of the mean, nothing with it.
static void the_last_rank_has_most_of_causal_attention(void **state)
{
    struct stack *stack = own_stack(*state);
    struct priced of = context(*state, CP_ALL_GATHER, 1, stack);
    double gap_s = of.context.compute.device->launch_latency_s;
    double even_s = attention_cost(&of, OP_ATTENTION).s - gap_s;
    stack->cp_zigzag = false;
    double uneven_s = attention_cost(&of, OP_ATTENTION).s - gap_s;
    assert_true(fabs(uneven_s / even_s - 1.75) < 1e-9);
    double backward_s = attention_cost(&of, OP_ATTENTION_BACKWARD).s - gap_s;
    stack->cp_zigzag = true;
    even_s = attention_cost(&of, OP_ATTENTION_BACKWARD).s - gap_s;
    assert_true(fabs(backward_s / even_s - 1.75) < 1e-9);
    // All ranks see as much where every query sees every key.
    attention_of(&of, OP_ATTENTION)->causal = false;
    even_s = attention_cost(&of, OP_ATTENTION).s;
    stack->cp_zigzag = false;
    assert_true(attention_cost(&of, OP_ATTENTION).s == even_s);
}

// The price of an operator of the first layer that has it, its launches taken off.
static struct compute_cost cost_of(const struct priced *of, enum op_kind kind, int64_t rate)
{
    for (int b = 0; b < of->program->block_count; b++) {
        const struct block_program *block = of->program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            const struct instr *instr = &block->instrs[i];
            bool is_it = instr->kind == kind && instr->collective == COLLECTIVE_NONE;
            if (!is_it || block->block->ops[instr->op].rate != rate) continue;
            struct compute_cost cost = compute_price(&of->context.compute, block, instr);
            cost.s -= cost.kernel_count * of->context.compute.device->launch_latency_s;
            return cost;
        }
    }
    fail();
    return (struct compute_cost){0};
}

// Of DeepSeek-V4's entries, counted one by one: the last quarter of the queries sees most of them,
// but for those that choose 512, and of near tokens all see 128.
static void the_last_rank_has_most_entries(void **state)
{
    enum { LONG = 8 * SEQ };
    static const int64_t RATES[] = {128, 4}, MOST[] = {LONG, 512};
    struct stack *stack = own_stack(*state);
    struct priced of = priced_start(*state, "deepseek-v4-flash", "dgx-h100-x4", "megatron-core");
    of.stack = stack;
    of.parallel.degree[AXIS_CP] = RANKS;
    of.parallel.cp_kind = CP_ALL_GATHER;
    of.workload.seq_len = LONG;
    priced_finish(&of);
    for (int r = 0; r < 2; r++) {
        double all = 0, last = 0;
        for (int64_t t = 0; t < LONG; t++) {
            double near = t < 128 ? (double)t + 1 : 128, far = (double)((t + 1) / RATES[r]);
            double pairs = near + fmin(far, (double)MOST[r]);
            all += pairs;
            last += t >= LONG - LONG / RANKS ? pairs : 0;
        }
        for (enum op_kind kind = OP_POOLED; kind <= OP_POOLED_BACKWARD; kind++) {
            stack->cp_zigzag = true;
            struct compute_cost even = cost_of(&of, kind, RATES[r]);
            stack->cp_zigzag = false;
            struct compute_cost uneven = cost_of(&of, kind, RATES[r]);
            assert_true(even.bound == BOUND_COMPUTE && uneven.bound == BOUND_COMPUTE);
            assert_true(fabs(uneven.s / even.s - RANKS * last / all) < 0.01);
        }
    }
}

// The pairs of the last quarter of the queries over a quarter of all, counted one by one.
static void a_window_evens_out_what_the_ranks_do(void **state)
{
    struct stack *stack = own_stack(*state);
    struct priced of = context(*state, CP_ALL_GATHER, 1, stack);
    double gap_s = of.context.compute.device->launch_latency_s;
    static const int64_t WINDOWS[] = {1024, 8192, 20000, 30000};
    for (int w = 0; w < 4; w++) {
        double all = 0, last = 0;
        for (int64_t query = 0; query < SEQ; query++) {
            double pairs = (double)(query < WINDOWS[w] ? query : WINDOWS[w]);
            all += pairs;
            if (query >= SEQ - SEQ / RANKS) last += pairs;
        }
        attention_of(&of, OP_ATTENTION)->window = WINDOWS[w];
        stack->cp_zigzag = true;
        double even_s = attention_cost(&of, OP_ATTENTION).s - gap_s;
        stack->cp_zigzag = false;
        double uneven_s = attention_cost(&of, OP_ATTENTION).s - gap_s;
        assert_true(fabs(uneven_s / even_s / (last * RANKS / all) - 1) < 1e-3);
    }
}

// Four pieces of 8192 keys, with zig-zag worked on by halves: the ramp is that of 4096 keys; three
// results of 8192 x 4096 bf16 are added up, reading two and writing one.
static void a_ring_works_on_small_pieces(void **state)
{
    struct stack *stack = own_stack(*state);
    struct priced ring = context(*state, CP_RING, 1, stack);
    struct priced whole = context(*state, CP_ALL_GATHER, 1, stack);
    const struct device *device = ring.context.compute.device;
    double half = device->efficiency.attention_half_seq, gap_s = device->launch_latency_s;
    double whole_s = attention_cost(&whole, OP_ATTENTION).s - gap_s;
    double full_speed_s = whole_s * SEQ / (SEQ + half);
    double merge_s = stream_s(&ring.context.compute, 3 * 3 * 8192.0 * 4096 * 2);
    for (int zigzag = 0; zigzag < 2; zigzag++) {
        stack->cp_zigzag = zigzag;
        double keys = zigzag ? 4096 : 8192, imbalance = zigzag ? 1 : 1.75;
        double expected_s = full_speed_s * imbalance * (keys + half) / keys + merge_s + 7 * gap_s;
        struct compute_cost cost = attention_cost(&ring, OP_ATTENTION);
        assert_true(fabs(cost.s / expected_s - 1) < 1e-6);
        assert_true(cost.kernel_count == 7);
    }
}

static double exposed_s(const struct priced *of, enum phase phase, unsigned overlap)
{
    struct block_price price =
        block_price(&of->context, &of->program->mesh, priced_block(of, BLOCK_LAYER), overlap);
    return price.phase_s[phase][PART_CP];
}

static double send_s(const struct priced *of, double bytes)
{
    const struct mesh *mesh = &of->program->mesh;
    struct group_shape group = mesh_group(mesh, of->cluster, mesh_axes_of(mesh, AXIS_CP));
    return collective_price(of->fabrics, &group, COLLECTIVE_SEND_RECV, bytes,
                            of->stack->network_scale)
        .s;
}

// Three sends of a quarter of k and v (8 heads of 128 in bf16), in backward of their gradients too:
// all of it without overlap, with it what the work on one piece does not cover.
static void a_ring_waits_for_what_a_piece_does_not_cover(void **state)
{
    static const double NETWORK_SCALES[] = {1, 0.2, 0.05};
    bool was_hidden = false, was_exposed = false;
    for (int i = 0; i < 3; i++) {
        struct stack *stack = own_stack(*state);
        stack->network_scale = NETWORK_SCALES[i];
        struct priced of = context(*state, CP_RING, 8, stack);  // a rank of cp on each node
        double piece = (double)SEQ / RANKS * 8 / 8 * 128 * 2;
        double forward_s = send_s(&of, 2 * piece), backward_s = send_s(&of, 4 * piece);
        double work_s = attention_cost(&of, OP_ATTENTION).s / RANKS;
        double work_back_s = attention_cost(&of, OP_ATTENTION_BACKWARD).s / RANKS;
        assert_true(fabs(exposed_s(&of, PHASE_FORWARD, 0) / (3 * forward_s) - 1) < 1e-9);
        assert_true(fabs(exposed_s(&of, PHASE_BACKWARD, 0) / (3 * backward_s) - 1) < 1e-9);
        double left_s = 3 * fmax(0, forward_s - work_s);
        double left_back_s = 3 * fmax(0, backward_s - work_back_s);
        assert_true(fabs(exposed_s(&of, PHASE_FORWARD, OVERLAP_CP) - left_s) < 1e-12);
        assert_true(fabs(exposed_s(&of, PHASE_BACKWARD, OVERLAP_CP) - left_back_s) < 1e-12);
        was_hidden = was_hidden || left_s == 0;
        was_exposed = was_exposed || left_s > 0;
    }
    assert_true(was_hidden && was_exposed);
}

// Recomputed attention streams its keys again beside the gradient's, each beside its own work.
static void a_recomputed_ring_goes_round_twice(void **state)
{
    struct stack *stack = own_stack(*state);
    struct priced of = context(*state, CP_RING, 8, stack);
    double once_s = exposed_s(&of, PHASE_BACKWARD, 0), forward_s = exposed_s(&of, PHASE_FORWARD, 0);
    of.parallel.recompute = RECOMPUTE_FULL;
    priced_finish(&of);
    double both_s = exposed_s(&of, PHASE_BACKWARD, 0);
    assert_true(fabs(both_s / (once_s + forward_s) - 1) < 1e-9);
}

// Gathered keys and Ulysses' exchanges are waited for, whatever may overlap; four each way of a
// quarter of 32 and 8 heads.
static void what_is_not_streamed_is_exposed(void **state)
{
    struct stack *stack = own_stack(*state);
    struct priced gathered = context(*state, CP_ALL_GATHER, 8, stack);
    double all_s = exposed_s(&gathered, PHASE_FORWARD, 0);
    assert_true(all_s > 0 && exposed_s(&gathered, PHASE_FORWARD, OVERLAP_CP) == all_s);
    struct priced moved = context(*state, CP_ULYSSES, 1, stack);
    const struct mesh *mesh = &moved.program->mesh;
    struct group_shape group = mesh_group(mesh, moved.cluster, mesh_axes_of(mesh, AXIS_CP));
    double head = (double)SEQ / RANKS * 128 * 2;
    enum collective collective = COLLECTIVE_ALL_TO_ALL;
    double expected_s = 2 * collective_price(moved.fabrics, &group, collective, 32 * head, 1).s +
                        2 * collective_price(moved.fabrics, &group, collective, 8 * head, 1).s;
    assert_true(fabs(exposed_s(&moved, PHASE_FORWARD, OVERLAP_CP) / expected_s - 1) < 1e-9);
    // Inside attention every rank has all queries: neither pieces nor imbalance.
    stack->cp_zigzag = false;
    double uneven_s = attention_cost(&moved, OP_ATTENTION).s;
    stack->cp_zigzag = true;
    assert_true(attention_cost(&moved, OP_ATTENTION).s == uneven_s);
}

// Of our own engine the plan's order counts, not the stack's word alone: halves on a ring, slices
// in order where the back end has no kernel for halves or keys are gathered.
static void our_own_engine_is_even_where_halves_are(void **state)
{
    struct stack stack = *stack_load(*state, "meshwright-cpu", &(struct err){0}), apart = stack;
    assert_true(stack.cp_zigzag);
    apart.joins &= ~(1u << JOIN_HALVES);
    struct priced halves = context(*state, CP_RING, 1, &stack);
    struct priced in_order = context(*state, CP_RING, 1, &apart);
    struct priced gathered = context(*state, CP_ALL_GATHER, 1, &stack);
    assert_true(halves.program->order.half == SEQ / (2 * RANKS) &&
                halves.program->order.ranks == RANKS);
    assert_true(!in_order.program->order.half && !gathered.program->order.half);
    for (int b = 0; b < 2; b++) {
        enum op_kind kind = b ? OP_ATTENTION_BACKWARD : OP_ATTENTION;
        assert_true(!attention_of(&halves, kind)->in_order &&
                    attention_of(&in_order, kind)->in_order &&
                    attention_of(&gathered, kind)->in_order);
        double even_s = attention_cost(&halves, kind).s;
        double uneven_s = attention_cost(&in_order, kind).s;
        // Three of four blocks have half as much to do, and each has half as long rows of keys.
        assert_true(uneven_s > 1.5 * even_s && uneven_s < 1.75 * even_s);
        stack.cp_zigzag = false;
        assert_true(attention_cost(&halves, kind).s == uneven_s);
        stack.cp_zigzag = true;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_last_rank_has_most_entries),
        cmocka_unit_test(the_last_rank_has_most_of_causal_attention),
        cmocka_unit_test(our_own_engine_is_even_where_halves_are),
        cmocka_unit_test(a_window_evens_out_what_the_ranks_do),
        cmocka_unit_test(a_ring_works_on_small_pieces),
        cmocka_unit_test(a_ring_waits_for_what_a_piece_does_not_cover),
        cmocka_unit_test(a_recomputed_ring_goes_round_twice),
        cmocka_unit_test(what_is_not_streamed_is_exposed),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
