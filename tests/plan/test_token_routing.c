#include "core/mersenne.h"
#include "plan/token_routing.h"
#include "tests/support/test.h"

#include <math.h>
#include <unistd.h>

// FIPS 180-4's own examples, and one of two blocks.
static void digests_are_those_of_the_standard(void **state)
{
    (void)state;
    assert_int_equal(sha256_head("abc"), 0xba7816bf);
    assert_int_equal(sha256_head(""), 0xe3b0c442);
    assert_int_equal(sha256_head("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
                     0x248d6a61);
}

// The published first outputs of MT19937 for the seeds 5489 and 0.
static void the_twister_draws_as_published(void **state)
{
    (void)state;
    struct mersenne twister;
    mersenne_start(&twister, 5489);
    assert_int_equal(mersenne_bits(&twister), 3499211612u);
    assert_int_equal(mersenne_bits(&twister), 581869302u);
    mersenne_start(&twister, 0);
    assert_int_equal(mersenne_bits(&twister), 2357136044u);
    mersenne_start(&twister, 5489);
    uint32_t last = 0;
    for (int i = 0; i < 10000; i++)
        last = mersenne_bits(&twister);
    assert_int_equal(last, 4123659995u);  // what the C++ standard asks of the ten thousandth
}

enum { EXPERTS = 8, TOKENS = 128 };

static void rows_of(int workload, int64_t step, int64_t counts[EXPERTS])
{
    token_routing_workload_rows(workload, EXPERTS, 2, TOKENS, step, 1234, counts);
}

static void every_workload_sends_each_token_to_as_many_experts(void **state)
{
    (void)state;
    for (int workload = 0; workload < TOKEN_WORKLOAD_COUNT; workload++) {
        int64_t counts[EXPERTS], sum = 0;
        rows_of(workload, 0, counts);
        for (int i = 0; i < EXPERTS; i++) {
            sum += counts[i];
            assert_true(counts[i] <= TOKENS);
        }
        assert_int_equal(sum, 2 * TOKENS);
    }
}

// What each isolates: 8 experts, 2 of them a token, hot are 2 or every other one.
static void workloads_are_hot_where_they_say(void **state)
{
    (void)state;
    int64_t counts[EXPERTS];
    rows_of(0, 0, counts);
    for (int i = 0; i < EXPERTS; i++)
        assert_int_equal(counts[i], 32);
    for (int workload = 1; workload <= 2; workload++) {
        rows_of(workload, 0, counts);
        // Three tokens in four go to both hot experts.
        assert_true(counts[0] >= 96 && counts[1] >= 96);
        assert_true(counts[0] + counts[1] < 2 * 128);
    }
    rows_of(3, 0, counts);
    assert_true(counts[0] + counts[2] + counts[4] + counts[6] >= 192);
    rows_of(5, 0, counts);
    assert_int_equal(counts[0] + counts[1] + counts[2] + counts[3], 0);
    rows_of(6, 4, counts);
    assert_true(counts[2] >= 96 && counts[3] >= 96);
    rows_of(7, 3, counts);
    assert_true(counts[0] >= 64 && counts[1] >= 64);
    rows_of(7, 4, counts);
    assert_true(counts[0] < 64);
}

// Rows that the benchmark's own generator drew: routing_for_step of its benchmark.py (2026-09-18),
// run with PyTorch 2.15 for 8 experts, 2 a token, 128 tokens, seed 1234.
static void rows_are_those_of_the_benchmark(void **state)
{
    static const struct {
        int workload, step;
        int64_t rows[EXPERTS];
    } DRAWN[] = {
        {1, 0, {103, 106, 8, 8, 9, 7, 5, 10}},    {2, 0, {102, 103, 11, 7, 8, 9, 8, 8}},
        {3, 0, {47, 8, 61, 11, 51, 9, 61, 8}},    {4, 0, {28, 25, 29, 34, 33, 32, 41, 34}},
        {5, 0, {0, 0, 0, 0, 66, 55, 66, 69}},     {6, 0, {106, 104, 6, 6, 12, 9, 8, 5}},
        {7, 0, {27, 33, 39, 28, 35, 27, 33, 34}}, {6, 3, {8, 12, 102, 106, 11, 7, 6, 4}},
        {7, 3, {80, 77, 11, 17, 17, 17, 18, 19}},
    };
    (void)state;
    for (size_t i = 0; i < sizeof DRAWN / sizeof *DRAWN; i++) {
        int64_t counts[EXPERTS];
        rows_of(DRAWN[i].workload, DRAWN[i].step, counts);
        assert_memory_equal(counts, DRAWN[i].rows, sizeof counts);
    }
}

static struct token_routing routing_of(struct arena *arena, const char *text)
{
    struct err err = {0};
    struct token_routing routing;
    assert_true(token_routing_read(arena, text, EXPERTS, 2, &routing, &err));
    return routing;
}

static const char *write_shares(struct arena *arena, const char *text)
{
    char path[] = "/tmp/meshwright-shares-XXXXXX";
    int file = mkstemp(path);
    assert_true(file >= 0 && write(file, text, strlen(text)) == (ssize_t)strlen(text));
    assert_int_equal(close(file), 0);
    return arena_copy(arena, path);
}

static void a_file_says_the_share_of_each_expert(void **state)
{
    const char *path = write_shares(*state, "3, 1\n2\t2 0 0,4 4");
    struct token_routing routing = routing_of(*state, path);
    static const double SHARES[EXPERTS] = {3, 1, 2, 2, 0, 0, 4, 4};
    assert_int_equal(unlink(path), 0);
    for (int i = 0; i < EXPERTS; i++)
        assert_true(fabs(routing.share[i] - SHARES[i] / 16) < 1e-15);
    assert_false(routing.is_shuffled);
    assert_string_equal(routing.name, path);
    routing = routing_of(*state, "zipf:1");
    assert_true(routing.is_shuffled && fabs(routing.share[0] / routing.share[3] - 4) < 1e-12);
}

static void wrong_routings_are_refused(void **state)
{
    static const struct {
        const char *shares, *wanted;
    } CASES[] = {
        {"1 1 1", "PATH: expected a number for each of 8 experts, found 3"},
        {"1 1 1 1 1 1 1 1 1", "PATH: expected a number for each of 8 experts, found 9"},
        {"0 0 0 0 0 0 0 0", "PATH: expected a number above 0, found none"},
        {"1 1 1 1 1 1 1 -1", "PATH: expected 0 to 1e18, found -1"},
        {"1 1 1 1 1 1 1 2e18", "PATH: expected 0 to 1e18, found 2e18"},
        {NULL, "expected W0 to W7, zipf:S or a file, found W8"},
        {NULL, "zipf:S: expected 0 to 10, found 11"},
        {NULL, "zipf:S: expected 0 to 10, found -1"},
        {NULL, "cannot read /nowhere/at/all: No such file or directory"},
    };
    static const char *const TEXTS[] = {"W8", "zipf:11", "zipf:-1", "/nowhere/at/all"};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct token_routing routing;
        const char *shares = CASES[i].shares, *wanted = CASES[i].wanted;
        const char *text = shares ? write_shares(*state, shares) : TEXTS[i - 5];
        assert_false(token_routing_read(*state, text, EXPERTS, 2, &routing, &err));
        if (shares) {
            assert_int_equal(unlink(text), 0);
            assert_int_equal(err.kind, ERR_INPUT);
            wanted = arena_print(*state, "%s%s", text, wanted + strlen("PATH"));
        }
        assert_string_equal(err.text, wanted);
    }
}

static void draws_keep_the_rows_and_follow_the_shares(void **state)
{
    uint64_t seed = 5;
    struct token_routing flat = routing_of(*state, "zipf:0"),
                         steep = routing_of(*state, "zipf:1.5");
    double rows[EXPERTS], flat_most = 0, steep_most = 0;
    for (int draw = 0; draw < 200; draw++) {
        double sum = 0;
        token_routing_draw(*state, &flat, 4096, 0, &seed, rows);
        flat_most += token_routing_imbalance(rows, EXPERTS, 4) / 200;
        token_routing_draw(*state, &steep, 4096, 0, &seed, rows);
        steep_most += token_routing_imbalance(rows, EXPERTS, 4) / 200;
        for (int i = 0; i < EXPERTS; i++)
            sum += rows[i];
        assert_true(fabs(sum - 2 * 4096) < 1e-6);
    }
    assert_true(flat_most > 1 && flat_most < 1.03);
    assert_true(steep_most > 1.4);
}

static void placing_and_replicas_even_out(void **state)
{
    const double rows[EXPERTS] = {100, 90, 10, 10, 10, 10, 10, 10};
    assert_true(fabs(token_routing_imbalance(rows, EXPERTS, 4) - 190 / 62.5) < 1e-12);
    assert_true(fabs(token_routing_replaced(*state, rows, EXPERTS, 4, 0) - 110 / 62.5) < 1e-12);
    assert_true(token_routing_replaced(*state, rows, EXPERTS, 4, 2) < 1.2);
    assert_true(fabs(token_routing_dropped(rows, EXPERTS, 1) - (100 + 90 - 62.5) / 250) < 1e-12);
    assert_true(token_routing_dropped(rows, EXPERTS, 8) == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(digests_are_those_of_the_standard),
        cmocka_unit_test(the_twister_draws_as_published),
        cmocka_unit_test(every_workload_sends_each_token_to_as_many_experts),
        cmocka_unit_test(workloads_are_hot_where_they_say),
        cmocka_unit_test(rows_are_those_of_the_benchmark),
        cmocka_unit_test(a_file_says_the_share_of_each_expert),
        cmocka_unit_test(wrong_routings_are_refused),
        cmocka_unit_test(draws_keep_the_rows_and_follow_the_shares),
        cmocka_unit_test(placing_and_replicas_even_out),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
