#include "tests/support/test.h"

#include "executor/backend.h"
#include "executor/random.h"
#include "tests/support/draw.h"

#include <math.h>

// What operators do in parts: ring attention block by block, the loss of a split vocabulary, masks
// of slices. Each against the same in one go, in double to 1e-11. Attention with dropout, which the
// interpreter has not, is checked by finite differences.

enum { BATCH = 2, SEQ = 12, HEADS = 4, KV_HEADS = 2, WIDTH = 5, VALUE = 3, TRIALS = 40 };
// Longer than the blocks of the kernel, and no multiple of them.
enum { LONG = 300 };

struct world {
    const struct backend *backend;
    struct device *device;
    struct arena *arena;
    struct draw draw;
    int64_t seq;
};

static struct world open_world(struct arena *arena, const char *what)
{
    struct err err = {0};
    struct world world = {.backend = backend_open("cpu-fp64", &err), .arena = arena, .seq = SEQ};
    assert_string_equal(err.text, "");
    assert_null(world.backend->open(0, &world.device));
    world.draw = draw_start(what, 7);
    return world;
}

static void close_world(struct world *world)
{
    world->backend->close(world->device);
}

static void run(const struct world *world, const struct kernel_call *call)
{
    const char *fault = world->backend->can_run(call);
    if (!fault) fault = world->backend->run(world->device, STREAM_COMPUTE, call);
    if (fault) fail_msg("%s", fault);
}

static double draw_real(struct world *world)
{
    return (double)draw_int(&world->draw, -1000, 1000) / 1000;
}

static int64_t elements(const struct kernel_array *array)
{
    int64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= array->sizes[i];
    return count;
}

static double *reals(const struct kernel_array *array)
{
    return array->data;
}

// A whole array (batch, seq, third, fourth), drawn; a dim of size 0 ends it.
static struct kernel_array make_array(struct world *world, enum dim third, int64_t third_size,
                                      enum dim fourth, int64_t fourth_size)
{
    struct kernel_array array = {.rank = fourth_size ? 4 : 3,
                                 .dims = {DIM_BATCH, DIM_SEQ, third, fourth},
                                 .sizes = {BATCH, world->seq, third_size, fourth_size}};
    memcpy(array.whole, array.sizes, sizeof array.whole);
    array.data = ARENA_NEW(world->arena, double, elements(&array));
    for (int64_t i = 0; i < elements(&array); i++)
        reals(&array)[i] = draw_real(world);
    return array;
}

// The part first .. first + count - 1 of dim `at`, copied.
static struct kernel_array cut(const struct world *world, const struct kernel_array *whole, int at,
                               int64_t first, int64_t count)
{
    struct kernel_array part = *whole;
    int64_t inner = 1, outer = 1;
    for (int i = 0; i < whole->rank; i++)
        *(i < at ? &outer : &inner) *= i == at ? 1 : whole->sizes[i];
    part.sizes[at] = count;
    part.first[at] += first;
    part.data = ARENA_NEW(world->arena, double, elements(&part) + 1);
    for (int64_t i = 0; i < outer; i++) {
        memcpy(reals(&part) + i * count * inner,
               reals(whole) + (i * whole->sizes[at] + first) * inner,
               (size_t)(count * inner) * sizeof(double));
    }
    return part;
}

static void assert_equal(const char *what, const double *found, const double *expected,
                         int64_t count)
{
    for (int64_t i = 0; i < count; i++) {
        bool is_equal = fabs(found[i] - expected[i]) <= 1e-11 * (1 + fabs(expected[i]));
        if (is_equal || found[i] == expected[i]) continue;
        fail_msg("%s, element %lld: %.15g, expected %.15g", what, (long long)i, found[i],
                 expected[i]);
    }
}

struct attending {
    struct op forward, backward;
    struct kernel_array q, k, v, sink, out, lse, d, d_q, d_k, d_v, d_sink;
};

static struct kernel_call forward_call(const struct attending *a)
{
    struct kernel_call call = {.op = &a->forward,
                               .inputs = {a->q, a->k, a->v, a->sink},
                               .outputs = {a->out, a->lse},
                               .input_count = a->sink.rank ? 4 : 3,
                               .output_count = 2,
                               .key = 11,
                               .head_count = HEADS};
    return call;
}

static struct kernel_call backward_call(const struct attending *a)
{
    struct kernel_call call = {.op = &a->backward,
                               .inputs = {a->d, a->q, a->k, a->v},
                               .outputs = {a->d_q, a->d_k, a->d_v, a->d_sink},
                               .input_count = 4,
                               .output_count = a->sink.rank ? 4 : 3,
                               .key = 11,
                               .head_count = HEADS};
    if (a->sink.rank) call.inputs[call.input_count++] = a->sink;
    call.inputs[call.input_count++] = a->out;
    call.inputs[call.input_count++] = a->lse;
    return call;
}

static struct attending draw_attention(struct world *world)
{
    struct draw *draw = &world->draw;
    struct attending a = {.forward = {.name = "attention", .kind = OP_ATTENTION, .scalar = 0.7}};
    a.forward.causal = draw_int(draw, 0, 3) > 0;
    a.forward.window = draw_int(draw, 0, 1) ? draw_int(draw, 1, (int)world->seq) : 0;
    a.forward.chunked = a.forward.window > 0 && draw_int(draw, 0, 1);
    bool has_prefix = a.forward.causal && !a.forward.chunked && draw_int(draw, 0, 1);
    a.forward.prefix = has_prefix ? draw_int(draw, 1, (int)world->seq) : 0;
    a.forward.softcap = draw_int(draw, 0, 2) ? 0 : 0.8;
    a.forward.alibi = draw_int(draw, 0, 2) ? 0 : 0.7;
    a.forward.dropout_ratio = draw_int(draw, 0, 2) ? 0 : 0.4;
    a.backward = a.forward;
    a.backward.kind = OP_ATTENTION_BACKWARD;
    a.q = make_array(world, DIM_HEAD, HEADS, DIM_HEAD_DIM, WIDTH);
    a.k = make_array(world, DIM_KV_HEAD, KV_HEADS, DIM_HEAD_DIM, WIDTH);
    a.v = make_array(world, DIM_KV_HEAD, KV_HEADS, DIM_VALUE_DIM, VALUE);
    a.out = make_array(world, DIM_HEAD, HEADS, DIM_VALUE_DIM, VALUE);
    a.lse = make_array(world, DIM_HEAD, HEADS, DIM_NONE, 0);
    a.d = make_array(world, DIM_HEAD, HEADS, DIM_VALUE_DIM, VALUE);
    a.d_q = make_array(world, DIM_HEAD, HEADS, DIM_HEAD_DIM, WIDTH);
    a.d_k = make_array(world, DIM_KV_HEAD, KV_HEADS, DIM_HEAD_DIM, WIDTH);
    a.d_v = make_array(world, DIM_KV_HEAD, KV_HEADS, DIM_VALUE_DIM, VALUE);
    if (draw_int(draw, 0, 1)) return a;
    a.sink =
        (struct kernel_array){.rank = 1, .dims = {DIM_HEAD}, .sizes = {HEADS}, .whole = {HEADS}};
    a.d_sink = a.sink;
    a.sink.data = ARENA_NEW(world->arena, double, HEADS);
    a.d_sink.data = ARENA_NEW(world->arena, double, HEADS);
    for (int i = 0; i < HEADS; i++)
        reals(&a.sink)[i] = draw_real(world);
    return a;
}

static void run_whole(const struct world *world, const struct attending *a)
{
    struct kernel_call forward = forward_call(a), backward = backward_call(a);
    run(world, &forward);
    run(world, &backward);
}

// One rank's queries against the keys of all, from its own block on and round the ring.
static void run_ring(struct world *world, const struct attending *whole, int ranks, int rank,
                     struct kernel_array d_keys[], struct kernel_array d_values[], double *d_sink)
{
    int64_t part = world->seq / ranks, first = rank * part;
    struct attending a = *whole;
    a.q = cut(world, &whole->q, 1, first, part);
    a.d = cut(world, &whole->d, 1, first, part);
    a.out = cut(world, &whole->d, 1, first, part);
    a.lse = cut(world, &whole->lse, 1, first, part);
    a.d_q = cut(world, &whole->d_q, 1, first, part);
    struct kernel_array out = cut(world, &whole->out, 1, first, part);
    struct kernel_array lse = cut(world, &whole->lse, 1, first, part);
    struct kernel_array d_q = cut(world, &whole->d_q, 1, first, part);
    memset(a.out.data, 0xff, (size_t)elements(&a.out) * sizeof(double));
    memset(a.d_q.data, 0xff, (size_t)elements(&a.d_q) * sizeof(double));
    for (int step = 0; step < 2 * ranks; step++) {
        int owner = (rank + ranks - step % ranks) % ranks;
        a.k = cut(world, &whole->k, 1, owner * part, part);
        a.v = cut(world, &whole->v, 1, owner * part, part);
        a.d_k = cut(world, &whole->d_k, 1, owner * part, part);
        a.d_v = cut(world, &whole->d_v, 1, owner * part, part);
        bool is_forward = step < ranks;
        struct kernel_call call = is_forward ? forward_call(&a) : backward_call(&a);
        call.merges = step % ranks > 0;
        call.outputs[is_forward ? 3 : 1].data = is_forward ? NULL : d_keys[owner].data;
        if (!is_forward) call.outputs[2].data = d_values[owner].data;
        if (!is_forward) call.adds = 6;  // every rank adds to the gradients that pass by
        run(world, &call);
    }
    for (int i = 0; i < HEADS && a.sink.rank; i++)
        d_sink[i] += reals(&a.d_sink)[i];
    assert_equal("out of a ring", a.out.data, out.data, elements(&out));
    assert_equal("log-sum-exp of a ring", a.lse.data, lse.data, elements(&lse));
    assert_equal("d_q of a ring", a.d_q.data, d_q.data, elements(&d_q));
}

static void ring_attention_merges_to_what_one_go_gives(void **state)
{
    struct world world = open_world(*state, "rings");
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(world.arena);
        world.seq = trial % 10 == 9 ? LONG : SEQ;
        struct attending whole = draw_attention(&world);
        int ranks = draw_int(&world.draw, 1, 4);
        int64_t part = world.seq / ranks;
        struct kernel_array d_keys[4], d_values[4];
        double d_sink[HEADS] = {0}, expected_sink[HEADS] = {0};
        run_whole(&world, &whole);
        if (whole.sink.rank) memcpy(expected_sink, whole.d_sink.data, sizeof expected_sink);
        for (int i = 0; i < ranks; i++) {
            d_keys[i] = cut(&world, &whole.d_k, 1, i * part, part);
            d_values[i] = cut(&world, &whole.d_v, 1, i * part, part);
            memset(d_keys[i].data, 0, (size_t)elements(&d_keys[i]) * sizeof(double));
            memset(d_values[i].data, 0, (size_t)elements(&d_values[i]) * sizeof(double));
        }
        for (int rank = 0; rank < ranks; rank++)
            run_ring(&world, &whole, ranks, rank, d_keys, d_values, d_sink);
        for (int i = 0; i < ranks; i++) {
            struct kernel_array k = cut(&world, &whole.d_k, 1, i * part, part);
            struct kernel_array v = cut(&world, &whole.d_v, 1, i * part, part);
            assert_equal("d_k of a ring", d_keys[i].data, k.data, elements(&k));
            assert_equal("d_v of a ring", d_values[i].data, v.data, elements(&v));
        }
        assert_equal("d_sink of a ring", d_sink, expected_sink, HEADS);
        arena_reset(world.arena, mark);
    }
    close_world(&world);
}

static double weighted(const struct world *world, const struct attending *a)
{
    struct kernel_call call = forward_call(a);
    double sum = 0;
    run(world, &call);
    for (int64_t i = 0; i < elements(&a->out); i++)
        sum += reals(&a->out)[i] * reals(&a->d)[i];
    return sum;
}

static void attention_gradients_are_finite_differences_with_dropout_too(void **state)
{
    struct world world = open_world(*state, "differences");
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(world.arena);
        world.seq = trial % 10 == 9 ? LONG : SEQ;
        struct attending a = draw_attention(&world);
        if (trial % 2) a.forward.dropout_ratio = a.backward.dropout_ratio = 0.3;
        run_whole(&world, &a);
        struct kernel_array *inputs[] = {&a.q, &a.k, &a.v, &a.sink};
        struct kernel_array *gradients[] = {&a.d_q, &a.d_k, &a.d_v, &a.d_sink};
        for (int i = 0; i < (a.sink.rank ? 4 : 3); i++) {
            int at = draw_int(&world.draw, 0, (int)elements(inputs[i]) - 1);
            double *x = reals(inputs[i]) + at, before = *x, step = 1e-5;
            *x = before + step;
            double above = weighted(&world, &a);
            *x = before - step;
            double below = weighted(&world, &a), slope = (above - below) / (2 * step);
            *x = before;
            double found = reals(gradients[i])[at];
            if (fabs(found - slope) > 1e-7 * (1 + fabs(slope)))
                fail_msg("gradient %d of %d: %.12g, difference %.12g", i, at, found, slope);
        }
        arena_reset(world.arena, mark);
    }
    close_world(&world);
}

enum { VOCAB = 21, PADDED = 24 };

struct loss {
    struct op op, backward;
    struct kernel_array logits, labels, value, lse, inner, d, d_logits;
};

static struct loss draw_loss(struct world *world)
{
    struct loss l = {.op = {.name = "loss", .kind = OP_LOSS},
                     .backward = {.name = "d_loss", .kind = OP_LOSS_BACKWARD}};
    l.logits = make_array(world, DIM_VOCAB, PADDED, DIM_NONE, 0);
    l.d_logits = make_array(world, DIM_VOCAB, PADDED, DIM_NONE, 0);
    l.labels = (struct kernel_array){.rank = 2,
                                     .element = ELEMENT_INT64,
                                     .dims = {DIM_BATCH, DIM_SEQ},
                                     .sizes = {BATCH, SEQ},
                                     .whole = {BATCH, SEQ}};
    l.value = l.lse = l.inner = l.d = l.labels;
    l.value.element = l.lse.element = l.inner.element = l.d.element = ELEMENT_FP32;
    struct kernel_array *arrays[] = {&l.labels, &l.value, &l.lse, &l.inner, &l.d};
    for (int i = 0; i < 5; i++)
        arrays[i]->data = ARENA_NEW(world->arena, double, BATCH *SEQ);
    for (int i = 0; i < BATCH * SEQ; i++) {
        ((int64_t *)l.labels.data)[i] = draw_int(&world->draw, 0, VOCAB - 1);
        reals(&l.d)[i] = draw_real(world);
    }
    // What stands in columns that do not exist must not matter.
    for (int64_t i = 0; i < BATCH * SEQ; i++) {
        for (int64_t j = VOCAB; j < PADDED; j++)
            reals(&l.logits)[i * PADDED + j] = 300;
    }
    return l;
}

static void run_loss(const struct world *world, const struct loss *l, int part)
{
    struct kernel_call call = {.op = &l->op,
                               .inputs = {l->logits, l->labels},
                               .outputs = {l->value, l->lse},
                               .input_count = 2,
                               .output_count = 2,
                               .part = part,
                               .inner = l->inner,
                               .vocab = VOCAB};
    run(world, &call);
}

static void run_loss_backward(const struct world *world, const struct loss *l)
{
    struct kernel_call call = {.op = &l->backward,
                               .inputs = {l->d, l->logits, l->labels, l->lse},
                               .outputs = {l->d_logits},
                               .input_count = 4,
                               .output_count = 1,
                               .vocab = VOCAB};
    run(world, &call);
}

static struct loss part_of(struct world *world, const struct loss *whole, int64_t first,
                           int64_t count)
{
    struct loss l = *whole;
    l.logits = cut(world, &whole->logits, 2, first, count);
    l.d_logits = cut(world, &whole->d_logits, 2, first, count);
    l.value.data = ARENA_NEW(world->arena, double, BATCH *SEQ);
    l.lse.data = ARENA_NEW(world->arena, double, BATCH *SEQ);
    l.inner.data = ARENA_NEW(world->arena, double, BATCH *SEQ);
    return l;
}

// What the ranks' exchange number `exchange` does: the first is a maximum, the others are sums.
static void exchange(struct loss *parts, int count, int number)
{
    for (int i = 0; i < BATCH * SEQ; i++) {
        double all = number == 1 ? -HUGE_VAL : 0;
        for (int p = 0; p < count; p++) {
            double one = reals(&parts[p].inner)[i];
            all = number == 1 ? fmax(all, one) : all + one;
        }
        for (int p = 0; p < count; p++)
            reals(&parts[p].inner)[i] = all;
    }
}

static void the_loss_of_a_split_vocabulary_is_that_of_the_whole(void **state)
{
    struct world world = open_world(*state, "losses");
    for (int trial = 0; trial < TRIALS; trial++) {
        struct arena_mark mark = arena_mark(world.arena);
        struct loss whole = draw_loss(&world), parts[4];
        int count = draw_int(&world.draw, 2, 4);
        run_loss(&world, &whole, KERNEL_WHOLE);
        run_loss_backward(&world, &whole);
        for (int p = 0; p < count; p++) {
            parts[p] = part_of(&world, &whole, p * PADDED / count, PADDED / count);
            run_loss(&world, &parts[p], 0);
        }
        for (int part = 1; part <= 6; part++) {
            for (int p = 0; p < count; p++)
                run_loss(&world, &parts[p], part);
            if (part % 2) exchange(parts, count, (part + 1) / 2);
        }
        for (int p = 0; p < count; p++) {
            struct kernel_array d =
                cut(&world, &whole.d_logits, 2, p * PADDED / count, PADDED / count);
            run_loss_backward(&world, &parts[p]);
            assert_equal("loss", parts[p].value.data, whole.value.data, BATCH * SEQ);
            assert_equal("log-sum-exp", parts[p].lse.data, whole.lse.data, BATCH * SEQ);
            assert_equal("d_logits", parts[p].d_logits.data, d.data, elements(&d));
        }
        for (int64_t i = 0; i < BATCH * SEQ; i++) {
            assert_true(reals(&whole.value)[i] > 0 && reals(&whole.value)[i] < 6);
            for (int64_t j = VOCAB; j < PADDED; j++)
                assert_true(reals(&whole.d_logits)[i * PADDED + j] == 0);
        }
        arena_reset(world.arena, mark);
    }
    close_world(&world);
}

static void a_slice_is_dropped_as_its_place_in_the_whole_says(void **state)
{
    struct world world = open_world(*state, "masks");
    enum { WIDE = 301 };
    struct op op = {.name = "dropout", .kind = OP_DROPOUT, .dropout_ratio = 0.25};
    struct kernel_array x = make_array(&world, DIM_HIDDEN, WIDE, DIM_NONE, 0), y = x, mask = x;
    y.data = ARENA_NEW(world.arena, double, elements(&x));
    mask.data = ARENA_NEW(world.arena, double, elements(&x));
    mask.element = ELEMENT_BYTE;
    struct kernel_call call = {.op = &op,
                               .inputs = {x},
                               .outputs = {y, mask},
                               .input_count = 1,
                               .output_count = 2,
                               .key = 77};
    int64_t kept = 0;
    run(&world, &call);
    for (int64_t i = 0; i < elements(&x); i++) {
        bool keeps = random_keeps(77, (uint64_t)i, 0.25);
        kept += keeps;
        assert_int_equal(((unsigned char *)mask.data)[i], keeps);
        assert_true(reals(&y)[i] == (keeps ? reals(&x)[i] * (1 / 0.75) : 0));
    }
    assert_true(fabs((double)kept / (double)elements(&x) - 0.75) < 0.02);
    // The second half of seq, from column 7 on, of the third and fourth sequence of a step.
    call.inputs[0] = cut(&world, &x, 1, SEQ / 2, SEQ / 2);
    call.inputs[0] = cut(&world, &call.inputs[0], 2, 7, WIDE - 7);
    call.inputs[0].first[0] = 2;
    call.outputs[0] = cut(&world, &call.inputs[0], 0, 0, BATCH);
    call.outputs[1] = cut(&world, &call.inputs[0], 0, 0, BATCH);
    call.outputs[1].element = ELEMENT_BYTE;
    run(&world, &call);
    for (int64_t i = 0; i < elements(&call.inputs[0]); i++) {
        int64_t column = 7 + i % (WIDE - 7), row = i / (WIDE - 7);
        int64_t at = ((2 + row / (SEQ / 2)) * SEQ + SEQ / 2 + row % (SEQ / 2)) * WIDE + column;
        assert_int_equal(((unsigned char *)call.outputs[1].data)[i],
                         random_keeps(77, (uint64_t)at, 0.25));
    }
    close_world(&world);
}

// Four rows and six columns are two and three repeated; columns 2 to 5 are here, of 1 and 2.
static void repeats_go_along_every_dim(void **state)
{
    struct world world = open_world(*state, "repeats");
    double narrow[4] = {1, 2, 3, 4}, wide[16];
    const struct op expand = {.kind = OP_EXPAND, .name = "expand"},
                    reduce = {.kind = OP_REDUCE, .name = "reduce"};
    struct kernel_array few = {.data = narrow,
                               .rank = 2,
                               .dims = {DIM_HEIGHT, DIM_WIDTH},
                               .sizes = {2, 2},
                               .first = {0, 1},
                               .whole = {2, 3}};
    struct kernel_array many = few;
    many.data = wide;
    many.sizes[0] = many.sizes[1] = 4;
    many.first[1] = 2;
    many.whole[0] = 4;
    many.whole[1] = 6;
    struct kernel_call call = {
        .op = &expand, .inputs = {few}, .outputs = {many}, .input_count = 1, .output_count = 1};
    run(&world, &call);
    const double repeated[16] = {1, 1, 2, 2, 1, 1, 2, 2, 3, 3, 4, 4, 3, 3, 4, 4};
    assert_memory_equal(wide, repeated, sizeof wide);
    for (int i = 0; i < 16; i++)
        wide[i] = 1 + i;
    struct kernel_call sum = {
        .op = &reduce, .inputs = {many}, .outputs = {few}, .input_count = 1, .output_count = 1};
    run(&world, &sum);
    const double once[4] = {1 + 2 + 5 + 6, 3 + 4 + 7 + 8, 9 + 10 + 13 + 14, 11 + 12 + 15 + 16};
    assert_memory_equal(narrow, once, sizeof narrow);
    sum.adds = 1;
    run(&world, &sum);
    for (int i = 0; i < 4; i++)
        assert_true(narrow[i] == 2 * once[i]);
    close_world(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ring_attention_merges_to_what_one_go_gives),
        cmocka_unit_test(attention_gradients_are_finite_differences_with_dropout_too),
        cmocka_unit_test(the_loss_of_a_split_vocabulary_is_that_of_the_whole),
        cmocka_unit_test(a_slice_is_dropped_as_its_place_in_the_whole_says),
        cmocka_unit_test(repeats_go_along_every_dim),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
