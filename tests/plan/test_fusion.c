#include "tests/support/test.h"

#include "models/op.h"
#include "plan/lower/fusion.h"
#include "plan/passes.h"
#include "tests/support/priced.h"
#include "tests/support/tiny_models.h"

// Who wrote input `k` of instruction `index` last; -1 when nobody in the program did.
static int maker_of(const struct block_program *program, int index, int k)
{
    int buffer = program->instrs[index].inputs[k];
    for (int i = index - 1; i >= 0; i--) {
        for (int o = 0; o < program->instrs[i].output_count; o++) {
            if (program->instrs[i].outputs[o] == buffer) return i;
        }
    }
    return -1;
}

static int kernel_of(const struct block_program *program, int index)
{
    int kernel = program->instrs[index].kernel;
    return kernel ? kernel - 1 : index;
}

// Kernels can run one after the other: repeatedly run each whose inputs other kernels have made.
static void assert_runnable(struct arena *arena, const struct block_program *program)
{
    int count = program->instr_count, left = 0;
    bool *done = ARENA_NEW(arena, bool, count);
    for (int i = 0; i < count; i++)
        left += kernel_of(program, i) == i;
    for (bool moved = true; moved;) {
        moved = false;
        for (int kernel = 0; kernel < count; kernel++) {
            if (done[kernel] || kernel_of(program, kernel) != kernel) continue;
            bool ready = true;
            for (int i = kernel; i < count; i++) {
                if (kernel_of(program, i) != kernel) continue;
                for (int k = 0; k < program->instrs[i].input_count; k++) {
                    int from = maker_of(program, i, k);
                    int of = from >= 0 ? kernel_of(program, from) : kernel;
                    ready = ready && (of == kernel || done[of]);
                }
            }
            if (ready) done[kernel] = moved = true, left--;
        }
    }
    assert_int_equal(left, 0);
}

// What a kernel moves, counted from nothing but its members: every buffer that comes from outside
// once, every buffer that goes outside once.
static int64_t moved_bytes(const struct block_program *program, int kernel)
{
    int64_t bytes = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        bool comes_in = false, goes_out = false, is_made = false, is_read = false;
        for (int i = 0; i < program->instr_count; i++) {
            const struct instr *instr = &program->instrs[i];
            bool is_member = kernel_of(program, i) == kernel;
            for (int k = 0; k < instr->input_count; k++) {
                int from = maker_of(program, i, k);
                bool from_here = from >= 0 && kernel_of(program, from) == kernel;
                if (instr->inputs[k] != b) continue;
                if (is_member && !from_here) comes_in = true;
                if (!is_member && from_here) goes_out = true;
                if (from_here) is_read = true;
            }
            for (int k = 0; k < instr->output_count; k++)
                is_made = is_made || (is_member && instr->outputs[k] == b);
        }
        const struct buffer *buffer = &program->buffers[b];
        for (int i = 0; i < 2; i++) {
            if (program->outputs[i] == b || program->input_gradients[i] == b) goes_out = true;
        }
        goes_out = goes_out || buffer->saved || buffer->external || !is_read;
        if (comes_in) bytes += buffer->bytes;
        if (is_made && goes_out) bytes += buffer->bytes;
    }
    return bytes;
}

static bool is_member_kind(enum op_kind kind)
{
    return op_rule(kind)->element_wise || kind == OP_NORM || kind == OP_NORM_BACKWARD;
}

// Returns the number of instructions that joined a kernel.
static int check_program(struct arena *arena, const struct block_program *program)
{
    int joined = 0;
    assert_runnable(arena, program);
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        int kernel = kernel_of(program, i);
        if (kernel == i) continue;
        const struct instr *first = &program->instrs[kernel];
        joined++;
        assert_true(kernel < i && kernel_of(program, kernel) == kernel);
        assert_int_equal(instr->collective, COLLECTIVE_NONE);
        assert_int_equal(first->phase, instr->phase);
        assert_int_equal(first->recompute, instr->recompute);
        assert_true(is_member_kind(instr->kind) && is_member_kind(first->kind));
        int64_t bytes = 0;
        for (int m = kernel; m < program->instr_count; m++) {
            const struct instr *member = &program->instrs[m];
            if (kernel_of(program, m) != kernel) continue;
            bytes += member->read_bytes + member->write_bytes - member->kept_bytes;
        }
        assert_int_equal(bytes, moved_bytes(program, kernel));
    }
    return joined;
}

static struct block_program *lower(struct arena *arena, const struct graph *graph, int block,
                                   struct parallel *parallel, enum recompute recompute)
{
    struct mesh mesh = mesh_make(parallel, graph->kv_head_count);
    struct lower_request request = {.block = &graph->blocks[block],
                                    .mesh = &mesh,
                                    .parallel = parallel,
                                    .recompute = recompute,
                                    .seq_len = 4,
                                    .precision = PRECISION_BF16,
                                    .joins = 1u << JOIN_CHAIN | (unsigned)(block % 2)
                                                                    << JOIN_MERGED};
    return lower_block(arena, &request);
}

static void kernels_of_every_model_can_run_and_move_what_crosses_them(void **state)
{
    struct arena *arena = *state;
    int joined = 0;
    for (int way = 0; TINY_MODELS[way / 4]; way++) {
        struct import_options options = {.flash = way & 1, .dropout = way & 2, .vocab_multiple = 4};
        const struct graph *graph = tiny_graph(arena, TINY_MODELS[way / 4], &options);
        for (int tp = 1; tp <= 2; tp++) {
            struct parallel parallel = {.degree = {[0 ... AXIS_COUNT - 1] = 1},
                                        .micro_batch = 1,
                                        .sp = tp > 1 && way & 1,
                                        .passes = PASS_ALL};
            parallel.degree[AXIS_TP] = tp;
            parallel.degree[AXIS_DP] = 2;
            parallel_default_order(&parallel);
            for (int b = 0; b < graph->block_count; b++) {
                for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
                    joined += check_program(
                        arena, lower(arena, graph, b, &parallel, (enum recompute)recompute));
                }
            }
        }
    }
    assert_true(joined > 1000);
}

static const struct instr *find(const struct block_program *program, const char *op)
{
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        if (strcmp(program->block->ops[instr->op].name, op) == 0) return instr;
    }
    fail_msg("no instruction of %s", op);
    return NULL;
}

static bool is_together(const struct block_program *program, const char *a, const char *b)
{
    int first = (int)(find(program, a) - program->instrs);
    int second = (int)(find(program, b) - program->instrs);
    return kernel_of(program, first) == kernel_of(program, second);
}

// The sum of the residual is read by the norm behind it, and its gradient by the sum behind the
// norm's backward: in forward one reading less, in backward one writing and one reading, twice.
static void a_llama_layer_fuses_its_sums_with_its_norms(void **state)
{
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "megatron-core");
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    struct fusion_counts counts = fusion_count(layer);
    double tensor_bytes = 2.0 * 2048 * 4096;
    assert_true(counts.kernels_before - counts.kernels_after == 3);
    assert_true(counts.bytes_before - counts.bytes_after == 5 * tensor_bytes);
    assert_true(is_together(layer, "attention.residual", "mlp.norm"));
    assert_false(is_together(layer, "attention.norm", "mlp.norm"));
}

// Megatron's own kernels: bias + activation, bias + dropout + add (Korthikanti et al. 2022).
static void biases_join_what_follows_them(void **state)
{
    struct priced of = priced_start(*state, "megatron-22b", "dgx-a100-80g", "megatron-2021");
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    assert_true(is_together(layer, "mlp.up.biased", "mlp.activation"));
    assert_true(is_together(layer, "attention.out.biased", "attention.dropout"));
    assert_true(is_together(layer, "attention.dropout", "attention.residual"));
    assert_false(is_together(layer, "attention.softmax", "attention.softmax_dropout"));
    // Backward reads the biased tensor: written, but not read again at once.
    const struct instr *bias = find(layer, "mlp.up.biased");
    assert_int_equal(bias->kept_bytes, 0);
    const struct instr *activation = find(layer, "mlp.activation");
    assert_int_equal(activation->kept_bytes, activation->read_bytes);
}

// Row-parallel: the product is partial, so that its reduction stands before the bias.
static void a_collective_parts_kernels(void **state)
{
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "megatron-core");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.sp = true;
    priced_finish(&of);
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    assert_true(is_together(layer, "attention.residual", "mlp.norm"));
    assert_int_equal(find(layer, "attention.residual")->kernel, 0);
    check_program(*state, layer);
}

// Four steps by hand: scale a row (buffer 0 -> 1), add it to x (2, 1 -> 3), twice a function of the
// sum (3 -> 4 -> 5).
static void boundaries_are_written_and_smaller_tensors_made_apart(void **state)
{
    enum { ROW = 64, WHOLE = 4096 };
    struct buffer buffers[6] = {{.bytes = ROW},   {.bytes = ROW},   {.bytes = WHOLE},
                                {.bytes = WHOLE}, {.bytes = WHOLE}, {.bytes = WHOLE}};
    struct instr instrs[4] = {
        {.kind = OP_ELEMENTWISE, .inputs = {0}, .input_count = 1, .outputs = {1}},
        {.kind = OP_ADD, .inputs = {2, 1}, .input_count = 2, .outputs = {3}},
        {.kind = OP_ELEMENTWISE, .inputs = {3}, .input_count = 1, .outputs = {4}},
        {.kind = OP_ELEMENTWISE, .inputs = {4}, .input_count = 1, .outputs = {5}},
    };
    for (int i = 0; i < 4; i++) {
        instrs[i].output_count = 1;
        instrs[i].read_bytes = i == 1 ? WHOLE + ROW : buffers[instrs[i].inputs[0]].bytes;
        instrs[i].write_bytes = buffers[instrs[i].outputs[0]].bytes;
    }
    // The sum leaves the block, what follows it does not.
    struct block_program program = {.instrs = instrs,
                                    .instr_count = 4,
                                    .buffers = buffers,
                                    .buffer_count = 6,
                                    .outputs = {3, 5},
                                    .input_gradients = {-1, -1}};
    fusion_mark(*state, &program);
    assert_int_equal(instrs[0].kernel, 0);
    assert_int_equal(instrs[1].kernel, 0);
    assert_int_equal(instrs[2].kernel, 1 + 1);
    assert_int_equal(instrs[3].kernel, 1 + 1);
    assert_int_equal(instrs[1].kept_bytes, 0);
    assert_int_equal(instrs[2].kept_bytes, 2 * WHOLE);
    assert_int_equal(instrs[3].kept_bytes, WHOLE);
    check_program(*state, &program);
}

// Two GEMMs (0, 1 -> 2, 3), the sum of what they made (-> 4), and a function of it (-> 5).
static void sums_of_merged_input_gradients_are_done_by_their_gemm(void **state)
{
    enum { WHOLE = 4096 };
    static const struct {
        enum op_kind kind;
        enum phase phase;
        bool recompute;
        int merge[2];
        bool is_done;
    } CASES[] = {
        {OP_ADD, PHASE_BACKWARD, false, {1, 1}, true},
        {OP_ADD, PHASE_FORWARD, false, {1, 1}, false},
        {OP_ADD, PHASE_BACKWARD, true, {1, 1}, false},
        {OP_ELEMENTWISE, PHASE_BACKWARD, false, {1, 1}, false},
        {OP_ADD, PHASE_BACKWARD, false, {1, 2}, false},
        {OP_ADD, PHASE_BACKWARD, false, {0, 0}, false},
        {OP_ADD, PHASE_BACKWARD, false, {0, 1}, false},
    };
    for (size_t c = 0; c < sizeof CASES / sizeof *CASES; c++) {
        struct buffer buffers[6];
        struct instr instrs[4] = {
            {.kind = OP_CONTRACT, .inputs = {0}, .input_count = 1, .outputs = {2}},
            {.kind = OP_CONTRACT, .inputs = {1}, .input_count = 1, .outputs = {3}},
            {.kind = CASES[c].kind, .inputs = {2, 3}, .input_count = 2, .outputs = {4}},
            {.kind = OP_ELEMENTWISE, .inputs = {4}, .input_count = 1, .outputs = {5}},
        };
        for (int b = 0; b < 6; b++)
            buffers[b] = (struct buffer){.bytes = WHOLE};
        for (int i = 0; i < 4; i++) {
            instrs[i].phase = CASES[c].phase;
            instrs[i].recompute = CASES[c].recompute;
            instrs[i].merge = i < 2 ? CASES[c].merge[i] : 0;
            instrs[i].output_count = 1;
            instrs[i].read_bytes = instrs[i].input_count * WHOLE;
            instrs[i].write_bytes = WHOLE;
        }
        struct block_program program = {.instrs = instrs,
                                        .instr_count = 4,
                                        .buffers = buffers,
                                        .buffer_count = 6,
                                        .outputs = {5, -1},
                                        .input_gradients = {-1, -1}};
        fusion_mark(*state, &program);
        int kernel = CASES[c].is_done ? 0 : 2 + 1;
        if (instrs[3].kernel != kernel)
            fail_msg("case %zu: kernel %d for %d", c, instrs[3].kernel, kernel);
    }
}

static void without_the_pass_nothing_is_marked(void **state)
{
    struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "megatron-core");
    of.parallel.passes &= ~(1u << PASS_FUSION);
    priced_finish(&of);
    double plain_s = of.price->classes[0].phase_s[PHASE_FORWARD][PART_COMPUTE];
    struct fusion_counts counts = fusion_count(priced_block(&of, BLOCK_LAYER));
    assert_true(counts.kernels_before == counts.kernels_after);
    assert_true(counts.bytes_before == counts.bytes_after);

    of.parallel.passes |= 1u << PASS_FUSION;
    priced_finish(&of);
    assert_true(of.price->classes[0].phase_s[PHASE_FORWARD][PART_COMPUTE] < plain_s);
    // A member costs what it still moves, and no launch.
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    const struct instr *norm = find(layer, "mlp.norm");
    struct compute_cost cost = compute_price(&of.context.compute, layer, norm);
    double bytes = (double)(norm->read_bytes + norm->write_bytes - norm->kept_bytes);
    assert_true(cost.kernel_count == 0 && norm->kept_bytes > 0);
    assert_true(cost.s == stream_s(&of.context.compute, bytes * of.stack->element_wise_scale));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(kernels_of_every_model_can_run_and_move_what_crosses_them),
        cmocka_unit_test(a_llama_layer_fuses_its_sums_with_its_norms),
        cmocka_unit_test(biases_join_what_follows_them),
        cmocka_unit_test(a_collective_parts_kernels),
        cmocka_unit_test(boundaries_are_written_and_smaller_tensors_made_apart),
        cmocka_unit_test(sums_of_merged_input_gradients_are_done_by_their_gemm),
        cmocka_unit_test(without_the_pass_nothing_is_marked),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
