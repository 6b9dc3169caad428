#include "tests/support/test.h"

#include "tests/support/lowered.h"

// ZeRO 2 and 3 lowered apart from the block are what lower_block makes of block and ZeRO at once.

static const int64_t *next_added(const struct block_program *program, int *at, int phase)
{
    for (; *at < program->instr_count; ++*at) {
        const struct instr *instr = &program->instrs[*at];
        if (instr->parameter && (int)instr->phase == phase) return &instr->bytes;
    }
    return NULL;
}

static void check_instrs(const struct block_program *sharded, const struct block_program *whole,
                         const struct block_program *added)
{
    assert_int_equal(sharded->instr_count, whole->instr_count + added->instr_count);
    assert_true(added->instr_count > 0);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        int a = 0, b = 0;
        while (next_added(sharded, &a, phase)) {
            assert_non_null(next_added(added, &b, phase));
            const struct instr *in_block = &sharded->instrs[a++], *apart = &added->instrs[b++];
            assert_int_equal(in_block->collective, apart->collective);
            assert_int_equal(in_block->axes, apart->axes);
            assert_int_equal(in_block->parent, apart->parent);
            assert_int_equal(in_block->bytes, apart->bytes);
            assert_int_equal(in_block->combine, apart->combine);
        }
        assert_null(next_added(added, &b, phase));
    }
}

static void check_block(struct arena *arena, struct setup setup, int position)
{
    int zero = setup.zero;
    struct lowered sharded = lowered_make(arena, setup, position);
    setup.zero = 0;
    struct lowered whole = lowered_make(arena, setup, position);
    whole.parallel.zero = zero;
    struct lower_request request = {
        .mesh = &whole.mesh, .parallel = &whole.parallel, .precision = PRECISION_BF16};
    const struct block_program *added = lower_sharding(arena, &request, whole.program);
    const struct block_program *a = sharded.program, *b = whole.program;
    check_instrs(a, b, added);
    assert_int_equal(a->parameter_count, added->parameter_count);
    for (int i = 0; i < a->parameter_count; i++) {
        assert_int_equal(a->parameters[i].gradient_partial_axes,
                         added->parameters[i].gradient_partial_axes);
        assert_int_equal(a->parameters[i].elements, added->parameters[i].elements);
    }
    assert_int_equal(a->saved_bytes, b->saved_bytes);
    assert_int_equal(a->held_bytes, b->held_bytes);
    assert_int_equal(a->forward_transient_bytes, b->forward_transient_bytes);
    assert_int_equal(a->backward_transient_bytes, b->backward_transient_bytes);
    assert_int_equal(a->parted_transient_bytes, b->parted_transient_bytes);
    assert_int_equal(a->output_bytes, b->output_bytes);
}

static void what_zero_adds_to_a_block_can_be_lowered_apart(void **state)
{
    const struct setup setups[] = {
        {.model = "llama-3-8b", .tp = 2, .dp = 4, .sp = true},
        {.model = "llama-3-8b", .dp = 4, .cp = 2, .cp_kind = CP_RING},
        {.model = "llama-3-8b", .dp = 2, .cp = 2, .cp_kind = CP_ULYSSES},
        {.model = "mixtral-8x7b", .tp = 2, .dp = 4, .ep = 4, .sp = true},
        {.model = "gpt-oss-20b", .dp = 4, .ep = 2, .unfused = true},
        {.model = "deepseek-v2-lite", .tp = 2, .dp = 4, .ep = 4, .sp = true},
    };
    for (size_t i = 0; i < sizeof setups / sizeof *setups; i++) {
        for (int zero = 2; zero <= 3; zero++) {
            for (int recompute = 0; recompute < RECOMPUTE_COUNT; recompute++) {
                struct setup setup = setups[i];
                setup.zero = zero;
                setup.recompute = (enum recompute)recompute;
                check_block(*state, setup, 1);
                check_block(*state, setup, 3);
                setup.recompute = RECOMPUTE_NONE;
                check_block(*state, setup, -1);
            }
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_zero_adds_to_a_block_can_be_lowered_apart),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
