#include "tests/support/lowered.h"
#include "tests/support/test.h"

// Lifetimes of a lowered block and the sums that follow from them: the order of weight gradients by
// hand, the rest counted instant by instant.

enum { INSTRS = 12, BUFFERS = 12 };

static void instr_of(struct instr *instr, int output, int input, int second)
{
    instr->outputs[0] = output;
    instr->output_count = output >= 0;
    instr->inputs[0] = input;
    instr->inputs[1] = second;
    instr->input_count = second >= 0 ? 2 : input >= 0;
}

// Forward 0 makes buffer 0, backward 1, 2, 3 make 1, 2, 3, one from the other. Of W, in program
// order: 4 reads what 2 made; 5 what forward made; 6 gathers what 1 made for 7, which reads what 2
// made as well; 8 scatters the gradient that 4 made, which waits for all of backward; 9 reads what
// 4 made; 10 what 3 made; 11 puts the gradient that 9 made where its parameter is kept.
static void weight_gradients_follow_what_they_read(void **state)
{
    static const int WANTED[INSTRS] = {0, 5, 1, 2, 4, 6, 7, 9, 11, 3, 8, 10};
    struct instr instrs[INSTRS] = {{0}};
    struct buffer buffers[BUFFERS];
    for (int b = 0; b < BUFFERS; b++)
        buffers[b] = (struct buffer){.tensor = -1};
    buffers[11] = (struct buffer){.tensor = 0, .external = true};
    instr_of(&instrs[0], 0, -1, -1);
    instr_of(&instrs[1], 1, 0, -1);
    instr_of(&instrs[2], 2, 1, -1);
    instr_of(&instrs[3], 3, 2, -1);
    instr_of(&instrs[4], 4, 2, -1);
    instr_of(&instrs[5], 5, 0, -1);
    instr_of(&instrs[6], 6, 1, -1);
    instrs[6].collective = COLLECTIVE_ALL_GATHER;
    instr_of(&instrs[7], 7, 6, 2);
    instr_of(&instrs[8], 8, 4, -1);
    instrs[8].collective = COLLECTIVE_REDUCE_SCATTER;
    instrs[8].parameter = true;
    instr_of(&instrs[9], 9, 4, -1);
    instr_of(&instrs[10], 10, 3, -1);
    instr_of(&instrs[11], 11, 9, -1);
    instrs[11].collective = COLLECTIVE_REDUCE_SCATTER;
    struct block_program program = {.instrs = instrs,
                                    .instr_count = INSTRS,
                                    .phase_first = {0, 1, 4, INSTRS},
                                    .buffers = buffers,
                                    .buffer_count = BUFFERS};
    const int *order = lower_fused_order(*state, &program);
    for (int i = 0; i < INSTRS; i++)
        assert_int_equal(order[i], WANTED[i]);
    // Without a backward of its own, weight gradients keep their order.
    program.phase_first[PHASE_WEIGHT] = 1;
    order = lower_fused_order(*state, &program);
    for (int i = 0; i < INSTRS; i++)
        assert_int_equal(order[i], i);
}

// What is alive when, found for each buffer by looking at every instruction.
struct life {
    int birth, death;
};

static bool touches(const struct instr *instr, int buffer)
{
    for (int i = 0; i < instr->input_count; i++)
        if (instr->inputs[i] == buffer) return true;
    for (int i = 0; i < instr->output_count; i++)
        if (instr->outputs[i] == buffer) return true;
    return false;
}

static bool is_any(const int buffers[2], int buffer)
{
    return buffers[0] == buffer || buffers[1] == buffer;
}

// Blocks hand on their outputs when forward ends and take their gradients then; the gradients of
// their inputs are handed on at `handed`.
static struct life life_of(const struct block_program *program, const int *order, int handed,
                           int buffer)
{
    int turn = program->phase_first[PHASE_BACKWARD];
    struct life life = {-1, 0};
    for (int time = 0; time < program->instr_count; time++) {
        if (!touches(&program->instrs[order[time]], buffer)) continue;
        if (life.birth < 0) life.birth = time;
        life.death = time + 1;
    }
    if (life.birth < 0) life.birth = 0;
    if (is_any(program->inputs, buffer)) life.birth = 0;
    if (is_any(program->inputs, buffer) && life.death < 1) life.death = 1;
    if (is_any(program->input_gradients, buffer) && life.death < handed) life.death = handed;
    if (is_any(program->outputs, buffer) && life.death < turn) life.death = turn;
    if (is_any(program->output_gradients, buffer)) life.birth = turn;
    if (is_any(program->output_gradients, buffer) && life.death < turn) life.death = turn;
    return life;
}

static bool is_logits(const struct block_program *program, int buffer)
{
    for (int i = 0; i < program->instr_count; i++) {
        const struct instr *instr = &program->instrs[i];
        if (instr->collective != COLLECTIVE_NONE) continue;
        if (instr->kind == OP_LOSS && instr->inputs[0] == buffer) return true;
        if (instr->kind == OP_LOSS_BACKWARD && instr->outputs[0] == buffer) return true;
    }
    return false;
}

// Most bytes alive at one of the instants from `from` to `to`.
static int64_t most_bytes(const struct block_program *program, const struct life *lives, int from,
                          int to, bool but_logits)
{
    int64_t most = 0;
    for (int time = from; time < to; time++) {
        int64_t bytes = 0;
        for (int b = 0; b < program->buffer_count; b++) {
            bool counts = !program->buffers[b].external && lives[b].birth <= time &&
                          time < lives[b].death && !(but_logits && is_logits(program, b));
            if (counts) bytes += program->buffers[b].bytes;
        }
        if (bytes > most) most = bytes;
    }
    return most;
}

static int64_t above(int64_t bytes, int64_t base)
{
    return bytes > base ? bytes - base : 0;
}

static int64_t larger(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

// In program order: what is kept, and the peaks where B and W are tasks of their own.
static void check_apart(struct arena *arena, const struct block_program *program)
{
    int turn = program->phase_first[PHASE_BACKWARD], parting = program->phase_first[PHASE_WEIGHT];
    struct life *lives = ARENA_NEW(arena, struct life, program->buffer_count);
    int *order = ARENA_NEW(arena, int, program->instr_count);
    for (int i = 0; i < program->instr_count; i++)
        order[i] = i;
    int64_t saved = 0, held = 0;
    for (int b = 0; b < program->buffer_count; b++) {
        const struct buffer *buffer = &program->buffers[b];
        lives[b] = life_of(program, order, parting, b);
        if (buffer->external) {
            assert_false(buffer->saved);
            assert_int_equal(buffer->birth, 0);
            assert_int_equal(buffer->death, program->instr_count);
            continue;
        }
        assert_int_equal(buffer->birth, lives[b].birth);
        assert_int_equal(buffer->death, lives[b].death);
        bool kept = lives[b].birth < turn && lives[b].death > turn;
        assert_int_equal(buffer->saved, kept && !is_any(program->outputs, b));
        saved += buffer->saved ? buffer->bytes : 0;
        held += lives[b].birth < parting && lives[b].death > parting ? buffer->bytes : 0;
    }
    assert_int_equal(program->saved_bytes, saved);
    assert_int_equal(program->held_bytes, held);
    int64_t backward = most_bytes(program, lives, turn, parting, false);
    int64_t weight = most_bytes(program, lives, parting, program->instr_count, false);
    assert_int_equal(program->parted_transient_bytes,
                     larger(above(backward, saved), above(weight, held)));
}

// Each weight gradient as soon as it can be made: the peaks above what is kept.
static void check_fused(struct arena *arena, const struct block_program *program)
{
    int turn = program->phase_first[PHASE_BACKWARD], end = program->instr_count;
    struct life *lives = ARENA_NEW(arena, struct life, program->buffer_count);
    const int *order = lower_fused_order(arena, program);
    int64_t saved = program->saved_bytes, saved_but_logits = saved;
    for (int b = 0; b < program->buffer_count; b++) {
        lives[b] = life_of(program, order, end, b);
        if (program->buffers[b].saved && is_logits(program, b))
            saved_but_logits -= program->buffers[b].bytes;
    }
    int64_t forward = most_bytes(program, lives, 0, turn, false);
    int64_t backward = most_bytes(program, lives, turn, end, false);
    assert_int_equal(program->forward_transient_bytes, above(forward, saved));
    assert_int_equal(program->backward_transient_bytes, above(backward, saved));
    int64_t beside = most_bytes(program, lives, 0, end, true);
    bool is_head = program->block->role == BLOCK_HEAD;
    assert_int_equal(program->beside_logits_bytes, is_head ? above(beside, saved_but_logits) : 0);
}

static void lifetimes_and_peaks_are_those_of_every_instant(void **state)
{
    static const struct setup SETUPS[] = {
        {.model = "gpt2"},
        {.model = "gpt2", .unfused = true, .dropout = true},
        {.model = "llama-3-8b", .tp = 4, .sp = true, .micro_batch = 2},
        {.model = "llama-3-8b", .cp = 2, .cp_kind = CP_RING, .dp = 2, .zero = 3},
        {.model = "falcon-40b", .tp = 8, .recompute = RECOMPUTE_FULL},
        {.model = "mixtral-8x7b", .ep = 4, .dp = 4, .recompute = RECOMPUTE_SELECTIVE},
    };
    for (size_t i = 0; i < sizeof SETUPS / sizeof *SETUPS; i++) {
        for (int position = -1; position <= 1; position++) {
            struct lowered l = lowered_make(*state, SETUPS[i], position);
            check_apart(*state, l.program);
            check_fused(*state, l.program);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weight_gradients_follow_what_they_read),
        cmocka_unit_test(lifetimes_and_peaks_are_those_of_every_instant),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
