#include "plan/plan.h"
#include "tests/support/test.h"

#include <string.h>

static struct json parse(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    assert_true(json_parse(arena, "x.json", text, strlen(text), document, &err));
    return json_root(document);
}

static void choices_read_back_as_they_were_written(void **state)
{
    struct arena *arena = *state;
    int layers[] = {3, 4, 5};
    struct parallel written = {.degree = {[AXIS_TP] = 8,
                                          [AXIS_CP] = 1,
                                          [AXIS_SP_H] = 2,
                                          [AXIS_SP_W] = 1,
                                          [AXIS_EP] = 1,
                                          [AXIS_ETP] = 1,
                                          [AXIS_DP] = 5,
                                          [AXIS_PP] = 3},
                               .sp = true,
                               .vpp = 2,
                               .micro_batch = 4,
                               .zero = 1,
                               .zero_group = 5,
                               .recompute = RECOMPUTE_SELECTIVE,
                               .recompute_classes = 1u << OP_CLASS_NORM | 1u << OP_CLASS_ACTIVATION,
                               .recompute_layers = 2,
                               .schedule = SCHEDULE_ZB_AUTO,
                               .in_flight = 7,
                               .bucket_bytes = 25000000,
                               .cp_kind = CP_ULYSSES,
                               .passes = 1u << PASS_COMBINE | 1u << PASS_STREAMS,
                               .attention = ATTENTION_UNFUSED,
                               .overlap = OVERLAP_GRAD_REDUCE | OVERLAP_PP,
                               .stage_layers = layers,
                               .stage_layers_count = 3};
    parallel_default_order(&written);
    struct json_writer writer = {.arena = arena};
    parallel_write(&writer, NULL, &written);
    struct json root = parse(arena, writer.text);
    struct parallel read = {0};
    struct err err = {0};
    assert_true(parallel_read(arena, &root, &read, &err));
    assert_memory_equal(read.degree, written.degree, sizeof read.degree);
    assert_int_equal(read.cp_kind, CP_ULYSSES);
    assert_int_equal(read.in_flight, 7);
    assert_int_equal(read.bucket_bytes, 25000000);
    assert_int_equal(read.passes, written.passes);
    assert_int_equal(read.recompute, RECOMPUTE_SELECTIVE);
    assert_int_equal(read.recompute_classes, written.recompute_classes);
    struct json_writer again = {.arena = arena};
    parallel_write(&again, NULL, &read);
    assert_string_equal(again.text, writer.text);
}

static void workloads_read_back_as_they_were_written(void **state)
{
    struct arena *arena = *state;
    struct workload written = {.seq_len = 4096,
                               .global_batch = 96,
                               .precision = PRECISION_FP8,
                               .optimizer = OPTIMIZER_LAMB,
                               .tokens = 1e12,
                               .expert_imbalance = 1.25,
                               .capacity_factor = 1.5};
    struct json_writer writer = {.arena = arena};
    workload_write(&writer, NULL, &written);
    struct json root = parse(arena, writer.text);
    struct workload read = {0};
    struct err err = {0};
    assert_true(workload_read(&root, &read, &err));
    assert_true(read.expert_imbalance == 1.25 && read.capacity_factor == 1.5);
    struct json_writer again = {.arena = arena};
    workload_write(&again, NULL, &read);
    assert_string_equal(again.text, writer.text);
    const char *text = "{\"seq_len\":1,\"global_batch\":1,\"tokens\":0,\"precision\":\"bf16\","
                       "\"optimizer\":\"adam\",\"expert_imbalance\":0.5,"
                       "\"capacity_factor\":0}";
    root = parse(arena, text);
    assert_false(workload_read(&root, &read, &err));
    assert_string_equal(err.text, "x.json:1:99: $.expert_imbalance: must be between 1 and 1000000, "
                                  "found 0.5");
}

static void classes_of_recompute_are_one_text(void **state)
{
    struct arena *arena = *state;
    static const struct {
        const char *text;
        enum recompute recompute;
        unsigned classes;
        const char *back;
    } CASES[] = {
        {"none", RECOMPUTE_NONE, 0, "none"},
        {"full", RECOMPUTE_FULL, 0, "full"},
        {"selective", RECOMPUTE_SELECTIVE, 0, "selective"},
        {"attention", RECOMPUTE_SELECTIVE, 0, "selective"},
        {"activation,norm", RECOMPUTE_SELECTIVE, 1u << OP_CLASS_NORM | 1u << OP_CLASS_ACTIVATION,
         "norm,activation"},
        {"mla-up", RECOMPUTE_SELECTIVE, 1u << OP_CLASS_UP, "mla-up"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        enum recompute recompute = RECOMPUTE_COUNT;
        unsigned classes = 1;
        assert_true(recompute_parse(CASES[i].text, &recompute, &classes));
        assert_int_equal(recompute, CASES[i].recompute);
        assert_int_equal(classes, CASES[i].classes);
        assert_string_equal(recompute_words(arena, recompute, classes), CASES[i].back);
    }
    enum recompute recompute;
    unsigned classes;
    assert_false(recompute_parse("none,norm", &recompute, &classes));
    assert_false(recompute_parse("norm,", &recompute, &classes));
    assert_false(recompute_parse("", &recompute, &classes));
}

static void overlaps_read_back_in_any_order(void **state)
{
    struct arena *arena = *state;
    unsigned overlap = 0;
    assert_true(overlap_parse("pp,grad-reduce", &overlap));
    assert_int_equal(overlap, OVERLAP_GRAD_REDUCE | OVERLAP_PP);
    assert_string_equal(overlap_text(arena, overlap), "grad-reduce,pp");
    assert_true(overlap_parse("none", &overlap));
    assert_int_equal(overlap, 0);
    assert_string_equal(overlap_text(arena, 0), "none");
    assert_false(overlap_parse("none,pp", &overlap));
    assert_false(overlap_parse("pp,", &overlap));
}

// A valid "parallel" object in which one text is replaced by another.
static const char *damaged(struct arena *arena, const char *found, const char *put)
{
    static const char GOOD[] =
        "{\"tp\":1,\"cp\":1,\"ep\":1,\"etp\":1,\"dp\":1,\"pp\":1,\"sp\":false,\"vpp\":1,"
        "\"micro_batch\":1,\"zero\":0,\"zero_group\":0,\"recompute\":\"none\","
        "\"recompute_layers\":-1,\"schedule\":\"1f1b\",\"attention\":\"flash\","
        "\"offload\":\"none\",\"overlap\":\"none\",\"order\":[\"tp\",\"cp\",\"dp\",\"pp\"],"
        "\"cp_kind\":\"ring\",\"in_flight\":0,\"passes\":\"none\",\"bucket_bytes\":0,"
        "\"tp_kind\":\"1d\"}";
    const char *at = strstr(GOOD, found);
    assert_non_null(at);
    return arena_print(arena, "%.*s%s%s", (int)(at - GOOD), GOOD, put, at + strlen(found));
}

// Plans that were written before there were grids name no kind: a line.
static void plans_without_a_kind_of_tensor_parallelism_are_of_a_line(void **state)
{
    struct arena *arena = *state;
    struct json root = parse(arena, damaged(arena, ",\"tp_kind\":\"1d\"", ""));
    struct parallel parallel = {0};
    struct err err = {0};
    assert_true(parallel_read(arena, &root, &parallel, &err));
    assert_int_equal(parallel.tp_kind, TP_1D);
    root = parse(arena, damaged(arena, "\"1d\"", "\"2.5d\""));
    assert_true(parallel_read(arena, &root, &parallel, &err));
    assert_int_equal(parallel.tp_kind, TP_2_5D);
}

// Axes that few plans have are written where there is more than one rank of them; in the order
// they stand behind those that precede them in plan/axes.inc.
static void plans_without_parts_of_images_have_one(void **state)
{
    struct arena *arena = *state;
    struct json root = parse(arena, damaged(arena, "\"tp\":1", "\"tp\":1"));
    struct parallel parallel = {0};
    struct err err = {0};
    assert_true(parallel_read(arena, &root, &parallel, &err));
    assert_int_equal(parallel.degree[AXIS_SP_H], 1);
    assert_int_equal(parallel.degree[AXIS_SP_W], 1);
    const enum axis wanted[] = {AXIS_TP, AXIS_CP, AXIS_SP_W, AXIS_SP_H, AXIS_DP, AXIS_PP};
    assert_int_equal(parallel.order_count, 6);
    assert_memory_equal(parallel.order, wanted, sizeof wanted);
    struct json_writer writer = {.arena = arena};
    parallel_write(&writer, NULL, &parallel);
    assert_null(strstr(writer.text, "sp_"));
    parallel.degree[AXIS_SP_H] = 3;
    struct json_writer split = {.arena = arena};
    parallel_write(&split, NULL, &parallel);
    assert_non_null(strstr(split.text, "\"sp_h\": 3"));
    assert_null(strstr(split.text, "sp_w"));
}

static void wrong_choices_are_named_with_their_place(void **state)
{
    struct arena *arena = *state;
    static const struct {
        const char *found, *put, *message;
    } CASES[] = {
        {"\"tp\":1", "\"tp\":0", "x.json:1:7: $.tp: must be between 1 and 1073741824, found 0"},
        {"\"tp\":1,", "", "x.json:1:1: $: missing \"tp\""},
        {"\"tp\":1", "\"tp\":1,\"tp\":2", "x.json:1:9: $.tp: duplicate key"},
        {"\"tp\":1", "\"tq\":1", "x.json:1:2: $.tq: unknown key, did you mean \"tp\"?"},
        {"\"zero\":0", "\"zero\":4", "x.json:1:87: $.zero: must be between 0 and 3, found 4"},
        {"\"none\",\"rec", "\"some\",\"rec",
         "x.json:1:116: $.recompute: \"some\" is no recompute (none, selective, full, per-op, or "
         "classes of operators)"},
        {"1f1b", "2f2b",
         "x.json:1:156: $.schedule: \"2f2b\" is no schedule (gpipe, 1f1b, interleaved, zb-h1, "
         "zb-h2, zb-v, zb-auto)"},
        {"\"ring\"", "\"rings\"",
         "x.json:1:257: $.cp_kind: \"rings\" is no cp_kind (ring, allgather, ulysses, axial)"},
        {"\"in_flight\":0", "\"in_flight\":-1",
         "x.json:1:276: $.in_flight: must be between 0 and 1073741824, found -1"},
        {"\"passes\":\"none\"", "\"passes\":\"streams,all\"",
         "x.json:1:287: $.passes: \"streams,all\" is neither none nor a list of passes"},
        {"\"dp\",\"pp\"]", "\"pp\",\"pp\"]",
         "x.json:1:241: $.order[3]: expected each of tp, cp, dp, pp once, found \"pp\""},
        {"\"tp\":1,", "\"tp\":1,\"sp_h\":2,", "x.json:1:234: $.order: expected 5 axes, found 4"},
        {"\"dp\",\"pp\"]", "\"dp\",\"sp_w\"]", "x.json:1:225: $.order: pp is missing"},
        {"\"none\",\"overlap", "\"weights\",\"overlap",
         "x.json:1:193: $.offload: \"weights\" is no offload (none, or optimizer, parameters, "
         "turn, "
         "between, gradients, activations, classes of operators)"},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct json root = parse(arena, damaged(arena, CASES[i].found, CASES[i].put));
        struct parallel parallel = {0};
        struct err err = {0};
        assert_false(parallel_read(arena, &root, &parallel, &err));
        assert_string_equal(err.text, CASES[i].message);
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

static void a_plan_of_another_version_is_refused(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    assert_null(plan_load(arena, "tests/data/plan_version.json", &err));
    assert_string_equal(
        err.text, "tests/data/plan_version.json:2:14: $.version: expected version 1, found 7");
}

static void a_config_is_no_plan(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    assert_null(plan_load(arena, "models/zoo/gpt2.json", &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_non_null(strstr(err.text, "unknown key"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_read_back_as_they_were_written),
        cmocka_unit_test(workloads_read_back_as_they_were_written),
        cmocka_unit_test(classes_of_recompute_are_one_text),
        cmocka_unit_test(overlaps_read_back_in_any_order),
        cmocka_unit_test(plans_without_a_kind_of_tensor_parallelism_are_of_a_line),
        cmocka_unit_test(plans_without_parts_of_images_have_one),
        cmocka_unit_test(wrong_choices_are_named_with_their_place),
        cmocka_unit_test(a_plan_of_another_version_is_refused),
        cmocka_unit_test(a_config_is_no_plan),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
