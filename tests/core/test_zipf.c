#include "core/zipf.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>

static void assert_near(double found, double wanted, double within)
{
    if (fabs(found - wanted) > within) {
        print_message("# found %.9g, wanted %.9g\n", found, wanted);
        fail();
    }
}

static void closed_sums_equal_plain_sums(void **state)
{
    (void)state;
    const double exponents[] = {0, 0.5, 0.8, 1, 1.05, 1.2, 2};
    for (size_t i = 0; i < sizeof exponents / sizeof *exponents; i++) {
        enum { COUNT = 20000 };
        double s = exponents[i], sum = 0, part = 0, unique = 0;
        for (int k = 1; k <= COUNT; k++)
            sum += pow(k, -s);
        for (int k = 1; k <= COUNT; k++) {
            double p = pow(k, -s) / sum;
            if (k <= 3000) part += p;
            unique += 1 - pow(1 - p, 5000);
        }
        struct zipf zipf = zipf_make(COUNT, s);
        assert_near(zipf.total / sum, 1, 1e-9);
        assert_near(zipf_share(&zipf, 3000), part, 1e-8);
        assert_near(zipf_unique(&zipf, 5000) / unique, 1, 2e-5);
    }
}

// Drawn and simulated elsewhere, with 100,000 things and 1000 places: the static share, the share
// of LRU, and how many of 65,536 requests differ.
static void shares_equal_those_of_drawn_requests(void **state)
{
    (void)state;
    const double wanted[3][4] = {
        {0.8, 0.3394, 0.2052, 30215}, {1.05, 0.6885, 0.5891, 15348}, {1.2, 0.8518, 0.7955, 8358}};
    for (int i = 0; i < 3; i++) {
        struct zipf zipf = zipf_make(100000, wanted[i][0]);
        assert_near(zipf_share(&zipf, 1000), wanted[i][1], 6e-4);
        assert_near(zipf_lru_share(&zipf, 1000), wanted[i][2], 1.2e-3);
        assert_near(zipf_unique(&zipf, 65536) / wanted[i][3], 1, 2e-3);
    }
}

// Of 40 million rows the share of the hottest 0.01, 0.1, 1 and 10 percent.
static void hot_rows_of_a_large_table(void **state)
{
    (void)state;
    const double wanted[4][5] = {{0.8, 0.135, 0.231, 0.382, 0.621},
                                 {1, 0.491, 0.618, 0.745, 0.873},
                                 {1.05, 0.602, 0.719, 0.824, 0.917},
                                 {1.2, 0.853, 0.917, 0.958, 0.984}};
    for (int i = 0; i < 4; i++) {
        struct zipf zipf = zipf_make(40000000, wanted[i][0]);
        for (int k = 1; k <= 4; k++)
            assert_near(zipf_share(&zipf, 400 * pow(10, k)), wanted[i][k], 6e-4);
    }
}

// LRU itself, on drawn requests: an oracle without a formula.
static void lru_of_drawn_requests_hits_as_often(void **state)
{
    (void)state;
    enum { COUNT = 400, PLACES = 40, REQUESTS = 60000 };
    struct draw draw = draw_start("lru", 5);
    struct zipf zipf = zipf_make(COUNT, 0.9);
    static int64_t asked[COUNT + 1];
    int hits = 0;
    for (int i = 1; i <= REQUESTS; i++) {
        int64_t rank = zipf_rank(&zipf, (double)(draw_bits(&draw) >> 11) * 0x1p-53);
        assert_in_range(rank, 1, COUNT);
        int newer = 0;
        for (int k = 1; k <= COUNT; k++)
            newer += asked[k] > asked[rank];
        hits += asked[rank] > 0 && newer < PLACES;
        asked[rank] = i;
    }
    assert_near((double)hits / REQUESTS, zipf_lru_share(&zipf, PLACES), 0.012);
}

static void ranks_come_as_often_as_they_should(void **state)
{
    (void)state;
    struct zipf zipf = zipf_make(5, 1);
    // H(5) = 137/60: shares 60, 30, 20, 15, 12 of 137.
    assert_int_equal(zipf_rank(&zipf, 0), 1);
    assert_int_equal(zipf_rank(&zipf, 59.9 / 137), 1);
    assert_int_equal(zipf_rank(&zipf, 60.1 / 137), 2);
    assert_int_equal(zipf_rank(&zipf, 124.9 / 137), 4);
    assert_int_equal(zipf_rank(&zipf, 0.9999999), 5);
    struct zipf flat = zipf_make(1000000000, 0);
    assert_near((double)zipf_rank(&flat, 0.25), 2.5e8, 2);
    assert_near(zipf_share(&flat, 1e8), 0.1, 1e-12);
    assert_near(zipf_lru_share(&flat, 1e8), 0.1, 1e-6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(closed_sums_equal_plain_sums),
        cmocka_unit_test(shares_equal_those_of_drawn_requests),
        cmocka_unit_test(hot_rows_of_a_large_table),
        cmocka_unit_test(lru_of_drawn_requests_hits_as_often),
        cmocka_unit_test(ranks_come_as_often_as_they_should),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
