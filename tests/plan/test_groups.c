#include "tests/support/test.h"

#include "plan/lower/groups.h"
#include "plan/passes.h"
#include "tests/support/priced.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Groups that our engine runs as one call: their instructions stand together, compute from what
// they computed from before, and cost one launch and what crosses their boundary.

static struct block_program *lower(struct arena *arena, const struct graph *graph, int block,
                                   struct parallel *parallel, enum recompute recompute,
                                   unsigned joins)
{
    struct mesh mesh = mesh_make(parallel, graph->kv_head_count);
    struct lower_request request = {.block = &graph->blocks[block],
                                    .mesh = &mesh,
                                    .parallel = parallel,
                                    .recompute = recompute,
                                    .seq_len = 4,
                                    .precision = PRECISION_BF16,
                                    .joins = joins};
    return lower_block(arena, &request);
}

// An instruction as it was before its operands became views of packed buffers.
static struct instr unpacked(const struct block_program *program, const struct instr *instr)
{
    struct instr plain = *instr;
    for (int k = 0; k < instr->input_count; k++) {
        int view = instr->input_views[k] - 1;
        if (view < 0) continue;
        assert_int_equal(plain.inputs[k], program->views[view].whole);
        assert_true(program->buffers[plain.inputs[k]].packed);
        plain.inputs[k] = program->views[view].buffer;
    }
    for (int k = 0; k < instr->output_count; k++) {
        int view = instr->output_views[k] - 1;
        if (view < 0) continue;
        assert_int_equal(plain.outputs[k], program->views[view].whole);
        plain.outputs[k] = program->views[view].buffer;
    }
    return plain;
}

static bool is_same_instr(const struct instr *a, const struct instr *b)
{
    if (a->op != b->op || a->collective != b->collective || a->phase != b->phase ||
        a->recompute != b->recompute || a->inner != b->inner || a->axes != b->axes ||
        a->input_count != b->input_count || a->output_count != b->output_count)
        return false;
    return memcmp(a->inputs, b->inputs, sizeof a->inputs) == 0 &&
           memcmp(a->outputs, b->outputs, sizeof a->outputs) == 0;
}

// Where each instruction of `from` stands in `to`; those that are alike in their order.
static int *places(struct arena *arena, const struct block_program *from,
                   const struct block_program *to)
{
    int *place = ARENA_NEW(arena, int, from->instr_count + 1);
    bool *taken = ARENA_NEW(arena, bool, to->instr_count + 1);
    assert_int_equal(from->instr_count, to->instr_count);
    for (int i = 0; i < from->instr_count; i++) {
        int k = 0;
        for (; k < to->instr_count; k++) {
            const struct instr *instr = &to->instrs[k];
            if (taken[k] || instr->op != from->instrs[i].op) continue;
            struct instr plain = unpacked(to, instr);
            if (is_same_instr(&from->instrs[i], &plain)) break;
        }
        assert_true(k < to->instr_count);
        taken[k] = true;
        place[i] = k;
    }
    return place;
}

static int maker_of(const struct block_program *program, int index, int buffer)
{
    for (int i = index - 1; i >= 0; i--) {
        struct instr plain = unpacked(program, &program->instrs[i]);
        for (int k = 0; k < plain.output_count; k++) {
            if (plain.outputs[k] == buffer) return i;
        }
    }
    return -1;
}

static void assert_same_data(const struct block_program *alone, const struct block_program *grouped,
                             const int *place)
{
    for (int i = 0; i < alone->instr_count; i++) {
        for (int k = 0; k < alone->instrs[i].input_count; k++) {
            int buffer = alone->instrs[i].inputs[k];
            int before = maker_of(alone, i, buffer), after = maker_of(grouped, place[i], buffer);
            assert_int_equal(after, before < 0 ? -1 : place[before]);
        }
    }
}

// Returns how many instructions run with one before them.
static int check_marks(const struct block_program *program, unsigned joins)
{
    int joined = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *first = &program->instrs[i];
        if (!first->joined) continue;
        assert_true(first->joined > 1 && first->joined <= GROUP_MEMBERS_MAX && !first->kernel);
        for (int k = 0; k < first->joined; k++) {
            const struct instr *member = first + k;
            assert_int_equal(member->collective, COLLECTIVE_NONE);
            assert_int_equal(member->phase, first->phase);
            assert_int_equal(member->recompute, first->recompute);
            if (k == 0) continue;
            assert_int_equal(member->kernel, i + 1);
            assert_int_equal(member->joined, 0);
            assert_true(joins >> member->join & 1);
            joined++;
        }
        assert_int_equal(instr_first(program->instrs, i + first->joined - 1), i);
        assert_int_equal(instr_last(program->instrs, i), i + first->joined - 1);
    }
    return joined;
}

static void groups_change_places_and_nothing_else(void **state)
{
    struct arena *arena = *state;
    const unsigned masks[] = {1u << JOIN_SUM | 1u << JOIN_ROWS, 1u << JOIN_ROWS,
                              joins_executed() & ~(1u << JOIN_SUM | 1u << JOIN_ROWS),
                              joins_executed()};
    int joined[4] = {0};
    for (int way = 0; TINY_MODELS[way / 4]; way++) {
        struct import_options options = {.flash = way & 1, .dropout = way & 2, .vocab_multiple = 4};
        const struct graph *graph = tiny_graph(arena, TINY_MODELS[way / 4], &options);
        struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                    .micro_batch = 1,
                                    .sp = way & 1,
                                    .passes = PASS_ALL};
        parallel.degree[AXIS_TP] = way & 2 ? 2 : 1;
        // One row a rank: sums over rows are views.
        parallel.degree[AXIS_CP] = (way & 3) == 1 && graph->scan_head_count == 0 ? 4 : 1;
        parallel.degree[AXIS_DP] = 2;
        parallel.zero = way & 1 ? 3 : 0;
        parallel_default_order(&parallel);
        for (int b = 0; b < graph->block_count; b++) {
            for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
                struct arena_mark mark = arena_mark(arena);
                enum recompute kind = (enum recompute)recompute;
                const struct block_program *alone = lower(arena, graph, b, &parallel, kind, 0);
                for (int m = 0; m < 4; m++) {
                    const struct block_program *grouped =
                        lower(arena, graph, b, &parallel, kind, masks[m]);
                    assert_same_data(alone, grouped, places(arena, alone, grouped));
                    joined[m] += check_marks(grouped, masks[m]);
                    assert_int_equal(alone->saved_bytes, grouped->saved_bytes);
                }
                arena_reset(arena, mark);
            }
        }
    }
    for (int m = 0; m < 4; m++)
        assert_true(joined[m] > 100);
}

static const struct instr *find_group(const struct block_program *program, enum join rule,
                                      enum op_kind first)
{
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->joined && instr->kind == first && instr[1].join == rule) return instr;
    }
    fail_msg("no group by the rule %s", join_name(rule));
    return NULL;
}

static double member_price(const struct compute_context *context,
                           const struct block_program *program, const struct instr *instr)
{
    return compute_price(context, program, instr).s;
}

// Llama on a device, one sequence of 2048: the residual of 4096 in bf16. The sum reads two tensors
// and writes one, which the norm reads again and writes another: it is kept. Behind the norm's
// backward its result is written and read no more.
static void a_norm_and_its_sum_cost_what_crosses_them(void **state)
{
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "meshwright");
    struct stack *stack = ARENA_NEW(*state, struct stack, 1);
    *stack = *of.stack;
    stack->element_wise_scale = 3;  // ours is 1, with which no product is told from a ratio
    of.stack = stack;
    priced_finish(&of);
    const struct compute_context *context = &of.context.compute;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    const double tensor = 2.0 * 2048 * 4096, vector = 2.0 * 4096;
    const double scale = of.stack->element_wise_scale;
    const double launch_s = context->device->launch_latency_s;
    const struct instr *forward = find_group(layer, JOIN_SUM_NORM, OP_ADD);
    struct compute_cost cost = compute_price(context, layer, forward);
    assert_true(cost.kernel_count == scale);
    double expected_s = scale * (launch_s + stream_s(context, 4 * tensor + vector));
    assert_true(fabs(cost.s / expected_s - 1) < 1e-9);
    assert_true(member_price(context, layer, forward + 1) == 0);
    const struct instr *backward = find_group(layer, JOIN_NORM_SUM, OP_NORM_BACKWARD);
    assert_int_equal(backward->passing & 1, 1);
    // Reads d, x, the weight and the other gradient, writes the sum and the weight's gradient.
    double bytes = (double)(backward->read_bytes + backward->write_bytes) +
                   (double)(backward[1].read_bytes + backward[1].write_bytes) - 2 * tensor;
    expected_s = scale * (launch_s + stream_s(context, bytes));
    assert_true(fabs(compute_price(context, layer, backward).s / expected_s - 1) < 1e-9);
}

// A bias costs its own reading, and no launch.
static void a_bias_costs_next_to_nothing(void **state)
{
    struct priced of = priced_start(*state, "gpt2", "dgx-h100", "meshwright");
    of.workload.seq_len = 1024;
    priced_finish(&of);
    const struct compute_context *context = &of.context.compute;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    const struct instr *gemm = find_group(layer, JOIN_BIAS, OP_CONTRACT);
    enum bound bound;
    double alone_s = gemm_s(context, &gemm->gemm, 0, &bound);
    double bias_s = stream_s(context, 2.0 * (double)gemm->gemm.n) * of.stack->element_wise_scale;
    struct compute_cost cost = compute_price(context, layer, gemm);
    assert_int_equal(cost.kernel_count, 1);
    if (gemm->joined == 2) assert_true(fabs(cost.s / (alone_s + bias_s) - 1) < 1e-9);
    assert_int_equal(gemm->kept_bytes, gemm->write_bytes);
}

// What the stack does not name is not joined, and without the pass nothing is but GEMMs that share
// their input.
static void groups_are_those_of_the_stack(void **state)
{
    for (int way = 0; way < 2; way++) {
        struct priced of =
            priced_start(*state, "gpt2", "dgx-h100", way ? "meshwright" : "megatron-core");
        of.workload.seq_len = 1024;
        if (way) of.parallel.passes &= ~(1u << PASS_FUSION);
        priced_finish(&of);
        const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
        for (int i = 0; i < layer->instr_count; i++) {
            const struct instr *instr = &layer->instrs[i];
            if (instr->joined) assert_true(way && instr[1].join == JOIN_MERGED);
        }
    }
}

// How many GEMMs of a layer run as part of one.
static int count_merged(struct priced *of)
{
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    int count = 0;
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *first = &layer->instrs[i];
        for (int k = 0; k < first->joined && first[1].join == JOIN_MERGED; k++)
            count += first[k].kind == OP_CONTRACT;
        bool is_marked = first->collective == COLLECTIVE_NONE && first->merge > 0;
        const struct instr *begun = &layer->instrs[instr_first(layer->instrs, i)];
        if (is_marked) assert_true(begun->joined > 0 && begun[1].join == JOIN_MERGED);
    }
    return count;
}

static int merged_with(struct arena *arena, int tp, int cp, int zero, unsigned passes)
{
    struct priced of = priced_start(arena, "llama-3-8b", "dgx-h100", "meshwright");
    of.parallel.degree[AXIS_TP] = tp;
    of.parallel.degree[AXIS_CP] = cp;
    of.parallel.degree[AXIS_DP] = 2;
    of.parallel.zero = zero;
    of.parallel.passes = passes;
    priced_finish(&of);
    return count_merged(&of);
}

// q, k and v and gate and up: forward, the sum of their input gradients, their weight gradients.
// Where keys go round a ring q, k and v are dense; parameters that are moved one by one are apart.
static void projections_that_share_their_input_are_one_gemm(void **state)
{
    assert_int_equal(merged_with(*state, 1, 1, 0, PASS_ALL), 15);
    assert_int_equal(merged_with(*state, 4, 1, 3, PASS_ALL), 15);
    assert_int_equal(merged_with(*state, 1, 2, 1, PASS_ALL), 6);
    assert_int_equal(merged_with(*state, 1, 1, 3, PASS_ALL & ~(1u << PASS_COMBINE)), 0);
    assert_int_equal(merged_with(*state, 1, 1, 1, PASS_ALL & ~(1u << PASS_COMBINE)), 0);
}

// The one GEMM costs what one of its size does.
static void one_gemm_is_priced_once(void **state)
{
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "meshwright");
    priced_finish(&of);
    const struct compute_context *context = &of.context.compute;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    const struct instr *forward = find_group(layer, JOIN_MERGED, OP_CONTRACT);
    enum bound bound;
    struct gemm whole = forward->gemm;
    assert_int_equal(whole.n, 4096);
    whole.n += forward[1].gemm.n + forward[2].gemm.n;
    assert_int_equal(whole.n, 6144);
    struct compute_cost cost = compute_price(context, layer, forward);
    assert_true(fabs(cost.s / gemm_s(context, &whole, 0, &bound) - 1) < 1e-9);
    assert_int_equal(cost.kernel_count, 1);
    assert_true(compute_price(context, layer, forward + 1).s == 0);
}

// The groups of a block, one a line: what runs as one, and by which rules.
static const char *groups_of(struct arena *arena, const struct block_program *program)
{
    const char *text = "";
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *first = &program->instrs[i];
        for (int k = 0; k < first->joined; k++) {
            const struct instr *member = &first[k];
            text = arena_print(arena, "%s%s%s%s", text, k ? " + " : "",
                               program->block->ops[member->op].name,
                               k ? arena_print(arena, " (%s)", join_name(member->join)) : "");
        }
        if (first->joined) text = arena_print(arena, "%s\n", text);
    }
    return text;
}

static const char *layer_groups(struct arena *arena, const char *config, unsigned joins)
{
    struct import_options options = {.flash = true, .vocab_multiple = 4};
    const struct graph *graph = tiny_graph(arena, config, &options);
    struct parallel parallel = {
        .degree = {[0 ... AXIS_COUNT - 1] = 1}, .micro_batch = 1, .passes = PASS_ALL};
    parallel_default_order(&parallel);
    return groups_of(arena, lower(arena, graph, 1, &parallel, RECOMPUTE_NONE, joins));
}

#define PROJECTIONS                                                                          \
    "attention.q + attention.q.biased (merged) + attention.k (merged) + attention.k.biased " \
    "(merged) + attention.v (merged) + attention.v.biased (merged)\n"
#define INPUT_GRADIENTS                                                                         \
    "d_attention.v.a + d_attention.k.a (merged) + d_attention.q.a (merged) + d_attention.norm " \
    "(merged)\n"
#define WEIGHT_GRADIENTS                                                                 \
    "d_mlp.down.b + d_mlp.down.biased (bias-gradient)\n"                                 \
    "d_mlp.up.b + d_mlp.up.biased (bias-gradient)\n"                                     \
    "d_attention.out.b + d_attention.out.biased (bias-gradient)\n"                       \
    "d_attention.v.biased + d_attention.v.b (merged) + d_attention.k.biased (merged) + " \
    "d_attention.k.b (merged) + d_attention.q.biased (merged) + d_attention.q.b (merged)\n"

static const char *gpt2_groups(struct arena *arena, int ffn, unsigned joins)
{
    const char *config =
        arena_print(arena,
                    "{\"model_type\": \"gpt2\", \"n_embd\": 16, \"n_head\": 2, \"n_layer\": 2, "
                    "\"n_positions\": 16, "
                    "\"vocab_size\": 32, \"n_inner\": %d, \"resid_pdrop\": 0, \"embd_pdrop\": 0, "
                    "\"attn_pdrop\": 0}",
                    ffn);
    return layer_groups(arena, config, joins);
}

// A layer of GPT-2 as CPUs run it, where a sum takes the GEMM and the norm goes by rows, and with
// the epilogues of a GEMM library. What GELU reads has rows of whole sixteen bytes: 24 numbers of
// 16 bits are three of them, 28 are none.
static void the_groups_of_a_layer_are_these(void **state)
{
    const unsigned rows = 1u << JOIN_SUM | 1u << JOIN_ROWS, all = joins_executed();
    assert_string_equal(gpt2_groups(*state, 28, all),
                        PROJECTIONS "attention.out + attention.out.biased (sum)\n"
                                    "attention.residual + mlp.norm (rows)\n"
                                    "mlp.up + mlp.up.biased (sum)\n"
                                    "mlp.down + mlp.down.biased (sum)\n"
                                    "d_mlp.norm + d_attention.residual (rows)\n" INPUT_GRADIENTS
                                    "d_attention.norm + d_layer.input (rows)\n" WEIGHT_GRADIENTS);
    assert_string_equal(gpt2_groups(*state, 24, all & ~rows), PROJECTIONS
                        "attention.out + attention.out.biased (bias)\n"
                        "attention.residual + mlp.norm (sum-norm)\n"
                        "mlp.up + mlp.up.biased (bias) + mlp.activation (gelu)\n"
                        "mlp.down + mlp.down.biased (bias)\n"
                        "d_mlp.down.a + d_mlp.activation (gelu-slope)\n"
                        "d_mlp.norm + d_attention.residual (norm-sum)\n" INPUT_GRADIENTS
                        "d_attention.norm + d_layer.input (norm-sum)\n" WEIGHT_GRADIENTS);
    assert_string_equal(gpt2_groups(*state, 28, all & ~rows), PROJECTIONS
                        "attention.out + attention.out.biased (bias)\n"
                        "attention.residual + mlp.norm (sum-norm)\n"
                        "mlp.up + mlp.up.biased (bias)\n"
                        "mlp.down + mlp.down.biased (bias)\n"
                        "d_mlp.norm + d_attention.residual (norm-sum)\n" INPUT_GRADIENTS
                        "d_attention.norm + d_layer.input (norm-sum)\n" WEIGHT_GRADIENTS);
}

// The last sum of a layer is in front of no norm of it, as are gradients that meet behind one.
static void a_sum_in_front_of_no_norm_takes_its_gemm(void **state)
{
    const unsigned rows = 1u << JOIN_SUM | 1u << JOIN_ROWS;
    const char *groups = layer_groups(*state, TINY_DEEPSEEK, joins_executed() & ~rows);
    assert_non_null(strstr(groups, "attention.residual + mlp.norm (sum-norm)\n"));
    assert_non_null(strstr(groups, "mlp.down + mlp.residual (residual)\n"));
    assert_non_null(strstr(groups, "d_attention.k_b.a + d_attention.kv_a_norm (residual)\n"));
}

// A norm of what a GEMM made reads a parameter too, as a bias does, and is no sum.
static void only_a_sum_is_a_bias(void **state)
{
    const char *config = "{\"model_type\": \"qwen3\", \"hidden_size\": 16, "
                         "\"intermediate_size\": 24, \"num_hidden_layers\": 2, "
                         "\"num_attention_heads\": 2, \"num_key_value_heads\": 2, "
                         "\"head_dim\": 8, \"vocab_size\": 32, \"rms_norm_eps\": 1e-6, "
                         "\"max_position_embeddings\": 16}";
    assert_string_equal(layer_groups(*state, config, 1u << JOIN_BIAS), "");
    assert_string_equal(gpt2_groups(*state, 28, 1u << JOIN_BIAS),
                        "attention.q + attention.q.biased (bias)\n"
                        "attention.k + attention.k.biased (bias)\n"
                        "attention.v + attention.v.biased (bias)\n"
                        "attention.out + attention.out.biased (bias)\n"
                        "mlp.up + mlp.up.biased (bias)\n"
                        "mlp.down + mlp.down.biased (bias)\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_change_places_and_nothing_else),
        cmocka_unit_test(a_norm_and_its_sum_cost_what_crosses_them),
        cmocka_unit_test(a_bias_costs_next_to_nothing),
        cmocka_unit_test(groups_are_those_of_the_stack),
        cmocka_unit_test(projections_that_share_their_input_are_one_gemm),
        cmocka_unit_test(one_gemm_is_priced_once),
        cmocka_unit_test(the_groups_of_a_layer_are_these),
        cmocka_unit_test(a_sum_in_front_of_no_norm_takes_its_gemm),
        cmocka_unit_test(only_a_sum_is_a_bias),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
