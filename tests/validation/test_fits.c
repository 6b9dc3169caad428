#include "tests/support/test.h"
#include "validation/fits.h"

// A run of a sweep: one model on devices of 80e9 bytes, sequences of 4,096, 256 of them a step.
static struct row run(int tp, int pp, int dp, int micro_batch, int zero)
{
    return (struct row){
        .family = "sweep",
        .tier = 'A',
        .model_name = "one",
        .device = "d",
        .facts = {.seq_len = 4096,
                  .global_batch = 256,
                  .tp = tp,
                  .pp = pp,
                  .dp = dp,
                  .micro_batch = micro_batch,
                  .zero_stage = zero},
    };
}

static bool holds(struct row most, struct row least)
{
    return fits_holds_as_much(&most, &least);
}

static void more_on_a_rank_is_told_from_less(void **state)
{
    (void)state;
    struct row least = run(4, 4, 8, 2, 1);
    assert_true(holds(least, least));
    assert_true(holds(run(2, 4, 8, 2, 1), least));   // tensors split less
    assert_false(holds(run(8, 4, 8, 2, 1), least));  // and more
    assert_true(holds(run(4, 2, 8, 2, 1), least));   // more layers a stage, fewer in flight
    assert_false(holds(run(4, 8, 8, 2, 1), least));
    assert_true(holds(run(4, 4, 8, 4, 1), least));
    assert_false(holds(run(4, 4, 8, 1, 1), least));
    assert_true(holds(run(4, 4, 4, 2, 1), least));    // states in fewer shards
    assert_false(holds(run(4, 4, 16, 2, 1), least));  // and in more
    assert_true(holds(run(4, 4, 16, 2, 0), least));   // whole ones
    assert_false(holds(run(4, 4, 8, 2, 1), run(4, 4, 8, 2, 0)));
    assert_true(holds(run(4, 4, 16, 2, 0), run(4, 4, 2, 2, 0)));
    // Without replicas gradients are reduced nowhere.
    assert_false(holds(run(4, 4, 1, 2, 0), run(4, 4, 2, 2, 0)));
    assert_true(holds(run(4, 4, 2, 2, 0), run(4, 4, 1, 2, 0)));
}

// 256 sequences over dp 32 in micro-batches of 4 are two, in those of 8 one.
static void micro_batches_alive_count(void **state)
{
    (void)state;
    assert_true(holds(run(1, 1, 32, 4, 0), run(1, 1, 16, 4, 0)));   // two; of four two are enough
    assert_false(holds(run(1, 1, 32, 8, 0), run(1, 1, 32, 4, 0)));  // one, of two
    assert_true(holds(run(1, 1, 32, 8, 0), run(1, 1, 32, 8, 0)));
    assert_false(holds(run(1, 4, 32, 4, 0), run(1, 4, 8, 4, 0)));  // two; four are alive at once
    assert_true(holds(run(1, 4, 16, 4, 0), run(1, 4, 8, 4, 0)));   // four of them
}

static void other_models_lengths_and_recipes_say_nothing(void **state)
{
    (void)state;
    struct row least = run(1, 1, 8, 1, 0), other = least;
    other.model_name = "two";
    assert_false(holds(other, least));
    other = least;
    other.facts.seq_len = 2048;
    assert_false(holds(other, least));
    other = least;
    other.facts.recompute = "full";
    assert_false(holds(other, least));
    other = least;
    other.facts.cp = 2;
    assert_false(holds(other, least));
    other = least;
    other.family = "another";
    assert_false(holds(other, least));
}

static struct trial trial_of(const struct row *row, const struct cluster *cluster,
                             int64_t reserved_bytes)
{
    return (struct trial){
        .row = row,
        .cluster = cluster,
        .answered = true,
        .prediction = {.device_bytes = 80000000000, .reserved_bytes = reserved_bytes},
    };
}

// One ran with room to spare, one filled its device; of four that failed one is refused, one holds
// less than the first, one less than the second, which proves nothing, and one more than both.
static void failures_are_counted_by_what_may_explain_them(void **state)
{
    (void)state;
    const struct device device = {.memory_bytes = 80000000000};
    struct node_group node = {.device = &device};
    const struct cluster cluster = {.nodes = &node, .node_count = 1};
    struct row rows[] = {run(2, 1, 8, 2, 0), run(2, 1, 8, 4, 0), run(1, 1, 8, 1, 0),
                         run(4, 1, 8, 2, 0), run(2, 1, 8, 3, 0), run(1, 1, 8, 8, 0)};
    enum { COUNT = sizeof rows / sizeof *rows };
    rows[0].peak_bytes = 72e9;  // nine tenths
    rows[1].peak_bytes = 73e9;
    for (int i = 2; i < COUNT; i++)
        rows[i].gave_nothing = true;
    rows[2].refused = "a stage without a layer";
    struct trial items[COUNT];
    for (int i = 0; i < COUNT; i++)
        items[i] = trial_of(&rows[i], &cluster, 50000000000);
    items[1].prediction.reserved_bytes = 90000000000;  // ran, and is said not to fit
    items[5].prediction.reserved_bytes = 90000000000;
    const struct trials trials = {.items = items, .count = COUNT};
    struct accuracy_fits fits = fits_of(&trials);
    assert_int_equal(fits.ran_count, 2);
    assert_int_equal(fits.ran_fit_count, 1);
    assert_int_equal(fits.failed_count, 4);
    assert_int_equal(fits.failed_unfit_count, 1);
    assert_int_equal(fits.refused_count, 1);
    assert_int_equal(fits.refused_unfit_count, 0);
    assert_int_equal(fits.outdone_count, 1);
    assert_int_equal(fits.short_count, 2);
    assert_int_equal(fits.short_unfit_count, 1);
    items[2].answered = false;  // refused here as well
    assert_int_equal(fits_of(&trials).refused_unfit_count, 1);
    assert_int_equal(fits_of(&trials).failed_unfit_count, 2);
    items[2].answered = true;
    items[5].answered = false;  // nothing can run it
    assert_int_equal(fits_of(&trials).short_unfit_count, 1);
    for (int i = 2; i < COUNT; i++)
        rows[i].gave_nothing = false;
    fits = fits_of(&trials);
    assert_int_equal(fits.ran_count, 0);
    // Of families that publish no failures those of tier A are counted apart.
    assert_int_equal(fits.other_count, COUNT);
    assert_int_equal(fits.other_fit_count, COUNT - 2);
    rows[0].tier = 'B';
    items[1].prediction.reserved_bytes = 80000000000;
    fits = fits_of(&trials);
    assert_int_equal(fits.other_count, COUNT - 1);
    assert_int_equal(fits.other_fit_count, COUNT - 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(more_on_a_rank_is_told_from_less),
        cmocka_unit_test(micro_batches_alive_count),
        cmocka_unit_test(other_models_lengths_and_recipes_say_nothing),
        cmocka_unit_test(failures_are_counted_by_what_may_explain_them),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
