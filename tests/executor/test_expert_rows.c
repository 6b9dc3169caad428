#include "executor/engine/expert_rows.h"
#include "tests/support/draw.h"
#include "tests/support/test.h"

// Rows of boxes against the dense table of choices that they stand for.

enum { BATCH = 3, SEQ = 5, EXPERTS = 6, COLUMNS = 4, DRAWS = 300 };

struct row_table {
    struct expert_rows rows;
    bool chosen[BATCH][SEQ][EXPERTS];  // of the whole
};

static struct held box_drawn(struct draw *draw)
{
    static const int SIZES[] = {BATCH, SEQ, EXPERTS, COLUMNS};
    struct held box = {.rank = ROWS_RANK, .elements = 1};
    for (int d = 0; d < ROWS_RANK; d++) {
        box.first[d] = draw_int(draw, 0, SIZES[d] - 1);
        box.count[d] = draw_int(draw, 0, SIZES[d] - (int)box.first[d]);
        box.elements *= box.count[d];
    }
    return box;
}

static bool is_in(const struct held *box, int64_t batch, int64_t seq, int64_t expert)
{
    const int64_t index[] = {batch, seq, expert};
    for (int d = 0; d < ROWS_COLUMN; d++) {
        if (index[d] < box->first[d] || index[d] >= box->first[d] + box->count[d]) return false;
    }
    return true;
}

// What of the whole is known: a box of it, the rest of the table stays false.
static void draw_table(struct arena *arena, struct draw *draw, struct row_table *table)
{
    struct held known = box_drawn(draw);
    bool part[BATCH * SEQ * EXPERTS];
    int64_t at = 0;
    int often = draw_int(draw, 1, 4);
    memset(table->chosen, 0, sizeof table->chosen);
    memcpy(table->rows.first, known.first, sizeof table->rows.first);
    memcpy(table->rows.count, known.count, sizeof table->rows.count);
    for (int64_t b = 0; b < BATCH; b++)
        for (int64_t s = 0; s < SEQ; s++)
            for (int64_t e = 0; e < EXPERTS; e++) {
                if (!is_in(&known, b, s, e)) continue;
                table->chosen[b][s][e] = part[at++] = draw_int(draw, 0, 3) < often;
            }
    expert_rows_make(arena, &table->rows, part);
}

// The place in memory of every row of a box: by expert, then by token; -1 where there is none.
static int64_t place_rows(const struct row_table *table, const struct held *box,
                          int64_t place[BATCH][SEQ][EXPERTS])
{
    int64_t count = 0;
    for (int64_t e = 0; e < EXPERTS; e++)
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t s = 0; s < SEQ; s++) {
                bool exists = table->chosen[b][s][e] && is_in(box, b, s, e);
                place[b][s][e] = exists ? count++ : -1;
            }
    return count;
}

static struct held known_box(const struct row_table *table, struct draw *draw)
{
    struct held known = {.rank = ROWS_RANK}, box = box_drawn(draw);
    memcpy(known.first, table->rows.first, sizeof table->rows.first);
    memcpy(known.count, table->rows.count, sizeof table->rows.count);
    known.count[ROWS_COLUMN] = COLUMNS;
    return held_overlap(&known, &box);
}

static void check_routing(struct arena *arena, const struct row_table *table,
                          const struct held *box)
{
    int64_t place[BATCH][SEQ][EXPERTS], count = place_rows(table, box, place);
    const struct kernel_routing *routing = expert_rows_routing(arena, &table->rows, box);
    assert_int_equal(expert_rows_count(&table->rows, box), count);
    assert_int_equal(routing->expert_count, box->count[ROWS_EXPERT]);
    assert_int_equal(routing->first_expert, box->first[ROWS_EXPERT]);
    assert_int_equal(routing->rows_of[0], 0);
    assert_int_equal(routing->rows_of[routing->expert_count], count);
    for (int64_t e = 0; e < routing->expert_count; e++) {
        for (int64_t row = routing->rows_of[e]; row < routing->rows_of[e + 1]; row++) {
            int64_t token = routing->token_of[row], seqs = box->count[ROWS_SEQ];
            int64_t batch = box->first[ROWS_BATCH] + token / seqs;
            int64_t seq = box->first[ROWS_SEQ] + token % seqs;
            assert_int_equal(place[batch][seq][box->first[ROWS_EXPERT] + e], row);
        }
    }
}

static void check_choices(struct arena *arena, const struct row_table *table,
                          const struct held *box)
{
    bool *chosen = ARENA_NEW(arena, bool, box->elements + BATCH * SEQ * EXPERTS);
    expert_rows_read(&table->rows, box, chosen);
    for (int64_t b = 0; b < box->count[0]; b++)
        for (int64_t s = 0; s < box->count[1]; s++)
            for (int64_t e = 0; e < box->count[2]; e++) {
                bool found = chosen[(b * box->count[1] + s) * box->count[2] + e];
                assert_int_equal(
                    found, table->chosen[box->first[0] + b][box->first[1] + s][box->first[2] + e]);
            }
}

static void check_walk(const struct row_table *table, const struct held *source,
                       const struct held *target)
{
    int64_t from[BATCH][SEQ][EXPERTS], to[BATCH][SEQ][EXPERTS], next = 0, shared = 0, walked = 0;
    int64_t target_of[BATCH * SEQ * EXPERTS];
    place_rows(table, source, from);
    place_rows(table, target, to);
    for (int64_t i = 0; i < BATCH * SEQ * EXPERTS; i++) {
        int64_t source_row = (&from[0][0][0])[i], target_row = (&to[0][0][0])[i];
        shared += source_row >= 0 && target_row >= 0;
        if (source_row >= 0) target_of[source_row] = target_row;
    }
    struct expert_walk walk = {.rows = &table->rows, .source_box = source, .target_box = target};
    struct expert_run run;
    while (expert_rows_next(&walk, &run)) {
        assert_true(run.count > 0 && run.source >= next);
        for (int64_t i = 0; i < run.count; i++)
            assert_int_equal(target_of[run.source + i], run.target + i);
        next = run.source + run.count;
        walked += run.count;
    }
    assert_int_equal(walked, shared);
}

static void boxes_have_the_rows_that_were_chosen_in_them(void **state)
{
    struct draw draw = draw_start("rows of boxes", 11);
    struct row_table table = {0};
    for (int i = 0; i < DRAWS; i++) {
        draw_table(*state, &draw, &table);
        struct held box = known_box(&table, &draw);
        check_routing(*state, &table, &box);
        check_choices(*state, &table, &box);
    }
}

static void a_walk_meets_every_row_that_two_boxes_share(void **state)
{
    struct draw draw = draw_start("shared rows", 12);
    struct row_table table = {0};
    for (int i = 0; i < DRAWS; i++) {
        draw_table(*state, &draw, &table);
        struct held source = known_box(&table, &draw), target = known_box(&table, &draw);
        check_walk(&table, &source, &target);
        check_walk(&table, &source, &source);
    }
}

// One sequence of 4 tokens and 2 experts, that tokens 0, 1, 3 and 0, 2, 3 chose: its rows are
// (expert, token) = (0, 0) (0, 1) (0, 3) (1, 0) (1, 2) (1, 3). Tokens from 1 on hold rows 1, 2, 4
// and 5 of them, numbered 0 to 3 there; expert 1 holds rows 3 to 5.
static void runs_are_numbered_in_both_boxes(void **state)
{
    static const bool CHOSEN[] = {true, true, true, false, false, true, true, true};
    struct expert_rows rows = {.count = {1, 4, 2}};
    expert_rows_make(*state, &rows, CHOSEN);
    const struct held all = {.count = {1, 4, 2, COLUMNS}},
                      tokens = {.first = {0, 1}, .count = {1, 3, 2, COLUMNS}},
                      expert = {.first = {0, 0, 1}, .count = {1, 4, 1, COLUMNS}};
    const struct {
        const struct held *source, *target;
        struct expert_run runs[3];  // source, target, count; the last is the end
    } cases[] = {
        {&all, &tokens, {{1, 0, 2}, {4, 2, 2}}},
        {&tokens, &all, {{0, 1, 2}, {2, 4, 2}}},
        {&all, &expert, {{3, 0, 3}}},
        {&expert, &all, {{0, 3, 3}}},
        {&tokens, &expert, {{2, 1, 2}}},
        {&expert, &tokens, {{1, 2, 2}}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct expert_walk walk = {
            .rows = &rows, .source_box = cases[i].source, .target_box = cases[i].target};
        struct expert_run run;
        for (const struct expert_run *wanted = cases[i].runs; wanted->count > 0; wanted++) {
            assert_true(expert_rows_next(&walk, &run));
            assert_int_equal(run.source, wanted->source);
            assert_int_equal(run.target, wanted->target);
            assert_int_equal(run.count, wanted->count);
        }
        assert_false(expert_rows_next(&walk, &run));
    }
}

// Room is a power of two: 6 rows have room for 8, in which 7 stay, and 9 do not.
static void arrays_stay_while_there_is_room(void **state)
{
    bool chosen[16] = {true, true, true, true, true, true};
    struct expert_rows rows = {.count = {2, 4, 2}};
    expert_rows_make(*state, &rows, chosen);
    const int64_t *token_of = rows.token_of, *rows_of = rows.rows_of;
    assert_int_equal(rows.row_capacity, 8);
    assert_int_equal(rows.expert_capacity, 4);
    chosen[15] = true;
    expert_rows_make(*state, &rows, chosen);
    assert_ptr_equal(rows.token_of, token_of);
    assert_ptr_equal(rows.rows_of, rows_of);
    chosen[14] = chosen[13] = true;
    expert_rows_make(*state, &rows, chosen);
    assert_ptr_not_equal(rows.token_of, token_of);
    assert_int_equal(rows.row_capacity, 16);
    assert_int_equal(rows.rows_of[2], 9);
    assert_int_equal(rows.token_of[8], 7);
}

static void what_lies_outside_is_not_known(void **state)
{
    struct draw draw = draw_start("known boxes", 13);
    struct row_table table = {0};
    draw_table(*state, &draw, &table);
    for (int d = 0; d < ROWS_COLUMN; d++) {
        table.rows.first[d] = 1;
        table.rows.count[d] = 2;
    }
    struct held box = {.first = {1, 1, 1}, .count = {2, 1, 2, COLUMNS}};
    assert_true(expert_rows_know(&table.rows, &box));
    for (int d = 0; d < ROWS_COLUMN; d++) {
        struct held other = box;
        other.first[d] = 2;
        other.count[d] = 2;
        assert_false(expert_rows_know(&table.rows, &other));
        other.first[d] = 0;
        assert_false(expert_rows_know(&table.rows, &other));
        other.count[d] = 0;
        assert_true(expert_rows_know(&table.rows, &other));
    }
}

// Of a table that is known in whole sequences: the n-th of a sequence to choose an expert has a row
// while n <= capacity.
static void the_first_of_a_sequence_have_room(void **state)
{
    struct draw draw = draw_start("capacities", 3);
    for (int n = 0; n < DRAWS; n++) {
        struct arena_mark mark = arena_mark(*state);
        struct row_table table = {0};
        do
            draw_table(*state, &draw, &table);
        while (table.rows.count[ROWS_SEQ] != SEQ);
        int capacity = draw_int(&draw, 1, SEQ);
        expert_rows_drop(&table.rows, capacity);
        for (int64_t b = 0; b < BATCH; b++)
            for (int64_t e = 0; e < EXPERTS; e++)
                for (int64_t s = 0, count = 0; s < SEQ; s++) {
                    count += table.chosen[b][s][e];
                    table.chosen[b][s][e] = table.chosen[b][s][e] && count <= capacity;
                }
        struct held box = known_box(&table, &draw);
        check_routing(*state, &table, &box);
        arena_reset(*state, mark);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_have_the_rows_that_were_chosen_in_them),
        cmocka_unit_test(a_walk_meets_every_row_that_two_boxes_share),
        cmocka_unit_test(runs_are_numbered_in_both_boxes),
        cmocka_unit_test(arrays_stay_while_there_is_room),
        cmocka_unit_test(what_lies_outside_is_not_known),
        cmocka_unit_test(the_first_of_a_sequence_have_room),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
