#include "cost_models/exchanges.h"
#include "plan/held.h"
#include "plan/script/check.h"
#include "tests/support/priced.h"
#include "tests/support/script_case.h"
#include "tests/support/test.h"

#include <math.h>

// Products that two exchanges of a grid meet at (plan/lower/relay_pair.h): GPT-2 124M by SUMMA on
// 3 x 3 ranks, 32 tokens a sequence in fp32. Of the product that ends the MLP 1,024 of the 3,072
// that it is summed over are of a turn. Three messages bring each operand, one in three of which is
// a rank's own.

enum { SEQ = 32 };

static struct priced grid(struct arena *arena, int tp)
{
    struct priced of = priced_start(arena, "gpt2", "gb200-nvl72", "meshwright");
    of.parallel.degree[AXIS_TP] = tp;
    of.parallel.tp_kind = TP_2D_SUMMA;
    of.parallel.micro_batch = 3;
    of.parallel.tp_relay = tp == 12 ? 4 : 3;
    of.workload =
        (struct workload){.seq_len = SEQ, .precision = PRECISION_FP32, .global_batch = 72 / tp * 3};
    priced_finish(&of);
    return of;
}

static struct priced nine(struct arena *arena)
{
    return grid(arena, 9);
}

// The n-th instruction of an operator in a phase, or of the messages of its pair.
static struct instr *turn_of(const struct block_program *block, const char *op, int n,
                             bool is_message)
{
    struct instr *found = NULL;
    int relay = 0;
    for (int i = 0; i < block->instr_count && !relay; i++) {
        const struct instr *instr = &block->instrs[i];
        if (instr->rows && strcmp(block->block->ops[instr->op].name, op) == 0) relay = instr->relay;
    }
    for (int i = 0; i < block->instr_count && n >= 0; i++) {
        struct instr *instr = &block->instrs[i];
        bool is_it = instr->relay == relay &&
                     (is_message ? instr->collective == COLLECTIVE_SEND_RECV : instr->rows > 0);
        if (is_it && n-- == 0) found = instr;
    }
    assert_true(found && relay);
    return found;
}

static void summa_takes_both_panels_of_a_turn(void **state)
{
    struct priced of = nine(*state);
    const struct block_program *block = priced_block(&of, BLOCK_LAYER);
    const struct mesh *mesh = &of.program->mesh;
    bool met[9][3] = {{false}};
    for (int turn = 0; turn < 3; turn++) {
        const struct instr *work = turn_of(block, "mlp.down", turn, false);
        assert_int_equal(work->gemm.m, SEQ);
        assert_int_equal(work->gemm.n, 256);
        assert_int_equal(work->gemm.k, 1024);
        assert_int_equal(block->buffers[work->inputs[0]].bytes, SEQ * 1024 * 4);
        assert_int_equal(block->buffers[work->inputs[1]].bytes, 1024 * 256 * 4);
        for (int k = 0; k < 2; k++) {
            const struct instr *message = turn_of(block, "mlp.down", 2 * turn + k, true);
            assert_int_equal(message->outputs[0], work->inputs[k]);
            assert_int_equal(message->bytes, block->buffers[work->inputs[k]].bytes * 2 / 3);
        }
        for (int rank = 0; rank < 9; rank++) {
            int place = rank % 3 + rank / 3 - turn, part = (place + 3) % 3;
            struct held x = held_of_buffer(of.program, block, work->inputs[0], rank);
            struct held w = held_of_buffer(of.program, block, work->inputs[1], rank);
            assert_int_equal(x.first[2], 1024 * part);
            assert_int_equal(w.first[0], 1024 * part);
            met[rank][part] = true;
        }
    }
    for (int rank = 0; rank < 9; rank++)
        assert_true(met[rank][0] && met[rank][1] && met[rank][2]);
    // Each message once, from another rank but for the own part, whose turn is that of the place.
    const struct instr *message = turn_of(block, "mlp.down", 2, true);
    const struct buffer *to = &block->buffers[message->outputs[0]];
    for (int rank = 0; rank < 9; rank++) {
        int from =
            held_rank_with(mesh, message->axes, &block->buffers[message->inputs[0]], to, rank);
        assert_int_equal(from / 3, rank / 3);
        assert_int_equal(from == rank, rank / 3 == 1);
    }
}

// Nothing of a layer is gathered or scattered whole: q, k and v share their operand's panels, and
// what is made of a matrix's gradient in a turn, 1,024 x 256, goes to the rank that keeps it.
static void gradients_of_matrices_take_turns(void **state)
{
    struct priced of = nine(*state);
    const struct block_program *block = priced_block(&of, BLOCK_LAYER);
    for (int i = 0; i < block->instr_count; i++) {
        enum collective collective = block->instrs[i].collective;
        assert_true(collective != COLLECTIVE_ALL_GATHER && collective != COLLECTIVE_REDUCE_SCATTER);
    }
    for (int turn = 0; turn < 3; turn++) {
        const struct instr *work = turn_of(block, "d_mlp.down.b", turn, false);
        assert_int_equal(work->gemm.k, SEQ);
        assert_int_equal(work->gemm.m * work->gemm.n, 1024 * 256);
        assert_int_equal(block->buffers[work->outputs[0]].bytes, 1024 * 256 * 4);
        assert_false(block->buffers[work->outputs[0]].external);
        int relay = turn_of(block, "attention.q", turn, false)->relay;
        assert_int_equal(turn_of(block, "attention.k", turn, false)->relay, relay);
        assert_int_equal(turn_of(block, "attention.v", turn, false)->relay, relay);
        assert_int_equal(turn_of(block, "attention.v", turn, false)->inputs[0],
                         turn_of(block, "attention.q", turn, false)->inputs[0]);
    }
    int puts = 0, own = -1;
    for (int i = 0; i < block->instr_count; i++) {
        const struct instr *instr = &block->instrs[i];
        bool is_it = instr->collective == COLLECTIVE_SLICE &&
                     instr->relay == turn_of(block, "d_mlp.down.b", 0, false)->relay;
        if (!is_it) continue;
        assert_true(block->buffers[instr->outputs[0]].external && instr->input_count == 1);
        assert_true(own < 0 || own == instr->outputs[0]);
        own = instr->outputs[0];
        puts++;
    }
    assert_int_equal(puts, 3);
}

// On 3 x 4 ranks a product that is summed over 3,072 takes twelve turns of 256: a third of what a
// rank has of the activations, a quarter of what it has of the matrix. Rank 4 i + j works on part
// 4 i + 3 j - turn. Of the four ranks of a row that hold activations one is asked for its own in
// three turns of twelve, of which each row has its own: in turns 0, 4 and 8 that is so in row 0.
static void a_grid_of_twelve_takes_pieces(void **state)
{
    struct priced of = grid(*state, 12);
    const struct block_program *block = priced_block(&of, BLOCK_LAYER);
    int64_t moved[2] = {0, 0};
    for (int i = 0; i < block->instr_count; i++) {
        enum collective collective = block->instrs[i].collective;
        bool is_whole =
            collective == COLLECTIVE_ALL_GATHER || collective == COLLECTIVE_REDUCE_SCATTER;
        assert_true(!is_whole || block->instrs[i].bytes <= 768 * 4);  // of a bias
    }
    for (int turn = 0; turn < 12; turn++) {
        const struct instr *work = turn_of(block, "mlp.down", turn, false);
        assert_true(work->gemm.m == SEQ && work->gemm.n == 192 && work->gemm.k == 256);
        static const int64_t BYTES[] = {SEQ * 256 * 4, 256 * 192 * 4};
        for (int k = 0; k < 2; k++) {
            const struct instr *message = turn_of(block, "mlp.down", 2 * turn + k, true);
            const struct buffer *piece = &block->buffers[message->inputs[0]];
            assert_int_equal(block->buffers[work->inputs[k]].bytes, BYTES[k]);
            assert_int_equal(piece->bytes, BYTES[k]);
            assert_true(piece->is_own && message->outputs[0] == work->inputs[k]);
            moved[k] += message->bytes;
        }
        for (int rank = 0; rank < 12; rank++) {
            int part = (4 * (rank / 4) + 3 * (rank % 4) - turn + 12) % 12;
            struct held x = held_of_buffer(of.program, block, work->inputs[0], rank);
            struct held w = held_of_buffer(of.program, block, work->inputs[1], rank);
            assert_true(x.first[2] == 256 * part && x.count[2] == 256);
            assert_true(w.first[0] == 256 * part && w.count[0] == 256);
        }
    }
    // As gathers would bring: 3 of 4 parts of 768 columns, and 2 of 3 of 1,024 rows.
    assert_true(moved[0] >= 3 * SEQ * 768 * 4 - 12 && moved[0] <= 3 * SEQ * 768 * 4);
    assert_int_equal(moved[1], 2 * 1024 * 192 * 4);
}

// Of a turn's products those beside the messages of the next hide all but what they do not cover;
// the first panels nothing hides.
static void a_turn_hides_what_its_products_cover(void **state)
{
    struct priced of = nine(*state);
    const struct block_program *block = priced_block(&of, BLOCK_LAYER);
    for (int n = 0; n < 6; n++) {
        const struct instr *message = turn_of(block, "mlp.down", n, true);
        const struct instr *other = turn_of(block, "mlp.down", n ^ 1, true);
        const struct exchange found = exchange_of(&of.context, block, message);
        double turn_s = 0;
        if (n > 1)
            turn_s = compute_price(&of.context.compute, block,
                                   turn_of(block, "mlp.down", n / 2 - 1, false))
                         .s;
        double share = (double)message->bytes / (double)(message->bytes + other->bytes);
        assert_true(fabs(found.beside_s - turn_s * share) <= 1e-12 * turn_s);
        assert_true(found.bytes == (double)block->buffers[message->outputs[0]].bytes);
    }
}

static void wrong_turns_are_found(void **state)
{
    enum { FAULTS = 8 };
    static const char *const SAID[FAULTS] = {"",          "worked on once", "worked on once",
                                             "send-recv", "worked on once", "send-recv",
                                             "send-recv", "send-recv"};
    for (int fault = 0; fault < FAULTS; fault++) {
        struct script_case of = {.arena = *state, .model = -1};
        struct priced priced = nine(*state);
        of.program = priced.program;
        script_case_keep(&priced, &of);
        script_case_write(&of);
        struct block_program *block =
            (struct block_program *)(uintptr_t)priced_block(&priced, BLOCK_LAYER);
        struct instr *work = turn_of(block, "mlp.down", 1, false);
        struct instr *next = turn_of(block, "mlp.down", 2, false);
        struct buffer *panel = &block->buffers[work->inputs[1]];
        struct instr *sum = turn_of(block, "d_mlp.down.a", 4, true);
        if (fault == 1) panel->skew_axes = 0;
        if (fault == 2) next->inputs[1] = work->inputs[1];
        if (fault == 3) panel->relay_axes = panel->skew_axes;
        if (fault == 4) next->rows = 0;
        if (fault == 5) sum->inputs[0] = turn_of(block, "d_mlp.down.a", 3, true)->inputs[0];
        struct instr *put = turn_of(block, "d_mlp.up.b", 5, true);
        if (fault == 6) put->inputs[0] = turn_of(block, "d_mlp.up.b", 4, true)->inputs[0];
        if (fault == 7) (put + 1)->inputs[0] = turn_of(block, "d_mlp.up.b", 4, true)->outputs[0];
        struct err err = {0};
        struct arena scratch = {0};
        bool right = script_check(&scratch, (const struct script *const *)of.scripts, 1, &err);
        arena_free(&scratch);
        assert_int_equal(right, fault == 0);
        if (fault && !strstr(err.text, SAID[fault])) fail_msg("%d: %s", fault, err.text);
    }
}

// The n-th slice of a relay.
static struct instr *slice_of(const struct block_program *block, int relay, int n)
{
    for (int i = 0; i < block->instr_count; i++) {
        struct instr *instr = &block->instrs[i];
        bool is_it = instr->relay == relay && instr->collective == COLLECTIVE_SLICE;
        if (is_it && n-- == 0) return instr;
    }
    fail_msg("no slice");
    return NULL;
}

// Pieces that are cut twice or never sent, put over others, added where none is, or of another
// turn.
static void wrong_pieces_are_found(void **state)
{
    enum { FAULTS = 8 };
    for (int fault = 0; fault < FAULTS; fault++) {
        struct script_case of = {.arena = *state, .model = -1};
        struct priced priced = grid(*state, 12);
        of.program = priced.program;
        script_case_keep(&priced, &of);
        script_case_write(&of);
        struct block_program *block =
            (struct block_program *)(uintptr_t)priced_block(&priced, BLOCK_LAYER);
        struct instr *sent = turn_of(block, "mlp.down", 4, true);
        struct buffer *piece = &block->buffers[sent->inputs[0]];
        struct buffer *panel = &block->buffers[sent->outputs[0]];
        // Of the gradient of an input: in each turn one slice cuts a piece of the matrix and, from
        // the second turn on, one puts what came.
        int relay = turn_of(block, "d_mlp.down.a", 0, false)->relay, first = 0;
        while (slice_of(block, relay, first)->input_count == 1)
            first++;
        struct instr *put = slice_of(block, relay, first), *last = slice_of(block, relay, 23);
        assert_true(put->combine == 0 && last->combine == LAYOUT_SUM);
        if (fault == 1) piece->behind = 1;
        if (fault == 2) panel->pieces = piece->pieces = 4;
        if (fault == 3) piece->is_own = false;
        if (fault == 4) put->combine = LAYOUT_SUM;
        if (fault == 5) last->combine = 0;
        if (fault == 6) last->inputs[0] = put->inputs[0];
        if (fault == 7) (sent - 1)->combine = LAYOUT_SUM;
        struct err err = {0};
        struct arena scratch = {0};
        bool right = script_check(&scratch, (const struct script *const *)of.scripts, 1, &err);
        arena_free(&scratch);
        if (right != (fault == 0)) fail_msg("%d: %s", fault, err.text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(summa_takes_both_panels_of_a_turn),
        cmocka_unit_test(gradients_of_matrices_take_turns),
        cmocka_unit_test(a_turn_hides_what_its_products_cover),
        cmocka_unit_test(wrong_turns_are_found),
        cmocka_unit_test(a_grid_of_twelve_takes_pieces),
        cmocka_unit_test(wrong_pieces_are_found),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
