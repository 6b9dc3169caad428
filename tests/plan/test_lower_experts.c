#include "tests/support/test.h"

#include "tests/support/lowered.h"

// The known answers of expert parallelism: two all-to-alls each way wherever the experts lie, what
// is kept, how much room ragged rows get, and over which ranks experts' gradients are partial.

static const char MIXTRAL[] = "mixtral-8x7b";  // 8 experts, 2 of them chosen

// Of one device's tokens, every row of the chosen experts.
static int64_t row_bytes(const struct lowered *l)
{
    return lowered_hidden_bytes(l) * l->graph->top_k;
}

// The n-th all-to-all, from 0.
static const struct instr *all_to_all(const struct lowered *l, int n)
{
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        if (instr->collective == COLLECTIVE_ALL_TO_ALL && n-- == 0) return instr;
    }
    fail_msg("there are fewer all-to-alls");
    return NULL;
}

static const struct instr *find_op(const struct lowered *l, const char *name)
{
    for (int i = 0; i < l->program->instr_count; i++) {
        const struct instr *instr = &l->program->instrs[i];
        bool is_it = instr->op >= 0 && !instr->collective &&
                     strcmp(l->program->block->ops[instr->op].name, name) == 0;
        if (is_it) return instr;
    }
    fail_msg("no op is called %s", name);
    return NULL;
}

static void check_two_each_way(const struct lowered *l, int64_t bytes)
{
    assert_int_equal(lowered_count(l, PHASE_FORWARD, COLLECTIVE_ALL_TO_ALL, bytes), 2);
    assert_int_equal(lowered_count(l, PHASE_BACKWARD, COLLECTIVE_ALL_TO_ALL, bytes), 2);
    assert_int_equal(lowered_count(l, PHASE_WEIGHT, COLLECTIVE_ALL_TO_ALL, 0), 0);
}

static void experts_over_dp_need_two_all_to_alls_each_way_and_one_small_gather(void **state)
{
    struct setup setup = {.model = MIXTRAL, .dp = 16, .ep = 8, .micro_batch = 2};
    struct lowered l = lowered_make(*state, setup, 1);
    check_two_each_way(&l, row_bytes(&l));
    assert_int_equal(lowered_count_all(&l), 5);
    assert_int_equal(all_to_all(&l, 0)->dim, DIM_BATCH);
    assert_int_equal(all_to_all(&l, 0)->to_dim, DIM_EXPERT);
    assert_int_equal(all_to_all(&l, 0)->parent, AXIS_EP);
    assert_int_equal(all_to_all(&l, 1)->to_dim, DIM_BATCH);
    // Every rank tells every other how many rows of each of the 8 experts it has.
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (instr->collective != COLLECTIVE_ALL_GATHER) continue;
        assert_int_equal(instr->inner, 1);
        assert_int_equal(instr->bytes, 8 * 8 * 8);
        assert_ptr_equal(instr - 1, find_op(&l, "experts.dispatch"));
        assert_ptr_equal(instr + 1, all_to_all(&l, 0));
    }
}

// Tokens split as batch over dp and as seq over tp go to their experts in one exchange.
static void with_sp_experts_over_tp_and_dp_are_one_all_to_all(void **state)
{
    struct setup setup = {.model = MIXTRAL, .tp = 2, .dp = 4, .ep = 8, .sp = true};
    struct lowered l = lowered_make(*state, setup, 1);
    check_two_each_way(&l, row_bytes(&l) / 2);
    unsigned ep = mesh_axes_of(&l.mesh, AXIS_EP);
    for (int n = 0; n < 4; n++)
        assert_int_equal(all_to_all(&l, n)->axes, ep);
    assert_int_equal(mesh_size(&l.mesh, ep), 8);
    // Attention's own: gathers and scatters both ways and a gather for its weights.
    int64_t hidden = lowered_hidden_bytes(&l);
    assert_int_equal(lowered_count(&l, ANY_PHASE, COLLECTIVE_ALL_GATHER, hidden), 3);
    assert_int_equal(lowered_count(&l, ANY_PHASE, COLLECTIVE_REDUCE_SCATTER, hidden), 2);
    assert_int_equal(lowered_count_all(&l), 4 + 5 + 1);
}

// Without sp tp has the tokens whole: a rank takes the rows of its experts, and the sum over
// experts is partial.
static void whole_tokens_are_dispatched_free_and_combined_by_one_all_reduce(void **state)
{
    struct setup setup = {.model = MIXTRAL, .tp = 8, .ep = 8};
    struct lowered l = lowered_make(*state, setup, 1);
    int64_t hidden = lowered_hidden_bytes(&l);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, hidden), 2);
    // What goes back through the router joins that sum; its weight's gradient is partial.
    assert_int_equal(lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_REDUCE, hidden), 2);
    assert_int_equal(lowered_count_all(&l), 4);
    assert_int_equal(lowered_parameter(&l, "router.weight")->gradient_partial_axes, 1);
    setup.dp = 2;
    setup.tp = 4;
    l = lowered_make(*state, setup, 1);
    check_two_each_way(&l, row_bytes(&l) / 4);
}

static void etp_gathers_behind_the_all_to_all_and_scatters_before_it(void **state)
{
    struct setup setup = {.model = MIXTRAL, .tp = 2, .dp = 4, .ep = 4, .etp = 2, .sp = true};
    struct lowered l = lowered_make(*state, setup, 1);
    check_two_each_way(&l, row_bytes(&l) / 2);
    int gathers[PHASE_COUNT] = {0}, scatters[PHASE_COUNT] = {0};
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (!instr->collective || instr->parent != AXIS_ETP || instr->inner) continue;
        assert_int_equal(instr->bytes, row_bytes(&l));
        assert_true(instr->ragged);
        gathers[instr->phase] += instr->collective == COLLECTIVE_ALL_GATHER;
        scatters[instr->phase] += instr->collective == COLLECTIVE_REDUCE_SCATTER;
    }
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        assert_int_equal(gathers[phase], 1);
        assert_int_equal(scatters[phase], phase != PHASE_WEIGHT);
    }
    assert_int_equal(find_op(&l, "experts.up")->gemm.n, l.graph->expert_ffn / 2);
}

// Parts of experts alone get the tokens of others, too: the ranks of etp tell each other how many
// rows are coming, eight bytes an expert, before these are gathered. Tokens that all of them have
// need no word.
static void parts_of_experts_learn_how_many_rows_are_coming(void **state)
{
    for (int sp = 0; sp < 2; sp++) {
        struct setup setup = {.model = MIXTRAL, .tp = 2, .dp = 4, .etp = 2, .sp = sp};
        struct lowered l = lowered_make(*state, setup, 1);
        int count = 0;
        for (int i = 0; i < l.program->instr_count; i++) {
            const struct instr *instr = &l.program->instrs[i];
            if (instr->collective != COLLECTIVE_ALL_GATHER || !instr->inner) continue;
            assert_int_equal(instr->axes, mesh_axes_of(&l.mesh, AXIS_ETP));
            assert_int_equal(instr->parent, AXIS_ETP);
            assert_int_equal(instr->bytes, 2 * l.graph->expert_count * 8);
            assert_int_equal(instr->phase, PHASE_FORWARD);
            count++;
        }
        assert_int_equal(count, sp);
    }
}

// What was moved is kept where it was moved to, and nothing twice.
static void rows_are_kept_on_the_side_that_backward_reads(void **state)
{
    struct setup setup = {.model = MIXTRAL, .dp = 16, .ep = 8};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_saved_bytes(&l, "experts.dispatch"), row_bytes(&l));
    assert_int_equal(lowered_saved_bytes(&l, "experts.down"), row_bytes(&l));
    unsigned ep = mesh_axes_of(&l.mesh, AXIS_EP);
    for (int b = 0; b < l.program->buffer_count; b++) {
        const struct buffer *buffer = &l.program->buffers[b];
        if (!buffer->saved) continue;
        const char *name = l.program->block->tensors[buffer->tensor].name;
        unsigned experts = layout_axes_on(&buffer->layout, DIM_EXPERT);
        if (strcmp(name, "experts.dispatch") == 0) assert_int_equal(experts, ep);
        if (strcmp(name, "experts.down") == 0) assert_int_equal(experts, 0);
    }
    setup.ep = 1;
    struct lowered whole = lowered_make(*state, setup, 1);
    assert_int_equal(whole.program->saved_bytes, l.program->saved_bytes);
}

static void recomputed_experts_are_dispatched_again_unless_their_rows_are_kept(void **state)
{
    struct setup setup = {.model = MIXTRAL, .dp = 8, .ep = 8, .recompute = RECOMPUTE_FULL};
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(l.program->saved_bytes, lowered_hidden_bytes(&l));
    check_two_each_way(&l, row_bytes(&l));
    assert_int_equal(lowered_count_all(&l), 5 + 3);

    setup.recompute = RECOMPUTE_SELECTIVE;
    setup.recompute_classes = 1u << OP_CLASS_EXPERTS | 1u << OP_CLASS_ACTIVATION;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_count_all(&l), 5);
    assert_int_equal(lowered_saved_bytes(&l, "experts.dispatch"), row_bytes(&l));
    assert_int_equal(lowered_saved_bytes(&l, "experts.up"), 0);
    assert_int_equal(lowered_saved_bytes(&l, "experts.gate"), 0);
}

static void the_fullest_rank_sizes_the_rows_of_its_experts(void **state)
{
    struct setup setup = {.model = MIXTRAL, .dp = 16, .ep = 8};
    struct lowered mean = lowered_make(*state, setup, 1);
    setup.expert_imbalance = 1.25;
    struct lowered l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_saved_bytes(&l, "experts.up") * 4,
                     lowered_saved_bytes(&mean, "experts.up") * 5);
    assert_int_equal(lowered_saved_bytes(&l, "experts.dispatch") * 4, row_bytes(&l) * 5);
    // On the side of the tokens there are as many rows as they chose.
    assert_int_equal(lowered_saved_bytes(&l, "experts.down"), row_bytes(&l));
    check_two_each_way(&l, row_bytes(&l) * 5 / 4);
    const struct instr *up = find_op(&l, "experts.up");
    assert_true(up->ragged && all_to_all(&l, 0)->ragged);
    assert_int_equal(up->gemm.batch, 1);
    assert_int_equal(up->gemm.m, LOWERED_SEQ * 2 * 5 / 4);
    assert_int_equal(find_op(&l, "d_experts.up.b")->gemm.k, LOWERED_SEQ * 2 * 5 / 4);
    assert_true(up->flop == find_op(&mean, "experts.up")->flop * 1.25);
    assert_false(find_op(&l, "attention.q")->ragged);
    // Experts that nobody splits are in balance.
    setup.ep = 1;
    struct lowered whole = lowered_make(*state, setup, 1);
    assert_int_equal(whole.program->saved_bytes, mean.program->saved_bytes);
    assert_int_equal(find_op(&whole, "experts.up")->gemm.m, LOWERED_SEQ * 2 / 8);
    assert_int_equal(find_op(&whole, "experts.up")->gemm.batch, 8);
}

// With a capacity every expert counts as full; on the side of the tokens there are no more rows
// than they chose.
static void a_capacity_sizes_the_rows_of_an_expert(void **state)
{
    struct setup setup = {
        .model = MIXTRAL, .dp = 16, .ep = 8, .capacity_factor = 1.5, .expert_imbalance = 2};
    struct lowered l = lowered_make(*state, setup, 1);
    check_two_each_way(&l, row_bytes(&l) * 3 / 2);
    assert_int_equal(lowered_count_all(&l), 5);
    assert_int_equal(lowered_saved_bytes(&l, "experts.down"), row_bytes(&l));
    assert_int_equal(find_op(&l, "experts.up")->gemm.m, LOWERED_SEQ * 3);
    assert_true(find_op(&l, "experts.up")->ragged);
    // No expert needs room for more than all tokens.
    setup.capacity_factor = 100;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(find_op(&l, "experts.up")->gemm.m, LOWERED_SEQ * 8);
    // Where few have room, the side of the tokens has as few.
    setup.capacity_factor = 0.5;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_saved_bytes(&l, "experts.down"), row_bytes(&l) / 2);
    check_two_each_way(&l, row_bytes(&l) / 2);
    // Parts of sequences tell each other what they chose, for the first of a sequence have room; so
    // the first part may have as many rows as it has without a capacity.
    setup = (struct setup){
        .model = MIXTRAL, .cp = 2, .dp = 2, .capacity_factor = 0.5, .expert_imbalance = 1};
    l = lowered_make(*state, setup, 1);
    const struct instr *choices = find_op(&l, "experts.dispatch") + 1;
    assert_int_equal(choices->collective, COLLECTIVE_ALL_GATHER);
    assert_int_equal(choices->axes, mesh_axes_of(&l.mesh, AXIS_CP));
    assert_int_equal(lowered_saved_bytes(&l, "experts.down"), row_bytes(&l) / 2);
    setup.capacity_factor = 0;
    l = lowered_make(*state, setup, 1);
    assert_int_equal(lowered_saved_bytes(&l, "experts.down"), row_bytes(&l) / 2);
    assert_int_not_equal((find_op(&l, "experts.dispatch") + 1)->inner, 1);
}

static void gradients_of_experts_are_partial_over_their_own_data_parallelism(void **state)
{
    struct setup setup = {.model = MIXTRAL, .tp = 2, .dp = 8, .ep = 4, .sp = true};
    struct lowered l = lowered_make(*state, setup, 1);
    unsigned all = (1u << l.mesh.axis_count) - 1, ep = mesh_axes_of(&l.mesh, AXIS_EP);
    const struct parameter *up = lowered_parameter(&l, "experts.up.weight");
    assert_int_equal(up->kind, PARAMETER_EXPERT);
    assert_int_equal(up->gradient_partial_axes, all & ~ep);
    assert_int_equal(up->elements, l.graph->hidden * l.graph->expert_ffn * 2);
    // The router's tokens are split over everything.
    assert_int_equal(lowered_parameter(&l, "router.weight")->gradient_partial_axes, all);
    assert_int_equal(lowered_parameter(&l, "router.weight")->kind, PARAMETER_DENSE);
}

static void zero_3_gathers_experts_apart_from_the_rest(void **state)
{
    struct setup setup = {.model = MIXTRAL, .dp = 16, .ep = 8, .zero = 3};
    struct lowered l = lowered_make(*state, setup, 1);
    int found[PARAMETER_KIND_COUNT] = {0};
    int64_t elements[PARAMETER_KIND_COUNT] = {0};
    for (int i = 0; i < l.program->parameter_count; i++) {
        elements[l.program->parameters[i].kind] += l.program->parameters[i].elements;
        assert_int_equal(l.program->parameters[i].gradient_partial_axes, 0);
    }
    for (int i = 0; i < l.program->instr_count; i++) {
        const struct instr *instr = &l.program->instrs[i];
        if (!instr->parameter) continue;
        bool is_experts = instr->axes != mesh_axes_of(&l.mesh, AXIS_DP);
        assert_int_equal(instr->bytes, 2 * elements[is_experts]);
        if (is_experts) assert_int_equal(mesh_size(&l.mesh, instr->axes), 2);
        found[is_experts]++;
    }
    // Two gathers and a scatter of each.
    assert_int_equal(found[PARAMETER_DENSE], 3);
    assert_int_equal(found[PARAMETER_EXPERT], 3);
}

// The sum over tp of what shared experts and chosen ones made is taken once.
static void shared_experts_join_the_sum_before_it_is_reduced(void **state)
{
    struct setup setup = {.model = "deepseek-v3", .tp = 8, .ep = 8};
    struct lowered l = lowered_make(*state, setup, 5);
    int64_t hidden = lowered_hidden_bytes(&l);
    assert_int_equal(lowered_count(&l, PHASE_FORWARD, COLLECTIVE_ALL_REDUCE, hidden), 2);
    assert_int_equal(
        lowered_count_all(&l) - lowered_count(&l, PHASE_BACKWARD, COLLECTIVE_ALL_REDUCE, 0), 2);
}

static void how_many_share_the_experts_does_not_change_the_program(void **state)
{
    struct setup setup = {.model = MIXTRAL, .tp = 2, .sp = true, .ep = 8, .dp = 8, .zero = 3};
    struct lowered few = lowered_make(*state, setup, 1);
    setup.dp = 64;
    struct lowered many = lowered_make(*state, setup, 1);
    assert_int_equal(few.program->instr_count, many.program->instr_count);
    assert_memory_equal(few.program->instrs, many.program->instrs,
                        (size_t)few.program->instr_count * sizeof *few.program->instrs);
    assert_int_equal(few.program->saved_bytes, many.program->saved_bytes);
}

// Parameters whose products run as one stand one behind another, then their biases; those of
// experts, of which each product is one of many, as the model has them.
static void parameters_stand_as_products_read_them(void **state)
{
    static const char *const NAMES[] = {
        "attention.norm.weight", "attention.q.weight",  "attention.k.weight", "attention.v.weight",
        "attention.q.bias",      "attention.k.bias",    "attention.v.bias",   "attention.sink",
        "attention.out.weight",  "attention.out.bias",  "mlp.norm.weight",    "router.weight",
        "router.bias",           "experts.gate.weight", "experts.gate.bias",  "experts.up.weight",
        "experts.up.bias",       "experts.down.weight", "experts.down.bias"};
    struct lowered l = lowered_make(*state, (struct setup){.model = "gpt-oss-20b"}, 1);
    assert_int_equal(l.program->parameter_count, sizeof NAMES / sizeof *NAMES);
    for (int i = 0; i < l.program->parameter_count; i++) {
        const struct tensor *tensor = &l.program->block->tensors[l.program->parameters[i].tensor];
        assert_string_equal(tensor->name, NAMES[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(experts_over_dp_need_two_all_to_alls_each_way_and_one_small_gather),
        cmocka_unit_test(with_sp_experts_over_tp_and_dp_are_one_all_to_all),
        cmocka_unit_test(whole_tokens_are_dispatched_free_and_combined_by_one_all_reduce),
        cmocka_unit_test(etp_gathers_behind_the_all_to_all_and_scatters_before_it),
        cmocka_unit_test(parts_of_experts_learn_how_many_rows_are_coming),
        cmocka_unit_test(rows_are_kept_on_the_side_that_backward_reads),
        cmocka_unit_test(recomputed_experts_are_dispatched_again_unless_their_rows_are_kept),
        cmocka_unit_test(the_fullest_rank_sizes_the_rows_of_its_experts),
        cmocka_unit_test(a_capacity_sizes_the_rows_of_an_expert),
        cmocka_unit_test(gradients_of_experts_are_partial_over_their_own_data_parallelism),
        cmocka_unit_test(zero_3_gathers_experts_apart_from_the_rest),
        cmocka_unit_test(shared_experts_join_the_sum_before_it_is_reduced),
        cmocka_unit_test(how_many_share_the_experts_does_not_change_the_program),
        cmocka_unit_test(parameters_stand_as_products_read_them),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
