#include "tests/support/test.h"

#include "executor/backend.h"
#include "tests/support/draw.h"

#include <math.h>

// The zig-zag order (plan/layout/sequence.h): places by hand, and ring attention of early and late
// halves against one call with the sequence in order, in double to 1e-12.

enum { BATCH = 2, HEADS = 4, KV_HEADS = 2, WIDTH = 5, TRIALS = 40, RANKS_MOST = 4 };

// Of 12 tokens on 3 ranks half slices of 2: the first and the last, the second and the fifth, ..
static void half_slices_go_out_from_both_ends(void **state)
{
    (void)state;
    static const int64_t PLACES[] = {0, 1, 10, 11, 2, 3, 8, 9, 4, 5, 6, 7};
    struct sequence_order order = {2, 3}, none = {0};
    for (int i = 0; i < 12; i++) {
        assert_int_equal(sequence_place(&order, i), PLACES[i]);
        assert_int_equal(sequence_place(&none, i), i);
        assert_int_equal(sequence_together(&order, i, 12 - i), i % 2 ? 1 : 2);
        assert_int_equal(sequence_together(&none, i, 12 - i), 12 - i);
    }
}

// Pairs of a causal mask: of 16 tokens on 4 ranks 136, 34 each, where slices in order have 10, 26,
// 42 and 58; and in each step of a ring as many as in any other but the first.
static void every_rank_and_every_step_has_equal_work(void **state)
{
    (void)state;
    struct sequence_order order = {2, 4};
    for (int rank = 0; rank < 4; rank++) {
        int64_t in_order = 0, all = 0;
        for (int owner = 0; owner < 4; owner++) {
            int64_t pairs = 0;
            for (int q = 4 * rank; q < 4 * rank + 4; q++) {
                for (int k = 4 * owner; k < 4 * owner + 4; k++) {
                    pairs += sequence_place(&order, k) <= sequence_place(&order, q);
                    in_order += k <= q;
                }
            }
            assert_int_equal(pairs, owner == rank ? 10 : 8);
            all += pairs;
        }
        assert_int_equal(all, 34);
        assert_int_equal(in_order, 10 + 16 * rank);
    }
}

struct world {
    const struct backend *backend;
    struct device *device;
    struct arena *arena;
    struct draw draw;
    int64_t seq, documents[BATCH * 512];
    bool has_documents;
    struct op forward, backward;
};

// Arrays of a call, and the part of one rank of them: (batch, seq, heads, width).
enum { Q, K, V, SINK, OUT, LSE, D, D_Q, D_K, D_V, D_SINK, ARRAYS };
struct arrays {
    struct kernel_array of[ARRAYS];
};

static double *reals(const struct kernel_array *array)
{
    return array->data;
}

static int64_t row_of(int array)
{
    bool of_keys = array == K || array == V || array == D_K || array == D_V;
    return array == LSE ? HEADS : (of_keys ? KV_HEADS : HEADS) * WIDTH;
}

static struct kernel_array array_of(struct world *world, int array, int64_t first, int64_t count)
{
    struct kernel_array made = {.rank = array == LSE ? 3 : 4,
                                .dims = {DIM_BATCH, DIM_SEQ, DIM_HEAD, DIM_HEAD_DIM},
                                .sizes = {BATCH, count, row_of(array) / WIDTH, WIDTH},
                                .first = {0, first},
                                .whole = {BATCH, world->seq, row_of(array) / WIDTH, WIDTH}};
    if (row_of(array) == KV_HEADS * WIDTH) made.dims[2] = DIM_KV_HEAD;
    if (array == LSE) made.sizes[2] = made.whole[2] = HEADS;
    int64_t elements = BATCH * count * row_of(array);
    if (array == SINK || array == D_SINK) {
        made = (struct kernel_array){
            .rank = 1, .dims = {DIM_HEAD}, .sizes = {HEADS}, .whole = {HEADS}};
        elements = HEADS;
    }
    made.data = ARENA_NEW(world->arena, double, elements);
    for (int64_t i = 0; i < elements; i++)
        reals(&made)[i] = (double)draw_int(&world->draw, -1000, 1000) / 1000;
    return made;
}

// Moves the rows of a part to where they stand in the whole, adding, or from there.
static void move_rows(const struct world *world, const struct sequence_order *order, int array,
                      struct kernel_array *part, struct kernel_array *whole, bool adds)
{
    int64_t row = row_of(array);
    for (int64_t b = 0; b < BATCH; b++) {
        for (int64_t s = 0; s < part->sizes[1]; s++) {
            int64_t place = sequence_place(order, part->first[1] + s);
            double *at = reals(part) + (b * part->sizes[1] + s) * row;
            double *in_whole = reals(whole) + (b * world->seq + place) * row;
            for (int64_t i = 0; i < row; i++) {
                if (adds)
                    in_whole[i] += at[i];
                else
                    at[i] = in_whole[i];
            }
        }
    }
}

static void run(struct world *world, const struct sequence_order *order, const struct arrays *a,
                bool is_backward, bool merges)
{
    struct kernel_call call = {.op = is_backward ? &world->backward : &world->forward,
                               .inputs = {a->of[Q], a->of[K], a->of[V], a->of[SINK]},
                               .outputs = {a->of[OUT], a->of[LSE]},
                               .input_count = 4,
                               .output_count = 2,
                               .key = 11,
                               .head_count = HEADS,
                               .order = *order,
                               .documents = world->has_documents ? world->documents : NULL,
                               .document_stride = world->seq,
                               .merges = merges};
    if (is_backward) {
        static const int INPUTS[] = {D, Q, K, V, SINK, OUT, LSE}, FIRST_OUTPUT = D_Q;
        call.input_count = 7;
        call.output_count = 4;
        for (int i = 0; i < 7; i++)
            call.inputs[i] = a->of[INPUTS[i]];
        for (int i = 0; i < 4; i++)
            call.outputs[i] = a->of[FIRST_OUTPUT + i];
    }
    const char *fault = world->backend->run(world->device, STREAM_COMPUTE, &call);
    if (fault) fail_msg("%s", fault);
}

static void draw_case(struct world *world, int ranks)
{
    struct draw *draw = &world->draw;
    world->seq = 2 * ranks * draw_int(draw, 1, draw_int(draw, 0, 5) ? 6 : 40);
    struct op op = {.name = "attention", .kind = OP_ATTENTION, .scalar = 0.7, .causal = true};
    op.window = draw_int(draw, 0, 1) ? draw_int(draw, 1, (int)world->seq) : 0;
    op.softcap = draw_int(draw, 0, 2) ? 0 : 0.8;
    op.alibi = draw_int(draw, 0, 2) ? 0 : 0.7;
    op.dropout_ratio = draw_int(draw, 0, 2) ? 0 : 0.4;
    world->forward = world->backward = op;
    world->backward.kind = OP_ATTENTION_BACKWARD;
    world->has_documents = draw_int(draw, 0, 1);
    for (int64_t i = 0, begin = 0; i < BATCH * world->seq; i++) {
        if (i % world->seq == 0) begin = 0;
        if (draw_int(draw, 0, 9) == 0) begin = i % world->seq;
        world->documents[i] = begin;
    }
}

static void ring(struct world *world, const struct sequence_order *order, int rank,
                 struct arrays *whole, struct arrays *sums)
{
    int ranks = (int)order->ranks;
    int64_t part = world->seq / ranks;
    struct arrays a = *whole;
    for (int i = 0; i < ARRAYS; i++) {
        if (i == SINK) continue;
        bool is_key = i == K || i == V || i == D_K || i == D_V;
        if (!is_key) a.of[i] = array_of(world, i, rank * part, part);
        if (i == Q || i == D) move_rows(world, order, i, &a.of[i], &whole->of[i], false);
    }
    for (int step = 0; step < 2 * ranks; step++) {
        int owner = (rank + ranks - step % ranks) % ranks;
        for (int i = K; i <= V; i++) {
            a.of[i] = array_of(world, i, owner * part, part);
            move_rows(world, order, i, &a.of[i], &whole->of[i], false);
            a.of[i + D_K - K] = array_of(world, i, owner * part, part);
            memset(a.of[i + D_K - K].data, 0, (size_t)(BATCH * part * row_of(i)) * sizeof(double));
        }
        run(world, order, &a, step >= ranks, step % ranks > 0);
        for (int i = D_K; i <= D_V && step >= ranks; i++)
            move_rows(world, order, i, &a.of[i], &sums->of[i], true);
    }
    static const int OWN[] = {OUT, LSE, D_Q};
    for (int i = 0; i < 3; i++)
        move_rows(world, order, OWN[i], &a.of[OWN[i]], &sums->of[OWN[i]], true);
    for (int h = 0; h < HEADS; h++)
        reals(&sums->of[D_SINK])[h] += reals(&a.of[D_SINK])[h];
}

static void rings_of_halves_make_what_one_call_does(void **state)
{
    struct err err = {0};
    struct world world = {.backend = backend_open("cpu-fp64", &err), .arena = *state};
    assert_string_equal(err.text, "");
    assert_null(world.backend->open(0, &world.device));
    world.draw = draw_start("halves", 3);
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(*state);
        int ranks = draw_int(&world.draw, 2, RANKS_MOST);
        draw_case(&world, ranks);
        struct sequence_order none = {0}, order = {world.seq / (2 * ranks), ranks};
        struct arrays whole, sums;
        for (int i = 0; i < ARRAYS; i++) {
            whole.of[i] = array_of(&world, i, 0, world.seq);
            sums.of[i] = array_of(&world, i, 0, world.seq);
            int64_t elements = i == D_SINK ? HEADS : BATCH * world.seq * row_of(i);
            if (i != SINK) memset(sums.of[i].data, 0, (size_t)elements * sizeof(double));
        }
        run(&world, &none, &whole, false, false);
        run(&world, &none, &whole, true, false);
        for (int rank = 0; rank < ranks; rank++)
            ring(&world, &order, rank, &whole, &sums);
        for (int i = OUT; i < ARRAYS; i++) {
            int64_t elements = i == D_SINK ? HEADS : BATCH * world.seq * row_of(i);
            for (int64_t e = 0; e < elements && i != D; e++) {
                double found = reals(&sums.of[i])[e], expected = reals(&whole.of[i])[e];
                if (fabs(found - expected) <= 1e-12 * (1 + fabs(expected))) continue;
                fail_msg("trial %d, array %d, element %d: %.15g, expected %.15g", trial, i, (int)e,
                         found, expected);
            }
        }
        arena_reset(*state, mark);
    }
    world.backend->close(world.device);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(half_slices_go_out_from_both_ends),
        cmocka_unit_test(every_rank_and_every_step_has_equal_work),
        cmocka_unit_test(rings_of_halves_make_what_one_call_does),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
