#include "models/attended.h"
#include "models/import.h"
#include "models/op.h"
#include "plan/documents.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"
#include "tests/support/tiny_models.h"

#include <math.h>

// Pairs of queries and keys within documents, counted by hand or one by one.

static void check_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-12 * fabs(wanted)) fail_msg("%.17g is not %.17g", found, wanted);
}

static void documents_as_long_as_the_sequence_see_all(void **state)
{
    (void)state;
    const struct op causal = {.kind = OP_ATTENTION, .causal = true};
    const struct op ahead = {.kind = OP_ATTENTION};
    check_near(attended_share(&causal, 4096, 4096), 1);
    check_near(attended_share(&causal, 4096, 5000), 1);
    check_near(attended_share(&causal, 4096, 0), 1);
    check_near(attended_share(&ahead, 4096, 16), 1);
}

// Of 4,096 keys a causal query sees 2,048 in the mean, in a document of 1,024 tokens 512.
static void the_share_is_that_of_the_lengths(void **state)
{
    (void)state;
    const struct op causal = {.kind = OP_ATTENTION, .causal = true};
    check_near(attended_share(&causal, 4096, 1024), 0.25);
    check_near(attended_share(&causal, 4096, 1), 1.0 / 4096);
}

// A window of 256 in 4,096 tokens is seen 256 - 256 * 256 / 8,192 = 248 deep, in a document of
// 1,024 tokens 256 - 256 * 256 / 2,048 = 224; one of 128 tokens, which is shorter, 64.
static void windows_are_cut_by_documents(void **state)
{
    (void)state;
    const struct op sliding = {.kind = OP_ATTENTION, .causal = true, .window = 256};
    check_near(attended_share(&sliding, 4096, 1024), 224.0 / 248);
    check_near(attended_share(&sliding, 4096, 128), 64.0 / 248);
    const struct op wide = {.kind = OP_ATTENTION, .causal = true, .window = 8192};
    check_near(attended_share(&wide, 4096, 1024), 0.25);
}

// Chunks of 256: 128 deep. The smaller of two uniform numbers below a and b >= a is a / 2 less
// a * a / 6 b.
static void chunks_and_documents_begin_anywhere_in_each_other(void **state)
{
    (void)state;
    const struct op chunked = {
        .kind = OP_ATTENTION, .causal = true, .window = 256, .chunked = true};
    check_near(attended_share(&chunked, 4096, 1024), (128 - 256.0 * 256 / 6144) / 128);
    check_near(attended_share(&chunked, 4096, 64), (32 - 64.0 * 64 / 1536) / 128);
    // One by one, at every place of a document in a chunk.
    enum { CHUNK = 256, DOCUMENT = 600 };
    double seen = 0;
    for (int first = 0; first < CHUNK; first++) {
        for (int i = 0; i < DOCUMENT; i++) {
            int in_chunk = (first + i) % CHUNK;
            seen += in_chunk < i ? in_chunk + 0.5 : i + 0.5;
        }
    }
    double mean = seen / CHUNK / DOCUMENT;
    double said = attended_share(&chunked, 1 << 20, DOCUMENT) * CHUNK / 2;
    assert_true(fabs(said / mean - 1) < 1e-3);
}

// Where queries look ahead as far as back: of 4,096 tokens those nearer than 65 on either side, and
// in chunks all of the chunk. Counted one by one; half of the query's own pair is nobody's.
static void windows_of_both_sides_have_two_sides(void **state)
{
    (void)state;
    enum { KEYS = 4096, WINDOW = 65 };
    const struct op both = {.kind = OP_ATTENTION, .window = WINDOW};
    double pairs = 0;
    for (int query = 0; query < KEYS; query++) {
        for (int key = 0; key < KEYS; key++)
            pairs += abs(query - key) < WINDOW;
    }
    check_near(op_attended_pairs(&both, KEYS, KEYS), pairs + KEYS - WINDOW);
    const struct op chunked = {.kind = OP_ATTENTION, .window = 1024, .chunked = true};
    check_near(op_attended_pairs(&chunked, KEYS, KEYS), 4.0 * 1024 * 1024);
    const struct op wide = {.kind = OP_ATTENTION, .window = 2 * KEYS};
    check_near(op_attended_pairs(&wide, KEYS, KEYS), (double)KEYS * KEYS);
}

// The tokens of a prefix see it whole: beside the pairs of a causal mask, counted with half of each
// query's own, half of a square; a window behind the query leaves that as it is.
static void a_prefix_adds_the_pairs_ahead(void **state)
{
    (void)state;
    enum { KEYS = 2048, PREFIX = 256, WINDOW = 100 };
    const struct op whole = {.kind = OP_ATTENTION, .causal = true, .prefix = PREFIX};
    struct op windowed = whole;
    windowed.window = WINDOW;
    double pairs = 0, near = 0;
    for (int query = 0; query < KEYS; query++) {
        for (int key = 0; key < KEYS; key++) {
            bool is_seen = key <= query || key < PREFIX;
            if (query >= PREFIX) is_seen = key <= query;
            pairs += is_seen;
            near += is_seen && query - key < WINDOW;
        }
    }
    // Pairs along a diagonal, and along the edge of a window, count half.
    check_near(op_attended_pairs(&whole, KEYS, KEYS), pairs - (KEYS - PREFIX) / 2.0);
    check_near(op_attended_pairs(&windowed, KEYS, KEYS), near - (WINDOW - PREFIX) / 2.0);
    assert_true(attended_share(&whole, KEYS, 64) == 1);
}

// llama-2-7b: 32 layers, in each 4 s * 4096 flops a key forward and twice that backward; documents
// of 1,024 of 4,096 tokens leave out three quarters of s / 2 keys.
static void model_flop_leaves_out_what_is_masked(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "meshwright");
    priced_finish(&of);
    double s = 4096, wanted = 0.75 * 3 * 32 * 4 * s * 4096 * s / 2;
    check_near(attended_masked_flop(of.graph, 4096, 1024), wanted);
    assert_true(attended_masked_flop(of.graph, 4096, 4096) == 0);
}

static double attention_flop(const struct priced *of, int64_t *keys)
{
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    double flop = 0;
    for (int i = 0; i < layer->instr_count; i++) {
        const struct instr *instr = &layer->instrs[i];
        bool attends = instr->kind == OP_ATTENTION || instr->kind == OP_ATTENTION_BACKWARD;
        if (!attends) continue;
        flop += instr->flop;
        *keys = instr->window;
        assert_true(instr->chunked == (instr->window > 0));
    }
    return flop;
}

static void kernels_do_the_work_that_is_left(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "meshwright");
    priced_finish(&of);
    int64_t keys = 0, seq_len = of.workload.seq_len;
    double whole = attention_flop(&of, &keys);
    assert_true(whole > 0 && keys == 0);
    documents_apply(of.program, (double)seq_len);
    assert_true(attention_flop(&of, &keys) == whole && keys == 0);
    documents_apply(of.program, (double)seq_len / 8);
    check_near(attention_flop(&of, &keys), whole / 8);
    assert_int_equal(keys, seq_len / 8);
}

// As many pairs as a window of so many keys has; a window that is narrower limits a choice.
static void chosen_keys_are_as_many_as_those_of_a_window(void **state)
{
    (void)state;
    enum { KEYS = 4096 };
    const struct op chosen = {.kind = OP_ATTENTION, .causal = true, .top_k = 256};
    const struct op sliding = {.kind = OP_ATTENTION, .causal = true, .window = 256};
    assert_true(op_attended_pairs(&chosen, KEYS, KEYS) == op_attended_pairs(&sliding, KEYS, KEYS));
    const struct op both = {.kind = OP_ATTENTION, .causal = true, .top_k = 256, .window = 64};
    const struct op few = {.kind = OP_ATTENTION, .causal = true, .window = 64};
    assert_true(op_attended_pairs(&both, KEYS, KEYS) == op_attended_pairs(&few, KEYS, KEYS));
    assert_true(attended_share(&chosen, KEYS, 512) == attended_share(&sliding, KEYS, 512));
}

// 128 pairs of 16 tokens, of each for 3 heads a product of 6 numbers, a maximum, a product and a
// sum: 5,760.
static void a_choice_scores_every_key(void **state)
{
    (void)state;
    const int64_t size[DIM_COUNT] = {
        [DIM_BATCH] = 1, [DIM_SEQ] = 16, [DIM_INDEX_HEAD] = 3, [DIM_HEAD_DIM] = 6};
    const struct op choice = {.kind = OP_CHOOSE, .causal = true, .top_k = 2};
    const struct op backward = {.kind = OP_CHOOSE_BACKWARD, .causal = true, .top_k = 2};
    assert_true(op_rule(OP_CHOOSE)->flop(NULL, &choice, size) == 5760);
    assert_true(op_rule(OP_CHOOSE_BACKWARD)->flop(NULL, &backward, size) == 0);
}

// Each of 6 tokens says something of 8 rows, by 4 heads of 2: 2 x 6 x 8 x 4 x 2.
static void all_rows_of_a_table_are_work_of_each_token(void **state)
{
    static const char CONFIG[] =
        "{\"model_type\": \"deberta-v2\", \"vocab_size\": 11, \"hidden_size\": 8, "
        "\"num_hidden_layers\": 1, \"num_attention_heads\": 4, \"intermediate_size\": 8, "
        "\"max_position_embeddings\": 9, \"relative_attention\": true, \"position_buckets\": 4, "
        "\"share_att_key\": true, \"pos_att_type\": \"p2c|c2p\"}";
    const struct import_options options = {.flash = true};
    const struct graph *graph = tiny_graph(*state, CONFIG, &options);
    const struct block *block = &graph->blocks[graph->sequence[1]];
    int found = 0;
    for (int o = 0; o < block->op_count; o++) {
        bool is_each = strstr(block->ops[o].name, ".each") != NULL;
        if (is_each) assert_true(attended_flop(block, &block->ops[o], 6) == 768);
        found += is_each;
    }
    assert_int_equal(found, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chosen_keys_are_as_many_as_those_of_a_window),
        cmocka_unit_test(a_choice_scores_every_key),
        cmocka_unit_test(documents_as_long_as_the_sequence_see_all),
        cmocka_unit_test(the_share_is_that_of_the_lengths),
        cmocka_unit_test(windows_are_cut_by_documents),
        cmocka_unit_test(windows_of_both_sides_have_two_sides),
        cmocka_unit_test(chunks_and_documents_begin_anywhere_in_each_other),
        cmocka_unit_test(a_prefix_adds_the_pairs_ahead),
        cmocka_unit_test(model_flop_leaves_out_what_is_masked),
        cmocka_unit_test(kernels_do_the_work_that_is_left),
        cmocka_unit_test(all_rows_of_a_table_are_work_of_each_token),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
