#include "planner/strategy/problem.h"
#include "tests/support/test.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

// The reader of strategy problems: what a file says, and every way in which it may be wrong.

#define NODES                                                                        \
    "\"nodes\": {\"intervals\": [[0, 2], [1, 3]], \"costs\": [[5, 6], [7, 8, 9]],\n" \
    " \"usages\": [[1, 2], [3, 4, 5]]}"
#define EDGES "\"edges\": {\"nodes\": [[0, 1]], \"costs\": [[0, 1, 2, 3, 4, 5]]}"

static bool parse(struct arena *arena, const char *text, struct strategy_problem *problem,
                  struct err *err)
{
    return strategy_problem_parse(arena, "p.json", text, strlen(text), problem, err);
}

static void fails(struct arena *arena, const char *text, const char *wanted)
{
    struct strategy_problem problem;
    struct err err = {0};
    assert_false(parse(arena, text, &problem, &err));
    assert_int_equal(err.kind, ERR_INPUT);
    assert_string_equal(err.text, wanted);
}

static void are(const struct strategy_lists *lists, int at, const int64_t *values, int count)
{
    assert_int_equal(lists->starts[at + 1] - lists->starts[at], count);
    for (int i = 0; i < count; i++)
        assert_true(lists->values[lists->starts[at] + i] == values[i]);
}

static void a_problem_is_read(void **state)
{
    struct strategy_problem problem;
    struct err err = {0};
    const char *text =
        "{\"problem\": {\"name\": \"two\",\n" NODES ",\n" EDGES ",\n\"usage_limit\": 70e1}}\n";
    assert_true(parse(*state, text, &problem, &err));
    assert_string_equal(problem.name, "two");
    assert_int_equal(problem.node_count, 2);
    assert_int_equal(problem.edge_count, 1);
    assert_int_equal(problem.time_count, 3);
    assert_true(problem.has_limit && problem.usage_limit == 700);
    assert_int_equal(strategy_count(&problem, 0), 2);
    assert_int_equal(strategy_count(&problem, 1), 3);
    are(&problem.intervals, 0, (const int64_t[]){0, 2}, 2);
    are(&problem.intervals, 1, (const int64_t[]){1, 3}, 2);
    are(&problem.costs, 1, (const int64_t[]){7, 8, 9}, 3);
    are(&problem.usages, 1, (const int64_t[]){3, 4, 5}, 3);
    are(&problem.ends, 0, (const int64_t[]){0, 1}, 2);
    are(&problem.edge_costs, 0, (const int64_t[]){0, 1, 2, 3, 4, 5}, 6);
    assert_int_equal(problem.costs.places[0], strstr(text, "[5") - text);
    assert_int_equal(problem.costs.places[1], strstr(text, "[7") - text);
    // Neither a name nor a limit has to be there.
    assert_true(parse(*state, "{\"problem\":{" EDGES "," NODES "}}", &problem, &err));
    assert_string_equal(problem.name, "");
    assert_false(problem.has_limit);
}

// Room for lists and for their numbers is doubled from 64: 200 nodes of one strategy and 3 edges.
static void many_lists_keep_their_numbers(void **state)
{
    enum { NODES_COUNT = 200 };
    const char *intervals = "", *costs = "", *usages = "";
    for (int i = 0; i < NODES_COUNT; i++) {
        const char *comma = i > 0 ? "," : "";
        intervals = arena_print(*state, "%s%s[%d,%d]", intervals, comma, i, i + 1);
        costs = arena_print(*state, "%s%s[%d]", costs, comma, 3 * i);
        usages = arena_print(*state, "%s%s[%d]", usages, comma, 5 * i);
    }
    const char *text =
        arena_print(*state,
                    "{\"problem\":{\"nodes\":{\"intervals\":[%s],\"costs\":[%s],\"usages\":[%s]},"
                    "\"edges\":{\"nodes\":[[0,199],[7,7],[198,3]],\"costs\":[[1],[2],[3]]}}}",
                    intervals, costs, usages);
    struct strategy_problem problem;
    struct err err = {0};
    assert_true(parse(*state, text, &problem, &err));
    assert_int_equal(problem.node_count, NODES_COUNT);
    assert_int_equal(problem.time_count, NODES_COUNT);
    for (int i = 0; i < NODES_COUNT; i++) {
        are(&problem.intervals, i, (const int64_t[]){i, i + 1}, 2);
        are(&problem.costs, i, (const int64_t[]){3 * i}, 1);
        are(&problem.usages, i, (const int64_t[]){5 * i}, 1);
        if (i > 0) assert_true(problem.costs.places[i] > problem.costs.places[i - 1]);
    }
}

// A choice costs 6 + 8 and row 1, column 1 of 2 by 3: 4; usages of 2 and 4 meet from 1 to 2.
static void a_choice_is_valued(void **state)
{
    struct strategy_problem problem;
    struct err err = {0};
    assert_true(
        parse(*state, "{\"problem\":{" NODES "," EDGES ",\"usage_limit\":6}}", &problem, &err));
    struct strategy_value value = strategy_problem_value(*state, &problem, (const int[]){1, 1});
    assert_true(value.cost == 6 + 8 + 4 && value.forbidden == 0 && value.peak == 6);
    assert_true(value.is_valid);
    value = strategy_problem_value(*state, &problem, (const int[]){1, 2});
    assert_true(value.cost == 6 + 9 + 5 && value.peak == 7 && !value.is_valid);
    problem.has_limit = false;
    assert_true(strategy_problem_value(*state, &problem, (const int[]){1, 2}).is_valid);
    problem.edge_costs.values[5] = STRATEGY_FORBIDDEN;
    value = strategy_problem_value(*state, &problem, (const int[]){1, 2});
    assert_true(value.cost == 6 + 9 && value.forbidden == 1 && !value.is_valid);
    problem.costs.values[1] = STRATEGY_FORBIDDEN - 1;
    value = strategy_problem_value(*state, &problem, (const int[]){1, 0});
    assert_true(value.cost == STRATEGY_FORBIDDEN - 1 + 7 + 3 && value.forbidden == 0);
    // A second edge the other way, 3 by 2: row 2, column 1 of it is 15.
    assert_true(parse(*state,
                      "{\"problem\":{" NODES ",\"edges\":{\"nodes\":[[0,1],[1,0]],"
                      "\"costs\":[[0,1,2,3,4,5],[10,11,12,13,14,15]]}}}",
                      &problem, &err));
    value = strategy_problem_value(*state, &problem, (const int[]){1, 2});
    assert_true(value.cost == 6 + 9 + 5 + 15);
}

static void wrong_texts_are_named_with_their_place(void **state)
{
    static const char *const CASES[][2] = {
        {"", "p.json:1:1: $: expected \"{\", found the end of the file"},
        {"\n\t [", "p.json:2:3: $: expected \"{\", found \"[\""},
        {"{\"plan\"", "p.json:1:8: $: expected \"problem\", found \"plan\""},
        {"{\"problem\" {", "p.json:1:12: $.problem: expected \":\", found \"{\""},
        {"{\"problem\": 1", "p.json:1:13: $.problem: expected \"{\", found \"1\""},
        {"{\"problem\": {\n  \"node\": {", "p.json:2:3: $.problem.node: unknown key"},
        {"{\"problem\": {\"name\": 3",
         "p.json:1:22: $.problem.name: expected a text in quotes, found \"3\""},
        {"{\"problem\": {\"name\": \"a\\b",
         "p.json:1:24: $.problem.name: expected a plain text of at most 200 bytes"},
        {"{\"problem\": {\"name\": \"a\" \x01",
         "p.json:1:26: $.problem: expected \",\", found \"?\""},
        {"{\"problem\": {\"usage_limit\": -1",
         "p.json:1:29: $.problem.usage_limit: expected a whole number from 0"},
        {"{\"problem\": {\"usage_limit\": 1.5",
         "p.json:1:29: $.problem.usage_limit: expected a whole number from 0"},
        {"{\"problem\": {\"usage_limit\": 01",
         "p.json:1:29: $.problem.usage_limit: expected a whole number from 0"},
        {"{\"problem\": {\"nodes\": {\n\"cost\": [",
         "p.json:2:1: $.problem.nodes.cost: unknown key"},
        {"{\"problem\": {\"nodes\": {\"costs\": [], \"costs\": [",
         "p.json:1:45: $.problem.nodes.costs: twice"},
        {"{\"problem\": {\"nodes\": {\"costs\": []}",
         "p.json:1:36: $.problem.nodes: missing \"intervals\""},
        {"{\"problem\": {\"edges\": {\"costs\": []}",
         "p.json:1:36: $.problem.edges: missing \"nodes\""},
        {"{\"problem\": {\"edges\": {\"nodes\": [[0 1]",
         "p.json:1:37: $.problem.edges.nodes: expected \",\", found \"1\""},
        {"{\"problem\": {\"edges\": {\"nodes\": [[0, 1], [2, x",
         "p.json:1:46: $.problem.edges.nodes[1][1]: expected a whole number from 0 to 1e14, or "
         "1e18 and more for what is forbidden"},
        {"{\"problem\": {\"edges\": {\"nodes\": [[100000000000001",
         "p.json:1:35: $.problem.edges.nodes[0][0]: expected a whole number from 0 to 1e14, or "
         "1e18 and more for what is forbidden"},
        {"{\"problem\": {" EDGES "}}", "p.json:1:75: $.problem: missing \"nodes\""},
        {"{\"problem\":{" NODES "}}", "p.json:2:34: $.problem: missing \"edges\""},
        {"{\"problem\":{" EDGES "," NODES "}", "p.json:2:33: $: expected \"}\", found the end of "
                                               "the file"},
        {"{\"problem\":{" EDGES "," NODES "}} }", "p.json:2:35: $: expected the end, found \"}\""},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++)
        fails(*state, CASES[i][0], CASES[i][1]);
}

static void replaced(struct arena *arena, const char *was, const char *becomes, const char *wanted)
{
    const char *text = "{\"problem\":{\n" NODES ",\n" EDGES "}}";
    const char *at = strstr(text, was);
    assert_non_null(at);
    fails(arena, arena_print(arena, "%.*s%s%s", (int)(at - text), text, becomes, at + strlen(was)),
          wanted);
}

// Of lists that are read but do not fit each other it is the list that is named.
static void lists_that_do_not_fit_are_named(void **state)
{
    replaced(*state, "[0, 2], [1, 3]", "[0, 2]",
             "p.json:4:62: $.problem.nodes.intervals: found 1 lists, wanted 2 as in nodes.costs");
    replaced(*state, "[1, 2], [3, 4, 5]", "[1, 2]",
             "p.json:4:62: $.problem.nodes.usages: found 1 lists, wanted 2 as in nodes.costs");
    static const char NUMBER[] = "p.json:2:56: $.problem.nodes.costs[0][1]: expected a whole "
                                 "number from 0 to 1e14, or 1e18 and more for what is forbidden";
    replaced(*state, "[5, 6]", "[5, -6]", NUMBER);
    replaced(*state, "[5, 6]", "[5, 6.5]", NUMBER);
    replaced(*state, "[[0, 1]]", "[]",
             "p.json:4:56: $.problem.edges.costs: found 1 lists, wanted 0 as in edges.nodes");
    replaced(*state, "[[5, 6], [7", "[[], [7",
             "p.json:2:52: $.problem.nodes.costs[0]: strategies: found 0, wanted 1");
    replaced(*state, "[3, 4, 5]", "[3, 4]",
             "p.json:3:21: $.problem.nodes.usages[1]: one for each strategy: found 2, wanted 3");
    replaced(*state, "[1, 3]]", "[1, 3, 4]]",
             "p.json:2:33: $.problem.nodes.intervals[1]: birth and death: found 3, wanted 2");
    replaced(*state, "[1, 3]]", "[3, 1]]",
             "p.json:2:33: $.problem.nodes.intervals[1]: death before birth: found 1, wanted 3");
    replaced(*state, "[1, 3]]", "[1, 16777217]]",
             "p.json:2:33: $.problem.nodes.intervals[1]: a late death: found 16777217, wanted "
             "16777216");
    replaced(*state, "[[0, 1]]", "[[0]]",
             "p.json:4:21: $.problem.edges.nodes[0]: nodes: found 1, wanted 2");
    replaced(*state, "[[0, 1]]", "[[2, 1]]",
             "p.json:4:21: $.problem.edges.nodes[0]: past the last node: found 2, wanted 1");
    replaced(*state, "[[0, 1]]", "[[0, 2]]",
             "p.json:4:21: $.problem.edges.nodes[0]: past the last node: found 2, wanted 1");
    replaced(*state, "4, 5]]}}}", "4]]}}}",
             "p.json:4:40: $.problem.edges.costs[0]: one for each pair of strategies: found 5, "
             "wanted 6");
}

// A node of 4096 strategies is taken, one more is not; a list of so many zeros.
static void a_node_has_at_most_4096_strategies(void **state)
{
    char zeros[2 * 4097] = "0";
    for (int count = 1; count < 4096; count++)
        strcat(zeros + 2 * (count - 1), ",0");
    for (int more = 0; more < 2; more++) {
        const char *text = arena_print(
            *state,
            "{\"problem\":{\"nodes\":{\"costs\":[[%s]],\"usages\":[[%s]],\"intervals\":[[0,1]]},"
            "\"edges\":{\"nodes\":[],\"costs\":[]}}}",
            zeros, zeros);
        struct strategy_problem problem;
        struct err err = {0};
        if (more == 0) assert_true(parse(*state, text, &problem, &err));
        if (more == 1)
            fails(*state, text,
                  "p.json:1:31: $.problem.nodes.costs[0]: more strategies than taken: found 4097, "
                  "wanted 4096");
        if (more == 0) strcat(zeros, ",0");
    }
}

static void a_plain_file_is_loaded(void **state)
{
    char path[] = "/tmp/strategy-XXXXXX";
    FILE *file = fdopen(mkstemp(path), "w");
    assert_non_null(file);
    fputs("{\"problem\":{" EDGES "," NODES "}}", file);
    assert_int_equal(fclose(file), 0);
    struct strategy_problem problem;
    struct err err = {0};
    assert_true(strategy_problem_load(*state, path, &problem, &err));
    assert_int_equal(problem.node_count, 2);
    unlink(path);
    assert_false(strategy_problem_load(*state, path, &problem, &err));
    assert_non_null(strstr(err.text, path));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_problem_is_read),
        cmocka_unit_test(many_lists_keep_their_numbers),
        cmocka_unit_test(a_choice_is_valued),
        cmocka_unit_test(wrong_texts_are_named_with_their_place),
        cmocka_unit_test(lists_that_do_not_fit_are_named),
        cmocka_unit_test(a_node_has_at_most_4096_strategies),
        cmocka_unit_test(a_plain_file_is_loaded),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
