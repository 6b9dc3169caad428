#include "tests/support/test.h"

#include "plan/branches.h"
#include "tests/support/run_draw.h"
#include "tests/support/whole_model.h"

#include <math.h>
#include <string.h>

// A picture tower and text layers that do not look at it side by side, on stages of their own,
// against one rank that does all, in double precision: losses, weights, gradients, what ranks
// exchanged and what they held.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 12 };

// Pictures of 4 patches and a place in front of them: 5 places beside 8 tokens.
static const char TOWERS[] =
    "{\"model_type\": \"two_towers\", \"vocab_size\": 40, \"hidden_size\": 8, "
    "\"num_attention_heads\": 2, \"intermediate_size\": 6, \"max_position_embeddings\": 8, "
    "\"text_layers\": 3, \"joint_layers\": 2, \"image_size\": 4, \"patch_size\": 2, "
    "\"num_channels\": 3, \"vision_layers\": 3, \"vision_intermediate_size\": 10}";

// Layers in the order of the blocks: 3 of the picture, what embeds the text, 3 of the text, 2 joint
// ones. `next` as the tree has it.
struct tried {
    int stage_count, layers[6], next[6], behind[6];
    bool is_alone[6];
};
static const struct tried TRIED[] = {
    // Picture | text | the rest of the text, which the joint layers wait with.
    {3, {3, 3, 3}, {2, 2, -1}, {1, 1, 0}, {0, 1, 0}},
    // Text and joint layers on the last stage: the text waits for its own stages alone.
    {4, {3, 2, 2, 2}, {3, 2, 3, -1}, {1, 2, 1, 0}, {0, 1, 1, 0}},
    {5, {1, 2, 1, 3, 2}, {1, 4, 3, 4, -1}, {2, 1, 2, 1, 0}, {0, 0, 1, 1, 0}},
    {6, {1, 2, 1, 3, 1, 1}, {1, 4, 3, 4, 5, -1}, {3, 2, 3, 2, 1, 0}, {0, 0, 1, 1, 0, 0}},
};
enum { TRIED_COUNT = sizeof TRIED / sizeof *TRIED };

static struct run_case towers(void)
{
    struct run_case of = run_case_new(TOWERS, SEQ, BATCH);
    of.parallel.micro_batch = 1;
    return of;
}

static void branch(struct run_case *of, const struct tried *tried)
{
    of->parallel.degree[AXIS_PP] = tried->stage_count;
    of->parallel.branches = true;
    of->parallel.stage_layers = tried->layers;
    of->parallel.stage_layers_count = tried->stage_count;
}

static const char *difference_of(struct arena *arena, const struct run_outcome *expected,
                                 const struct run_outcome *found)
{
    if (!found->done) return found->error;
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (!difference) difference = run_outcome_traffic(arena, found);
    if (difference) return difference;
    double planned = (double)run_outcome_planned_bytes(found);
    if (fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static void one_rank_computes_what_plain_loops_do(void **state)
{
    struct run_case of = towers();
    of.steps = 1;
    of.clip_norm = of.learning_rate = 0;
    struct run_outcome *found = run_case_done(*state, &of);
    const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
    if (difference) fail_msg("%s", difference);
}

static void check_tree(const struct program *program, const struct tried *tried)
{
    const struct stage_tree *tree = program->shape.tree;
    assert_non_null(tree);
    for (int s = 0; s < tried->stage_count; s++) {
        assert_int_equal(tree->next[s], tried->next[s]);
        assert_int_equal(tree->behind[s], tried->behind[s]);
        assert_int_equal(tree->is_alone[s], tried->is_alone[s]);
    }
}

static void nothing(struct parallel *parallel)
{
    (void)parallel;
}
static void all_at_once(struct parallel *parallel)
{
    parallel->schedule = SCHEDULE_GPIPE;
}
static void weights_apart(struct parallel *parallel)
{
    parallel->schedule = SCHEDULE_ZB_H1;
}
static void weights_when_it_suits(struct parallel *parallel)
{
    parallel->schedule = SCHEDULE_ZB_AUTO;
    parallel->in_flight = 2;
}
static void recomputed(struct parallel *parallel)
{
    parallel->recompute = RECOMPUTE_FULL;
}
static void unfused(struct parallel *parallel)
{
    parallel->attention = ATTENTION_UNFUSED;
    parallel->overlap = 0;
}
static void offloaded(struct parallel *parallel)
{
    bool is_read = offload_parse("activations", &parallel->offload);
    assert_true(is_read);
}
static void by_samples(struct parallel *parallel)
{
    parallel->degree[AXIS_DP] = 2;
    parallel->zero = 1;
}
static void by_shards(struct parallel *parallel)
{
    parallel->degree[AXIS_DP] = 2;
    parallel->zero = 3;
}
static void by_heads(struct parallel *parallel)
{
    parallel->degree[AXIS_TP] = 2;
}
// Each stage has tp of its own, the first and the last two ranks of it.
static void by_heads_in_some(struct parallel *parallel)
{
    static const int TPS[] = {2, 1, 1, 2};
    parallel->degree[AXIS_TP] = 2;
    parallel->micro_batch = 2;
    parallel->stage_tp = TPS + (parallel->degree[AXIS_PP] == 3);
    parallel->stage_tp_count = parallel->degree[AXIS_PP];
}
static void by_heads_in_text(struct parallel *parallel)
{
    static const int TPS[] = {1, 2, 1, 2};
    parallel->degree[AXIS_TP] = 2;
    parallel->micro_batch = 2;
    parallel->zero = 1;
    parallel->stage_tp = TPS;
    parallel->stage_tp_count = parallel->degree[AXIS_PP];
}
// Unlike numbers of ranks, by how many stages there are: those of a branch are not those of the
// others, nor of what they join. All share out samples alone.
static void by_ranks(struct parallel *parallel)
{
    static const int RANKS[][6] = {{3, 1, 2}, {2, 1, 3, 1}, {1, 2, 1, 3, 1}, {1, 2, 1, 1, 2, 1}};
    parallel->stage_ranks = RANKS[parallel->degree[AXIS_PP] - 3];
    parallel->stage_ranks_count = parallel->degree[AXIS_PP];
    parallel->degree[AXIS_DP] = parallel->stage_ranks[0];
    parallel->micro_batch = 6 / parallel->stage_ranks[0];
}
static void by_ranks_and_shards(struct parallel *parallel)
{
    by_ranks(parallel);
    parallel->zero = 3;
    parallel->schedule = SCHEDULE_ZB_H1;
}
// Each with tp of its own as well: the widest stage is one of the text.
static void by_ranks_and_heads(struct parallel *parallel)
{
    static const int RANKS[][6] = {{2, 4, 1}, {1, 4, 1, 2}, {1, 2, 2, 1, 1}, {1, 1, 2, 2, 1, 1}},
                     TPS[][6] = {{1, 2, 1}, {1, 2, 1, 1}, {1, 1, 2, 1, 1}, {1, 1, 2, 1, 1, 1}};
    int at = parallel->degree[AXIS_PP] - 3;
    parallel->stage_ranks = RANKS[at];
    parallel->stage_tp = TPS[at];
    parallel->stage_ranks_count = parallel->stage_tp_count = parallel->degree[AXIS_PP];
    parallel->degree[AXIS_TP] = 2;
    parallel->degree[AXIS_DP] = at < 2 ? 2 : 1;
    parallel->micro_batch = 4 / parallel->degree[AXIS_DP];
    parallel->zero = 1;
}
static void (*const WAYS[])(struct parallel *) = {
    nothing,    all_at_once, weights_apart, weights_when_it_suits, by_ranks,
    recomputed, unfused,     offloaded,     by_ranks_and_heads,    by_ranks_and_shards,
    by_samples, by_shards,   by_heads,      by_heads_in_some,      by_heads_in_text};

static void branches_side_by_side_compute_what_one_rank_does(void **state)
{
    enum { RANKS_MOST = 8 };  // the ways above say numbers for so many
    struct run_case one = towers();
    struct run_outcome *expected = run_case_done(*state, &one);
    int ran = 0;
    for (int t = 0; t < TRIED_COUNT; t++) {
        for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
            struct arena_mark mark = arena_mark(*state);
            struct run_case of = towers();
            struct err why = {0};
            branch(&of, &TRIED[t]);
            WAYS[w](&of.parallel);
            if (parallel_rank_count(&of.parallel) > RANKS_MOST) continue;
            struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            check_tree(found->program, &TRIED[t]);
            const char *difference = difference_of(*state, expected, found);
            if (difference)
                fail_msg("split %d, way %d, %s: %s", t, (int)w, run_case_text(*state, &of),
                         difference);
            ran++;
            arena_reset(*state, mark);
        }
    }
    // Two ranks a stage leave room for four stages at most; of unlike numbers there are eight.
    assert_int_equal(ran, (7 + 3) * TRIED_COUNT + 5 * 2);
}

// Two towers that only their loss compares, of unlike widths: every sample of a step with each
// other, so that there is one micro-batch, and without branches one tower waits for all the other.
static const char COMPARED[] =
    "{\"model_type\": \"clip\", \"projection_dim\": 6, "
    "\"vision_config\": {\"hidden_size\": 12, \"intermediate_size\": 10, "
    "\"num_hidden_layers\": 3, \"num_attention_heads\": 2, \"image_size\": 4, "
    "\"patch_size\": 2}, "
    "\"text_config\": {\"hidden_size\": 8, \"intermediate_size\": 12, "
    "\"num_hidden_layers\": 4, \"num_attention_heads\": 2, \"vocab_size\": 40, "
    "\"max_position_embeddings\": 8}}";
// Pictures 3 layers, what embeds the text, 4 of the text.
static const struct tried APART[] = {
    {3, {3, 3, 2}, {2, 2, -1}, {1, 1, 0}, {0, 1, 0}},
    {4, {2, 1, 3, 2}, {1, 3, 3, -1}, {2, 1, 1, 0}, {0, 0, 1, 0}},
};

static void towers_that_are_compared_stand_side_by_side(void **state)
{
    struct run_case one = run_case_new(COMPARED, SEQ, BATCH);
    one.parallel.micro_batch = BATCH;
    struct run_outcome *expected = run_case_done(*state, &one);
    for (size_t t = 0; t < sizeof APART / sizeof *APART; t++) {
        struct run_case of = one;
        branch(&of, &APART[t]);
        if (t == 1) weights_apart(&of.parallel);
        struct err why = {0};
        struct run_outcome *found = run_case_run(*state, &of, &why);
        if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
        check_tree(found->program, &APART[t]);
        const char *difference = difference_of(*state, expected, found);
        if (difference) fail_msg("split %d: %s", (int)t, difference);
    }
}

// In a chain every stage of text carries the picture along: the same losses, other messages.
static void a_chain_of_the_same_stages_sends_more(void **state)
{
    struct run_case of = towers();
    int64_t sent[2] = {0, 0};
    for (int chain = 0; chain < 2; chain++) {
        branch(&of, &TRIED[2]);
        of.parallel.branches = !chain;
        struct run_outcome *found = run_case_done(*state, &of);
        assert_int_equal(found->program->shape.tree == NULL, chain);
        for (int s = 0; s < TRIED[2].stage_count; s++) {
            const struct script *script = found->scripts[s];
            for (int t = 0; t < script->task_count; t++)
                for (int i = 0;
                     script->tasks[t].kind == TASK_SEND && i < script->tasks[t].input_count; i++)
                    sent[chain] += script->tasks[t].inputs[i].bytes;
        }
    }
    // Over two boundaries less, there and back: 5 places by 8 numbers, of 12 micro-batches.
    int64_t picture = 5 * 8 * lower_element_bytes(ELEMENT_COMPUTE, of.precision);
    assert_int_equal(sent[1] - sent[0], 2 * 2 * 12 * picture);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(branches_side_by_side_compute_what_one_rank_does),
        cmocka_unit_test(towers_that_are_compared_stand_side_by_side),
        cmocka_unit_test(a_chain_of_the_same_stages_sends_more),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
