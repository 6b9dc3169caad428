#include "tests/support/test.h"

#include "cost_models/gemm.h"
#include "cost_models/gradient_sums.h"
#include "cost_models/ledger.h"
#include "tests/support/priced.h"

#include <math.h>

// Who makes a gradient first, and what that takes: Llama 3 8B has a table of its own, of 128,256
// rows of 4,096 numbers; GPT-2's of 50,257 rows of 768 is the head's as well, that of
// 1,024 positions is not.
static const double LLAMA_TABLE = 128256.0 * 4096, GPT2_TABLE = 50257.0 * 768,
                    GPT2_POSITIONS = 1024.0 * 768;

static struct priced planned(struct arena *arena, const char *model, const char *stack, int pp,
                             int zero)
{
    struct priced of = priced_start(arena, model, "dgx-h100", stack);
    of.workload.seq_len = 512;
    of.parallel.degree[AXIS_PP] = pp;
    of.parallel.zero = zero;
    priced_finish(&of);
    return of;
}

static bool is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-12 * fabs(expected);
}

static struct chunk_price begun(const struct priced *of, int stage)
{
    struct chunk_price price = {0};
    const struct program_chunk *chunk = &of->program->chunks[of->program->class_of[stage]];
    gradient_begins_add(&of->context, of->program, chunk, &price);
    struct price_context unnoted = of->context;
    unnoted.ledger = NULL;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = of->program->blocks[chunk->uses[u].block_program];
        const struct block_price own = block_price(&unnoted, &of->program->mesh, block, 0);
        price.added_s += chunk->uses[u].count * own.adding_s;
    }
    return price;
}
static double begins_s(const struct priced *of, int stage)
{
    return begun(of, stage).zeroed_s;
}

static int layers_of(const struct priced *of, int stage)
{
    const struct program_chunk *chunk = &of->program->chunks[of->program->class_of[stage]];
    int count = 0;
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_use *use = &chunk->uses[u];
        bool is_layer = of->program->blocks[use->block_program]->block->role == BLOCK_LAYER;
        count += is_layer ? use->count : 0;
    }
    return count;
}

static const struct instr *lookup(const struct block_program *block)
{
    for (int i = 0; i < block->instr_count; i++) {
        if (instr_adds_rows(block, &block->instrs[i])) return &block->instrs[i];
    }
    fail_msg("no rows are added to a table");
    return NULL;
}

// In every micro-batch the rows of 512 tokens are read and added to as many of the table; zeros of
// all of it, in fp32, are written once a step.
static void a_table_begins_once_a_step(void **state)
{
    struct priced of = planned(*state, "llama-3-8b", "meshwright", 1, 0);
    const struct block_program *block = priced_block(&of, BLOCK_EMBEDDING);
    const struct instr *instr = lookup(block);
    int64_t rows = (int64_t)512 * 4096 * 2;
    assert_int_equal(instr->read_bytes, 2 * rows + 512 * 8);
    assert_int_equal(instr->write_bytes, rows);
    assert_true(is_near(begins_s(&of, 0), stream_s(&of.context.compute, LLAMA_TABLE * 4)));
    assert_true(gradient_sums_s(&of.context, block) == 0);
    // Of more tokens than rows none is met twice as often as it has rows.
    of.workload.seq_len = 131072 * 4;
    of.workload.global_batch = 0;
    priced_finish(&of);
    instr = lookup(priced_block(&of, BLOCK_EMBEDDING));
    assert_true(is_near((double)instr->write_bytes, LLAMA_TABLE * 2));
}

// Scattered in every micro-batch, it begins in each, in a room of 16 bits.
static void a_room_begins_in_every_micro_batch(void **state)
{
    struct priced of = planned(*state, "llama-3-8b", "meshwright", 1, 2);
    const struct compute_context *compute = &of.context.compute;
    assert_true(begins_s(&of, 0) == 0);
    double each_s = gradient_sums_s(&of.context, priced_block(&of, BLOCK_EMBEDDING));
    assert_true(is_near(each_s, stream_s(compute, LLAMA_TABLE * 2)));
    assert_true(gradient_sums_s(&of.context, priced_block(&of, BLOCK_LAYER)) == 0);
}

// What GEMMs of weights take longer where they read what they add to, of one micro-batch.
static double reading_s(const struct priced *of, enum block_role role)
{
    const struct block_program *block = priced_block(of, role);
    double s = 0;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i], *joined[CONTRACTION_JOINED_MAX];
        struct gemm gemm;
        enum bound bound;
        bool is_it = instr->phase == PHASE_WEIGHT && instr->kind == OP_CONTRACT &&
                     contraction_joined(block, instr, joined, &gemm) > 0;
        if (!is_it) continue;
        s += gemm_s(&of->context.compute, &gemm, GEMM_ACCUMULATES, &bound) -
             gemm_s(&of->context.compute, &gemm, GEMM_BEGINS, &bound);
    }
    return s;
}

// A layer's GEMMs write 218 M numbers in fp32 in every micro-batch, and read them in all but one.
// Other software clears its sums first, and always reads.
static void products_read_what_they_add_to(void **state)
{
    struct priced of = planned(*state, "llama-3-8b", "meshwright", 1, 0);
    const struct device *device = of.context.compute.device;
    double each_s = reading_s(&of, BLOCK_LAYER), head_s = reading_s(&of, BLOCK_HEAD);
    double most_s = 218103808.0 * 4 / device->memory_bandwidth_bytes_per_s /
                    device->efficiency.gemm_memory_ratio;
    assert_true(each_s > 0.5 * most_s && each_s < most_s);
    assert_true(is_near(begun(&of, 0).added_s, 32 * each_s + head_s));
    struct priced other = planned(*state, "llama-3-8b", "megatron-core", 1, 0);
    assert_true(begun(&other, 0).added_s == 0);
}

// The head has begun what is tied to it, unless that is another stage's. Four products of each of
// 12 layers sum their biases beside, which all micro-batches but the first add by a kernel.
static void what_is_tied_begins_at_its_last_place(void **state)
{
    struct priced of = planned(*state, "gpt2", "meshwright", 1, 0);
    struct priced parted = planned(*state, "gpt2", "meshwright", 2, 0);
    const struct compute_context *compute = &of.context.compute;
    double launch_s = compute->device->launch_latency_s;
    double positions_s = stream_s(compute, GPT2_POSITIONS * 4);
    double table_s = stream_s(compute, GPT2_TABLE * 4);
    assert_int_equal(priced_block(&of, BLOCK_LAYER)->begins.added_sums, 4);
    assert_true(is_near(begins_s(&of, 0), positions_s));
    double each_s = reading_s(&of, BLOCK_LAYER), head_s = reading_s(&of, BLOCK_HEAD);
    assert_true(is_near(begun(&of, 0).added_s, 48 * launch_s + 12 * each_s + head_s));
    assert_true(is_near(begins_s(&parted, 0), positions_s + table_s));
    assert_true(begins_s(&parted, 1) == 0);
    double second_s = layers_of(&parted, 1) * (4 * launch_s + each_s) + head_s;
    assert_true(is_near(begun(&parted, 1).added_s, second_s));
    struct priced shared = planned(*state, "gpt2", "meshwright", 1, 3);
    each_s = gradient_sums_s(&shared.context, priced_block(&shared, BLOCK_EMBEDDING));
    assert_true(is_near(each_s, stream_s(compute, (GPT2_TABLE + GPT2_POSITIONS) * 2)));
    each_s = gradient_sums_s(&shared.context, priced_block(&shared, BLOCK_LAYER));
    assert_true(each_s == 0 && begun(&shared, 0).added_s == 0);
}

// Of 16 micro-batches one writes zeros and 15 add: in the mean one, and nowhere else.
static void they_are_in_the_mean_micro_batch(void **state)
{
    struct priced of = planned(*state, "gpt2", "meshwright", 1, 0);
    struct block_price *blocks = ARENA_NEW(*state, struct block_price, of.program->block_count);
    const struct step_price *bare =
        step_price_of_blocks(*state, &of.context, of.program, blocks, NULL);
    const struct chunk_price *chunk = &bare->classes[0];
    assert_int_equal(of.program->shape.micro_batch_count, 16);
    double mean_s = (chunk->zeroed_s + 15 * chunk->added_s) / 16;
    assert_true(chunk->zeroed_s > 0 && chunk->added_s > 0);
    assert_true(is_near(chunk->phase_s[PHASE_WEIGHT][PART_COMPUTE], mean_s));
    assert_true(chunk->phase_s[PHASE_BACKWARD][PART_COMPUTE] == 0);
}

// PyTorch writes all of it in every micro-batch.
static void others_begin_every_time(void **state)
{
    struct priced of = planned(*state, "llama-3-8b", "megatron-core", 1, 0);
    const struct block_program *block = priced_block(&of, BLOCK_EMBEDDING);
    assert_true(is_near((double)lookup(block)->write_bytes, LLAMA_TABLE * 2));
    assert_true(begins_s(&of, 0) == 0 && gradient_sums_s(&of.context, block) == 0);
}

// Lines of the mean micro-batch, each of an operator, sum to what the phases have.
static void lines_are_of_the_operators(void **state)
{
    struct priced of = planned(*state, "gpt2", "meshwright", 2, 0);
    struct ledger ledger = ledger_new(*state);
    of.context.ledger = &ledger;
    struct chunk_price price = begun(&of, 0);
    double sum_s = 0;
    for (int i = 0; i < ledger.count; i++) {
        const struct ledger_line *line = &ledger.lines[i];
        assert_true(line->entry == ENTRY_BEGIN && line->of_instr > 0 && line->of_use > 0);
        sum_s += line->s;
    }
    assert_int_equal(ledger.count, 2 + 4 + 4);
    step_add_begins(of.program->shape.micro_batch_count, &price);
    assert_true(is_near(sum_s, price.phase_s[PHASE_WEIGHT][PART_COMPUTE]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_table_begins_once_a_step),
        cmocka_unit_test(a_room_begins_in_every_micro_batch),
        cmocka_unit_test(products_read_what_they_add_to),
        cmocka_unit_test(what_is_tied_begins_at_its_last_place),
        cmocka_unit_test(they_are_in_the_mean_micro_batch),
        cmocka_unit_test(others_begin_every_time),
        cmocka_unit_test(lines_are_of_the_operators),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
