#include "tests/support/test.h"

#include "tests/support/lowered.h"

// The known answers of context parallelism: how k and v reach the queries of the other ranks, what
// that moves and what it keeps.

static const char LLAMA[] = "llama-3-8b";  // 32 heads, 8 kv heads

static int64_t key_bytes(const struct lowered *l, int64_t seq)
{
    return 2 * seq * l->graph->kv_head_count * l->graph->head_dim;
}

// Streamed collectives of a kind and phase; each must have this payload and take this many steps.
static int count_streamed(const struct lowered *l, enum phase phase, enum collective collective,
                          int64_t bytes, int steps)
{
    int found = 0;
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        if (!instr->streamed || instr->phase != phase) continue;
        if (instr->collective != collective) continue;
        assert_int_equal(instr->parent, AXIS_CP);
        assert_int_equal(instr->bytes, bytes);
        assert_int_equal(instr->stream_steps, steps);
        found++;
    }
    return found;
}

// The buffer that the first streamed gather fills.
static int64_t streamed_buffer_bytes(const struct lowered *l)
{
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        if (instr->streamed) return l->program->buffers[instr->outputs[0]].bytes;
    }
    fail_msg("nothing is streamed");
    return 0;
}

static int count_recomputed(const struct lowered *l)
{
    int found = 0;
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        found += instr->recompute && instr->collective && instr->collective != COLLECTIVE_SLICE;
    }
    return found;
}

static void a_ring_streams_k_and_v_and_scatters_their_gradients_as_it_goes(void **state)
{
    struct lowered l = lowered_make(*state, (struct setup){.model = LLAMA, .cp = 4}, 1);
    int64_t bytes = key_bytes(&l, LOWERED_SEQ);
    // Three steps of a quarter: (cp - 1) / cp of k and of v.
    assert_int_equal(count_streamed(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes, 3), 2);
    assert_int_equal(count_streamed(&l, PHASE_BACKWARD, COLLECTIVE_ALL_GATHER, bytes, 3), 2);
    assert_int_equal(count_streamed(&l, PHASE_BACKWARD, COLLECTIVE_REDUCE_SCATTER, bytes, 3), 2);
    assert_int_equal(lowered_count_all(&l), 6);
    // The block in use and the one that arrives.
    assert_int_equal(streamed_buffer_bytes(&l), bytes / 2);
    assert_int_equal(lowered_parameter(&l, "mlp.up.weight")->gradient_partial_axes,
                     mesh_axes_of(&l.mesh, AXIS_CP));
}

static void gathered_keys_are_whole_and_cost_the_same_collectives(void **state)
{
    struct setup setup = {.model = LLAMA, .cp = 4, .cp_kind = CP_ALL_GATHER};
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t bytes = key_bytes(&l, LOWERED_SEQ);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes), 2);
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_GATHER, bytes), 2);
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_REDUCE_SCATTER, bytes), 2);
    assert_int_equal(lowered_count_all(&l), 6);
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        assert_false(instr->streamed);
        if (instr->collective != COLLECTIVE_ALL_GATHER) continue;
        assert_int_equal(l.program->buffers[instr->outputs[0]].bytes, bytes);
    }
    setup.cp_kind = CP_RING;
    struct lowered ring = lowered_make(*state, setup, 1);
    assert_int_equal(ring.program->saved_bytes, l.program->saved_bytes);
}

static void activations_are_divided_by_cp(void **state)
{
    struct lowered whole = lowered_make(*state, (struct setup){.model = LLAMA}, 1);
    for (int kind = CP_RING; kind <= CP_ALL_GATHER; kind++) {
        struct setup setup = {.model = LLAMA, .cp = 8, .cp_kind = (enum cp_kind)kind};
        struct lowered l = lowered_make(*state, setup, 1);
        assert_int_equal(l.program->saved_bytes * 8, whole.program->saved_bytes);
    }
}

static void ulysses_needs_four_all_to_alls_each_way(void **state)
{
    struct setup setup = {.model = LLAMA, .cp = 4, .cp_kind = CP_ULYSSES};
    for (int unfused = 0; unfused < 2; unfused++) {
        setup.unfused = unfused;
        struct lowered l = lowered_make(*state, setup, 1);
        assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_TO_ALL, 0), 4);
        assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_TO_ALL, 0), 4);
        assert_int_equal(lowered_count_all(&l), 8);
    }
}

// q, k and v are kept as attention reads them; the context also as the output product does.
static void ulysses_keeps_what_it_moved_in_place_of_the_original(void **state)
{
    struct setup setup = {.model = LLAMA, .cp = 4, .cp_kind = CP_ULYSSES};
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t query_bytes = 2 * LOWERED_SEQ * l.graph->head_count * l.graph->head_dim / 4;
    int64_t bytes = key_bytes(&l, LOWERED_SEQ) / 4;
    assert_int_equal(lowered_saved_bytes(&l, "attention.q_rope"), query_bytes);
    assert_int_equal(lowered_saved_bytes(&l, "attention.k_rope"), bytes);
    assert_int_equal(lowered_saved_bytes(&l, "attention.v"), bytes);
    assert_int_equal(lowered_saved_bytes(&l, "attention.context"), 2 * query_bytes);
    for (int b = 0; b < l.program->buffer_count; b++) {
        const struct buffer *buffer = &l.program->buffers[b];
        if (!buffer->saved) continue;
        if (strcmp(l.program->block->tensors[buffer->tensor].name, "attention.v") != 0) continue;
        assert_int_equal(buffer->layout.of[0], DIM_KV_HEAD);
    }
}

static void what_ulysses_moved_is_moved_again_only_where_it_is_made_again(void **state)
{
    struct setup setup = {.model = LLAMA, .cp = 4, .cp_kind = CP_ULYSSES};
    setup.recompute = RECOMPUTE_SELECTIVE;
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(count_recomputed(&l), 0);
    assert_int_equal(lowered_count_all(&l), 8);
    setup.recompute = RECOMPUTE_FULL;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(count_recomputed(&l), 4);
    assert_int_equal(lowered_count_all(&l), 12);
}

// tp 4 leaves two kv heads to cp 4: cp.0 splits them, k and v are gathered over cp.1 and their
// gradients scattered there.
static void few_kv_heads_are_split_as_far_as_they_go_and_gathered_over_the_rest(void **state)
{
    struct setup setup = {.model = LLAMA, .tp = 4, .cp = 4, .cp_kind = CP_ULYSSES};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_string_equal(l.mesh.axes[1].name, "cp.0");
    assert_string_equal(l.mesh.axes[2].name, "cp.1");
    int gathers = 0, scatters = 0;
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        bool is_gather = instr->collective == COLLECTIVE_ALL_GATHER;
        bool is_scatter = instr->collective == COLLECTIVE_REDUCE_SCATTER;
        if (!is_gather && !is_scatter) continue;
        assert_int_equal(instr->axes, 4);
        assert_int_equal(instr->bytes, key_bytes(&l, LOWERED_SEQ) / 8);
        gathers += is_gather;
        scatters += is_scatter;
    }
    assert_int_equal(gathers, 4);
    assert_int_equal(scatters, 2);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_TO_ALL, 0), 4);
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_TO_ALL, 0), 4);
}

// A window of 4096 in slices of 8192: half of a neighbour's, in either kind. In slices of 2048 four
// neighbours' under the zig-zag order, of 16.
static void a_window_needs_neighbours_only(void **state)
{
    struct setup setup = {.model = "mistral-7b", .cp = 8, .seq_len = 65536};
    for (int kind = CP_RING; kind <= CP_ALL_GATHER; kind++) {
        setup.cp_kind = (enum cp_kind)kind;
        struct lowered l = lowered_make(*state, setup, 1);
        int64_t bytes = key_bytes(&l, setup.seq_len);
        assert_int_equal(count_streamed(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes, 1), 2);
        assert_int_equal(count_streamed(&l, PHASE_BACKWARD, COLLECTIVE_REDUCE_SCATTER, bytes, 1),
                         2);
        assert_int_equal(streamed_buffer_bytes(&l), bytes / 4);
    }
    setup.cp = 16;
    setup.seq_len = 32768;
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t bytes = key_bytes(&l, setup.seq_len);
    assert_int_equal(count_streamed(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes, 4), 2);
    // The gather keeps what it fetched, five blocks of 16; the ring two.
    assert_int_equal(streamed_buffer_bytes(&l), bytes * 5 / 16);
    setup.cp_kind = CP_RING;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(streamed_buffer_bytes(&l), bytes / 8);
}

// Slices in order want half of that: of 2048 the first query sees 4095 keys of two before it, and
// of 4095, the last that one is enough for, of one.
static void slices_in_order_exchange_half_as_much(void **state)
{
    static const struct {
        int cp, steps;
        int64_t seq_len;
    } CASES[] = {{16, 2, 32768}, {8, 1, 65536}, {4, 1, 16380}, {4, 2, 16376}};
    for (int i = 0; i < 4; i++) {
        struct setup setup = {.model = "mistral-7b",
                              .cp = CASES[i].cp,
                              .seq_len = CASES[i].seq_len,
                              .joins = joins_executed()};
        for (int kind = CP_RING; kind <= CP_ALL_GATHER; kind++) {
            setup.cp_kind = (enum cp_kind)kind;
            struct lowered l = lowered_make(*state, setup, 1);
            int64_t bytes = key_bytes(&l, setup.seq_len);
            int held = kind == CP_RING ? 2 : CASES[i].steps + 1;
            assert_int_equal(
                count_streamed(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes, CASES[i].steps), 2);
            assert_int_equal(streamed_buffer_bytes(&l), bytes * held / CASES[i].cp);
        }
    }
}

// An early half looks back over ranks on one side and a late one on the other: all blocks pass.
static void halves_exchange_all_blocks(void **state)
{
    struct setup setup = {.model = "mistral-7b",
                          .cp = 8,
                          .seq_len = 65536,
                          .joins = joins_executed(),
                          .zigzag = true};
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t bytes = key_bytes(&l, setup.seq_len);
    assert_int_equal(count_streamed(&l, PHASE_FORWARD, COLLECTIVE_ALL_GATHER, bytes, 7), 2);
    assert_int_equal(streamed_buffer_bytes(&l), bytes / 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_ring_streams_k_and_v_and_scatters_their_gradients_as_it_goes),
        cmocka_unit_test(gathered_keys_are_whole_and_cost_the_same_collectives),
        cmocka_unit_test(activations_are_divided_by_cp),
        cmocka_unit_test(ulysses_needs_four_all_to_alls_each_way),
        cmocka_unit_test(ulysses_keeps_what_it_moved_in_place_of_the_original),
        cmocka_unit_test(what_ulysses_moved_is_moved_again_only_where_it_is_made_again),
        cmocka_unit_test(few_kv_heads_are_split_as_far_as_they_go_and_gathered_over_the_rest),
        cmocka_unit_test(a_window_needs_neighbours_only),
        cmocka_unit_test(slices_in_order_exchange_half_as_much),
        cmocka_unit_test(halves_exchange_all_blocks),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
