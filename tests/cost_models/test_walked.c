#include "tests/support/test.h"

#include "cost_models/choosing.h"
#include "cost_models/chunked.h"
#include "cost_models/own_kernels.h"
#include "cost_models/scan.h"
#include "cost_models/walked.h"
#include "plan/choose_parts.h"
#include "plan/conv_parts.h"
#include "plan/scan_chunks.h"
#include "plan/strided_sums.h"
#include "plan/walked.h"
#include "tests/support/priced.h"

#include <math.h>

static struct priced start(struct arena *arena, const char *model, const char *stack)
{
    struct priced of = priced_start(arena, model, "dgx-h100", stack);
    of.workload.seq_len = 4096;
    of.parallel.micro_batch = 2;
    priced_finish(&of);
    return of;
}

// Of the kinds that a block has both of, in whichever block stands first.
static const struct block_program *with(const struct priced *of, enum op_kind kind,
                                        const struct instr **found)
{
    for (int b = 0; b < of->program->block_count; b++) {
        const struct block_program *block = of->program->blocks[b];
        for (int i = 0; i < block->instr_count; i++) {
            *found = &block->instrs[i];
            if ((*found)->collective == COLLECTIVE_NONE && (*found)->kind == kind) return block;
        }
    }
    fail_msg("no such operator");
    return NULL;
}

static bool is_near(double found, double expected)
{
    return fabs(found - expected) <= 1e-12 * expected;
}

// 500 cycles, of which 132 multiprocessors make 3.86e12 / 16.
static const double TURN_S = 500 / (3.86e12 / 16 / 132);

// Mamba-2 2.7B, two sequences of 4,096 tokens: 80 heads of 64 channels with a state of 128, one
// group, in bf16. Chunks of 128 are 64, all heads of which have room at a time forward: a head's
// operands are two of 64 x 128, a matrix of 128 x 128 and a state of 64 x 128 in two bytes, a state
// and two results in four; a group has 128 x 128 scores.
static void chunks_of_a_scan_are_counted_by_hand(void **state)
{
    (void)state;
    struct chunk_scan of = {.batch = 2,
                            .seq = 4096,
                            .heads = 80,
                            .groups = 1,
                            .width = 64,
                            .state = 128,
                            .heads_each = 80,
                            .bytes = 2};
    of.length = chunk_length(&of);
    assert_int_equal(of.length, 128);
    int64_t tile = 64 * 128, square = 128 * 128;
    int64_t head = 64 * (2 * (3 * tile + square) + 4 * 3 * tile), group = 64 * 4 * square;
    assert_int_equal(chunk_heads_most(&of), (512 << 20) / (head + group));
    int64_t rows = 64 * 2 * square * 2, exponents = (int64_t)64 * 80 * 128;
    struct chunk_part part = chunk_part_at(&of, 0);
    assert_int_equal(part.heads, chunk_heads_most(&of));
    assert_int_equal(part.groups, 1);
    assert_int_equal(chunk_bytes(&of), part.heads * head + group + rows + 4 * exponents);
    // C of the state in front for all channels of the part; results of its own tokens by head.
    struct chunk_gemm past = chunk_gemm_of(&of, &part, 2), own = chunk_gemm_of(&of, &part, 3);
    assert_int_equal(past.batch, 64);
    assert_true(past.rows == part.heads * 64 && past.columns == 128 && past.inner == 128);
    assert_int_equal(own.batch, 64 * part.heads);
    assert_true(own.rows == 64 && own.columns == 128 && own.inner == 128);
    of.is_backward = true;
    struct chunk_gemm sum = chunk_gemm_of(&of, &part, 8);
    assert_true(sum.batch == 64 && sum.rows == 128 && sum.columns == 128);
    assert_int_equal(sum.inner, part.heads * 64);
}

// Heads of ranks that begin in the midst of a group, and of which several groups fit.
static void parts_are_of_whole_groups_or_of_one(void **state)
{
    (void)state;
    const struct chunk_scan of = {.batch = 1,
                                  .seq = 16,
                                  .heads = 10,
                                  .groups = 4,
                                  .width = 4,
                                  .state = 4,
                                  .heads_each = 3,
                                  .first_head = 2,
                                  .bytes = 4,
                                  .length = 16};
    static const struct chunk_part PARTS[] = {{0, 1, 0, 1}, {1, 9, 1, 3}};
    int64_t head = 0;
    for (size_t i = 0; i < 2; i++) {
        struct chunk_part part = chunk_part_at(&of, head);
        assert_int_equal(part.head, PARTS[i].head);
        assert_int_equal(part.heads, PARTS[i].heads);
        assert_int_equal(part.group, PARTS[i].group);
        assert_int_equal(part.groups, PARTS[i].groups);
        head += part.heads;
    }
    assert_int_equal(head, 10);
}

// Some tens of products and kernels in place of 4,096 tokens one after another, none of them above
// what the device multiplies, nor below what it moves.
static void the_price_is_of_products_and_kernels(void **state)
{
    struct priced of = start(*state, "mamba2-2.7b", "meshwright");
    const struct compute_context *compute = &of.context.compute;
    static const enum op_kind KINDS[] = {OP_SCAN, OP_SCAN_BACKWARD};
    for (int i = 0; i < 2; i++) {
        const struct instr *instr;
        const struct block_program *block = with(&of, KINDS[i], &instr);
        struct chunk_scan scan = {.batch = 2,
                                  .seq = 4096,
                                  .heads = 80,
                                  .groups = 1,
                                  .width = 64,
                                  .state = 128,
                                  .heads_each = 80,
                                  .bytes = 2,
                                  .is_backward = i > 0};
        scan.length = chunk_length(&scan);
        int64_t parts = 0, products = i ? 11 : 4;
        for (int64_t head = 0; head < 80; parts++)
            head += chunk_part_at(&scan, head).heads;
        struct compute_cost cost = compute_price(compute, block, instr);
        assert_true(cost.kernel_count == (double)(parts * products + chunk_kernels(&scan, parts)));
        double moved = chunk_own_bytes(&scan) + (double)(instr->read_bytes + instr->write_bytes);
        assert_true(cost.s > stream_s(compute, moved + 0.5 * chunk_product_bytes(&scan)));
        assert_true(cost.s < 4 * stream_s(compute, moved + chunk_product_bytes(&scan)));
        if (i)
            assert_true(chunked_bytes(of.stack, PRECISION_BF16, block) ==
                        (double)chunk_bytes(&scan));
    }
}

// Of the same two sequences by lightning attention backward says nothing to rates and steps: PAST
// is not made, x and d_y are read once, and beside the rooms there are exponents alone.
static void steady_scans_do_less(void **state)
{
    (void)state;
    struct chunk_scan of = {.batch = 2,
                            .seq = 4096,
                            .heads = 80,
                            .groups = 1,
                            .width = 64,
                            .state = 128,
                            .heads_each = 80,
                            .bytes = 2,
                            .is_backward = true,
                            .length = 128};
    struct chunk_scan steady = of;
    steady.is_steady = true;
    int64_t tile = 64 * 128, square = 128 * 128, heads = 64 * 80;
    assert_int_equal(chunk_beside(&steady), heads * 128);
    assert_int_equal(chunk_room_bytes(&steady, CHUNK_PAST, 80, 1), 0);
    assert_int_equal(chunk_kernels(&steady, 3), 3 + 6 * 3);
    int products = 0;
    for (int i = 0; i < CHUNK_PRODUCTS; i++)
        products += chunk_has_product(&steady, i);
    assert_int_equal(products, 10);
    // X and both states once less, PAST never, scores once less; of a token and head in fp32 what
    // exponents and steps have, and of a chunk and head three more.
    double rooms = (double)(heads * (2 * tile + 4 * tile + 2 * 2 * tile) + 64 * 4 * square);
    double beside = 8.0 * (double)(heads * (2 * 128 + 3)), again = 2.0 * 2 * 4096 * 80 * 64 * 2;
    assert_true(is_near(chunk_own_bytes(&of) - chunk_own_bytes(&steady), rooms + beside + again));
    of.is_backward = steady.is_backward = false;
    assert_true(is_near(chunk_own_bytes(&of) - chunk_own_bytes(&steady), again / 2));
}

// 64 heads of the indexer by 4,096 keys, and their sum, are 1,064,960 bytes a query, of which 256
// MiB hold 252: 17 products of each of two sequences, and as many kernels behind them.
static void choices_are_made_for_as_many_queries_as_have_room(void **state)
{
    struct priced of = start(*state, "deepseek-v3.2", "meshwright");
    const struct compute_context *compute = &of.context.compute;
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_CHOOSE, &instr);
    assert_int_equal(choose_queries(4096, 64, 4096), 252);
    assert_true(choosing_bytes(of.stack, PRECISION_BF16, block) == 252.0 * 1064960);
    struct compute_cost cost = compute_price(compute, block, instr);
    assert_true(cost.kernel_count == 2 * 2 * 17);
    // Products of all pairs are written in fp32; those of half of them, and their sums, are read.
    double written = 2.0 * 4096 * 4096 * 64 * 4, seen = 2.0 * 4096 * 4097 / 2 * 4;
    double moved = written + seen * 66;
    assert_true(cost.s > stream_s(compute, moved) && cost.s < 2 * stream_s(compute, moved));
}

// A row of 4,096 keys is 8 KiB, of which 256 MiB hold 32,768: eight sequences. One of 131,072 keys
// has room for 1,024 queries, and what is said to its keys is summed: rows of 10 numbers, of 16
// bits for one part and of 32 for all of three sequences. Rows end with whole 16 bytes, parts with
// whole eight queries.
static void chosen_keys_are_attended_to_as_far_as_there_is_room(void **state)
{
    (void)state;
    struct attended_part part = attended_part(13, 4096, 4096);
    assert_true(part.sequences == 8 && part.queries == 4096);
    assert_int_equal(attended_parts(13, 4096, 4096), 2);
    assert_int_equal(attended_bytes(13, 4096, 4096, 10, true), (int64_t)8 * 4096 * 8192);
    part = attended_part(3, 131072, 131072);
    assert_true(part.sequences == 1 && part.queries == 1024);
    assert_int_equal(attended_parts(3, 131072, 131072), 3 * 128);
    int64_t added = (int64_t)1024 * 262144, keys = (int64_t)131072 * 10;
    assert_int_equal(attended_bytes(3, 131072, 131072, 10, false), added);
    assert_int_equal(attended_bytes(3, 131072, 131072, 10, true), added + keys * (2 + 3 * 4));
    assert_int_equal(attended_row_bytes(17), 48);
    part = attended_part(1, 1 << 30, 1 << 24);  // one row is 32 MiB
    assert_int_equal(part.queries, 8);
    part = attended_part(1, 1 << 20, 1000000);
    assert_int_equal(part.queries, 128);  // of 134 that have room
}

// Of 4,096 queries 4,096^2 / 2 pairs are met, of which 2,048 keys each are 3/4; for each pair and
// head 2 bytes are read, for each query and key 2 written. Two launches, and three of two parts.
static void all_keys_are_met_where_some_are_chosen(void **state)
{
    struct priced of = start(*state, "deepseek-v3.2", "meshwright");
    const struct compute_context *compute = &of.context.compute;
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_ATTENTION, &instr);
    struct instr met = attended_instr(of.stack, block->block, instr);
    double pairs = 4096.0 * 4096 / 2;
    assert_true(is_near(met.flop, instr->flop * 4 / 3) && met.window == 0);
    assert_true(is_near((double)(met.read_bytes - instr->read_bytes), 2 * pairs * 2 * 128));
    assert_int_equal(met.write_bytes - instr->write_bytes, 2 * 4096 * 4096 * 2);
    struct compute_cost cost = compute_price(compute, block, instr);
    assert_true(cost.kernel_count == 2);
    assert_true(choosing_bytes(of.stack, PRECISION_BF16, block) >= 2.0 * 4096 * 8192);
    // Of 16 sequences there are two parts, of which the second is attended to in a kernel more.
    struct instr many = *instr;
    struct compute_cost of_many = {.kernel_count = 1};
    many.batch = 16;
    add_attended(compute, &many, 1, &of_many);
    assert_true(of_many.kernel_count == 4);
    // Backward of one of 131,072 has 128: as many more, two sums behind each, and two at the end.
    many.kind = OP_ATTENTION_BACKWARD;
    many.batch = 1, many.seq = many.kv_seq = 131072;
    of_many = (struct compute_cost){.kernel_count = 1};
    add_attended(compute, &many, 1, &of_many);
    assert_true(of_many.kernel_count == 128 + 128 + 256 + 2);
    // A ring of two blocks of 16,384 keys: of each two parts of the queries, masked and attended
    // to; forward merges all of the second block's. Sums end with each block.
    many.seq = 16384, many.kv_seq = 32768;
    of_many = (struct compute_cost){.kernel_count = 2};
    assert_true(add_attended(compute, &many, 2, &of_many) && of_many.kernel_count == 4 * 4 + 2 * 2);
    many.kind = OP_ATTENTION;
    of_many = (struct compute_cost){.kernel_count = 2 + 1};
    assert_false(add_attended(compute, &many, 2, &of_many));
    assert_true(of_many.kernel_count == 4 * 2 + 2);
    const struct instr other = {.kind = OP_CONTRACT, .window = 7, .flop = 3};
    assert_true(attended_instr(of.stack, block->block, &other).flop == 3);
}

// Mamba-2 2.7B: channels of x are 5,120, of B and C 128, with four taps. Backward is four kernels;
// in fp32 what the function was given is written and read twice, five sums of each channel and 64
// tokens written and read, and x read again.
static void backward_of_convolutions_is_four_kernels(void **state)
{
    struct priced of = start(*state, "mamba2-2.7b", "meshwright");
    struct priced other = start(*state, "mamba2-2.7b", "megatron-core");
    const struct compute_context *compute = &of.context.compute;
    const struct instr *instr, *one;
    const struct block_program *block = with(&of, OP_CONV_BACKWARD, &instr);
    double launch_s = compute->device->launch_latency_s;
    double channels = instr->read_bytes > 100000000 ? 5120 : 128, tokens = 8192;
    struct compute_cost cost = compute_price(compute, block, instr);
    assert_true(cost.kernel_count == 4);
    double once = (double)(instr->read_bytes + instr->write_bytes);
    double more = channels * (4 * (3 * tokens + 2 * 128 * 5) + 2 * tokens);
    assert_true(is_near(cost.s, stream_s(compute, once) + stream_s(compute, more) + 4 * launch_s));
    assert_int_equal(conv_room(8192, 128, 4), 128 * (8192 + 128 * 5));
    assert_true(own_kernels_bytes(of.stack, PRECISION_BF16, block) == 4 * 5120.0 * (8192 + 640));
    const struct block_program *theirs = with(&other, OP_CONV_BACKWARD, &one);
    assert_true(compute_price(&other.context.compute, theirs, one).kernel_count < 4);
    assert_true(own_kernels_bytes(other.stack, PRECISION_BF16, theirs) == 0);
}

// Of 96 numbers each of 401,408 turns 256 pieces; no fewer than 64 turns are a piece, and a number
// a thread are enough of many numbers.
static void sums_of_few_numbers_are_cut_into_pieces(void **state)
{
    (void)state;
    assert_int_equal(strided_pieces(96, 401408), 256);
    assert_int_equal(strided_pieces(3, 127), 1);
    assert_int_equal(strided_pieces(3, 128), 2);
    assert_int_equal(strided_pieces(1 << 16, 4096), 4);
    assert_int_equal(strided_pieces(1 << 20, 4096), 1);
}

// DeBERTa v3 has tables of 512 rows, 256 of which are summed at a time: what was looked up, and
// ids, are read once more. Each of two lookups is one launch, forward and backward.
static void gradients_of_pairs_are_read_for_some_rows_at_a_time(void **state)
{
    struct priced of = priced_start(*state, "deberta-v3-base", "dgx-h100", "meshwright");
    of.workload.seq_len = 512;
    of.parallel.micro_batch = 2;
    priced_finish(&of);
    const struct compute_context *compute = &of.context.compute;
    const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
    int count = 0;
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *instr = &layer->instrs[i];
        if (instr->collective || instr->kind != OP_GATHER_BACKWARD) continue;
        struct compute_cost cost = compute_price(compute, layer, instr);
        double once = (double)(instr->read_bytes + instr->write_bytes);
        double again = 2.0 * 12 * 512 * 512 * 2 + 512 * 512 * 8;
        double launch_s = compute->device->launch_latency_s;
        assert_true(cost.kernel_count == 1);
        assert_true(is_near(cost.s, stream_s(compute, once) + stream_s(compute, again) + launch_s));
        count++;
    }
    assert_int_equal(count, 2);
}

// The delta rule of Qwen3-Next: two turns a token forward, five passes backward, and sums of its
// own for keys and queries. Of few tokens all pairs run at once.
static void the_delta_rule_takes_more(void **state)
{
    struct priced of = start(*state, "qwen3.5-9b", "meshwright");
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_DELTA, &instr);
    struct compute_cost cost = compute_price(&of.context.compute, block, instr);
    double launch_s = of.context.compute.device->launch_latency_s;
    int64_t rows = instr->batch * instr->heads * instr->head_dim;
    double rounds = ceil((double)rows / 8 / 396);
    assert_true(is_near(cost.s, rounds * 4096 * 2 * TURN_S + launch_s));
    const struct token_walk few = {1, 16, 4, 2, 8, 32};
    assert_int_equal(walk_stretches(&few), 4);
    // 4 + 4 + 2 states of 256, lengths of 16 tokens, sums of one; 2 x 16 rows of 32.
    assert_int_equal(walk_room(&few), 10 * 256 + 32 + 16 + 96);
    assert_int_equal(walk_pair(&few), walk_room(&few) + 1024);
    assert_int_equal(walk_pairs(&few), 4);
}

// Mamba-1 2.8B: two sequences of 4,096 tokens, in stretches of 32, 5,120 channels of 16 numbers, in
// bf16. 80 blocks' worth of channels are 32 parts of up to three turns, each of two warps.
static void scans_by_state_are_cut_into_stretches(void **state)
{
    struct priced of = start(*state, "mamba-2.8b", "meshwright");
    const struct compute_context *compute = &of.context.compute;
    const struct device *device = compute->device;
    const double states = 2.0 * 128 * 5120 * 16, sums = states / 16, numbers = 8192.0 * 5120;
    const double said = 32 * 2 * 8192.0 * 16, launch_s = device->launch_latency_s;
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_SCAN, &instr);
    struct compute_cost cost = compute_price(compute, block, instr);
    double once = (double)(instr->read_bytes + instr->write_bytes);
    double moved = once + 4 * (4 * states + 2 * sums) + 2 * 2 * numbers;
    double made_s = fmax(2 * numbers * 16 / device->exponential_per_s,
                         12 * numbers * 16 / device->peak_flop_per_s[PRECISION_FP32]);
    assert_true(cost.kernel_count == 3);
    assert_true(is_near(cost.s, fmax(stream_s(compute, moved), made_s) + 3 * launch_s));
    block = with(&of, OP_SCAN_BACKWARD, &instr);
    cost = compute_price(compute, block, instr);
    once = (double)(instr->read_bytes + instr->write_bytes);
    moved = once + 4 * (10 * states + 5 * sums) + 3 * 2 * numbers + 3 * 2 * 2 * 4 * said;
    made_s = fmax(4 * numbers * 16 / device->exponential_per_s,
                  40 * numbers * 16 / device->peak_flop_per_s[PRECISION_FP32]);
    assert_true(cost.kernel_count == 4);
    assert_true(is_near(cost.s, fmax(stream_s(compute, moved), made_s) + 4 * launch_s));
    assert_true(selective_scan_bytes(of.stack, block) == 4 * (2 * states + sums + 2 * said));
    struct priced other = start(*state, "mamba-2.8b", "megatron-core");
    const struct block_program *theirs = with(&other, OP_SCAN_BACKWARD, &instr);
    assert_true(compute_price(&other.context.compute, theirs, instr).kernel_count == 1);
    assert_true(selective_scan_bytes(other.stack, theirs) == 0);
}

// Other software is priced as the products of its own chunks.
static void others_have_chunks_of_their_own(void **state)
{
    struct priced of = start(*state, "mamba2-2.7b", "megatron-core");
    const struct instr *instr;
    const struct block_program *block = with(&of, OP_SCAN_BACKWARD, &instr);
    assert_false(scan_is_chunked(of.stack, block->block, instr));
    assert_true(chunked_bytes(of.stack, PRECISION_BF16, block) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunks_of_a_scan_are_counted_by_hand),
        cmocka_unit_test(parts_are_of_whole_groups_or_of_one),
        cmocka_unit_test(the_price_is_of_products_and_kernels),
        cmocka_unit_test(steady_scans_do_less),
        cmocka_unit_test(choices_are_made_for_as_many_queries_as_have_room),
        cmocka_unit_test(chosen_keys_are_attended_to_as_far_as_there_is_room),
        cmocka_unit_test(all_keys_are_met_where_some_are_chosen),
        cmocka_unit_test(backward_of_convolutions_is_four_kernels),
        cmocka_unit_test(sums_of_few_numbers_are_cut_into_pieces),
        cmocka_unit_test(gradients_of_pairs_are_read_for_some_rows_at_a_time),
        cmocka_unit_test(the_delta_rule_takes_more),
        cmocka_unit_test(scans_by_state_are_cut_into_stretches),
        cmocka_unit_test(others_have_chunks_of_their_own),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
