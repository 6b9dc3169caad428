#include "tests/support/draw.h"
#include "tests/support/test.h"
#include "validation/band_make.h"

#include <math.h>

enum { MOST = 4096 };

struct made {
    struct arena *arena;
    struct residuals residuals;
};

static struct made start(void **state)
{
    return (struct made){*state, {ARENA_NEW(*state, struct residual, MOST), 0}};
}

// A run that was predicted to take a second and took exp(log_ratio).
static struct residual *add(struct made *made, const char *device, const char *stack,
                            const char *family, double log_ratio)
{
    assert_true(made->residuals.count < MOST);
    struct residual *residual = &made->residuals.items[made->residuals.count++];
    *residual = (struct residual){.device = device,
                                  .stack = stack,
                                  .kind = "dense",
                                  .family = family,
                                  .measured_s = exp(log_ratio),
                                  .left_out_s = 1,
                                  .device_out_s = 1};
    return residual;
}

static const char *family_name(struct made *made, int number)
{
    return arena_print(made->arena, "family-%04d", number);
}

static const struct bands *make(struct made *made)
{
    return bands_make(made->arena, &made->residuals, "a test");
}

static void check_band(const struct band *band, double low_ratio, double high_ratio)
{
    assert_true(fabs(band->low_ratio - low_ratio) < 1e-9);
    assert_true(fabs(band->high_ratio - high_ratio) < 1e-9);
}

// 39 equal weights: rank ceil(40 * 0.95) = 38 from either side. Rounded outward to thousandths.
static void the_quantile_is_that_of_the_rank_for_finite_samples(void **state)
{
    struct made made = start(state);
    for (int i = -19; i <= 19; i++) {
        add(&made, "d", "s", family_name(&made, i + 19), 0.01 * i);
    }
    check_band(bands_find(make(&made), "d", "s", "dense", false), 0.835, 1.198);
    made.residuals.count = 19;  // -19 to -1: all ranks are needed, and the band still holds 1
    check_band(bands_find(make(&made), "d", "s", "dense", false), 0.826, 1);
    made.residuals.items += 20;  // 1 to 19
    check_band(bands_find(make(&made), "d", "s", "dense", false), 1, 1.21);
}

static void a_family_of_many_rows_does_not_decide_alone(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 60; i++) {
        add(&made, "d", "s", family_name(&made, i), i % 2 ? 0.05 : -0.05);
    }
    for (int i = 0; i < 95; i++) {
        add(&made, "d", "s", "large", log(2));
    }
    const struct band *band = bands_find(make(&made), "d", "s", "dense", false);
    check_band(band, 0.951, 1.052);
    assert_int_equal(band->row_count, 155);
    assert_int_equal(band->family_count, 61);
}

// One family of the stack beside a hundred others: it weighs about 1 / 13 of the stack's band and 1
// / 101 of all.
static void a_small_group_is_shrunk_towards_the_wider_one(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 100; i++) {
        add(&made, "d", "s", family_name(&made, i), i % 2 ? 0.02 : -0.02);
    }
    add(&made, "e", "t", "other", 0.5);
    const struct bands *bands = make(&made);
    check_band(bands_find(bands, "unknown", "unknown", "dense", true), 0.98, 1.021);
    check_band(bands_find(bands, "e", "t", "dense", false), 0.98, 1.649);
    check_band(bands_find(bands, "unknown", "t", "dense", false), 0.98, 1.649);
    // Many families of its own: the one other, with 12 / 112 of 1 / 101, is out of sight.
    check_band(bands_find(bands, "d", "s", "dense", false), 0.98, 1.021);
}

// Forty families that were predicted well, and twenty elsewhere that were not.
static void a_group_never_narrows_the_band_of_all(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 60; i++) {
        bool good = i < 40;
        double ratio = good ? 0.01 : 0.3;
        add(&made, good ? "d" : "e", good ? "s" : "t", family_name(&made, i),
            i % 2 ? ratio : -ratio);
    }
    const struct bands *bands = make(&made);
    check_band(bands_find(bands, "d", "s", "dense", false), 0.74, 1.35);
    made.residuals.count = 40;
    check_band(bands_find(make(&made), "d", "s", "dense", false), 0.99, 1.011);
}

// Of two devices each is half of what is known about a third, however many families it has.
static void devices_weigh_alike_for_one_that_is_unknown(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 60; i++) {
        add(&made, "d", "s", family_name(&made, i), i % 2 ? 0.02 : -0.02);
    }
    add(&made, "e", "s", "other", 0.1)->device_out_s = exp(-0.3);
    const struct bands *bands = make(&made);
    check_band(bands_find(bands, "unknown", "s", "dense", true), 0.98, 1.021);
    const struct band *datasheet = bands_find(bands, "unknown", "s", "dense", false);
    check_band(datasheet, 0.98, 1.492);
    assert_int_equal(datasheet->row_count, 61);
    assert_int_equal(datasheet->family_count, 61);
}

static void a_group_without_rows_is_the_wider_one(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 50; i++) {
        add(&made, i % 2 ? "d" : "e", "s", family_name(&made, i), 0.01 * (i - 25));
    }
    add(&made, "e", "s", "experts", 0.4)->kind = "mixture";
    const struct bands *bands = make(&made);
    const struct band *none = bands_find(bands, "d", "t", "mixture", false);
    const struct band *any = bands_find(bands, "unknown", "unknown", "mixture", true);
    assert_int_equal(none->row_count, 0);
    assert_int_equal(none->confidence, CONFIDENCE_EXTRAPOLATED);
    assert_int_equal(any->row_count, 1);
    check_band(none, any->low_ratio, any->high_ratio);
    // Nothing at all was measured in fp8: as everything else.
    const struct band *narrow = bands_find(bands, "d", "s", "dense-low-precision", false);
    assert_int_equal(narrow->row_count, 0);
    assert_true(narrow->low_ratio < 0.85 && narrow->high_ratio > 1.2);
}

static void the_word_depends_on_what_was_measured(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < BAND_VALIDATED_ROWS; i++) {
        add(&made, "d", "s", "a", 0.1);
        if (i > 0) add(&made, "d", "t", "b", 0.1);
    }
    const struct bands *bands = make(&made);
    const struct band *many = bands_find(bands, "d", "s", "dense", false);
    const struct band *few = bands_find(bands, "d", "t", "dense", false);
    assert_int_equal(many->confidence, CONFIDENCE_VALIDATED);
    assert_int_equal(few->confidence, CONFIDENCE_EXTRAPOLATED);
    assert_int_equal(few->row_count, BAND_VALIDATED_ROWS - 1);
    assert_int_equal(bands_find(bands, "d", "u", "dense", false)->confidence,
                     CONFIDENCE_EXTRAPOLATED);
    assert_int_equal(bands_find(bands, "e", "s", "dense", true)->confidence,
                     CONFIDENCE_EXTRAPOLATED);
    assert_int_equal(bands_find(bands, "e", "s", "dense", false)->confidence, CONFIDENCE_DATASHEET);
}

// The errors of runs predicted without their device are taken where they are wider, and only there.
static void an_unknown_device_never_has_the_narrower_band(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 80; i++) {
        struct residual *residual = add(&made, "d", "s", family_name(&made, i), i % 2 ? 0.1 : -0.1);
        residual->device_out_s = residual->measured_s * (i % 2 ? exp(-0.3) : exp(0.01));
    }
    const struct bands *bands = make(&made);
    check_band(bands_find(bands, "unknown", "s", "dense", true), 0.904, 1.106);
    check_band(bands_find(bands, "unknown", "s", "dense", false), 0.904, 1.35);
}

static const char *text_of(struct arena *arena, const struct bands *bands)
{
    struct json_writer writer = {.arena = arena};
    bands_write(&writer, bands);
    return writer.text;
}

// Normal with mean 0 (Box and Muller 1958).
static double draw_normal(struct draw *draw, double deviation)
{
    double u = ((double)(draw_bits(draw) >> 11) + 0.5) / 9007199254740992.0;
    double v = ((double)(draw_bits(draw) >> 11) + 0.5) / 9007199254740992.0;
    return deviation * sqrt(-2 * log(u)) * cos(2 * acos(-1) * v);
}

// Families of 1 to 60 rows with a bias each, on devices and stacks that are biased too.
static void draw_residuals(struct draw *draw, struct made *made, int family_count)
{
    static const char *const DEVICES[] = {"a", "b", "c"}, *const STACKS[] = {"s", "t", "u", "v"};
    made->residuals.count = 0;
    double device_bias[3], stack_bias[4];
    for (int i = 0; i < 3; i++) {
        device_bias[i] = draw_normal(draw, 0.02);
    }
    for (int i = 0; i < 4; i++) {
        stack_bias[i] = draw_normal(draw, 0.02);
    }
    for (int family = 0; family < family_count; family++) {
        int device = draw_int(draw, 0, 2), stack = draw_int(draw, 0, 3);
        int rows = draw_int(draw, 0, 2) ? draw_int(draw, 1, 12) : draw_int(draw, 12, 60);
        double bias = device_bias[device] + stack_bias[stack] + draw_normal(draw, 0.06);
        for (int row = 0; row < rows; row++) {
            add(made, DEVICES[device], STACKS[stack], family_name(made, family),
                bias + draw_normal(draw, 0.05));
        }
    }
}

static void the_order_of_the_residuals_does_not_matter(void **state)
{
    struct draw draw = draw_start("order", 11);
    struct made made = start(state);
    draw_residuals(&draw, &made, 20);
    for (int i = 0; i < made.residuals.count; i++) {
        made.residuals.items[i].sweep = draw_int(&draw, 0, 1) ? "x" : "y";
        made.residuals.items[i].left_out_s = exp(draw_normal(&draw, 0.1));
    }
    const char *before = text_of(*state, make(&made));
    for (int i = made.residuals.count - 1; i > 0; i--) {
        int other = draw_int(&draw, 0, i);
        struct residual held = made.residuals.items[i];
        made.residuals.items[i] = made.residuals.items[other];
        made.residuals.items[other] = held;
    }
    assert_string_equal(text_of(*state, make(&made)), before);
}

// As many families as are published. Rows of a family err alike, so that one sample of families
// says little: the mean of many is looked at.
static void nine_in_ten_rows_of_unseen_families_are_covered(void **state)
{
    enum { SAMPLES = 20 };
    struct draw draw = draw_start("coverage", 7);
    struct made made = start(state);
    double rows = 0, families = 0;
    for (int sample = 0; sample < SAMPLES; sample++) {
        draw_residuals(&draw, &made, 34);
        const struct band *left_out = bands_left_out(*state, &made.residuals);
        struct band_coverage coverage = bands_coverage(&made.residuals, left_out, NULL);
        assert_int_equal(coverage.row_count, made.residuals.count);
        assert_int_equal(coverage.family_count, 34);
        rows += coverage.covered_ratio / SAMPLES;
        families += coverage.covered_family_ratio / SAMPLES;
        struct band_coverage none = bands_coverage(&made.residuals, left_out, "mixture");
        assert_int_equal(none.row_count, 0);
    }
    printf("# covered: %.3f of the rows, %.3f of a family\n", rows, families);
    assert_true(rows > 0.87 && rows < 0.93);
    assert_true(families > 0.87 && families < 0.93);
}

// The band of a row knows nothing of its own family, and everything of the others.
static void a_left_out_band_is_made_without_the_family(void **state)
{
    struct made made = start(state);
    for (int i = 0; i < 60; i++) {
        add(&made, "d", "s", family_name(&made, i % 30), i % 2 ? 0.05 : -0.05);
    }
    add(&made, "e", "s", "far", log(3));
    const struct band *left_out = bands_left_out(*state, &made.residuals);
    const struct band *far = &left_out[60];
    assert_string_equal(far->device, "*");
    assert_int_equal(far->confidence, CONFIDENCE_DATASHEET);
    check_band(far, 0.951, 1.052);
    made.residuals.count = 60;
    const struct band *same = bands_find(make(&made), "e", "s", "dense", false);
    check_band(far, same->low_ratio, same->high_ratio);
    made.residuals.count = 61;
    struct band_coverage coverage = bands_coverage(&made.residuals, left_out, "dense");
    assert_true(fabs(coverage.covered_ratio - 60.0 / 61) < 1e-12);
    assert_true(fabs(coverage.covered_family_ratio - 30.0 / 31) < 1e-12);
}

static struct residual *add_plan(struct made *made, const char *sweep, double predicted_s,
                                 double measured_s)
{
    struct residual *residual = add(made, "d", "s", "f", 0);
    residual->sweep = sweep;
    residual->left_out_s = predicted_s;
    residual->measured_s = measured_s;
    return residual;
}

static void pairs_are_counted_by_how_far_apart_they_were_predicted(void **state)
{
    struct made made = start(state);
    add_plan(&made, "x", 1.0, 2.0);   // against the next: 4 % apart, wrong
    add_plan(&made, "x", 1.04, 1.9);  // against the third: 35 % apart, right
    add_plan(&made, "x", 1.4, 2.5);   // against the first: 40 % apart, right
    add_plan(&made, "y", 1.0, 2.0);   // predicted equal: asks nothing
    add_plan(&made, "y", 1.0, 3.0);
    add_plan(&made, "z", 1.0, 2.0);  // measured equal, 3 % apart: half right
    add_plan(&made, "z", 1.03, 2.0);
    add_plan(&made, NULL, 1.0, 9.0);
    add_plan(&made, NULL, 1.5, 1.0);
    const struct bands *bands = make(&made);
    assert_int_equal(bands->pairs_count, 2);
    const struct band_pairs *near = bands_pairs(bands, 0.03), *far = bands_pairs(bands, 7);
    assert_int_equal(near->pair_count, 2);
    assert_true(near->right_ratio == 0.25 && near->difference_ratio == 0.05);
    assert_int_equal(far->pair_count, 2);
    assert_true(far->right_ratio == 1 && far->difference_ratio == 0);
    assert_ptr_equal(bands_pairs(bands, 0.06), far);
}

// 2 of 2 right where plans were 4 % apart, then 1 of 2: 3 of 4 for both.
static void more_difference_never_looks_worse(void **state)
{
    struct made made = start(state);
    add_plan(&made, "a", 1.0, 2.0);
    add_plan(&made, "a", 1.04, 2.1);
    add_plan(&made, "b", 1.0, 2.0);
    add_plan(&made, "b", 1.04, 2.1);
    add_plan(&made, "c", 1.0, 2.0);
    add_plan(&made, "c", 1.08, 2.1);
    add_plan(&made, "d", 1.0, 2.0);
    add_plan(&made, "d", 1.08, 1.9);
    const struct bands *bands = make(&made);
    assert_int_equal(bands->pairs_count, 1);
    assert_int_equal(bands->pairs[0].pair_count, 4);
    assert_true(bands->pairs[0].right_ratio == 0.75);
    assert_null(bands_pairs(make(&(struct made){*state, {made.residuals.items, 1}}), 0.1));
}

// Three pairs in order against one that is not: root of three against one.
static void a_sweep_weighs_the_root_of_its_pairs(void **state)
{
    struct made made = start(state);
    add_plan(&made, "large", 1, 2);
    add_plan(&made, "large", 1.21, 3);
    add_plan(&made, "large", 1.46, 4);
    add_plan(&made, "small", 1, 3);
    add_plan(&made, "small", 1.3, 2);
    const struct bands *bands = make(&made);
    assert_int_equal(bands->pairs[0].pair_count, 4);
    assert_true(fabs(bands->pairs[0].right_ratio - 0.634) < 1e-9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_quantile_is_that_of_the_rank_for_finite_samples),
        cmocka_unit_test(a_family_of_many_rows_does_not_decide_alone),
        cmocka_unit_test(a_small_group_is_shrunk_towards_the_wider_one),
        cmocka_unit_test(a_group_never_narrows_the_band_of_all),
        cmocka_unit_test(devices_weigh_alike_for_one_that_is_unknown),
        cmocka_unit_test(a_group_without_rows_is_the_wider_one),
        cmocka_unit_test(the_word_depends_on_what_was_measured),
        cmocka_unit_test(an_unknown_device_never_has_the_narrower_band),
        cmocka_unit_test(the_order_of_the_residuals_does_not_matter),
        cmocka_unit_test(nine_in_ten_rows_of_unseen_families_are_covered),
        cmocka_unit_test(a_left_out_band_is_made_without_the_family),
        cmocka_unit_test(pairs_are_counted_by_how_far_apart_they_were_predicted),
        cmocka_unit_test(more_difference_never_looks_worse),
        cmocka_unit_test(a_sweep_weighs_the_root_of_its_pairs),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
