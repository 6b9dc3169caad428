#include "core/file.h"
#include "core/random.h"
#include "exchange/compare.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void assert_near(double found, double wanted, double most)
{
    if (!(fabs(found - wanted) <= most)) fail_msg("%.17g is not %.17g", found, wanted);
}

static struct noise test_of(struct arena *arena, const double *base, int base_count,
                            const double *now, int count)
{
    return noise_test(arena, (struct samples){base, base_count}, (struct samples){now, count},
                      false);
}

static void quartiles_lie_between_samples(void **state)
{
    struct arena *arena = *state;
    const double values[] = {4, 1, 3, 2};
    assert_near(samples_median(arena, (struct samples){values, 4}), 2.5, 1e-12);
    // 1.75 and 3.25
    assert_near(samples_spread(arena, (struct samples){values, 4}), 1.5, 1e-12);
    assert_near(samples_spread(arena, (struct samples){values, 1}), 0, 0);
}

// Three above three: 1 of 20 ways to name the new ones; and all sums but the highest are less.
static void three_above_three_is_one_way_of_twenty(void **state)
{
    const double base[] = {1, 2, 3}, now[] = {4, 5, 6};
    struct noise noise = test_of(*state, base, 3, now, 3);
    assert_near(noise.slower, 0.05, 1e-12);
    assert_near(noise.faster, 1, 1e-12);
    assert_near(noise.level, 0.05, 1e-12);
    assert_true(noise_is_slower(&noise));
    // One that lies between: sums of ranks 15 of (4, 5, 6) and 14 of (3, 5, 6): 2 of 20.
    const double mixed[] = {2.5, 5, 6};
    noise = test_of(*state, base, 3, mixed, 3);
    assert_near(noise.slower, 0.1, 1e-12);
    assert_false(noise_is_slower(&noise));
}

static void one_sample_a_side_leaves_it_to_the_threshold(void **state)
{
    const double base[] = {1}, now[] = {2};
    struct noise noise = test_of(*state, base, 1, now, 1);
    assert_true(noise_is_slower(&noise));
    noise = test_of(*state, base, 1, base, 1);
    assert_near(noise.slower, 1, 0);
}

// Eight pairs that all grow: one way of 256 to choose the signs, however wide the samples are.
static void pairs_find_what_noise_hides(void **state)
{
    double base[8], now[8];
    for (int i = 0; i < 8; i++) {
        base[i] = 1 << i;
        now[i] = base[i] * 1.1;
    }
    const struct samples first = {base, 8}, second = {now, 8};
    struct noise noise = noise_test(*state, first, second, true);
    assert_near(noise.pairs_slower, 1.0 / 256, 1e-12);
    assert_true(noise_is_slower(&noise));
    noise = noise_test(*state, first, second, false);
    assert_false(noise_is_slower(&noise));
}

// Oracle: subsets as bits, ranks by counting, in plain floating point.
static double brute_force(const double *values, int base_count, int count)
{
    double ranks[16], observed = 0, extreme = 0, all = 0;
    for (int i = 0; i < count; i++) {
        ranks[i] = 0.5;
        for (int j = 0; j < count; j++)
            ranks[i] += values[j] < values[i] ? 1 : values[j] == values[i] ? 0.5 : 0;
        if (i >= base_count) observed += ranks[i];
    }
    for (unsigned set = 0; set < 1u << count; set++) {
        if (__builtin_popcount(set) != count - base_count) continue;
        double sum = 0;
        for (int i = 0; i < count; i++)
            sum += set >> i & 1 ? ranks[i] : 0;
        all++;
        extreme += sum >= observed - 1e-9;
    }
    return extreme / all;
}

static void exchanges_are_those_of_brute_force(void **state)
{
    struct draw draw = draw_start("exchanges", 7);
    for (int round = 0; round < 40; round++) {
        double values[12];
        int base = draw_int(&draw, 1, 6), now = draw_int(&draw, 1, 6);
        for (int i = 0; i < base + now; i++)
            values[i] = draw_int(&draw, 1, 9);  // ties are common
        struct noise noise = test_of(*state, values, base, values + base, now);
        assert_near(noise.slower, brute_force(values, base, base + now), 1e-12);
    }
}

static const char *write_text(struct arena *arena, const char *name, const char *text)
{
    struct err err = {0};
    const char *path = arena_print(arena, "/tmp/meshwright-%d-%s", (int)getpid(), name);
    assert_true(file_write(path, text, strlen(text), &err));
    return path;
}

// A run of 12 steps with noise of 2 %, whose task "slow" takes so much of a step of 100 ms.
static const char *write_run(struct arena *arena, const char *name, uint64_t *seed, double slow_s)
{
    char *steps = arena_print(arena, "1");
    for (int i = 0; i < 12; i++) {
        double noise = 1 + 0.02 * random_normal(seed);
        steps = arena_print(arena, "%s, %.9f", steps, (0.08 + slow_s) * noise);
    }
    const char *text = arena_print(
        arena,
        "{\"version\": 1, \"plan\": {\"hash\": \"1\"}, \"step_s\": [%s], \"peak_bytes\": 10,\n"
        "\"compare\": {\"measured_step_s\": 0.1, \"measured_tokens_per_s\": 100},\n\"tasks\": ["
        "{\"task\": \"fast\", \"kind\": \"operator\", \"count\": 1, \"bytes\": 8, \"s\": 0.08},"
        "{\"task\": \"slow\", \"kind\": \"operator\", \"count\": 2, \"bytes\": 8, \"s\": %.9f}]}",
        steps, slow_s);
    return write_text(arena, name, text);
}

static struct compare compare_of(struct arena *arena, const char *base, const char *now)
{
    struct err err = {0};
    struct compare_side *sides = ARENA_NEW(arena, struct compare_side, 2);
    const struct compare_request request = {.threshold_ratio = 0.03, .judges_step = true};
    struct compare compare = {0};
    bool done = compare_side_read(arena, &base, 1, 0, &sides[0], &err) &&
                compare_side_read(arena, &now, 1, 0, &sides[1], &err) &&
                compare_make(arena, &request, &sides[0], &sides[1], &compare, &err);
    assert_string_equal(err.text, "");
    assert_true(done);
    return compare;
}

static void a_run_repeated_is_the_same_and_one_slowed_by_a_tenth_is_not(void **state)
{
    struct arena *arena = *state;
    struct draw draw = draw_start("runs", 20);
    uint64_t seed = draw_bits(&draw);
    int same = 0, found = 0, named = 0;
    for (int i = 0; i < 100; i++) {
        struct arena_mark mark = arena_mark(arena);
        const char *base = write_run(arena, "base.json", &seed, 0.02);
        const char *again = write_run(arena, "again.json", &seed, 0.02);
        const char *slow = write_run(arena, "slow.json", &seed, 0.03);
        assert_int_equal(compare_of(arena, base, base).verdict, VERDICT_SAME);
        same += compare_of(arena, base, again).verdict == VERDICT_SAME;
        struct compare compare = compare_of(arena, base, slow);
        found += compare.verdict == VERDICT_REGRESSION;
        named += compare.cause && strcmp(compare.cause->name, "slow") == 0;
        assert_int_equal(compare_of(arena, slow, base).verdict == VERDICT_IMPROVEMENT,
                         compare.verdict == VERDICT_REGRESSION);
        unlink(base);
        unlink(again);
        unlink(slow);
        arena_reset(arena, mark);
    }
    assert_int_equal(same, 100);
    assert_int_equal(found, 100);
    assert_int_equal(named, 100);
}

// 10 ms in which 4 and 2 lie, the latter holding 1; on another track 3 that stand alone.
static void time_of_a_slice_is_without_what_lies_in_it(void **state)
{
    struct arena *arena = *state;
    struct err err = {0};
    const char *path = write_text(
        arena, "nested.json",
        "[{\"name\":\"outer\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0,\"dur\":10000},\n"
        "{\"name\":\"b, micro-batch "
        "1\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":5000,\"dur\":2000},\n"
        "{\"name\":\"a\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":0,\"dur\":4000},\n"
        "{\"name\":\"c\",\"ph\":\"X\",\"pid\":0,\"tid\":0,\"ts\":5500,\"dur\":1000},\n"
        "{\"name\":\"c\",\"ph\":\"X\",\"pid\":1,\"tid\":0,\"ts\":5500,\"dur\":3000}]");
    struct side_file file;
    assert_true(side_read(arena, path, 0, &file, &err));
    unlink(path);
    assert_int_equal(file.kind, SIDE_TRACE);
    assert_int_equal(file.task_count, 4);
    const struct {
        const char *name;
        double s, count;
    } wanted[] = {{"a", 0.004, 1}, {"b", 0.001, 1}, {"c", 0.004, 2}, {"outer", 0.004, 1}};
    for (int i = 0; i < 4; i++) {
        assert_string_equal(file.tasks[i].name, wanted[i].name);
        assert_near(file.tasks[i].s, wanted[i].s, 1e-12);
        assert_near(file.tasks[i].count, wanted[i].count, 0);
    }
    assert_near(file.step_s[0], 0.01, 1e-12);
}

static void what_is_wrong_with_a_file_is_told_at_its_place(void **state)
{
    static const struct {
        const char *text, *wanted;
    } CASES[] = {
        {"[{\"ph\":\"X\",\"dur\":1}]", ":1: the slice \"\" has no start or ends before it starts"},
        {"[{\"ph\":\"X\",\"ts\":1,\"dur\":\"a\"}]", ":1:25: expected a number"},
        {"[{\"ph\":\"X\"\n\"ts\":1}]", ":2:1: expected ',' or '}'"},
        {"[{\"ph\":\"X\",\"ts\":1,\"dur\":1}] 2", ":1:29: expected the end of the file"},
        {"[{\"ph\":\"X\",\"ts\":1,\"du", ":1:22: expected the end of a text"},
        {"[{\"ph\":\"M\",\"args\":{\"a\":nul}}]", ":1:27: expected a value"},
        {"{\"schemaVersion\": 1}", ": no trace: missing \"traceEvents\""},
        {"[]", ": the trace holds no slice (\"ph\": \"X\")"},
        {"[{\"ph\":\"X\",\"ts\":1,\"x\":\"\\q\"}]", ":1:26: expected an escape"},
        {"{\"placement\": []}", ":1:1: $: the plan of a recommendation model is not compared"},
        {"{\"parallel\": {}, \"workload\": {}, \"prediction\": {\"step_s\": 0}}",
         ":1:59: $.prediction.step_s: must be between 1e-12 and 1000000000000, found 0"},
    };
    struct arena *arena = *state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct err err = {0};
        struct side_file file;
        const char *path = write_text(arena, "bad.json", CASES[i].text);
        assert_false(side_read(arena, path, 0, &file, &err));
        unlink(path);
        assert_int_equal(err.kind, ERR_INPUT);
        assert_string_equal(err.text, arena_print(arena, "%s%s", path, CASES[i].wanted));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(quartiles_lie_between_samples),
        cmocka_unit_test(three_above_three_is_one_way_of_twenty),
        cmocka_unit_test(one_sample_a_side_leaves_it_to_the_threshold),
        cmocka_unit_test(pairs_find_what_noise_hides),
        cmocka_unit_test(exchanges_are_those_of_brute_force),
        cmocka_unit_test(a_run_repeated_is_the_same_and_one_slowed_by_a_tenth_is_not),
        cmocka_unit_test(time_of_a_slice_is_without_what_lies_in_it),
        cmocka_unit_test(what_is_wrong_with_a_file_is_told_at_its_place),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
