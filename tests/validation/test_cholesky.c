#include "tests/support/draw.h"
#include "tests/support/test.h"
#include "validation/cholesky.h"

#include <math.h>

static void two_equations_are_solved_as_by_hand(void **state)
{
    (void)state;
    // 4x + 2y = 10, 2x + 3y = 9: x = 1.5, y = 2. The upper half is never read.
    double a[] = {4, NAN, 2, 3}, b[] = {10, 9};
    assert_true(cholesky_solve(a, b, 2));
    assert_true(fabs(b[0] - 1.5) < 1e-12 && fabs(b[1] - 2) < 1e-12);
}

static void what_is_not_positive_definite_is_refused(void **state)
{
    (void)state;
    double negative[] = {1, 0, 0, -1}, singular[] = {1, 1, 1, 1}, zero[] = {0};
    double b[2] = {1, 1};
    assert_false(cholesky_solve(negative, b, 2));
    assert_false(cholesky_solve(singular, b, 2));
    assert_false(cholesky_solve(zero, b, 1));
}

// A = M M' + I, b = A x for a drawn x: x comes back.
static void drawn_systems_give_back_their_solution(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("systems", 20261121);
    for (int count = 1; count <= 40; count += 3) {
        double *m = ARENA_NEW(arena, double, count *count);
        double *a = ARENA_NEW(arena, double, count *count);
        double *x = ARENA_NEW(arena, double, count), *b = ARENA_NEW(arena, double, count);
        for (int i = 0; i < count * count; i++) {
            m[i] = draw_int(&draw, -1000, 1000) / 1000.0;
        }
        for (int i = 0; i < count; i++) {
            x[i] = draw_int(&draw, -1000, 1000) / 1000.0;
        }
        for (int i = 0; i < count; i++) {
            for (int k = 0; k < count; k++) {
                double sum = i == k;
                for (int n = 0; n < count; n++) {
                    sum += m[i * count + n] * m[k * count + n];
                }
                a[i * count + k] = sum;
                b[i] += sum * x[k];
            }
        }
        assert_true(cholesky_solve(a, b, count));
        for (int i = 0; i < count; i++) {
            assert_true(fabs(b[i] - x[i]) < 1e-9);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(two_equations_are_solved_as_by_hand),
        cmocka_unit_test(what_is_not_positive_definite_is_refused),
        cmocka_unit_test(drawn_systems_give_back_their_solution),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
