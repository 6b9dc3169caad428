#include "tests/support/test.h"

#include "cost_models/parameters.h"
#include "plan/passes.h"
#include "tests/support/priced.h"

#include <math.h>

static void a_mask_reads_back_as_it_was_written(void **state)
{
    for (unsigned passes = 0; passes <= PASS_ALL; passes++) {
        unsigned again = ~passes;
        assert_true(pass_parse(pass_text(*state, passes), &again));
        assert_int_equal(again, passes);
    }
    assert_string_equal(pass_text(*state, 0), "none");
    assert_string_equal(pass_text(*state, PASS_ALL), "all");
    assert_string_equal(pass_text(*state, 1u << PASS_COMBINE | 1u << PASS_ATTENTION),
                        "attention,combine");
}

static void a_wrong_list_is_refused(void **state)
{
    (void)state;
    static const char *const BAD[] = {"",         "fuse",         "fusion,",        ",fusion",
                                      "none,all", "fusion,,none", "fusion streams", "Fusion"};
    unsigned passes;
    for (size_t i = 0; i < sizeof BAD / sizeof *BAD; i++)
        assert_false(pass_parse(BAD[i], &passes));
}

static void what_overlaps_follows_from_streams_hiding_and_buckets(void **state)
{
    (void)state;
    enum { EVERY = 63 };
    const unsigned streams = 1u << PASS_STREAMS, hiding = 1u << PASS_LATENCY_HIDING;
    const unsigned buckets = 1u << PASS_BUCKETS;
    const struct {
        unsigned passes, overlap;
    } CASES[] = {
        {PASS_ALL, EVERY},
        {PASS_ALL & ~streams, 0},
        {streams | buckets, OVERLAP_GRAD_REDUCE | OVERLAP_PP},
        {streams | hiding, EVERY & ~OVERLAP_GRAD_REDUCE},
        {streams, OVERLAP_PP},
        {hiding | buckets, 0},
        {0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct parallel parallel = {.passes = CASES[i].passes, .overlap = EVERY};
        assert_int_equal(passes_overlap(&parallel), CASES[i].overlap);
        parallel.overlap = OVERLAP_TP;
        assert_int_equal(passes_overlap(&parallel), CASES[i].overlap & OVERLAP_TP);
    }
}

static struct priced with_passes(struct arena *arena, int zero, unsigned off)
{
    struct priced of = priced_start(arena, "llama-2-7b", "dgx-a100-80g-x16", "megatron-core");
    of.parallel.zero = zero;
    of.parallel.micro_batch = 2;
    of.parallel.passes &= ~off;
    of.workload.seq_len = 4096;
    priced_finish(&of);
    return of;
}

static double collective_s(const struct priced *of, enum collective collective, double bytes)
{
    unsigned axes = mesh_axes_of(&of->program->mesh, AXIS_DP);
    struct group_shape group = mesh_group(&of->program->mesh, of->cluster, axes);
    return collective_price(of->fabrics, &group, collective, bytes, of->stack->network_scale).s;
}

static void without_buckets_one_reduction_follows_the_backward_pass(void **state)
{
    struct priced on = with_passes(*state, 0, 0);
    struct priced off = with_passes(*state, 0, 1u << PASS_BUCKETS);
    double bytes = 4.0 * (double)graph_parameter_count(off.graph);
    assert_true(on.price->reduce_overlapped && on.price->classes[0].bucket_count > 10);
    assert_false(off.price->reduce_overlapped);
    assert_int_equal(off.price->classes[0].bucket_count, 1);
    double whole_s = collective_s(&off, COLLECTIVE_ALL_REDUCE, bytes);
    assert_true(fabs(off.price->classes[0].gradient_reduce_s / whole_s - 1) < 1e-12);
}

static int gradient_tensors(const struct priced *of)
{
    int count = 0;
    const struct program_chunk *chunk = &of->program->chunks[0];
    for (int u = 0; u < chunk->use_count; u++) {
        int block = chunk->uses[u].block_program;
        count += chunk->uses[u].count * of->program->blocks[block]->parameter_count;
    }
    return count;
}

static void without_combine_every_tensor_is_a_collective(void **state)
{
    struct priced off = with_passes(*state, 1, 1u << PASS_COMBINE);
    int tensors = gradient_tensors(&off);
    const struct chunk_price *chunk = &off.price->classes[0];
    double elements = (double)graph_parameter_count(off.graph);
    double scatter_s = collective_s(&off, COLLECTIVE_REDUCE_SCATTER, 4 * elements / tensors);
    double gather_s = collective_s(&off, COLLECTIVE_ALL_GATHER, 2 * elements / tensors);
    assert_int_equal(tensors, 32 * 9 + 3);
    assert_int_equal(chunk->bucket_count, tensors);
    assert_true(fabs(chunk->gradient_reduce_s / (tensors * scatter_s) - 1) < 1e-12);
    assert_true(fabs(chunk->parameter_gather_s / (tensors * gather_s) - 1) < 1e-12);
    struct priced on = with_passes(*state, 1, 0);
    assert_true(on.price->classes[0].gradient_reduce_s < chunk->gradient_reduce_s);
}

struct moved {
    int count;
    int64_t bytes;
};

static struct moved moved_in(const struct priced *of, enum phase phase)
{
    const struct block_program *layer = priced_block(of, BLOCK_LAYER);
    struct moved moved = {0};
    for (int i = layer->phase_first[phase]; i < layer->phase_first[phase + 1]; i++) {
        if (!layer->instrs[i].parameter) continue;
        moved.count++;
        moved.bytes += layer->instrs[i].bytes;
    }
    return moved;
}

// The same bytes in nine collectives: q, k, v, out, gate, up, down and two norms.
static void without_combine_zero_3_gathers_each_parameter(void **state)
{
    struct priced on = with_passes(*state, 3, 0);
    struct priced off = with_passes(*state, 3, 1u << PASS_COMBINE);
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        struct moved flat = moved_in(&on, (enum phase)phase);
        struct moved each = moved_in(&off, (enum phase)phase);
        assert_int_equal(flat.count, 1);
        assert_int_equal(each.count, 9);
        assert_int_equal(flat.bytes, each.bytes);
    }
    struct parallel none = off.parallel;
    none.overlap = 0;
    struct block_price a = block_price(&on.context, &on.program->mesh,
                                       priced_block(&on, BLOCK_LAYER), passes_overlap(&none));
    struct block_price b = block_price(&off.context, &off.program->mesh,
                                       priced_block(&off, BLOCK_LAYER), passes_overlap(&none));
    assert_true(b.phase_s[PHASE_FORWARD][PART_DP] > a.phase_s[PHASE_FORWARD][PART_DP]);
    assert_int_equal(priced_block(&on, BLOCK_LAYER)->saved_bytes,
                     priced_block(&off, BLOCK_LAYER)->saved_bytes);
}

// Norms under sequence parallelism: their gradients are partial over tp.
static void without_combine_small_reductions_are_many(void **state)
{
    double small_s[2];
    for (int off = 0; off < 2; off++) {
        struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
        of.parallel.degree[AXIS_TP] = 8;
        of.parallel.sp = true;
        if (off) of.parallel.passes &= ~(1u << PASS_COMBINE);
        priced_finish(&of);
        small_s[off] = of.price->classes[0].small_reduce_s;
    }
    assert_true(small_s[0] > 0 && small_s[1] > 10 * small_s[0]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mask_reads_back_as_it_was_written),
        cmocka_unit_test(a_wrong_list_is_refused),
        cmocka_unit_test(what_overlaps_follows_from_streams_hiding_and_buckets),
        cmocka_unit_test(without_buckets_one_reduction_follows_the_backward_pass),
        cmocka_unit_test(without_combine_every_tensor_is_a_collective),
        cmocka_unit_test(without_combine_zero_3_gathers_each_parameter),
        cmocka_unit_test(without_combine_small_reductions_are_many),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
