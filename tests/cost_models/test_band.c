#include "cost_models/band.h"
#include "tests/support/test.h"

#include <string.h>

static struct band ROWS[] = {
    {.device = "*", .stack = "*", .kind = "dense", .confidence = CONFIDENCE_DATASHEET},
    {.device = "*", .stack = "s", .kind = "dense", .confidence = CONFIDENCE_DATASHEET},
    {.device = "*", .stack = "*", .kind = "dense", .confidence = CONFIDENCE_EXTRAPOLATED},
    {.device = "*", .stack = "s", .kind = "dense", .confidence = CONFIDENCE_EXTRAPOLATED},
    {.device = "d", .stack = "*", .kind = "dense", .confidence = CONFIDENCE_EXTRAPOLATED},
    {.device = "d", .stack = "s", .kind = "dense", .confidence = CONFIDENCE_VALIDATED},
    {.device = "*", .stack = "*", .kind = "mixture", .confidence = CONFIDENCE_DATASHEET},
};
static const struct bands BANDS = {.rows = ROWS, .count = sizeof ROWS / sizeof *ROWS};

static void the_most_particular_row_answers(void **state)
{
    (void)state;
    assert_ptr_equal(bands_find(&BANDS, "d", "s", "dense", false), &ROWS[5]);
    assert_ptr_equal(bands_find(&BANDS, "d", "s", "dense", true), &ROWS[5]);
    assert_ptr_equal(bands_find(&BANDS, "d", "t", "dense", false), &ROWS[4]);
    assert_ptr_equal(bands_find(&BANDS, "d", "t", "dense", true), &ROWS[4]);
    assert_ptr_equal(bands_find(&BANDS, "d", "s", band_kind(8, false), false), &ROWS[6]);
}

static void an_unnamed_device_takes_the_row_of_what_is_known_of_it(void **state)
{
    (void)state;
    assert_ptr_equal(bands_find(&BANDS, "e", "s", "dense", false), &ROWS[1]);
    assert_ptr_equal(bands_find(&BANDS, "e", "t", "dense", false), &ROWS[0]);
    assert_ptr_equal(bands_find(&BANDS, "e", "s", "dense", true), &ROWS[3]);
    assert_ptr_equal(bands_find(&BANDS, "e", "t", "dense", true), &ROWS[2]);
    // No row speaks of calibrated devices: better the wider band than none.
    assert_ptr_equal(bands_find(&BANDS, "e", "t", "mixture", true), &ROWS[6]);
}

static void a_pair_that_was_never_measured_takes_the_wider_of_its_two(void **state)
{
    (void)state;
    struct band rows[] = {ROWS[3], ROWS[4]};
    struct bands bands = {.rows = rows, .count = 2};
    rows[0].low_ratio = 0.8;
    rows[1].low_ratio = 0.9;
    rows[0].high_ratio = rows[1].high_ratio = 1.2;
    assert_ptr_equal(bands_find(&bands, "d", "s", "dense", false), &rows[0]);
    assert_ptr_equal(bands_find(&bands, "d", "t", "dense", false), &rows[1]);
    rows[1].high_ratio = 1.4;
    assert_ptr_equal(bands_find(&bands, "d", "s", "dense", false), &rows[1]);
}

static void no_row_is_no_answer(void **state)
{
    (void)state;
    struct bands bands = {.rows = ROWS + 4, .count = 2};
    assert_null(bands_find(&bands, "e", "s", "dense", true));
    assert_null(bands_pairs(&bands, 0.1));
}

// Anchored rows are no wider than an anchor was off, and remember what they rested on before.
static void anchored_rows_are_narrower_and_remember(void **state)
{
    struct band rows[] = {ROWS[0], ROWS[5]};
    struct bands bands = {.rows = rows, .count = 2};
    rows[0].low_ratio = 0.5, rows[0].high_ratio = 1.2;
    rows[1].low_ratio = 0.8, rows[1].high_ratio = 2;
    assert_ptr_equal(bands_anchored(*state, &bands), &bands);
    bands.anchored = (struct anchored_band){.row_count = 7, .low_ratio = 0.7, .high_ratio = 1.5};
    const struct bands *anchored = bands_anchored(*state, &bands);
    assert_true(anchored->rows[0].low_ratio == 0.7 && anchored->rows[0].high_ratio == 1.2);
    assert_true(anchored->rows[1].low_ratio == 0.8 && anchored->rows[1].high_ratio == 1.5);
    for (int i = 0; i < 2; i++)
        assert_int_equal(anchored->rows[i].confidence, CONFIDENCE_ANCHORED);
    assert_true(band_is_datasheet(&anchored->rows[0]));
    assert_false(band_is_datasheet(&anchored->rows[1]));
    assert_int_equal(rows[0].confidence, CONFIDENCE_DATASHEET);
}

static const struct bands *load(struct arena *arena)
{
    struct err err = {0};
    const struct bands *bands = bands_load(arena, &err);
    assert_string_equal(err.text, "");
    return bands;
}

static void the_shipped_bands_hold_together(void **state)
{
    const struct bands *bands = load(*state);
    for (int i = 0; i < bands->count; i++) {
        const struct band *band = &bands->rows[i];
        bool any = strcmp(band->device, "*") == 0 || strcmp(band->stack, "*") == 0;
        assert_true(band->low_ratio <= 1 && band->high_ratio >= 1 && *band->source);
        assert_true((band->row_count > 0) == (band->family_count > 0));
        assert_true(band->row_count >= band->family_count);
        bool validated = !any && band->row_count >= BAND_VALIDATED_ROWS;
        assert_int_equal(band->confidence == CONFIDENCE_VALIDATED, validated);
        if (band->confidence != CONFIDENCE_DATASHEET) continue;
        assert_string_equal(band->device, "*");
        const struct band *known = bands_find(bands, "*", band->stack, band->kind, true);
        assert_true(band->low_ratio <= known->low_ratio && band->high_ratio >= known->high_ratio);
    }
    for (int i = 1; i < bands->pairs_count; i++) {
        assert_true(bands->pairs[i].right_ratio >= bands->pairs[i - 1].right_ratio);
    }
}

static void the_shipped_bands_are_written_as_they_were_read(void **state)
{
    struct err err = {0};
    struct json_document document;
    assert_true(json_load(*state, "cost_models/bands.json", &document, &err));
    struct json_writer writer = {.arena = *state};
    bands_write(&writer, load(*state));
    assert_string_equal(writer.text, document.text);
}

// What is not known is no member, and one run is known.
static void members_that_nothing_is_known_of_are_not_written(void **state)
{
    const struct anchored_band one = {0.5, 2, 1, 1, "a run"};
    for (int i = 0; i < 4; i++) {
        struct bands bands = {0};
        if (i & 1) bands.anchored = one;
        if (i & 2) bands.unfitted = one;
        struct json_writer writer = {.arena = *state};
        json_open(&writer, NULL, '{');
        bands_write_others(&writer, &bands);
        json_close(&writer, '}');
        assert_int_equal(strstr(writer.text, "\"anchored\"") != NULL, i & 1);
        assert_int_equal(strstr(writer.text, "\"unfitted\"") != NULL, i >> 1);
        assert_null(strstr(writer.text, "\"memory\""));
        assert_null(strstr(writer.text, "\"selection\""));
        if (i) assert_non_null(strstr(writer.text, "\"row_count\": 1, "));
    }
}

static const struct {
    const char *name, *message;
} BAD_FILES[] = {
    {"kind",
     "3:43: $.bands[0].kind: expected dense, dense-low-precision or mixture, found \"sparse\""},
    {"confidence", "4:80: $.bands[1].confidence: expected validated, extrapolated or datasheet, "
                   "found \"certain\""},
    {"above_one", "5:94: $.bands[2].low_ratio: must be between 0.01 and 1, found 1.1"},
    {"below_one", "5:113: $.bands[2].high_ratio: must be between 1 and 100, found 0.9"},
    {"no_source", "3:5: $.bands[0]: missing \"source\""},
    {"extra_key", "3:173: $.bands[0].models: unknown key"},
    {"no_mixture", "2:12: $.bands: needs a row for device \"*\", stack \"*\", kind \"mixture\", "
                   "datasheet"},
    {"not_datasheet", "2:12: $.bands: needs a row for device \"*\", stack \"*\", kind "
                      "\"dense-low-precision\", datasheet"},
    {"pairs_order", "9:26: $.pairs[1].difference_ratio: expected more than in the row before, "
                    "found 0.05"},
    {"pairs_end", "9:26: $.pairs[1].difference_ratio: expected 0 (any) in the last row, found 0.5"},
    {"pairs_ratio", "8:65: $.pairs[0].right_ratio: must be between 0 and 1, found 1.5"},
};

static void each_bad_file_gets_its_message(void **state)
{
    for (size_t i = 0; i < sizeof BAD_FILES / sizeof *BAD_FILES; i++) {
        struct err err = {0};
        struct json_document document;
        char *path = arena_print(*state, "tests/data/bands_%s.json", BAD_FILES[i].name);
        assert_true(json_load(*state, path, &document, &err));
        struct json root = json_root(&document);
        assert_null(bands_read(*state, &root, &err));
        assert_string_equal(err.text, arena_print(*state, "%s:%s", path, BAD_FILES[i].message));
        assert_int_equal(err.kind, ERR_INPUT);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_most_particular_row_answers),
        cmocka_unit_test(an_unnamed_device_takes_the_row_of_what_is_known_of_it),
        cmocka_unit_test(a_pair_that_was_never_measured_takes_the_wider_of_its_two),
        cmocka_unit_test(no_row_is_no_answer),
        cmocka_unit_test(anchored_rows_are_narrower_and_remember),
        cmocka_unit_test(the_shipped_bands_hold_together),
        cmocka_unit_test(the_shipped_bands_are_written_as_they_were_read),
        cmocka_unit_test(members_that_nothing_is_known_of_are_not_written),
        cmocka_unit_test(each_bad_file_gets_its_message),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
