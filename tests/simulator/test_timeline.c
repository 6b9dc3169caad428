#include "core/hash.h"
#include "core/json_write.h"
#include "cost_models/parameters.h"
#include "models/import.h"
#include "plan/script/graph.h"
#include "simulator/inject.h"
#include "simulator/kernels_account.h"
#include "simulator/memory_time.h"
#include "simulator/timeline.h"

#include "tests/support/priced.h"
#include "tests/support/test.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>

// What a timeline tells of its spans: times, rates and sums are checked against each other; names,
// neighbours, layers, flop and bytes stand here as one number a case, since no price moves them.

struct shown {
    struct evaluation_request request;
    struct evaluation evaluation;
    struct trace plain, trace;
};

static void no_error(const struct err *err)
{
    assert_string_equal(err->text, "");
}

struct timeline_case {
    const char *model, *stack;
    int tp, pp, dp, ep, vpp, zero;
    enum schedule_kind schedule;
    bool recomputes, is_folded, is_measured, is_injected;
    int64_t micro_batches;
    uint64_t hash;
    const char *offload;  // NULL: nothing
};

static struct parallel parallel_of(const struct timeline_case *of)
{
    struct parallel parallel = {.vpp = of->vpp,
                                .schedule = of->schedule,
                                .attention = ATTENTION_FLASH,
                                .zero = of->zero,
                                .recompute = of->recomputes ? RECOMPUTE_FULL : RECOMPUTE_NONE,
                                .recompute_layers = -1,
                                .micro_batch = 1};
    for (int axis = 0; axis < AXIS_COUNT; axis++)
        parallel.degree[axis] = 1;
    parallel_default_order(&parallel);
    parallel.degree[AXIS_TP] = of->tp;
    parallel.degree[AXIS_PP] = of->pp;
    parallel.degree[AXIS_DP] = of->dp;
    parallel.degree[AXIS_EP] = of->ep;
    if (of->offload) assert_true(offload_parse(of->offload, &parallel.offload));
    return parallel;
}

static struct shown *show(struct arena *arena, const struct timeline_case *of)
{
    struct shown *shown = ARENA_NEW(arena, struct shown, 1);
    struct evaluation_request *request = &shown->request;
    struct arena scratch = {0};
    struct err err = {0};
    request->model = model_load(arena, of->model, NULL, NULL, &err);
    no_error(&err);
    request->cluster = cluster_load(arena, "dgx-a100-80g", &err);
    no_error(&err);
    request->stack = stack_load(arena, of->stack, &err);
    no_error(&err);
    request->fabrics = fabrics_load(arena, &err);
    no_error(&err);
    request->workload = (struct workload){.seq_len = 1024,
                                          .global_batch = of->micro_batches * of->dp,
                                          .precision = PRECISION_BF16,
                                          .expert_imbalance = 1};
    request->parallel = parallel_of(of);
    request->engine.want_trace = true;
    bool done = evaluate(arena, &scratch, request, &shown->evaluation, &err);
    no_error(&err);
    assert_true(done);
    shown->plain = shown->evaluation.simulation->trace;
    if (of->is_injected) {
        // Names of ranks are made from it as long as the trace is there.
        struct injection_cause *cause = ARENA_NEW(arena, struct injection_cause, 1);
        struct injection *injection = ARENA_NEW(arena, struct injection, 1);
        *cause = (struct injection_cause){INJECT_RANK, 1, 1, 1.5};
        *injection = (struct injection){cause, 1, 0, 3};
        struct injection_result result;
        assert_true(
            inject(arena, &scratch, request, &shown->evaluation, injection, true, &result, &err));
        shown->plain = result.simulation->trace;
    }
    const struct evaluation *evaluation = &shown->evaluation;
    shown->trace =
        of->is_measured
            ? timeline_measured(arena, &scratch, request, evaluation, &shown->plain)
            : timeline_make(arena, &scratch, request, evaluation, &shown->plain, of->is_folded);
    arena_free(&scratch);
    return shown;
}

static uint64_t add_text(uint64_t hash, const char *text)
{
    return hash_bytes(hash, text, strlen(text) + 1);
}

static uint64_t add_number(uint64_t hash, double number)
{
    char text[32];
    snprintf(text, sizeof text, "%.12g", number);
    return add_text(hash, text);
}

// A number of the span's members; -1: it has none of this name.
static double member(const char *args, const char *key)
{
    char quoted[64];
    snprintf(quoted, sizeof quoted, "\"%s\": ", key);
    const char *at = strstr(args, quoted);
    return at ? strtod(at + strlen(quoted), NULL) : -1;
}

static void is_near(double found, double wanted)
{
    if (fabs(found - wanted) > 1e-9 * fabs(wanted))
        fail_msg("found %.12g, wanted %.12g", found, wanted);
}

// Rates are amounts over the span's time; what is left has no times in it.
static uint64_t add_args(struct arena *arena, uint64_t hash, const struct trace *trace, int64_t i)
{
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    trace->span_args(trace->context, i, &writer);
    json_close(&writer, '}');
    const struct span *span = &trace->spans[i];
    double s = 1e-9 * (double)(span->end_ns - span->start_ns);
    for (int k = 0; k < 2; k++) {
        const char *key = k == 0 ? "flop" : "bytes";
        double amount = member(writer.text, key);
        double rate = member(writer.text, k == 0 ? "flop_per_s" : "bytes_per_s");
        if (rate >= 0) is_near(rate * s, amount);
        hash = add_number(hash, amount);
        hash = add_number(hash, rate >= 0);
    }
    static const char *const KEYS[] = {"\"micro_batch\"", "\"layers\"",    "\"ranks\"",
                                       "\"to_rank\"",     "\"from_rank\"", "\"operators\""};
    for (size_t k = 0; k < sizeof KEYS / sizeof *KEYS; k++) {
        const char *at = strstr(writer.text, KEYS[k]);
        if (at) hash = hash_bytes(hash, at, strcspn(at, "\n"));
    }
    return hash;
}

// Pieces follow each other without gaps, each block over its operators, and fill the span.
static uint64_t add_parts(struct arena *arena, uint64_t hash, const struct trace *trace, int64_t i)
{
    const struct span *span = &trace->spans[i];
    struct span_part *parts = NULL;
    int count = trace->span_parts ? trace->span_parts(trace->context, i, arena, &parts) : 0;
    int64_t block_end_ns = span->start_ns, at_ns = span->start_ns;
    double flop = 0, block_flop = 0, bytes = 0, block_bytes = 0;
    for (int k = 0; k < count; k++) {
        const struct span_part *part = &parts[k];
        bool is_block = part->start_ns == block_end_ns && at_ns == block_end_ns;
        assert_int_equal(part->start_ns, at_ns);
        assert_true(part->end_ns >= part->start_ns && part->end_ns <= span->end_ns);
        if (is_block) {
            block_end_ns = part->end_ns;
            block_flop += part->flop, block_bytes += part->bytes;
        } else {
            at_ns = part->end_ns;
            flop += part->flop, bytes += part->bytes;
        }
        if (strncmp(part->name, "waits", 5) == 0 || strncmp(part->name, "slowed", 6) == 0) continue;
        hash = add_text(hash, part->name);
        hash = add_number(hash, part->flop);
        hash = add_number(hash, part->bytes);
    }
    if (count > 0) {
        assert_int_equal(at_ns, span->end_ns);
        is_near(flop, block_flop);
        is_near(bytes, block_bytes);
    }
    return hash;
}

struct keyed {
    const struct trace *trace;
    int64_t span;
};

static int by_what_it_is(const void *left, const void *right)
{
    const struct keyed *a = left, *b = right;
    const struct span *x = &a->trace->spans[a->span], *y = &b->trace->spans[b->span];
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->task != y->task) return x->task < y->task ? -1 : 1;
    return a->span < b->span ? -1 : a->span > b->span;
}

static uint64_t add_span(struct arena *arena, uint64_t hash, const struct trace *trace, int64_t i)
{
    const struct span *span = &trace->spans[i];
    const char *track = trace->track_name ? trace->track_name(trace->context, span) : NULL;
    hash = add_text(hash, trace->rank_name(trace->context, span->rank, arena));
    hash = add_text(hash, track ? track : "");
    hash = add_text(hash, trace->task_name(trace->context, span, arena));
    return add_parts(arena, add_args(arena, hash, trace, i), trace, i);
}

static int64_t in_slice(int64_t at_ns, const struct span *span)
{
    int64_t last_ns = span->end_ns > span->start_ns ? span->end_ns - 1 : span->end_ns;
    return at_ns < span->start_ns ? span->start_ns : at_ns > last_ns ? last_ns : at_ns;
}

// An arrow leaves when what it leads to starts, as nearly as both slices let it.
static uint64_t add_flows(struct arena *arena, uint64_t hash, const struct trace *trace)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < trace->flow_count; i++) {
        const struct trace_flow *flow = &trace->flows[i];
        const struct span *from = &trace->spans[flow->from], *to = &trace->spans[flow->to];
        assert_int_equal(flow->leaves_ns, in_slice(to->start_ns, from));
        assert_int_equal(flow->arrives_ns, in_slice(flow->leaves_ns, to));
        uint64_t one = add_text(HASH_START, flow->name);
        one = add_number(add_number(one, from->rank), to->rank);
        one = add_text(one, trace->task_name(trace->context, from, arena));
        sum += add_text(one, trace->task_name(trace->context, to, arena));
    }
    hash = add_number(hash, (double)trace->flow_count);
    return hash_bytes(hash, &sum, sizeof sum);
}

// A rank's moments follow each other: two at once where what comes and what goes meet, the higher
// one first. The largest of all is the prediction's.
static void check_levels(const struct shown *shown)
{
    const struct trace *trace = &shown->trace;
    double most = 0;
    for (int64_t i = 0; i < trace->level_count; i++) {
        const struct trace_level *level = &trace->levels[i];
        most = fmax(most, level->bytes);
        bool is_next = i > 0 && level->rank == level[-1].rank;
        bool is_same = is_next && level->at_ns == level[-1].at_ns;
        assert_true(!is_next || level->at_ns >= level[-1].at_ns);
        assert_true(!is_same || level->bytes < level[-1].bytes);
        assert_true(i < 2 || !is_same || level[-2].rank != level->rank ||
                    level[-2].at_ns < level->at_ns);
        assert_true(level->bytes > 0);
    }
    double wanted = (double)shown->evaluation.prediction.peak_bytes;
    if (trace->level_count > 0 && fabs(most / wanted - 1) > 0.02)
        fail_msg("rises to %.0f, predicted %.0f", most, wanted);
}

static uint64_t hash_of(struct arena *arena, const struct shown *shown)
{
    const struct trace *trace = &shown->trace;
    uint64_t hash = HASH_START;
    struct keyed *order = ARENA_NEW(arena, struct keyed, trace->span_count);
    for (int64_t i = 0; i < trace->span_count; i++)
        order[i] = (struct keyed){trace, i};
    qsort(order, (size_t)trace->span_count, sizeof *order, by_what_it_is);
    for (int64_t i = 0; i < trace->span_count; i++)
        hash = add_span(arena, hash, trace, order[i].span);
    return add_flows(arena, hash, trace);
}

static const struct timeline_case CASES[] = {
    {"gpt2", "megatron-core", 2, 2, 2, 1, 1, 1, SCHEDULE_1F1B, false, true, false, false, 4,
     0x92effe4f0cd9bbd5, NULL},
    {"gpt2", "megatron-core", 1, 2, 4, 1, 2, 0, SCHEDULE_INTERLEAVED, true, true, false, false, 4,
     0xbb2ff8e6bc4ac66e, NULL},
    {"gpt2", "megatron-core", 2, 2, 2, 1, 1, 0, SCHEDULE_1F1B, false, false, true, false, 2,
     0xddd420f964c49a30, NULL},
    {"gpt2", "megatron-core", 1, 4, 2, 1, 1, 1, SCHEDULE_1F1B, false, false, false, true, 5,
     0x9ae2c50c60413449, NULL},
    {"gpt2", "fsdp", 1, 1, 8, 1, 1, 3, SCHEDULE_1F1B, true, true, false, false, 2,
     0x21bd31bae21cf783, NULL},
    {"mixtral-8x7b", "megatron-core", 1, 2, 4, 4, 1, 1, SCHEDULE_1F1B, false, true, false, false, 3,
     0xaabb04dad61d2583, NULL},
    {"gpt2", "megatron-core", 1, 4, 2, 1, 1, 1, SCHEDULE_1F1B, false, true, false, false, 128,
     0xb749907c9e4f16fa, NULL},
};

static void timelines_tell_what_stands_here(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena arena = {0};
        const struct shown *shown = show(&arena, &CASES[i]);
        check_levels(shown);
        uint64_t hash = hash_of(&arena, shown);
        if (hash != CASES[i].hash) print_error("case %zu: 0x%" PRIx64 "\n", i, hash);
        assert_int_equal(hash, CASES[i].hash);
        arena_free(&arena);
    }
}

// A layer's sums are those of its kernels, and no kernel beats the device's sheet.
static void layers_sum_their_kernels(void **state)
{
    (void)state;
    static const int LAYERS[] = {12, 12, 12, 12, 12, 32, 12};
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        struct arena arena = {0};
        const struct shown *shown = show(&arena, &CASES[i]);
        const struct kernels_account account =
            kernels_account_make(&arena, &shown->request, &shown->evaluation);
        const struct device *device = account.device;
        assert_true(account.peak_flop_per_s == device->peak_flop_per_s[PRECISION_BF16]);
        int layers = 0;
        for (int l = 0; l < account.layer_count; l++) {
            const struct layer_account *layer = &account.layers[l];
            double flop = 0, roof_s = 0, s = 0, launches = 0;
            layers += layer->layer_count;
            assert_true(layer->recomputed == CASES[i].recomputes);
            assert_true(layer->kernel_count > 10);
            assert_true(layer->communication_s >= 0 && layer->host_s >= 0);
            assert_true((layer->communication_s > 0) ==
                        (CASES[i].tp > 1 || CASES[i].ep > 1 || CASES[i].zero == 3));
            for (int k = 0; k < layer->kernel_count; k++) {
                const struct kernel_account *kernel = &layer->kernels[k];
                double bytes_s = kernel->bytes / device->memory_bandwidth_bytes_per_s;
                double narrow_s = kernel->flop / account.peak_flop_per_s;
                double wide_s = kernel->flop / device->peak_flop_per_s[PRECISION_FP32];
                assert_true(kernel->flop == kernel->price.flop);
                assert_true(kernel->bytes == kernel->price.bytes);
                assert_true(kernel->roof_s == fmax(narrow_s, bytes_s) ||
                            kernel->roof_s == fmax(wide_s, bytes_s));
                flop += kernel->flop, roof_s += kernel->roof_s;
                s += kernel->price.s, launches += kernel->launch_count;
            }
            is_near(layer->flop, flop);
            is_near(layer->roof_s, roof_s);
            is_near(layer->launch_count, launches);
            assert_true(layer->s >= s * (1 - 1e-12));
        }
        assert_int_equal(layers, LAYERS[i]);
        arena_free(&arena);
    }
}

// Slots on the streams of copies move what the step graph says of the saved activations of all
// layers, out in forward and back in backward.
static void copies_tell_what_they_move(void **state)
{
    struct arena room = {0}, *arena = &room;
    (void)state;
    static const struct timeline_case OF = {"gpt2", "meshwright",  1,     1,    8,     1,     1,
                                            0,      SCHEDULE_1F1B, false, true, false, false, 2,
                                            0,      "activations"};
    const struct shown *shown = show(arena, &OF);
    const struct program *program = shown->evaluation.program;
    const struct step_rules rules = step_rules_of(shown->request.stack, program);
    const struct step_graph *graph = step_graph_make(arena, program, &rules);
    double moved[2] = {0}, spans[2] = {0};
    for (int t = graph->first[0]; t < graph->first[1]; t++) {
        const struct graph_task *task = &graph->tasks[t];
        if (task->kind != TASK_COPY_OUT && task->kind != TASK_COPY_IN) continue;
        moved[task->kind == TASK_COPY_IN] +=
            task->count * (2 * task->bytes.compute + 4 * task->bytes.reals + task->bytes.plain);
    }
    assert_true(moved[0] > 0 && moved[1] == moved[0]);
    for (int64_t i = 0; i < shown->trace.span_count; i++) {
        const struct span *span = &shown->trace.spans[i];
        bool is_copy = span->stream == STREAM_D2H || span->stream == STREAM_H2D;
        if (!is_copy || task_id_of(&program->shape, span->task).kind >= SLOT_KIND_COUNT) continue;
        struct json_writer writer = {.arena = arena};
        json_open(&writer, NULL, '{');
        shown->trace.span_args(shown->trace.context, i, &writer);
        json_close(&writer, '}');
        bool is_back = span->stream == STREAM_H2D;
        is_near(member(writer.text, "bytes"), moved[is_back]);
        is_near(member(writer.text, "bytes_per_s") * 1e-9 * (double)(span->end_ns - span->start_ns),
                moved[is_back]);
        spans[is_back]++;
    }
    assert_true(spans[0] >= 2 && spans[1] >= 2);
    arena_free(arena);
}

static void is_level(const struct trace_level *level, int64_t at_ns, double bytes)
{
    assert_int_equal(level->at_ns, at_ns);
    is_near(level->bytes, bytes);
}

// A forward of 1 us and a backward of 2 us on one GPU: what is saved comes in equal parts, the
// logits and all copies of them with the last, and goes the same way round; working memory stands
// as long as a task runs.
static void memory_over_time_is_worked_by_hand(void **state)
{
    struct arena arena = {0};
    struct err err = {0};
    (void)state;
    struct priced of = priced_start(&arena, "gpt2", "dgx-a100-80g", "meshwright");
    assert_true(cluster_take_gpus(of.cluster, 1, &err));
    of.workload.seq_len = 1024;
    of.workload.global_batch = 1;
    priced_finish(&of);
    struct memory_parts parts = memory_of_stage(of.program, of.stack, 0);
    struct memory_in_flight flight;
    memory_of_chunks(of.program, of.stack, 0, &flight);
    assert_true(flight.saved_bytes > 0 && flight.loss_bytes > 0);
    const struct task_id forward = {.kind = TASK_FORWARD}, backward = {.kind = TASK_BACKWARD};
    struct span spans[] = {
        {0, STREAM_COMPUTE, task_number(&of.program->shape, &forward), 0, 1000},
        {0, STREAM_COMPUTE, task_number(&of.program->shape, &backward), 1000, 3000}};
    const struct trace trace = {.spans = spans, .span_count = 2, .rank_count = 1};
    struct memory_time time = memory_time(&arena, of.program, of.stack, &trace, 0, 0);
    int ramp = (time.count - 5) / 2;
    assert_true(ramp > 1 && time.count == 5 + 2 * ramp);
    double standing = (double)(parts.weights_bytes + parts.gradients_bytes + parts.optimizer_bytes +
                               parts.buffers_bytes);
    double working = (double)parts.transient_bytes, part = flight.saved_bytes / ramp;
    double most = flight.saved_bytes + flight.loss_bytes;
    is_level(&time.list[0], 0, standing);
    is_level(&time.list[1], 0, standing + working);
    is_level(&time.list[2 + ramp], 1000, standing + most);
    is_level(&time.list[3 + ramp], 1000, standing + most + working);
    for (int k = 0; k < ramp; k++) {
        bool is_last = k == ramp - 1;
        is_level(&time.list[2 + k], 1000 * k / ramp,
                 standing + working + (k + 1) * part + (is_last ? flight.loss_bytes : 0));
        // What the task works with goes before the last part does.
        is_level(&time.list[4 + ramp + k], 1000 + 2000 * (k + 1) / ramp,
                 standing + (is_last ? 0 : working) + (ramp - 1 - k + is_last) * part);
    }
    is_level(&time.list[4 + 2 * ramp], 3000, standing);
    arena_free(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(timelines_tell_what_stands_here),
        cmocka_unit_test(layers_sum_their_kernels),
        cmocka_unit_test(copies_tell_what_they_move),
        cmocka_unit_test(memory_over_time_is_worked_by_hand),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
