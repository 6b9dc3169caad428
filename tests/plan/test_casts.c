#include "tests/support/test.h"

#include "plan/passes.h"
#include "tests/support/priced.h"
#include "tests/support/tiny_models.h"

// In 8 bits weights are cast once a step, for all products that read them, where a rank has them
// all the while. And what a layer's products with its weights read is cast once: every value that a
// weight's gradient reads was written, turned, by the one product that read the value first; and
// what is kept for backward is less by as much as that saves.

static const char LLAMA[] =
    "{\"model_type\": \"llama\", \"vocab_size\": 128, \"hidden_size\": 64, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
    "\"head_dim\": 16, \"intermediate_size\": 96}";
static const char MIXTRAL[] =
    "{\"model_type\": \"mixtral\", \"vocab_size\": 128, \"hidden_size\": 64, "
    "\"num_hidden_layers\": 1, \"num_attention_heads\": 8, \"num_key_value_heads\": 4, "
    "\"head_dim\": 16, \"intermediate_size\": 96, \"num_local_experts\": 16, "
    "\"num_experts_per_tok\": 2}";

enum { TOKENS = 32 };

static struct parallel alone(void)
{
    return (struct parallel){
        .degree = {[0 ... AXIS_COUNT - 1] = 1}, .micro_batch = 1, .passes = PASS_ALL};
}

static struct block_program *lower_on(struct arena *arena, const char *config,
                                      enum precision precision, enum recompute recompute,
                                      struct parallel parallel)
{
    struct import_options options = {.flash = true};
    struct graph *graph = tiny_graph(arena, config, &options);
    parallel_default_order(&parallel);
    struct mesh mesh = mesh_make(&parallel, graph->kv_head_count);
    int block = 0;
    while (graph->blocks[block].role != BLOCK_LAYER)
        block++;
    struct lower_request request = {.block = &graph->blocks[block],
                                    .mesh = &mesh,
                                    .parallel = &parallel,
                                    .recompute = recompute,
                                    .seq_len = TOKENS,
                                    .precision = precision,
                                    .joins =
                                        joins_executed() & ~(1u << JOIN_SUM | 1u << JOIN_ROWS)};
    return lower_block(arena, &request);
}

static struct block_program *lower(struct arena *arena, const char *config,
                                   enum precision precision, enum recompute recompute, int tp)
{
    struct parallel parallel = alone();
    parallel.degree[AXIS_TP] = tp;
    return lower_on(arena, config, precision, recompute, parallel);
}

// The one instruction that writes a buffer; -1.
static int writer_of(const struct block_program *program, int buffer)
{
    int writer = -1;
    for (int i = 0; i < program->instr_count; i++) {
        for (int k = 0; k < program->instrs[i].output_count; k++) {
            if (program->instrs[i].outputs[k] != buffer) continue;
            assert_int_equal(writer, -1);
            writer = i;
        }
    }
    return writer;
}

// How many casts there are. Each is of what its writer reads, a byte each and a head.
static int check_casts(const struct block_program *program)
{
    int count = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        if (!program->buffers[b].cast) continue;
        int writer = writer_of(program, b);
        assert_true(writer >= 0);
        const struct instr *host = &program->instrs[writer];
        assert_true(host->cast == 1 || host->cast == 2);
        assert_int_equal(host->outputs[host->output_count - 1], b);
        const struct buffer *value = &program->buffers[host->inputs[host->cast - 1]];
        assert_false(value->cast);
        assert_int_equal(program->buffers[b].bytes, CAST_HEAD_BYTES + value->bytes / 2);
        count++;
    }
    return count;
}

static bool is_product(const struct instr *instr)
{
    return !instr->collective && instr->kind == OP_CONTRACT;
}

static int cast_reads(const struct block_program *program, bool is_expert)
{
    int count = 0;
    for (int i = program->phase_first[PHASE_WEIGHT]; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        const struct op *op = &program->block->ops[instr->op];
        if (!is_product(instr)) continue;
        bool is_of_experts =
            op_has_dim(program->block, op, DIM_EXPERT) || op_has_dim(program->block, op, DIM_GATE);
        for (int k = 0; k < instr->input_count; k++)
            count += is_of_experts == is_expert && program->buffers[instr->inputs[k]].cast;
    }
    return count;
}

static void a_layer_casts_eight_values(void **state)
{
    // x of q, k, v; of the output; of gate, up; of down; and the gradients of what they make.
    struct block_program *program = lower(*state, LLAMA, PRECISION_FP8, RECOMPUTE_NONE, 1);
    assert_int_equal(check_casts(program), 8);
    assert_int_equal(cast_reads(program, false), 2 * 7);
    // In 16 bits there are none.
    struct block_program *wide = lower(*state, LLAMA, PRECISION_BF16, RECOMPUTE_NONE, 1);
    assert_int_equal(check_casts(wide), 0);
    // Four of them are kept in the place of 16 bits; what attention makes is read by its backward
    // as well, and its cast is beside it.
    int64_t x = TOKENS * 64, core = TOKENS * 8 * 16, ffn = TOKENS * 96;
    assert_int_equal(wide->saved_bytes - program->saved_bytes,
                     x + x - core + ffn - 4 * CAST_HEAD_BYTES);
}

static void experts_and_routers_cast_for_themselves(void **state)
{
    struct block_program *program = lower(*state, MIXTRAL, PRECISION_FP8, RECOMPUTE_NONE, 1);
    assert_int_equal(check_casts(program), 4);
    assert_int_equal(cast_reads(program, true), 0);
    assert_int_equal(cast_reads(program, false), 2 * 4);
}

// Forward is done again but for the last product, which nothing reads.
static void what_is_recomputed_is_cast_again(void **state)
{
    struct block_program *program = lower(*state, LLAMA, PRECISION_FP8, RECOMPUTE_FULL, 1);
    assert_int_equal(check_casts(program), 7);
    for (int b = 0; b < program->buffer_count; b++)
        assert_false(program->buffers[b].cast && program->buffers[b].saved);
}

// 96 / 4 is no multiple of 16.
static void sides_of_no_whole_sixteens_are_left_alone(void **state)
{
    struct block_program *program = lower(*state, LLAMA, PRECISION_FP8, RECOMPUTE_NONE, 4);
    assert_int_equal(check_casts(program), 4);
    assert_int_equal(cast_reads(program, false), 2 * 4);
}

// Products that read a weight's cast, each of which has the weight itself there.
static int weight_reads(const struct block_program *program)
{
    int count = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (!instr->weight_cast) continue;
        int tensor = program->block->ops[instr->op].inputs[instr->weight_cast - 1];
        assert_true(is_product(instr) && instr->phase != PHASE_WEIGHT);
        assert_int_equal(program->block->tensors[tensor].role, TENSOR_PARAMETER);
        count++;
    }
    return count;
}

static void weights_are_cast_once_a_step(void **state)
{
    // q, k, v as one; the output; gate and up as one; down: read forward and backward by seven.
    struct block_program *program = lower(*state, LLAMA, PRECISION_FP8, RECOMPUTE_NONE, 1);
    assert_int_equal(weight_reads(program), 2 * 7);
    assert_int_equal(program->linear_count, 4);
    int64_t heads = 64 * (8 + 4 + 4) * 16 + 64 * 8 * 16;
    assert_int_equal(program->linear_elements, heads + 3 * 64 * 96);
    // All but the last product again.
    program = lower(*state, LLAMA, PRECISION_FP8, RECOMPUTE_FULL, 1);
    assert_int_equal(weight_reads(program), 3 * 7 - 1);
    // Neither the router nor experts: q, k, v and the output.
    program = lower(*state, MIXTRAL, PRECISION_FP8, RECOMPUTE_NONE, 1);
    assert_int_equal(weight_reads(program), 2 * 4);
    assert_int_equal(program->linear_elements, heads);
    // 96 / 4 is no multiple of 16.
    program = lower(*state, LLAMA, PRECISION_FP8, RECOMPUTE_NONE, 4);
    assert_int_equal(program->linear_count, 2);
    assert_int_equal(program->linear_elements, heads / 4);
    assert_int_equal(weight_reads(lower(*state, LLAMA, PRECISION_BF16, RECOMPUTE_NONE, 1)), 0);
}

static void weights_that_come_with_a_micro_batch_are_cast_with_it(void **state)
{
    struct parallel sharded = alone();
    sharded.degree[AXIS_DP] = 2;
    for (sharded.zero = 0; sharded.zero <= 3; sharded.zero++) {
        struct block_program *program =
            lower_on(*state, LLAMA, PRECISION_FP8, RECOMPUTE_NONE, sharded);
        assert_int_equal(weight_reads(program), sharded.zero == 3 ? 0 : 2 * 7);
        assert_int_equal(program->linear_count, sharded.zero == 3 ? 0 : 4);
        assert_true((program->linear_elements == 0) == (sharded.zero == 3));
    }
    struct parallel away = alone();
    away.offload.parameters = TIER_HOST;
    struct block_program *program = lower_on(*state, LLAMA, PRECISION_FP8, RECOMPUTE_NONE, away);
    assert_int_equal(weight_reads(program) + program->linear_count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_layer_casts_eight_values),
        cmocka_unit_test(experts_and_routers_cast_for_themselves),
        cmocka_unit_test(what_is_recomputed_is_cast_again),
        cmocka_unit_test(weights_are_cast_once_a_step),
        cmocka_unit_test(weights_that_come_with_a_micro_batch_are_cast_with_it),
        cmocka_unit_test(sides_of_no_whole_sixteens_are_left_alone),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
