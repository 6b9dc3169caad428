#include "tests/support/test.h"

#include "reports/page/memory_plot.h"
#include "reports/table/memory_table.h"
#include "tests/support/draw.h"

#include <stdio.h>

// Three rows of a packing problem; the last one is the answer.
static struct memory_report report_of(struct memory_schedule rows[3], int64_t arena_bytes)
{
    for (int i = 0; i < 3; i++) {
        rows[i] = (struct memory_schedule){.live_bytes = 1000, .bound_bytes = 1000, .fits = true};
    }
    rows[0].method = MEMORY_PROGRAM;
    rows[1].method = MEMORY_GREEDY;
    rows[2].method = MEMORY_ROAM;
    rows[0].arena_bytes = 2000;
    rows[1].arena_bytes = 1250;
    rows[2].arena_bytes = arena_bytes;
    return (struct memory_report){
        .name = "x.csv", .buffer_count = 1234, .rows = rows, .row_count = 3, .alignment = 1};
}

static void only_what_meets_the_bound_is_called_optimal(void **state)
{
    struct arena *arena = *state;
    struct memory_schedule rows[3];
    struct memory_report report = report_of(rows, 1000);
    assert_string_equal(
        memory_table_text(arena, &report),
        "x.csv: 1,234 buffers\n"
        "method                        live     arena  over bound  fragmentation   saved  seconds\n"
        "program, caching allocator  1000 B  1.95 KiB     100.00%        100.00%       -    0.000\n"
        "greedy, best fit            1000 B  1.22 KiB      25.00%         25.00%  37.50%    0.000\n"
        "roam                        1000 B    1000 B       0.00%          0.00%  50.00%    0.000\n"
        "roam: 0.00 % over the bound of 1,000 bytes: proven optimal\n");
    report = report_of(rows, 1001);
    const char *text = memory_table_text(arena, &report);
    assert_null(strstr(text, "proven"));
    assert_non_null(strstr(text, "roam: 1,001 bytes, within 0.10 % of optimal (the bound of "
                                 "1,000 bytes)\n"));
}

// What one method proves holds for the others: the bound is the highest.
static void every_row_is_measured_by_the_highest_bound(void **state)
{
    struct arena *arena = *state;
    struct memory_schedule rows[3];
    struct memory_report report = report_of(rows, 1100);
    rows[0].bound_bytes = 900;
    rows[2].bound_bytes = 1100;
    assert_int_equal(memory_report_bound(&report), 1100);
    const char *text = memory_table_text(arena, &report);
    assert_non_null(strstr(text, "81.82%        100.00%"));
    assert_non_null(strstr(text, "proven optimal"));
    struct json_writer writer = {.arena = arena};
    memory_report_write(&writer, NULL, &report);
    assert_non_null(strstr(writer.text, "\"proven_optimal\": true"));
    assert_non_null(strstr(writer.text, "\"bound_bytes\": 1100"));
}

static void a_shortfall_says_what_is_proven(void **state)
{
    struct arena *arena = *state;
    struct memory_schedule rows[3];
    struct memory_report report = report_of(rows, 1100);
    report.capacity = 1050;
    assert_string_equal(memory_shortfall_text(arena, &report),
                        "the best found needs 1,100 bytes, 50 more than the capacity of 1,050; "
                        "whether less is possible is not known");
    report.capacity = 990;
    assert_string_equal(memory_shortfall_text(arena, &report),
                        "the best found needs 1,100 bytes, 110 more than the capacity of 990; "
                        "proven: nothing needs less than 1,000 bytes");
    report.capacity = 1050;
    rows[2].infeasible = true;
    assert_non_null(strstr(memory_shortfall_text(arena, &report), "; proven: nothing fits"));
}

static int count_of(const char *text, const char *part)
{
    int count = 0;
    for (const char *at = text; (at = strstr(at, part)) != NULL; at++) {
        count++;
    }
    return count;
}

static void few_buffers_are_drawn_one_by_one(void **state)
{
    struct arena *arena = *state;
    const int64_t lower[] = {0, 10, 20}, upper[] = {100, 11, 30}, size[] = {600, 400, 400};
    const int64_t offset[] = {0, 600, 600};
    const struct memory_plot plot = {.title = "it's {a} title",
                                     .time_label = "step",
                                     .lower = lower,
                                     .upper = upper,
                                     .size = size,
                                     .offset = offset,
                                     .count = 3,
                                     .arena_bytes = 1000,
                                     .capacity = 1200};
    const char *text = memory_plot_script(arena, &plot);
    assert_non_null(strstr(text, "set title 'it s  a  title'"));
    assert_non_null(strstr(text, "$large3 << end\n50 300 0 100 0 600\nend\n"));
    assert_non_null(strstr(text, "$large0 << end\n10.5 800 10 11 600 1000\nend\n"));
    assert_non_null(strstr(text, "$large1 << end\n25 800 20 30 600 1000\nend\n"));
    assert_non_null(strstr(text, "$capacity << end\n0 1200\n100 1200\nend\n"));
    assert_non_null(strstr(text, "$live << end\n0 600\n10 600\n10 1000\n11 1000\n11 600\n"));
}

// Of many buffers most are drawn in the cells of a grid: the script has no more lines than the
// picture may have shapes.
static void many_buffers_make_no_large_picture(void **state)
{
    struct arena *arena = *state;
    enum { COUNT = 60000, LINES_MAX = 12000 };
    struct draw draw = draw_start("many buffers", 4);
    int64_t *lower = ARENA_NEW(arena, int64_t, COUNT), *upper = ARENA_NEW(arena, int64_t, COUNT);
    int64_t *size = ARENA_NEW(arena, int64_t, COUNT), *offset = ARENA_NEW(arena, int64_t, COUNT);
    for (int i = 0; i < COUNT; i++) {
        lower[i] = draw_int(&draw, 0, 100000);
        upper[i] = lower[i] + draw_int(&draw, 1, i % 2 ? 100 : 30000);
        size[i] = draw_int(&draw, 1, 4000);
        offset[i] = draw_int(&draw, 0, 20000000);
    }
    const struct memory_plot plot = {.title = "many",
                                     .time_label = "step",
                                     .lower = lower,
                                     .upper = upper,
                                     .size = size,
                                     .offset = offset,
                                     .count = COUNT,
                                     .arena_bytes = 20004000};
    const char *text = memory_plot_script(arena, &plot);
    assert_in_range(count_of(text, "\n"), 3000, LINES_MAX);
}

static void no_buffers_are_a_picture_too(void **state)
{
    const struct memory_plot plot = {.title = "none", .time_label = "step"};
    const char *text = memory_plot_script(*state, &plot);
    assert_non_null(strstr(text, "set xrange [0:1]\nset yrange [0:1]\n"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_what_meets_the_bound_is_called_optimal),
        cmocka_unit_test(every_row_is_measured_by_the_highest_bound),
        cmocka_unit_test(a_shortfall_says_what_is_proven),
        cmocka_unit_test(few_buffers_are_drawn_one_by_one),
        cmocka_unit_test(many_buffers_make_no_large_picture),
        cmocka_unit_test(no_buffers_are_a_picture_too),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
