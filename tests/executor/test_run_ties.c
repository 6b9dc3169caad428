#include "tests/support/test.h"

#include "tests/support/run_draw.h"

#include <math.h>
#include <string.h>

// Parameters that several stages of a pipeline share: a table of tokens that encoder, decoder and
// head read, one of distances that all layers of an encoder read, layers that are one. Whatever
// stages have them, losses, weights and gradients are those of one rank, in double precision, and
// ranks exchange and hold what was planned.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 8 };

static const char *const MODELS[] = {
    "{\"model_type\": \"t5\", \"vocab_size\": 40, \"d_model\": 8, \"d_kv\": 6, \"d_ff\": 6, "
    "\"num_layers\": 3, \"num_decoder_layers\": 3, \"num_heads\": 2, "
    "\"relative_attention_num_buckets\": 8, \"relative_attention_max_distance\": 6}",
    "{\"model_type\": \"whisper\", \"vocab_size\": 40, \"d_model\": 8, \"num_mel_bins\": 3, "
    "\"max_source_positions\": 6, \"max_target_positions\": 8, \"encoder_layers\": 3, "
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 3, "
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10}",
    "{\"model_type\": \"bart\", \"vocab_size\": 40, \"d_model\": 8, \"encoder_layers\": 3, "
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 3, "
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10, \"max_position_embeddings\": 8}",
    "{\"model_type\": \"albert\", \"vocab_size\": 40, \"embedding_size\": 6, \"hidden_size\": 8, "
    "\"num_hidden_layers\": 7, \"num_attention_heads\": 4, \"intermediate_size\": 8, "
    "\"max_position_embeddings\": 8}",
};
enum { T5, WHISPER, BART, ALBERT, MODEL_COUNT };

static void in_pairs(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 2;
}
static void in_three(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 3;
    parallel->schedule = SCHEDULE_GPIPE;
}
static void in_four(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 4;
    parallel->schedule = SCHEDULE_ZB_H1;
}
// Each layer on a stage of its own: those between the ends have one or two of the ties.
static void in_seven(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 7;
    parallel->recompute = RECOMPUTE_FULL;
}
static void in_shards(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 3;
    parallel->degree[AXIS_DP] = 2;
    parallel->zero = 3;
}
static void in_shards_of_gradients(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 4;
    parallel->degree[AXIS_DP] = 2;
    parallel->zero = 2;
    parallel->schedule = SCHEDULE_ZB_AUTO;
    parallel->in_flight = 3;
}
static void by_heads(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 3;
    parallel->degree[AXIS_TP] = 2;
    parallel->sp = true;
    parallel->zero = 1;
}
static void by_keys(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 2;
    parallel->degree[AXIS_CP] = 2;
    parallel->cp_kind = CP_ALL_GATHER;
}
static void (*const WAYS[])(struct parallel *) = {
    in_pairs, in_three, in_four, in_seven, in_shards, in_shards_of_gradients, by_heads, by_keys};
enum { WAY_COUNT = sizeof WAYS / sizeof *WAYS };

static struct run_case case_of(int model)
{
    struct run_case of = run_case_new(MODELS[model], SEQ, BATCH);
    of.parallel.micro_batch = 1;
    return of;
}

static const char *difference_of(struct arena *arena, const struct run_outcome *expected,
                                 const struct run_outcome *found)
{
    const char *difference = run_outcome_difference(arena, expected, found, TOLERANCE);
    if (!difference) difference = run_outcome_traffic(arena, found);
    if (difference) return difference;
    double planned = (double)run_outcome_planned_bytes(found);
    if (fabs((double)found->peak_bytes - planned) <= 0.01 * planned) return NULL;
    return arena_print(arena, "%lld bytes held, %.0f planned", (long long)found->peak_bytes,
                       planned);
}

static void any_stages_share_parameters_as_one_rank_has_them(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = case_of(m);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int w = 0; w < WAY_COUNT; w++) {
            // Six places of sound are not two parts of an even text.
            if (m == WHISPER && WAYS[w] == by_keys) continue;
            struct run_case of = case_of(m);
            struct err why = {0};
            WAYS[w](&of.parallel);
            struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *difference = difference_of(*state, expected, found);
            if (difference) fail_msg("way %d, %s: %s", w, run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
}

// Encoder and decoder on ranks of their own, as many as each is worth. What both read lies in one
// layout: of a text they share the table, of sound nothing.
static void encoder_and_decoder_have_numbers_of_ranks_of_their_own(void **state)
{
    static const int RANKS[] = {4, 2, 2}, TPS[] = {2, 1, 1}, LAYERS[] = {3, 2, 2};
    for (int m = 0; m < BART; m++) {
        struct run_case alone = case_of(m), of = alone;
        struct err why = {0};
        of.parallel.degree[AXIS_PP] = 3;
        of.parallel.degree[AXIS_DP] = of.parallel.degree[AXIS_TP] = 2;
        of.parallel.micro_batch = 2;
        of.parallel.stage_layers = LAYERS;
        of.parallel.stage_ranks = RANKS;
        of.parallel.stage_tp = TPS;
        of.parallel.stage_layers_count = of.parallel.stage_ranks_count = 3;
        of.parallel.stage_tp_count = 3;
        struct run_outcome *found = run_case_run(*state, &of, &why);
        if (m == T5) {
            assert_null(found);
            assert_non_null(strstr(why.text, "--stage-ranks: stages 0 and 1 share tied embeddings, "
                                             "which lie in one layout; give both as many ranks, "
                                             "not 4 and 2"));
            continue;
        }
        if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
        const char *difference = difference_of(*state, run_case_done(*state, &alone), found);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_stages_share_parameters_as_one_rank_has_them),
        cmocka_unit_test(encoder_and_decoder_have_numbers_of_ranks_of_their_own),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
