#include "plan/readers.h"
#include "tests/support/test.h"

// Two nodes of two hosts each, and one of a host of three, of which the job uses two ranks.
static struct node_group groups[] = {{.count = 2, .gpus = 4, .gpus_per_host = 2},
                                     {.count = 1, .gpus = 3, .gpus_per_host = 3}};
static const struct cluster mixed = {.nodes = groups, .node_group_count = 2, .rank_count = 11};
enum { RANKS = 10 };

static void hosts_are_those_of_the_nodes(void **state)
{
    (void)state;
    static const int FIRST[RANKS] = {0, 0, 2, 2, 4, 4, 6, 6, 8, 8};
    for (int rank = 0; rank < RANKS; rank++) {
        struct host_ranks host = readers_host(&mixed, RANKS, rank);
        assert_int_equal(host.first, FIRST[rank]);
        assert_int_equal(host.end, FIRST[rank] + 2);
        assert_ptr_equal(host.group, &groups[rank >= 8]);
    }
    assert_int_equal(readers_host(&mixed, 11, 10).end, 11);
    assert_int_equal(readers_host(&mixed, 1, 0).end, 1);
}

static void who_reads_follows_from_the_word(void **state)
{
    (void)state;
    for (int rank = 0; rank < RANKS; rank++) {
        assert_true(readers_reads(&mixed, readers_parse("rank"), rank));
        assert_int_equal(readers_reads(&mixed, readers_parse("host"), rank), rank % 2 == 0);
        assert_int_equal(readers_reads(&mixed, readers_parse("one"), rank), rank == 0);
    }
    for (int word = 0; word < READERS_COUNT; word++)
        assert_int_equal(readers_parse(readers_name((enum readers)word)), word);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hosts_are_those_of_the_nodes),
        cmocka_unit_test(who_reads_follows_from_the_word),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
