#include "cost_models/step.h"
#include "tests/support/test.h"

#include <math.h>

// Three stages of two chunks, of 6, 4 and 4 seconds a micro-batch: the busiest has 6 - 14/3 more to
// do than the mean one, four times. Seconds lie in several phases and parts of a class, and classes
// that nobody uses change nothing, however many there are.
static void waiting_for_the_busiest_stage_is_no_bubble(void **state)
{
    enum { MANY = 33 };
    (void)state;
    struct chunk_price classes[MANY] = {0};
    classes[0].phase_s[PHASE_FORWARD][PART_COMPUTE] = 1.5;
    classes[0].phase_s[PHASE_BACKWARD][PART_TP] = 3.5;
    classes[1].phase_s[PHASE_WEIGHT][PART_COUNT - 1] = 1;
    classes[2].phase_s[PHASE_BACKWARD][PART_RECOMPUTE] = 3;
    static const int CLASS_OF[] = {0, 1, 1, 2, 1, 2};
    static const struct stage_run RUNS[] = {{0, 1}, {1, 2}};
    static const struct stage_runs runs = {.runs = RUNS, .run_count = 2};
    static const double BUBBLES_S[] = {10, 3};
    for (int i = 0; i < 4; i++) {
        struct step_price price = {
            .classes = classes, .class_of = CLASS_OF, .class_count = i < 2 ? 3 : MANY};
        price.shape =
            (struct schedule_shape){.stage_count = 3, .chunk_count = 2, .micro_batch_count = 4};
        double bubble_s = BUBBLES_S[i % 2], imbalance_s = fmin(16.0 / 3, bubble_s);
        struct cost cost = {.step_s = 100, .bubble_s = bubble_s};
        cost_part_waiting(&cost, &price, &runs);
        assert_true(fabs(cost.imbalance_s - imbalance_s) < 1e-12);
        assert_true(fabs(cost.bubble_s - (bubble_s - imbalance_s)) < 1e-12);
        // No more than the last bits of a step are taken for none.
        cost = (struct cost){.step_s = 5e12, .bubble_s = bubble_s};
        cost_part_waiting(&cost, &price, &runs);
        assert_true(fabs(cost.imbalance_s - imbalance_s) < 1e-12);
        cost = (struct cost){.step_s = 6e12, .bubble_s = bubble_s};
        cost_part_waiting(&cost, &price, &runs);
        assert_true(cost.imbalance_s == 0 && cost.bubble_s == bubble_s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waiting_for_the_busiest_stage_is_no_bubble),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
