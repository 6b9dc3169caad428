#include "tests/support/test.h"

#include "tests/support/draw.h"
#include "tests/support/emulated.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The gradient of a table of embeddings on the CUDA back end (emulated), with ids as texts have
// them: few that come often and many that come once. Beside plain sums in the order of the tokens.

enum { WIDTH = 13 };

struct lookup {
    int64_t count, whole, first, held;  // of ids; rows of the table, and which of them are here
    bool adds;
    int64_t *ids;
    float *rows, *table, *found;
};

// Rank r of `whole` with a chance of about 1 / r: whole to the power of a number up to 1.
static int64_t zipf(struct draw *draw, int64_t whole)
{
    double power = (double)draw_int(draw, 0, 1 << 20) / (1 << 20);
    int64_t id = (int64_t)pow((double)whole, power) - 1;
    return id < whole ? id : whole - 1;
}

static struct lookup lookup_new(int64_t count, int64_t whole, int64_t first, int64_t held)
{
    struct lookup l = {.count = count, .whole = whole, .first = first, .held = held};
    l.ids = calloc((size_t)count, sizeof *l.ids);
    l.rows = calloc((size_t)(count * WIDTH), sizeof *l.rows);
    l.table = calloc((size_t)(held * WIDTH), sizeof *l.table);
    l.found = calloc((size_t)(held * WIDTH), sizeof *l.found);
    assert_true(l.ids && l.rows && l.table && l.found);
    return l;
}

static void lookup_free(struct lookup *l)
{
    free(l->ids);
    free(l->rows);
    free(l->table);
    free(l->found);
}

static void *there(const struct backend *b, struct device *device, const void *host, int64_t bytes)
{
    void *memory;
    assert_null(b->allocate(device, bytes, &memory));
    assert_null(b->copy(device, STREAM_COMPUTE, COPY_FROM_HOST, memory, host, bytes));
    return memory;
}

// Sets `found`.
static void run(struct lookup *l)
{
    const struct backend *b = emulated_backend(PRECISION_FP32);
    const struct op op = {.kind = OP_GATHER_BACKWARD, .name = "embedding"};
    struct device *device;
    assert_null(b->open(0, &device));
    int64_t row_bytes = l->count * WIDTH * (int64_t)sizeof(float);
    int64_t table_bytes = l->held * WIDTH * (int64_t)sizeof(float);
    struct kernel_array ids = {.rank = 2,
                               .element = ELEMENT_INT64,
                               .dims = {DIM_BATCH, DIM_SEQ},
                               .sizes = {1, l->count},
                               .whole = {1, l->count}};
    struct kernel_array rows = {.rank = 3,
                                .element = ELEMENT_FP32,
                                .dims = {DIM_BATCH, DIM_SEQ, DIM_HIDDEN},
                                .sizes = {1, l->count, WIDTH},
                                .whole = {1, l->count, WIDTH}};
    struct kernel_array table = {.rank = 2,
                                 .element = ELEMENT_FP32,
                                 .dims = {DIM_VOCAB, DIM_HIDDEN},
                                 .sizes = {l->held, WIDTH},
                                 .first = {l->first, 0},
                                 .whole = {l->whole, WIDTH}};
    ids.data = there(b, device, l->ids, l->count * (int64_t)sizeof *l->ids);
    rows.data = there(b, device, l->rows, row_bytes);
    table.data = there(b, device, l->table, table_bytes);
    struct kernel_call call = {.op = &op,
                               .inputs = {rows, ids},
                               .outputs = {table},
                               .input_count = 2,
                               .output_count = 1,
                               .adds = l->adds};
    assert_null(b->run(device, STREAM_COMPUTE, &call));
    assert_null(b->copy(device, STREAM_COMPUTE, COPY_TO_HOST, l->found, table.data, table_bytes));
    b->release(device, ids.data);
    b->release(device, rows.data);
    b->release(device, table.data);
    b->close(device);
}

// In fp32 in the order of the tokens, as it used to be, and in double.
static void check(const struct lookup *l, const char *what)
{
    size_t count = (size_t)(l->held * WIDTH);
    double *exact = calloc(count, sizeof *exact), *sizes = calloc(count, sizeof *sizes);
    float *plain = calloc(count, sizeof *plain);
    int *terms = calloc(count, sizeof *terms);
    assert_true(exact && sizes && plain && terms);
    for (int64_t t = 0; t < l->count; t++) {
        int64_t row = l->ids[t] - l->first;
        for (int64_t i = 0; row >= 0 && row < l->held && i < WIDTH; i++) {
            exact[row * WIDTH + i] += (double)l->rows[t * WIDTH + i];
            sizes[row * WIDTH + i] += fabs((double)l->rows[t * WIDTH + i]);
            plain[row * WIDTH + i] += l->rows[t * WIDTH + i];
            terms[row * WIDTH + i]++;
        }
    }
    for (size_t i = 0; i < count; i++) {
        float before = l->adds ? l->table[i] : 0;
        double error = fabs((double)l->found[i] - exact[i] - (double)before);
        // Pieces of a few dozen terms: far from what thousands in a row lose.
        if (!(error <= 4e-6 * (sizes[i] + fabs((double)before))))
            fail_msg("%s, row %zu: %.9g, expected %.9g", what, i / WIDTH, (double)l->found[i],
                     exact[i] + (double)before);
        if (terms[i] <= 1 && l->found[i] != before + plain[i])
            fail_msg("%s, row %zu of %d terms: %.9g, expected %.9g", what, i / WIDTH, terms[i],
                     (double)l->found[i], (double)(before + plain[i]));
    }
    free(exact);
    free(sizes);
    free(plain);
    free(terms);
}

static void ids_as_in_texts_have_the_sums_of_their_tokens(void **state)
{
    (void)state;
    struct draw draw = draw_start("embedding", 97);
    const struct {
        int64_t count, whole, first, held;
    } cases[] = {{1, 1, 0, 1},        {31, 5, 0, 5},         {64, 700, 0, 700},
                 {65, 513, 100, 300}, {3000, 1000, 0, 1000}, {3000, 70000, 20000, 30000},
                 {9000, 600, 0, 511}, {40000, 512, 0, 512}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char what[80];
        struct lookup l = lookup_new(cases[c].count, cases[c].whole, cases[c].first, cases[c].held);
        float *first = calloc((size_t)(l.held * WIDTH), sizeof *first);
        for (int64_t t = 0; t < l.count; t++)
            l.ids[t] = zipf(&draw, l.whole);
        for (int64_t i = 0; i < l.count * WIDTH; i++)
            l.rows[i] = (float)draw_int(&draw, -1000, 1000) / 777;
        for (int64_t i = 0; i < l.held * WIDTH; i++)
            l.table[i] = (float)draw_int(&draw, -1000, 1000) / 777;
        for (int adds = 0; adds < 2; adds++) {
            l.adds = adds;
            snprintf(what, sizeof what, "case %zu, %s", c, adds ? "added" : "set");
            // Threads and blocks take other turns, and the bits are the same.
            for (int again = 0; again < 4; again++) {
                run(&l);
                check(&l, what);
                if (again > 0)
                    assert_memory_equal(first, l.found, (size_t)(l.held * WIDTH) * sizeof *first);
                memcpy(first, l.found, (size_t)(l.held * WIDTH) * sizeof *first);
            }
        }
        free(first);
        lookup_free(&l);
    }
}

// One block that adds 60,000 terms in a row would lose three digits.
static void a_row_that_comes_always_is_summed_in_pieces(void **state)
{
    (void)state;
    struct lookup l = lookup_new(60000, 3, 0, 3);
    for (int64_t t = 0; t < l.count; t++)
        l.ids[t] = t % 1000 == 0 ? 0 : 1;
    for (int64_t i = 0; i < l.count * WIDTH; i++)
        l.rows[i] = 0.1f;
    run(&l);
    check(&l, "one row");
    lookup_free(&l);
}

static double cpu_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

// Of so many tokens, all unlike.
static double distinct_s(int64_t count)
{
    struct lookup l = lookup_new(count, count, 0, count);
    for (int64_t t = 0; t < l.count; t++)
        l.ids[t] = (t * 7919 + 5) % l.whole;
    for (int64_t i = 0; i < l.count * WIDTH; i++)
        l.rows[i] = (float)(i % 1009) / 1009;
    double begun_s = cpu_s();
    run(&l);
    double taken_s = cpu_s() - begun_s;
    check(&l, "distinct");
    lookup_free(&l);
    return taken_s;
}

// Looking for the next token of an id among all others, four times as many take 16 times as long:
// of 20,000 2e8 looks.
static void the_work_is_not_that_of_all_pairs_of_tokens(void **state)
{
    (void)state;
    double few_s = INFINITY, many_s = INFINITY;
    for (int turn = 0; turn < 2; turn++) {
        few_s = fmin(few_s, distinct_s(5000));
        many_s = fmin(many_s, distinct_s(20000));
    }
    if (many_s > 9 * few_s) fail_msg("%.3f s and %.3f s", few_s, many_s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ids_as_in_texts_have_the_sums_of_their_tokens),
        cmocka_unit_test(a_row_that_comes_always_is_summed_in_pieces),
        cmocka_unit_test(the_work_is_not_that_of_all_pairs_of_tokens),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
