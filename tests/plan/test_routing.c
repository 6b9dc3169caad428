#include "tests/support/test.h"

#include "cost_models/collective.h"
#include "tests/support/random_plan.h"

#include <math.h>

// Where the rows of a token go when it may open only some groups of experts, against draws.

static const struct fabrics *shipped(struct arena *arena)
{
    struct err err = {0};
    const struct fabrics *fabrics = fabrics_load(arena, &err);
    assert_string_equal(err.text, "");
    return fabrics;
}

static struct group_shape first_ranks(struct arena *arena, const char *name, int count)
{
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, name, &err);
    assert_string_equal(err.text, "");
    struct route_axes axes = {1, {count}, {1}}, mesh = {1, {cluster->rank_count}, {1}};
    return route_group(cluster, &axes, &mesh);
}
// Of how many places random tokens reach at least one, drawn as the routing says.
static double drawn_places(int places, const struct routing *routing, struct random *random)
{
    enum { DRAWS = 20000, GROUPS_MAX = 16, PLACES_MAX = 64 };
    assert_true(routing->group_count <= GROUPS_MAX && places <= PLACES_MAX);
    int64_t reached = 0;
    for (int draw = 0; draw < DRAWS; draw++) {
        int groups[GROUPS_MAX];
        bool is_reached[PLACES_MAX] = {false};
        for (int i = 0; i < routing->group_count; i++)
            groups[i] = i;
        for (int row = 0; row < routing->open_groups; row++) {
            int other = random_int(random, row, routing->group_count - 1);
            int kept = groups[row];
            groups[row] = groups[other];
            groups[other] = kept;
        }
        for (int row = 0; row < routing->rows; row++) {
            // A thousand experts a group, so that none is drawn twice often.
            int group = groups[random_int(random, 0, routing->open_groups - 1)];
            int expert = group * 1024 + random_int(random, 0, 1023);
            is_reached[expert * places / (routing->group_count * 1024)] = true;
        }
        for (int place = 0; place < places; place++)
            reached += is_reached[place];
    }
    return (double)reached / DRAWS;
}

// Groups of experts keep a token to fewer nodes and ranks; those that are all open do not.
static void a_token_reaches_the_places_of_its_groups(void **state)
{
    static const struct routing ROUTINGS[] = {{8, 8, 4}, {8, 8, 1}, {6, 8, 3}, {8, 16, 9}};
    struct random random = random_start(20261121);
    double bytes = 512e6;
    for (size_t i = 0; i < sizeof ROUTINGS / sizeof *ROUTINGS; i++) {
        for (int ranks = 16; ranks <= 64; ranks *= 2) {
            const struct routing *routing = &ROUTINGS[i];
            struct group_shape group = first_ranks(*state, "dgx-h100-x16", ranks);
            double nodes = ranks / 8.0;
            double sent =
                drawn_places(ranks / 8, routing, &random) / routing->rows * (nodes - 1) / nodes;
            struct collective_cost cost =
                dispatch_price(shipped(*state), &group, routing, bytes, 1e-3);
            double expected_s = sent * bytes / (50e9 * 0.83 * 1e-3);
            assert_true(fabs(cost.bandwidth_s / expected_s - 1) < 0.02);
            sent = drawn_places(ranks, routing, &random) / routing->rows * 7 / 8;
            cost = dispatch_price(shipped(*state), &group, routing, bytes, 1e3);
            expected_s = sent * bytes / (450e9 * 0.811);
            assert_true(fabs(cost.bandwidth_s / expected_s - 1) < 0.02);
        }
    }
    struct group_shape group = first_ranks(*state, "dgx-h100-x16", 64);
    struct routing all = {8, 8, 8}, none = {.rows = 8};
    assert_true(dispatch_price(shipped(*state), &group, &all, bytes, 1).s ==
                dispatch_price(shipped(*state), &group, &none, bytes, 1).s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_reaches_the_places_of_its_groups),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
