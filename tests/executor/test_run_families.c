#include "tests/support/test.h"

#include "tests/support/family_models.h"
#include "tests/support/run_case.h"
#include "tests/support/tiny_models.h"
#include "tests/support/whole_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

// A tiny model of each family that has a part of its own: on one rank what plain loops over the
// whole model compute, and on two ranks what one computes, in double precision.

static const double TOLERANCE = 1e-12;

enum { SEQ = 8, BATCH = 4 };

enum { MODEL_COUNT = sizeof FAMILY_MODELS / sizeof *FAMILY_MODELS };

// Pictures of 4 patches and a class token: samples, which are sequences of one.
#define PICTURE                                                                       \
    "\"image_size\": 4, \"patch_size\": 2, \"num_channels\": 3, \"num_labels\": 40, " \
    "\"hidden_size\": 8, \"num_hidden_layers\": 2, \"num_attention_heads\": 2"
static const char *const WITH_CLASSES[] = {
    "{\"model_type\": \"vit\", " PICTURE ", \"intermediate_size\": 6}",
    "{\"model_type\": \"deit\", " PICTURE ", \"intermediate_size\": 6}",
    "{\"model_type\": \"dinov2_with_registers\", " PICTURE
    ", \"mlp_ratio\": 1, \"num_register_tokens\": 2}",
    "{\"model_type\": \"dinov2\", " PICTURE ", \"mlp_ratio\": 1}",
    "{\"model_type\": \"dinov2\", " PICTURE ", \"mlp_ratio\": 2, \"use_swiglu_ffn\": true}",
};

// The first step alone, before anything is learned, is what plain loops are asked for.
static void one_rank_computes_what_plain_loops_do(void **state)
{
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case of = run_case_new(FAMILY_MODELS[m], SEQ, BATCH);
        of.steps = 1;
        of.clip_norm = of.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &of);
        const char *difference = whole_model_difference(*state, &of, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", FAMILY_MODELS[m], difference);
        arena_reset(*state, mark);
    }
}

// Ways to share a model between two ranks, in turn.
static struct run_case shared(const char *config, int way)
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    struct parallel *parallel = &of.parallel;
    parallel->degree[way % 2 ? AXIS_CP : AXIS_TP] = 2;
    parallel->sp = way == 2;
    parallel->cp_kind = way == 3 ? CP_ULYSSES : CP_RING;
    parallel->attention = way < 2 ? ATTENTION_FLASH : ATTENTION_UNFUSED;
    parallel->recompute = way == 2 ? RECOMPUTE_SELECTIVE : RECOMPUTE_NONE;
    return of;
}

static void two_ranks_compute_what_one_does(void **state)
{
    enum { WAYS = 4, WAYS_EACH = 2 };
    for (int m = 0; m < MODEL_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(FAMILY_MODELS[m], SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (int w = 0; w < WAYS_EACH; w++) {
            struct run_case of = shared(FAMILY_MODELS[m], (2 * (m % 2) + w) % WAYS);
            struct err why = {0};
            struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
}

// Encoders and decoders: the table of tokens, and in some those of distances, are read by several
// blocks.
#define BART                                                                                    \
    "{\"model_type\": \"bart\", \"vocab_size\": 40, \"d_model\": 8, \"encoder_layers\": 2, "    \
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 3, "           \
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10, \"max_position_embeddings\": 8, " \
    "\"is_encoder_decoder\": true"
#define MBART                                                                                 \
    "{\"model_type\": \"mbart\", \"vocab_size\": 40, \"d_model\": 8, \"encoder_layers\": 2, " \
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 3, "         \
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10, \"max_position_embeddings\": 8"
#define BETWEEN_BARTS(type)                                                                      \
    "{\"model_type\": \"" type "\", \"vocab_size\": 40, \"d_model\": 8, \"encoder_layers\": 2, " \
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 3, "            \
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10, \"max_position_embeddings\": 8}"
#define T5                                                                                    \
    "{\"model_type\": \"t5\", \"vocab_size\": 40, \"d_model\": 8, \"d_kv\": 6, \"d_ff\": 6, " \
    "\"num_layers\": 2, \"num_decoder_layers\": 3, \"num_heads\": 2, "                        \
    "\"relative_attention_num_buckets\": 8, \"relative_attention_max_distance\": 6"
#define SWITCH                                                                                    \
    "{\"model_type\": \"switch_transformers\", \"vocab_size\": 40, \"d_model\": 8, \"d_kv\": 6, " \
    "\"d_ff\": 6, \"num_layers\": 2, \"num_decoder_layers\": 3, \"num_heads\": 2, "               \
    "\"num_experts\": 4, \"num_sparse_encoder_layers\": 1, \"num_sparse_decoder_layers\": 1}"
#define WHISPER                                                                               \
    "{\"model_type\": \"whisper\", \"vocab_size\": 40, \"d_model\": 8, \"num_mel_bins\": 3, " \
    "\"max_source_positions\": 6, \"max_target_positions\": 8, \"encoder_layers\": 2, "       \
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 2, "         \
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10, \"scale_embedding\": true}"
static const char *const WITH_ENCODER[] = {
    BART "}",
    BART ", \"scale_embedding\": true}",
    T5 "}",
    T5 ", \"feed_forward_proj\": \"gated-gelu\", \"tie_word_embeddings\": false}",
    SWITCH,
    MBART "}",
    WHISPER,
    BETWEEN_BARTS("marian"),
    BETWEEN_BARTS("m2m_100"),
    BETWEEN_BARTS("blenderbot"),
    BETWEEN_BARTS("blenderbot-small"),
    "{\"model_type\": \"nllb-moe\", \"vocab_size\": 40, \"d_model\": 8, \"encoder_layers\": 2, "
    "\"encoder_attention_heads\": 2, \"encoder_ffn_dim\": 6, \"decoder_layers\": 2, "
    "\"decoder_attention_heads\": 2, \"decoder_ffn_dim\": 10, \"max_position_embeddings\": 8, "
    "\"num_experts\": 4, \"encoder_sparse_step\": 2, \"decoder_sparse_step\": 1}",
    "{\"model_type\": \"umt5\", \"vocab_size\": 40, \"d_model\": 8, \"d_kv\": 6, \"d_ff\": 6, "
    "\"num_layers\": 2, \"num_decoder_layers\": 3, \"num_heads\": 2, "
    "\"relative_attention_num_buckets\": 8, \"relative_attention_max_distance\": 6}",
};
enum { WITH_ENCODER_COUNT = sizeof WITH_ENCODER / sizeof *WITH_ENCODER };

// Ways that a model without sequences to split is shared.
static void by_heads(struct parallel *parallel)
{
    parallel->degree[AXIS_TP] = 2;
}
static void by_samples(struct parallel *parallel)
{
    parallel->degree[AXIS_DP] = 2;
    parallel->zero = 3;
}
static void by_stages(struct parallel *parallel)
{
    parallel->degree[AXIS_PP] = 2;
    parallel->recompute = RECOMPUTE_FULL;
}
static void by_heads_unfused(struct parallel *parallel)
{
    parallel->degree[AXIS_TP] = 2;
    parallel->attention = ATTENTION_UNFUSED;
    parallel->recompute = RECOMPUTE_SELECTIVE;
}
static void (*const PICTURE_WAYS[])(struct parallel *parallel) = {by_heads, by_samples, by_stages,
                                                                  by_heads_unfused};

static void compare_pictures(void **state, const char *config)
{
    struct run_case alone = run_case_new(config, 1, BATCH);
    alone.steps = 1;
    alone.clip_norm = alone.learning_rate = 0;
    struct run_outcome *found = run_case_done(*state, &alone);
    const char *difference = whole_model_difference(*state, &alone, found, TOLERANCE);
    if (difference) fail_msg("%s: %s", config, difference);
    alone = run_case_new(config, 1, BATCH);
    struct run_outcome *expected = run_case_done(*state, &alone);
    for (size_t w = 0; w < sizeof PICTURE_WAYS / sizeof *PICTURE_WAYS; w++) {
        struct run_case of = run_case_new(config, 1, BATCH);
        struct err why = {0};
        PICTURE_WAYS[w](&of.parallel);
        found = run_case_run(*state, &of, &why);
        if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
        difference = run_outcome_difference(*state, expected, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
    }
}

static void pictures_are_computed_alike_on_one_rank_and_two(void **state)
{
    for (size_t m = 0; m < sizeof WITH_CLASSES / sizeof *WITH_CLASSES; m++)
        compare_pictures(state, WITH_CLASSES[m]);
}

static void by_sequence(struct parallel *parallel)
{
    parallel->degree[AXIS_TP] = 2;
    parallel->sp = true;
}
static void by_keys(struct parallel *parallel)
{
    parallel->degree[AXIS_CP] = 2;
    parallel->cp_kind = CP_ALL_GATHER;
}

static void by_ring(struct parallel *parallel)
{
    parallel->degree[AXIS_CP] = 2;
    parallel->cp_kind = CP_RING;
}
static void by_exchange(struct parallel *parallel)
{
    parallel->degree[AXIS_CP] = 2;
    parallel->cp_kind = CP_ULYSSES;
}
static void by_experts(struct parallel *parallel)
{
    parallel->degree[AXIS_DP] = 2;
    parallel->degree[AXIS_EP] = 2;
}

// Towers of other widths and heads than each other's, and samples that are compared with those of
// other ranks.
#define TOWER                                                                    \
    "\"num_hidden_layers\": 2, \"num_attention_heads\": 2, \"hidden_size\": 8, " \
    "\"intermediate_size\": 6, \"vocab_size\": 40, \"max_position_embeddings\": 8"
#define PICTURES                                                                 \
    "\"vision_config\": {\"num_hidden_layers\": 2, \"num_attention_heads\": 4, " \
    "\"hidden_size\": 12, \"intermediate_size\": 10, \"image_size\": 4, \"patch_size\": 2}"
static const char *const COMPARED[] = {
    "{\"model_type\": \"clip\", \"projection_dim\": 6, \"text_config\": {" TOWER "}, " PICTURES "}",
    "{\"model_type\": \"siglip\", \"text_config\": {" TOWER ", \"projection_size\": 12}, " PICTURES
    "}",
};

static struct run_case compared_case(const char *config, void (*way)(struct parallel *))
{
    struct run_case of = run_case_new(config, SEQ, BATCH);
    if (way) way(&of.parallel);
    of.parallel.micro_batch = BATCH / of.parallel.degree[AXIS_DP];
    return of;
}

static void towers_are_compared_alike_on_one_rank_and_two(void **state)
{
    static void (*const WAYS[])(struct parallel *) = {by_heads, by_samples, by_stages,
                                                      by_heads_unfused, by_sequence};
    for (int m = 0; m < 2; m++) {
        struct run_case alone = compared_case(COMPARED[m], NULL);
        alone.steps = 1;
        alone.clip_norm = alone.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &alone);
        const char *difference = whole_model_difference(*state, &alone, found, TOLERANCE);
        if (difference) fail_msg("%s", difference);
        alone = compared_case(COMPARED[m], NULL);
        struct run_outcome *expected = run_case_done(*state, &alone);
        // The places of a class token and four patches are not two parts.
        for (int w = 0; w < (m == 0 ? 4 : 5); w++) {
            struct run_case of = compared_case(COMPARED[m], WAYS[w]);
            struct err why = {0};
            found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
    }
    struct run_case parts = run_case_new(COMPARED[0], SEQ, BATCH);
    struct err why = {0};
    assert_null(run_case_run(*state, &parts, &why));
    assert_non_null(strstr(why.text, "--micro-batch 2: "));
    assert_non_null(strstr(why.text, "compares all samples of a step with each other, which are "
                                     "one micro-batch; "));
    struct run_case split = compared_case(COMPARED[1], by_keys);
    why = (struct err){0};
    assert_null(run_case_run(*state, &split, &why));
    assert_non_null(strstr(why.text, "compares what whole sequences say; only 1 works"));
}

static void encoders_and_decoders_are_computed_alike_on_one_rank_and_two(void **state)
{
    static void (*const WAYS[])(struct parallel *) = {by_heads,         by_samples,  by_stages,
                                                      by_heads_unfused, by_sequence, by_keys,
                                                      by_ring,          by_exchange, by_experts};
    for (int m = 0; m < WITH_ENCODER_COUNT; m++) {
        struct arena_mark mark = arena_mark(*state);
        const char *config = WITH_ENCODER[m];
        struct run_case alone = run_case_new(config, SEQ, BATCH);
        alone.steps = 1;
        alone.clip_norm = alone.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &alone);
        const char *difference = whole_model_difference(*state, &alone, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", config, difference);
        alone = run_case_new(config, SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
            struct run_case of = run_case_new(config, SEQ, BATCH);
            struct err why = {0};
            WAYS[w](&of.parallel);
            if (WAYS[w] == by_experts && config != WITH_ENCODER[4]) continue;
            found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
}

// Sixteen patches, which are four tokens at the front of each text of eight: shorter windows than
// that, and tables with and without a tie.
#define PATCHES                                                                  \
    "\"vision_config\": {\"num_hidden_layers\": 2, \"num_attention_heads\": 2, " \
    "\"hidden_size\": 6, \"intermediate_size\": 10, \"image_size\": 8, "         \
    "\"patch_size\": 2, \"vision_use_head\": false}"
#define GEMMA3_TEXT                                                                               \
    "\"text_config\": {" LLAMA_LIKE ", \"head_dim\": 4, \"sliding_window\": 3, \"layer_types\": " \
    "[\"sliding_attention\", \"full_attention\"]}"
#define GEMMA3 "{\"model_type\": \"gemma3\", \"mm_tokens_per_image\": 4, " GEMMA3_TEXT ", " PATCHES
static const char *const PICTURED[] = {
    GEMMA3 "}", GEMMA3 ", \"tie_word_embeddings\": false}",
    "{\"model_type\": \"paligemma\", \"projection_dim\": 8, \"text_config\": {" LLAMA_LIKE
    "}, \"vision_config\": {\"num_hidden_layers\": 2, \"num_attention_heads\": 2, "
    "\"hidden_size\": 6, \"intermediate_size\": 10, \"image_size\": 4, \"patch_size\": 2, "
    "\"vision_use_head\": false}}"};

static void pictures_in_text_are_computed_alike_on_one_rank_and_two(void **state)
{
    static void (*const WAYS[])(struct parallel *) = {by_heads,         by_samples,  by_stages,
                                                      by_heads_unfused, by_sequence, by_keys,
                                                      by_ring,          by_exchange};
    for (int m = 0; m < 3; m++) {
        struct arena_mark mark = arena_mark(*state);
        struct run_case alone = run_case_new(PICTURED[m], SEQ, BATCH);
        alone.steps = 1;
        alone.clip_norm = alone.learning_rate = 0;
        struct run_outcome *found = run_case_done(*state, &alone);
        const char *difference = whole_model_difference(*state, &alone, found, TOLERANCE);
        if (difference) fail_msg("%s: %s", PICTURED[m], difference);
        alone = run_case_new(PICTURED[m], SEQ, BATCH);
        struct run_outcome *expected = run_case_done(*state, &alone);
        for (size_t w = 0; w < sizeof WAYS / sizeof *WAYS; w++) {
            struct run_case of = run_case_new(PICTURED[m], SEQ, BATCH);
            struct err why = {0};
            WAYS[w](&of.parallel);
            found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            difference = run_outcome_difference(*state, expected, found, TOLERANCE);
            if (difference) fail_msg("%s: %s", run_case_text(*state, &of), difference);
        }
        arena_reset(*state, mark);
    }
    struct run_case of = run_case_new(PICTURED[0], 3, BATCH);
    struct err why = {0};
    assert_null(run_case_run(*state, &of, &why));
    assert_non_null(strstr(why.text, "--seq-len 3: a picture of "));
    assert_non_null(strstr(why.text, " takes 4 places of each sequence; give as many at least"));
}

// In fp32 and in bf16, as far as their digits go.
static void cuda_kernels_compute_them_too(void **state)
{
    static const struct {
        enum precision precision;
        double loss, gradient;
    } TRIED[] = {{PRECISION_FP32, 1e-6, 1e-5}, {PRECISION_BF16, 1e-3, 2e-2}};
    const char *const configs[] = {WITH_CLASSES[0], WITH_ENCODER[0], WITH_ENCODER[2],
                                   WITH_ENCODER[3], WITH_ENCODER[6], PICTURED[0],
                                   PICTURED[1],     COMPARED[0],     COMPARED[1]};
    for (int m = 0; m < 9; m++) {
        // Samples that are compared differ in digits that bf16 has not, before they are trained,
        // and so do what a tower learns by way of a text's layers.
        for (int t = 0; t < (m >= 5 ? 1 : 2); t++) {
            struct arena_mark mark = arena_mark(*state);
            struct run_case of = run_case_new(configs[m], m == 0 ? 1 : SEQ, BATCH);
            of.parallel.micro_batch = m >= 7 ? BATCH : of.parallel.micro_batch;
            of.steps = 1;
            const struct run_outcome *expected = run_case_done(*state, &of);
            (m == 6 ? by_ring : by_heads)(&of.parallel);
            of.backend = "cuda";
            of.precision = TRIED[t].precision;
            struct err why = {0};
            const struct run_outcome *found = run_case_run(*state, &of, &why);
            if (!found) fail_msg("%s: %s", run_case_text(*state, &of), why.text);
            const char *worst = "";
            double error = run_outcome_error(expected, found, &worst);
            bool is_near = fabs(found->loss[0] / expected->loss[0] - 1) < TRIED[t].loss;
            if (!is_near || error > TRIED[t].gradient)
                fail_msg("%s: loss %.9g, not %.9g; %s %g", run_case_text(*state, &of),
                         found->loss[0], expected->loss[0], worst, error);
            arena_reset(*state, mark);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(encoders_and_decoders_are_computed_alike_on_one_rank_and_two),
        cmocka_unit_test(cuda_kernels_compute_them_too),
        cmocka_unit_test(pictures_in_text_are_computed_alike_on_one_rank_and_two),
        cmocka_unit_test(pictures_are_computed_alike_on_one_rank_and_two),
        cmocka_unit_test(towers_are_compared_alike_on_one_rank_and_two),
        cmocka_unit_test(one_rank_computes_what_plain_loops_do),
        cmocka_unit_test(two_ranks_compute_what_one_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
