#include "core/file.h"
#include "models/graph.h"
#include "plan/choice.h"
#include "tests/support/test.h"

#include <stdio.h>

// The rows of plan/choices.inc and what is made of them.

static const char SCHEMA[] = "plan/parallel.schema.json";

// "a|b" as an array.
static void put_words(struct json_writer *writer, const char *key, const char *words)
{
    json_open(writer, key, '[');
    for (const char *at = words; *at; at += *at == '|') {
        size_t length = strcspn(at, "|");
        json_put_text(writer, NULL, arena_print(writer->arena, "%.*s", (int)length, at));
        at += length;
    }
    json_close(writer, ']');
}

// The pattern of words of which the first stand alone and the others are joined by commas.
static const char *list_pattern(struct arena *arena, const char *words, int alone)
{
    const char *rest = words;
    for (int i = 0; i < alone; i++)
        rest = strchr(rest + 1, '|');
    return arena_print(arena, "^(%.*s|(%s)(,(%s))*)$", (int)(rest - words), words, rest + 1,
                       rest + 1);
}

// What is moved, of how many layers, and to where, and what of it stays for a while.
static const char *offload_pattern(struct arena *arena)
{
    const char *classes = "";
    for (int i = OP_CLASS_NONE + 1; i < OP_CLASS_COUNT; i++)
        classes = arena_print(arena, "%s%s|", classes, op_class_name((enum op_class)i));
    const char *word = arena_print(
        arena,
        "(((optimizer|parameters|activations|(%sother)|gradients)(:[1-9][0-9]*)?)(@nvme)?"
        "|(turn|between)(:[1-9][0-9]*)?)",
        classes);
    return arena_print(arena, "^(none|%s(,%s)*)$", word, word);
}

// A rank of up to 4096 and what it is beside.
static const char LORA_PATTERN[] =
    "^(none|[1-9][0-9]{0,3}(:(q|k|v|o|gate|up|down)(,(q|k|v|o|gate|up|down))*)?)$";

static void put_choice(struct json_writer *writer, enum choice choice)
{
    json_open(writer, choice_name(choice), '{');
    json_put_text(writer, "description", choice_help(choice));
    if (choice_is_number(choice)) {
        struct choice_range range = choice_range(choice);
        json_put_text(writer, "type", "integer");
        json_put_i64(writer, "minimum", range.low);
        json_put_i64(writer, "maximum", range.high);
    } else if (choice_kind(choice) == CHOICE_KIND_SWITCH) {
        json_put_text(writer, "type", "boolean");
    } else if (choice_kind(choice) == CHOICE_KIND_WORD) {
        put_words(writer, "enum", choice_words(writer->arena, choice));
    } else {
        const char *words = choice_words(writer->arena, choice);
        json_put_text(writer, "type", "string");
        const char *pattern = choice == CHOICE_LORA ? LORA_PATTERN : offload_pattern(writer->arena);
        if (words) pattern = list_pattern(writer->arena, words, choice_words_alone(choice));
        json_put_text(writer, "pattern", pattern);
    }
    json_close(writer, '}');
}

static void put_text_key(struct json_writer *writer, const char *key, const char *description)
{
    json_open(writer, key, '{');
    json_put_text(writer, "description", description);
    json_put_text(writer, "type", "string");
    json_close(writer, '}');
}

static void put_numbers(struct json_writer *writer, const char *key, const char *description,
                        int least)
{
    json_open(writer, key, '{');
    json_put_text(writer, "description", description);
    json_put_text(writer, "type", "array");
    json_open(writer, "items", '{');
    json_put_text(writer, "type", "integer");
    json_put_i64(writer, "minimum", least);
    json_close(writer, '}');
    json_close(writer, '}');
}

static void put_rules(struct json_writer *writer)
{
    json_open(writer, "layouts", '{');
    json_put_text(writer, "description",
                  "operators that are laid out otherwise than the table of techniques says");
    json_put_text(writer, "type", "array");
    json_open(writer, "items", '{');
    json_put_text(writer, "type", "object");
    json_open(writer, "properties", '{');
    put_text_key(writer, "operator", "kind of block and operator, layer.mlp.up");
    json_open(writer, "axis", '{');
    json_put_text(writer, "description", "the axis that is laid out");
    json_open(writer, "enum", '[');
    json_put_text(writer, NULL, axis_name(AXIS_TP));
    json_close(writer, ']');
    json_close(writer, '}');
    put_text_key(writer, "dim",
                 "dimension that the axis splits there; whole: none; otherwise: what the technique "
                 "falls back to, seq with sp and else none");
    json_open(writer, "stage", '{');
    json_put_text(writer, "description",
                  "the stage that this is said of, where stages have stage_ranks; absent: all");
    json_put_text(writer, "type", "integer");
    json_put_i64(writer, "minimum", 0);
    json_close(writer, '}');
    json_close(writer, '}');
    json_open(writer, "required", '[');
    json_put_text(writer, NULL, "operator");
    json_put_text(writer, NULL, "axis");
    json_put_text(writer, NULL, "dim");
    json_close(writer, ']');
    json_put_bool(writer, "additionalProperties", false);
    json_close(writer, '}');
    json_close(writer, '}');
}

static void put_layout(struct json_writer *writer)
{
    int64_t count = 0, least = 0;
    const char *axes = "";
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        if (!axis_takes_ranks(axis)) continue;
        least += !choice_axis_may_be_absent(axis);
        axes = arena_print(writer->arena, "%s%s%s", axes, count++ ? "|" : "", axis_name(axis));
    }
    json_open(writer, "order", '{');
    json_put_text(
        writer, "description",
        "axes that take ranks, innermost first; what is absent among the degrees may be absent");
    json_put_text(writer, "type", "array");
    json_open(writer, "items", '{');
    put_words(writer, "enum", axes);
    json_close(writer, '}');
    json_put_i64(writer, "minItems", least);
    json_put_i64(writer, "maxItems", count);
    json_put_bool(writer, "uniqueItems", true);
    json_close(writer, '}');
    put_numbers(writer, "stages", "layers of each stage, where they are not even", 0);
    put_numbers(writer, "replica_batches",
                "micro-batches of each replica (data parallel rank), where they are not even", 1);
    put_numbers(writer, "stage_tp",
                "tensor parallel ranks of each stage, where stages have meshes of their own; the "
                "largest is tp, and in a stage with fewer the rest is data parallel",
                1);
    put_numbers(writer, "stage_ranks",
                "ranks of each stage, where stages have unlike numbers of them: they follow each "
                "other, and what tp and cp leave of a stage's ranks is data parallel; tp, dp and "
                "micro_batch are those of the first stage with most ranks of tp",
                1);
    json_open(writer, "branches", '{');
    json_put_text(writer, "description",
                  "branches of the model work side by side, on stages of their own");
    json_put_text(writer, "type", "boolean");
    json_close(writer, '}');
    put_rules(writer);
}

static const char *schema_text(struct arena *arena)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "$schema", "https://json-schema.org/draft/2020-12/schema");
    json_put_text(&writer, "title", "What is chosen in a plan");
    json_put_text(&writer, "description",
                  "Made of plan/choices.inc: UPDATE=1 build/tests/test_choice writes it anew.");
    json_open(&writer, "$defs", '{');
    json_open(&writer, "axis", '{');
    json_open(&writer, "enum", '[');
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++)
        json_put_text(&writer, NULL, axis_name(axis));
    json_close(&writer, ']');
    json_close(&writer, '}');
    json_close(&writer, '}');
    json_put_text(&writer, "type", "object");
    json_open(&writer, "properties", '{');
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++)
        put_choice(&writer, choice);
    put_layout(&writer);
    json_close(&writer, '}');
    json_open(&writer, "required", '[');
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++)
        if (!choice_may_be_absent(choice)) json_put_text(&writer, NULL, choice_name(choice));
    json_put_text(&writer, NULL, "order");
    json_close(&writer, ']');
    json_put_bool(&writer, "additionalProperties", false);
    json_close(&writer, '}');
    return arena_print(arena, "%s\n", writer.text);
}

static void the_schema_is_that_of_the_rows(void **state)
{
    const char *wanted = schema_text(*state);
    if (getenv("UPDATE")) {
        FILE *file = fopen(SCHEMA, "w");
        assert_non_null(file);
        assert_true(fputs(wanted, file) >= 0);
        assert_int_equal(fclose(file), 0);
    }
    struct err err = {0};
    size_t bytes = 0;
    const char *found = file_read(*state, SCHEMA, (size_t)1 << 20, &bytes, &err);
    assert_string_equal(err.text, "");
    assert_string_equal(found, wanted);
}

// Each value that a row can name is written, read and put as itself.
static void a_value_comes_back_from_its_words_and_from_the_record(void **state)
{
    struct arena *arena = *state;
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        struct choice_range range = {0, 0, 1};
        if (choice_is_number(choice)) range = choice_range(choice);
        if (choice == CHOICE_CP_KIND) range.high = CP_KIND_COUNT - 1;
        if (choice == CHOICE_SCHEDULE) range.high = SCHEDULE_KIND_COUNT - 1;
        if (choice == CHOICE_OVERLAP) range.high = OVERLAP_END - 1;
        int low = range.low > 0 ? range.low : 0, high = range.high < 64 ? range.high : 64;
        for (int value = low; value <= high; value++) {
            struct parallel parallel = {0};
            struct err err = {0};
            int64_t read = -1;
            const char *text = choice_text(arena, choice, value);
            assert_true(choice_parse(choice, text, &read, &err));
            assert_int_equal(read, value);
            choice_put(&parallel, choice, value);
            assert_int_equal(choice_value(&parallel, choice), value);
        }
    }
}

// A member of one row is not that of another.
static void a_choice_changes_nothing_but_itself(void **state)
{
    (void)state;
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        struct parallel parallel = {0};
        choice_put(&parallel, choice, 1);
        for (enum choice other = 0; other < CHOICE_COUNT; other++)
            assert_int_equal(choice_value(&parallel, other), other == choice);
    }
}

static void a_choice_is_found_under_the_ways_to_write_it(void **state)
{
    struct arena *arena = *state;
    for (enum choice choice = 0; choice < CHOICE_COUNT; choice++) {
        enum choice found = CHOICE_COUNT;
        const char *option = choice_option(arena, choice);
        assert_true(choice_find(choice_name(choice), &found) && found == choice);
        assert_true(choice_find(option, &found) && found == choice);
        assert_true(choice_find(option + 2, &found) && found == choice);
        assert_false(choice_find(arena_print(arena, "%sx", option), &found));
    }
    enum choice found = CHOICE_COUNT;
    struct err err = {0};
    assert_false(choice_from_name("micro_bach", &found, &err));
    assert_string_equal(err.text, "unknown choice \"micro_bach\": did you mean \"micro_batch\"?");
    err = (struct err){0};
    assert_false(choice_from_name("", &found, &err));
}

// The columns that five tables once told.
static void an_axis_is_one_row(void **state)
{
    (void)state;
    static const struct {
        enum axis axis;
        enum stream stream;
        unsigned overlap;
    } KNOWN[] = {
        {AXIS_TP, STREAM_TP, OVERLAP_TP}, {AXIS_CP, STREAM_CP, OVERLAP_CP},
        {AXIS_EP, STREAM_EP, OVERLAP_EP}, {AXIS_ETP, STREAM_EP, OVERLAP_EP},
        {AXIS_DP, STREAM_DP, 0},          {AXIS_PP, STREAM_PP, OVERLAP_PP},
    };
    for (size_t i = 0; i < sizeof KNOWN / sizeof *KNOWN; i++) {
        assert_int_equal(axis_stream(KNOWN[i].axis), KNOWN[i].stream);
        assert_int_equal(axis_overlap(KNOWN[i].axis), KNOWN[i].overlap);
    }
    for (enum axis axis = 0; axis < AXIS_COUNT; axis++) {
        for (enum axis other = 0; other < axis; other++)
            assert_int_not_equal(axis_digit(axis), axis_digit(other));
        assert_true(axis == AXIS_PP || axis_digit(axis) < axis_digit(AXIS_PP));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_schema_is_that_of_the_rows),
        cmocka_unit_test(a_value_comes_back_from_its_words_and_from_the_record),
        cmocka_unit_test(a_choice_changes_nothing_but_itself),
        cmocka_unit_test(a_choice_is_found_under_the_ways_to_write_it),
        cmocka_unit_test(an_axis_is_one_row),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
