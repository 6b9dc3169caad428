#include "core/random.h"
#include "tests/support/test.h"
#include "topologies/ecmp.h"

#include <math.h>

enum { FLOWS_MAX = 128 };

// P(no link has more than `most`), exactly: n! / m^n times the coefficient of x^n in
// (sum of x^j / j! for j <= most)^m, multiplied out link by link as shares of the flows.
static double none_above(int flows, int links, int most)
{
    double ways[FLOWS_MAX + 1] = {1};  // that the links so far took so many flows, of all
    for (int link = 0; link < links; link++) {
        double next[FLOWS_MAX + 1] = {0}, share = 1.0 / (links - link);
        for (int taken = 0; taken <= flows; taken++) {
            // Of the flows left this link takes `more`: binomial.
            int left = flows - taken;
            double ratio = share == 1 ? left == 0 : pow(1 - share, left);
            for (int more = 0; more <= most && more <= left; more++) {
                if (share == 1 && more == left) ratio = 1;
                next[taken + more] += ways[taken] * ratio;
                ratio *= (left - more) / (more + 1.0) * share / (share < 1 ? 1 - share : 1);
            }
        }
        memcpy(ways, next, sizeof ways);
    }
    return ways[flows];
}

static double exact(int flows, int links, int switches)
{
    double expected = 0, some = 1;
    for (int most = 0; most < flows && some > 1e-9; most++) {
        some = 1 - pow(none_above(flows, links, most), switches);
        expected += some;
    }
    return expected;
}

static void assert_near(double found, double wanted, double ratio)
{
    if (fabs(found - wanted) <= ratio * wanted) return;
    print_error("found %.6f, wanted %.6f\n", found, wanted);
    fail();
}

// Two flows on two links meet in half of the cases: 1.5. Three: 3 on one in 2 of 8, else 2: 2.25.
// Two on three: 4/3. Of two switches with two flows each both are spread in a quarter: 1.75.
static void flows_on_links_by_hand(void **state)
{
    (void)state;
    assert_near(exact(2, 2, 1), 1.5, 1e-12);
    assert_near(exact(3, 2, 1), 2.25, 1e-12);
    assert_near(exact(2, 3, 1), 4.0 / 3, 1e-12);
    assert_near(exact(2, 2, 2), 1.75, 1e-12);
    assert_near(ecmp_busiest(2, 2, 1), 1.5, 1e-9);
    assert_near(ecmp_busiest(3, 2, 1), 2.25, 1e-9);
    assert_near(ecmp_busiest(2, 3, 1), 4.0 / 3, 1e-9);
    assert_near(ecmp_busiest(2, 2, 2), 1.75, 1e-9);
    assert_true(ecmp_busiest(7, 1, 5) == 7);
    assert_true(ecmp_busiest(1, 8, 5) == 1);
}

static void every_small_number_is_near_the_exact_value(void **state)
{
    (void)state;
    static const int LINKS[] = {2, 3, 4, 8, 32};
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++) {
        for (int flows = 1; flows <= FLOWS_MAX; flows += 1 + flows / 3) {
            for (int switches = 1; switches <= 256; switches *= 16) {
                double wanted = exact(flows, LINKS[i], switches);
                assert_near(ecmp_busiest(flows, LINKS[i], switches), wanted, 0.01);
            }
        }
    }
}

static double thrown(int flows, int links, int switches, int trials)
{
    double sum = 0;
    uint64_t random = 1;
    for (int trial = 0; trial < trials; trial++) {
        int most = 0;
        for (int at = 0; at < switches; at++) {
            int counts[256] = {0};
            for (int i = 0; i < flows; i++) {
                int count = ++counts[random_bits(&random) % (uint64_t)links];
                if (count > most) most = count;
            }
        }
        sum += most;
    }
    return sum / trials;
}

static void flows_thrown_by_a_seed_meet_as_often(void **state)
{
    (void)state;
    static const int CASES[][3] = {{256, 32, 8},  {256, 256, 16}, {1024, 128, 4},
                                   {4096, 64, 2}, {9000, 128, 4}, {300, 250, 64}};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        double wanted = thrown(CASES[i][0], CASES[i][1], CASES[i][2], 200);
        assert_near(ecmp_busiest(CASES[i][0], CASES[i][1], CASES[i][2]), wanted, 0.02);
    }
}

// 128 flows on one link of two are beyond none; 1,280 a link are: the excess of 640 heads of 1,280
// coins is sqrt(1280 / (2 pi)) = 14.27.
static void many_flows_even_out(void **state)
{
    (void)state;
    assert_near(ecmp_busiest(1280, 2, 1) - 640, 14.27, 0.05);
    assert_near(ecmp_busiest(1e6, 32, 1), 1e6 / 32, 0.02);
    double last = 32;
    for (double flows = 32; flows < 1e6; flows *= 2) {
        double excess = ecmp_busiest(flows, 32, 4) * 32 / flows;
        assert_true(excess >= 1 && excess < last);
        last = excess;
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(flows_on_links_by_hand),
        cmocka_unit_test(every_small_number_is_near_the_exact_value),
        cmocka_unit_test(flows_thrown_by_a_seed_meet_as_often),
        cmocka_unit_test(many_flows_even_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
