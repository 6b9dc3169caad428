#include "cost_models/memory.h"
#include "cost_models/parameters.h"
#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <math.h>

static void check_sums(const struct memory_parts *parts)
{
    int64_t sum = parts->weights_bytes + parts->gradients_bytes + parts->optimizer_bytes +
                  parts->activations_bytes + parts->transient_bytes + parts->logits_bytes +
                  parts->buffers_bytes;
    assert_int_equal(parts->peak_bytes, sum);
    assert_int_equal(parts->reserved_bytes, sum + parts->reserve_bytes);
}

static struct memory_parts stage_parts(const struct priced *of, int stage)
{
    struct memory_parts parts = memory_of_stage(of->program, of->stack, stage);
    check_sums(&parts);
    return parts;
}

static void check_near(double found, double expected, double tolerance_ratio)
{
    if (fabs(found / expected - 1) <= tolerance_ratio) return;
    print_error("found %.6g, expected %.6g\n", found, expected);
    fail();
}

// Fp16 weights, fp32 gradients, master and two moments: 18 bytes, of which ZeRO takes its parts.
static void zero_divides_the_state_by_class(void **state)
{
    for (int zero = 0; zero < 4; zero++) {
        struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
        of.parallel.zero = zero;
        priced_finish(&of);
        double elements = (double)graph_parameter_count(of.graph);
        struct stack bare = *of.stack;
        bare.dummy_gradient = false;
        of.stack = &bare;
        struct memory_parts parts = stage_parts(&of, 0);
        check_near((double)parts.optimizer_bytes, 12 * elements / (zero >= 1 ? 8 : 1), 1e-6);
        check_near((double)parts.gradients_bytes, 4 * elements / (zero >= 2 ? 8 : 1), 1e-6);
        check_near((double)parts.weights_bytes, 2 * elements / (zero >= 3 ? 8 : 1), 1e-6);
        double layer = (double)priced_block(&of, BLOCK_LAYER)->parameter_elements;
        double head = (double)priced_block(&of, BLOCK_HEAD)->parameter_elements;
        double widest = 2 * fmax(layer, head);
        check_near((double)parts.buffers_bytes + 1, widest * ((zero >= 2) + 2 * (zero == 3)) + 1,
                   1e-6);
    }
}

// FSDP2 shards fp32 weights, which are the optimizer's own (torchtitan, mixed_precision_param), and
// narrows what it gathers: 16 bytes a parameter, not 18.
static void sharded_weights_that_are_the_master_copy_are_kept_once(void **state)
{
    static const double BYTES[] = {18, 0, 0, 16};
    for (int zero = 0; zero < 4; zero += 3) {
        struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "fsdp2");
        of.parallel.zero = zero;
        priced_finish(&of);
        struct memory_parts parts = stage_parts(&of, 0);
        double found = (double)parts.weights_bytes + (double)parts.gradients_bytes +
                       (double)parts.optimizer_bytes;
        double elements = (double)graph_parameter_count(of.graph);
        check_near(found, BYTES[zero] * elements / (zero == 3 ? 8 : 1), 1e-6);
    }
}

// Korthikanti et al. 2022, equations 1, 2, 4 and 5: bytes of one layer are sbh (34 + 5 a s / h),
// divided by t with sequence parallelism, else 10 + 24 / t + 5 a s / (h t); selective recompute
// drops the square term, full keeps the input alone. Megatron keeps what a fused kernel reads; the
// graph's operators keep no more.
static void activations_are_those_of_korthikanti(void **state)
{
    static const struct {
        bool sp;
        enum recompute recompute;
        double straight, square, divided;
    } CASES[] = {
        {false, RECOMPUTE_NONE, 10, 5, 24},
        {true, RECOMPUTE_NONE, 0, 5, 34},
        {true, RECOMPUTE_SELECTIVE, 0, 0, 34},
        {false, RECOMPUTE_FULL, 2, 0, 0},
    };
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct priced of = priced_start(*state, "megatron-22b", "dgx-a100-80g", "megatron-2021");
        of.parallel.degree[AXIS_TP] = 8;
        of.parallel.micro_batch = 4;
        of.parallel.sp = CASES[i].sp;
        of.parallel.recompute = CASES[i].recompute;
        of.workload.precision = PRECISION_FP16;
        priced_finish(&of);
        double sbh = 2048.0 * 4 * 6144, square = 64.0 * 2048 / 6144;
        double expected =
            sbh * (CASES[i].straight + CASES[i].divided / 8 + CASES[i].square * square / 8);
        check_near((double)priced_block(&of, BLOCK_LAYER)->saved_bytes, expected, 1e-3);
    }
}

static void a_pipeline_holds_as_many_micro_batches_as_are_in_flight(void **state)
{
    struct priced of = priced_start(*state, "megatron-175b", "dgx-a100-80g-x16", "megatron-core");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.degree[AXIS_PP] = 8;
    of.parallel.sp = true;
    priced_finish(&of);
    double layer = (double)priced_block(&of, BLOCK_LAYER)->saved_bytes;
    for (int stage = 1; stage < 7; stage++) {
        struct memory_parts parts = stage_parts(&of, stage);
        check_near((double)parts.activations_bytes, layer * 12 * (8 - stage), 1e-6);
        assert_true(parts.logits_bytes == 0);
    }
    assert_true(stage_parts(&of, 7).logits_bytes > 0);
    int worst = -1;
    struct memory_parts parts = memory_worst(of.program, of.stack, &worst);
    check_sums(&parts);
    assert_int_equal(worst, 0);
}

// On stage i of ZB-H1 p - i micro-batches are between F and B and i between B and W, or one more of
// the latter: W holds less than what F saved.
static void where_w_is_apart_what_it_reads_is_held(void **state)
{
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_1F1B, SCHEDULE_ZB_H1, SCHEDULE_ZB_H2};
    int64_t peak_bytes[3];
    for (int i = 0; i < 3; i++) {
        struct priced of =
            priced_start(*state, "megatron-175b", "dgx-a100-80g-x16", "megatron-core");
        of.parallel.degree[AXIS_TP] = 8;
        of.parallel.degree[AXIS_PP] = 8;
        of.parallel.sp = true;
        of.parallel.schedule = SCHEDULES[i];
        priced_finish(&of);
        peak_bytes[i] = stage_parts(&of, 3).peak_bytes;
        const struct block_program *layer = priced_block(&of, BLOCK_LAYER);
        double saved = (double)layer->saved_bytes, held = (double)layer->held_bytes;
        assert_true(held > 0);
        for (int stage = 1; stage < 7 && SCHEDULES[i] == SCHEDULE_ZB_H1; stage++) {
            double before = saved * (8 - stage) + held * stage;
            double behind = saved * (7 - stage) + held * (stage + 1);
            double found = (double)stage_parts(&of, stage).activations_bytes;
            check_near(found, 12 * (before > behind ? before : behind), 1e-6);
        }
    }
    assert_true(peak_bytes[0] < peak_bytes[1] && peak_bytes[1] < peak_bytes[2]);
}

static void without_a_pipeline_one_micro_batch_is_alive(void **state)
{
    int64_t peak_bytes[2];
    static const enum schedule_kind SCHEDULES[] = {SCHEDULE_GPIPE, SCHEDULE_1F1B};
    for (int i = 0; i < 2; i++) {
        struct priced of = priced_start(*state, "gpt2", "dgx-a100-80g", "meshwright");
        of.workload.seq_len = 1024;
        of.parallel.schedule = SCHEDULES[i];
        priced_finish(&of);
        peak_bytes[i] = stage_parts(&of, 0).peak_bytes;
    }
    assert_int_equal(peak_bytes[0], peak_bytes[1]);
}

// 8192 tokens of 128256 scores, or an eighth of them.
static void logits_are_counted_in_the_copies_of_the_stack(void **state)
{
    for (int tp = 1; tp <= 8; tp *= 8) {
        struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "megatron-core");
        of.workload.seq_len = 8192;
        of.parallel.degree[AXIS_TP] = tp;
        priced_finish(&of);
        double elements = 8192.0 * 128256 / tp;
        check_near((double)stage_parts(&of, 0).logits_bytes,
                   elements * of.stack->logits_bytes_per_element, 1e-6);
    }
}

static struct priced korthikanti(struct arena *arena, enum recompute recompute, int micro_batch)
{
    struct priced of = priced_start(arena, "megatron-22b", "dgx-a100-80g", "megatron-2021");
    of.parallel.degree[AXIS_TP] = 8;
    of.parallel.sp = true;
    of.parallel.micro_batch = micro_batch;
    of.parallel.recompute = recompute;
    of.workload.precision = PRECISION_FP16;
    priced_finish(&of);
    return of;
}

// Hidden states of 2 sequences of 2048 tokens, 4096 wide, in 2 bytes: what comes from the stage
// before and what from behind.
static void a_stage_of_a_pipeline_has_room_for_a_message_from_each_side(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
    struct stack bare = *of.stack;
    bare.dummy_gradient = false;
    of.stack = &bare;
    of.parallel.degree[AXIS_PP] = 2;
    of.parallel.micro_batch = 2;
    priced_finish(&of);
    for (int stage = 0; stage < 2; stage++)
        assert_int_equal(stage_parts(&of, stage).buffers_bytes, 2 * (2 * 2048 * 4096 * 2));
    of.parallel.degree[AXIS_PP] = 1;
    priced_finish(&of);
    assert_int_equal(stage_parts(&of, 0).buffers_bytes, 0);
}

// GPipe has the logits of all 16 micro-batches when the first backward begins, 1F1B those of one:
// 15 times 2048 tokens over 32,000 words in 2 bytes.
static void logits_of_every_micro_batch_in_flight_are_kept(void **state)
{
    int64_t bytes[2];
    for (int i = 0; i < 2; i++) {
        struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
        of.parallel.degree[AXIS_PP] = 2;
        of.parallel.schedule = i ? SCHEDULE_GPIPE : SCHEDULE_1F1B;
        priced_finish(&of);
        bytes[i] = stage_parts(&of, 1).logits_bytes;
        assert_int_equal(stage_parts(&of, 0).logits_bytes, 0);
    }
    assert_int_equal(bytes[1] - bytes[0], 15 * (2048LL * 32000 * 2));
}

static void memory_falls_with_recompute_and_grows_with_the_micro_batch(void **state)
{
    int64_t before_bytes = INT64_MAX;
    static const enum recompute ORDER[] = {RECOMPUTE_NONE, RECOMPUTE_SELECTIVE, RECOMPUTE_FULL};
    for (size_t i = 0; i < sizeof ORDER / sizeof *ORDER; i++) {
        struct priced of = korthikanti(*state, ORDER[i], 1);
        int64_t peak_bytes = stage_parts(&of, 0).peak_bytes;
        assert_true(peak_bytes < before_bytes);
        before_bytes = peak_bytes;
        of = korthikanti(*state, ORDER[i], 2);
        assert_true(stage_parts(&of, 0).peak_bytes > peak_bytes);
    }
}

// 4 sequences, 8 of 64 heads, 2048 squared scores of two bytes.
static void unfused_attention_of_megatron_keeps_a_buffer_of_scores(void **state)
{
    struct priced of = korthikanti(*state, RECOMPUTE_NONE, 4);
    struct stack without = *of.stack;
    without.score_buffer = false;
    struct memory_parts none = memory_of_stage(of.program, &without, 0);
    int64_t score_bytes = (int64_t)4 * 8 * 2048 * 2048 * 2;
    assert_int_equal(stage_parts(&of, 0).buffers_bytes - none.buffers_bytes, score_bytes);
    struct priced flash = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
    priced_finish(&flash);
    assert_int_equal(priced_block(&flash, BLOCK_LAYER)->score_bytes, 0);
}

// Of a layer's tensors the inputs of qkv, of gate and up, and of down are kept in fp8; the context,
// which attention reads, too, in both. Weights are kept in fp8 as they are and transposed, beside
// those in 16 bits unless the optimizer's state is sharded: then they stand for them.
static void fp8_runs_keep_what_their_products_read(void **state)
{
    struct memory_parts parts[4];
    double linear = 0;
    for (int i = 0; i < 4; i++) {
        struct priced of = priced_start(*state, "llama-3-8b", "dgx-h100", "megatron-core");
        of.workload.seq_len = 8192;
        of.workload.precision = i ? PRECISION_FP8 : PRECISION_BF16;
        of.parallel.degree[AXIS_TP] = 2;
        of.parallel.degree[AXIS_DP] = 4;
        of.parallel.zero = i < 2 ? 0 : i == 2 ? 1 : 3;
        of.parallel.sp = true;
        priced_finish(&of);
        parts[i] = stage_parts(&of, 0);
        linear = 32 * (double)priced_block(&of, BLOCK_LAYER)->linear_elements;
    }
    assert_int_equal(parts[2].weights_bytes, parts[0].weights_bytes);
    // ZeRO 3 keeps shards in 16 bits, and no casts.
    check_near((double)parts[3].weights_bytes, (double)parts[0].weights_bytes / 4, 1e-6);
    double saved = 8192.0 / 2 * (2 * 4096 + 14336 - 4096) * 32;
    check_near((double)(parts[0].activations_bytes - parts[1].activations_bytes), saved, 1e-6);
    check_near((double)(parts[1].weights_bytes - parts[0].weights_bytes), 2 * linear, 1e-6);
    assert_int_equal(parts[0].buffers_bytes, parts[1].buffers_bytes);
}

// The placeholder of Transformer Engine: one of each weight shape of a layer, here q, k and v as
// one, the projection, gate and up as one, down.
static void a_placeholder_gradient_is_kept_of_every_weight_shape(void **state)
{
    struct priced of = priced_start(*state, "llama-2-7b", "dgx-a100-80g", "megatron-core");
    of.workload.seq_len = 256;
    priced_finish(&of);
    struct stack without = *of.stack;
    without.dummy_gradient = false;
    struct memory_parts none = memory_of_stage(of.program, &without, 0);
    struct memory_parts kept = stage_parts(&of, 0);
    int64_t most_bytes = 2 * ((int64_t)4096 * 4096 * 4 + (int64_t)4096 * 11008 * 3);
    assert_true(kept.transient_bytes > none.transient_bytes);
    assert_true(kept.transient_bytes - none.transient_bytes <= most_bytes);
}

static void the_reserve_is_told_apart_from_what_is_allocated(void **state)
{
    struct priced of = priced_start(*state, "gpt2", "dgx-a100-80g", "megatron-core");
    of.workload.seq_len = 1024;
    priced_finish(&of);
    struct memory_parts parts = stage_parts(&of, 0);
    assert_true(parts.reserve_bytes >= of.stack->reserve_bytes);
    struct stack bare = *of.stack;
    bare.reserve_bytes = 0;
    bare.reserve_ratio = 0;
    struct memory_parts none = memory_of_stage(of.program, &bare, 0);
    assert_int_equal(none.peak_bytes, parts.peak_bytes);
    assert_int_equal(none.reserved_bytes, none.peak_bytes);
}

// Scores of 100 bytes; in another layout they are kept once more, in 40. What is not kept, or is
// another tensor's, is none of them; of two gradients the larger one counts.
static void logits_are_what_the_loss_reads(void **state)
{
    (void)state;
    struct buffer buffers[] = {{.tensor = 5, .bytes = 100, .saved = true},
                               {.tensor = 5, .bytes = 40, .saved = true},
                               {.tensor = 5, .bytes = 7, .saved = false},
                               {.tensor = 6, .bytes = 9, .saved = true},
                               {.tensor = 7, .bytes = 60},
                               {.tensor = 7, .bytes = 50}};
    struct instr instrs[] = {{.kind = OP_LOSS, .collective = COLLECTIVE_ALL_REDUCE},
                             {.kind = OP_LOSS},
                             {.kind = OP_LOSS, .recompute = true},
                             {.kind = OP_LOSS_BACKWARD},
                             {.kind = OP_LOSS_BACKWARD}};
    instrs[3].outputs[0] = 4;
    instrs[4].outputs[0] = 5;
    const struct block_program block = {
        .buffers = buffers, .buffer_count = 6, .instrs = instrs, .instr_count = 5};
    struct memory_logits logits = memory_logits_of(&block);
    assert_true(logits.bytes == 100 && logits.saved && logits.made_bytes == 40);
    assert_true(logits.gradient_bytes == 60);
    buffers[0].saved = false;
    assert_false(memory_logits_of(&block).saved);
}

// Under Ulysses a rank has tables of its own heads, which no rank of cp shares: their states are
// shards of dp alone, where those of all else are of both.
static void what_is_split_already_is_no_shard(void **state)
{
    struct priced of = priced_start(*state, "mamba-2.8b", "dgx-h100", "meshwright");
    of.parallel.degree[AXIS_CP] = 2;
    of.parallel.cp_kind = CP_ULYSSES;
    of.parallel.zero = 1;
    priced_finish(&of);
    const struct program *program = of.program;
    const struct program_chunk *chunk = &program->chunks[0];
    unsigned cp = mesh_axes_of(&program->mesh, AXIS_CP);
    bool has_tied = false;
    double whole = 0, own = 0, dp = of.parallel.degree[AXIS_DP];
    for (int u = 0; u < chunk->use_count; u++) {
        const struct block_program *block = program->blocks[chunk->uses[u].block_program];
        for (int i = 0; i < block->parameter_count; i++) {
            const struct parameter *parameter = &block->parameters[i];
            bool is_split = false;
            for (int a = 0; a < program->mesh.axis_count; a++)
                is_split = is_split || (cp >> a & 1 && parameter->layout.of[a] > 0);
            if (parameter->tie && has_tied) continue;
            has_tied = has_tied || parameter->tie;
            *(is_split ? &own : &whole) += (double)parameter->elements * chunk->uses[u].count;
        }
    }
    const struct parameter_sums sums = parameter_sums(program, chunk);
    double stored = parameter_stored(program, &sums, STORED_STATES);
    assert_true(own > 0 && fabs(stored / (whole / (2 * dp) + own / dp) - 1) < 1e-12);
    assert_true(parameter_stored(program, &sums, STORED_WEIGHTS) == whole + own);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(zero_divides_the_state_by_class),
        cmocka_unit_test(sharded_weights_that_are_the_master_copy_are_kept_once),
        cmocka_unit_test(activations_are_those_of_korthikanti),
        cmocka_unit_test(a_pipeline_holds_as_many_micro_batches_as_are_in_flight),
        cmocka_unit_test(where_w_is_apart_what_it_reads_is_held),
        cmocka_unit_test(without_a_pipeline_one_micro_batch_is_alive),
        cmocka_unit_test(logits_are_what_the_loss_reads),
        cmocka_unit_test(logits_are_counted_in_the_copies_of_the_stack),
        cmocka_unit_test(a_stage_of_a_pipeline_has_room_for_a_message_from_each_side),
        cmocka_unit_test(logits_of_every_micro_batch_in_flight_are_kept),
        cmocka_unit_test(memory_falls_with_recompute_and_grows_with_the_micro_batch),
        cmocka_unit_test(unfused_attention_of_megatron_keeps_a_buffer_of_scores),
        cmocka_unit_test(fp8_runs_keep_what_their_products_read),
        cmocka_unit_test(a_placeholder_gradient_is_kept_of_every_weight_shape),
        cmocka_unit_test(the_reserve_is_told_apart_from_what_is_allocated),
        cmocka_unit_test(what_is_split_already_is_no_shard),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
