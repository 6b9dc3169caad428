#include "tests/support/random_question.h"
#include "tests/support/test.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

// What must hold between the prices of two questions, whatever each of them is. Drawn over
// everything that is shipped; MESHWRIGHT_CASES draws more.

static int case_count(int otherwise)
{
    const char *wanted = getenv("MESHWRIGHT_CASES");
    return wanted ? atoi(wanted) : otherwise;
}

// Constants of the hardware, and whether more of them is better.
enum place { DEVICE, NODE, NETWORK };
static const struct constant {
    const char *name;
    enum place place;
    size_t offset;
    bool less;      // is better
    bool is_shape;  // a share of a rate or the shape of a loss, neither a rate nor a time
} CONSTANTS[] = {
#define OF_DEVICE(member, less, is_shape)                                          \
    {                                                                              \
        "device." #member, DEVICE, offsetof(struct device, member), less, is_shape \
    }
#define DEVICE_RATE(member) OF_DEVICE(member, false, false)
#define DEVICE_SHARE(member) OF_DEVICE(efficiency.member, false, true)
#define DEVICE_LOSS(member) OF_DEVICE(efficiency.member, true, true)
    DEVICE_RATE(peak_flop_per_s[PRECISION_FP32]),
    DEVICE_RATE(peak_flop_per_s[PRECISION_FP16]),
    DEVICE_RATE(peak_flop_per_s[PRECISION_BF16]),
    DEVICE_RATE(peak_flop_per_s[PRECISION_FP8]),
    DEVICE_RATE(peak_flop_per_s[PRECISION_FP4]),
    DEVICE_RATE(memory_bandwidth_bytes_per_s),
    DEVICE_RATE(exponential_per_s),
    OF_DEVICE(launch_latency_s, true, false),
    DEVICE_SHARE(gemm_ratio[PRECISION_FP32]),
    DEVICE_SHARE(gemm_ratio[PRECISION_FP16]),
    DEVICE_SHARE(gemm_ratio[PRECISION_BF16]),
    DEVICE_SHARE(gemm_ratio[PRECISION_FP8]),
    DEVICE_SHARE(gemm_ratio[PRECISION_FP4]),
    DEVICE_LOSS(gemm_tile_exponent),
    DEVICE_LOSS(gemm_k_ramp),
    DEVICE_SHARE(gemm_wave_smooth_ratio),
    DEVICE_SHARE(gemm_memory_ratio),
    DEVICE_SHARE(memory_ratio),
    DEVICE_SHARE(attention_forward_ratio),
    DEVICE_SHARE(attention_backward_ratio),
    DEVICE_LOSS(attention_half_seq),
    DEVICE_LOSS(attention_tail_ratio),
    DEVICE_SHARE(attention_clock_ratio),
#define OF_NODE(member, less)                                                   \
    {                                                                           \
        "node." #member, NODE, offsetof(struct node_group, member), less, false \
    }
    OF_NODE(intra.bandwidth_bytes_per_s, false),
    OF_NODE(intra.latency_s, true),
    OF_NODE(nics.bandwidth_bytes_per_s, false),
    OF_NODE(host.memory_bandwidth_bytes_per_s, false),
    OF_NODE(host.pcie_bytes_per_s, false),
    OF_NODE(host.nvme_bytes_per_s, false),
    {"network.latency_s", NETWORK, offsetof(struct network, latency_s), true, false},
    {"network.oversubscription_ratio", NETWORK, offsetof(struct network, oversubscription_ratio),
     true, true},
};
enum { CONSTANT_COUNT = sizeof CONSTANTS / sizeof *CONSTANTS };

static void improve(struct cluster *cluster, const struct constant *constant, double ratio)
{
    for (int i = 0; i < cluster->node_group_count; i++) {
        char *objects[] = {(char *)cluster->nodes[i].device, (char *)&cluster->nodes[i],
                           (char *)&cluster->network};
        if (constant->place == NETWORK && i > 0) break;
        double *value = (double *)(void *)(objects[constant->place] + constant->offset);
        *value = constant->less ? *value / ratio : *value * ratio;
        if (constant->is_shape && !constant->less) *value = fmin(*value, 1);
    }
}

static void check_not_slower(const char *what, double ratio, const struct random_question *before,
                             const struct random_question *after)
{
    double closed = after->closed_form_s / before->closed_form_s - 1;
    double events = after->evaluation.prediction.step_s / before->evaluation.prediction.step_s - 1;
    // Events round each task to a nanosecond. What a host that runs ahead is waited for is shared
    // by the phases of a micro-batch: one that takes less may leave another a larger share.
    double shared = before->request.stack->host_norm > 0 ? 5e-3 : 0;
    if (closed <= fmax(1e-9, shared) && events <= fmax(1e-6, shared)) return;
    random_question_print(after);
    print_error("%s %g: closed form %+.4f %%, events %+.4f %%\n", what, ratio, 100 * closed,
                100 * events);
    fail();
}

static void check_equal(const char *what, const struct random_question *a,
                        const struct random_question *b)
{
    double closed = b->closed_form_s / a->closed_form_s - 1;
    double events = b->evaluation.prediction.step_s / a->evaluation.prediction.step_s - 1;
    if (fabs(closed) <= 1e-9 && fabs(events) <= 1e-5) return;
    random_question_print(a);
    print_error("%s: closed form %+.4f %%, events %+.4f %%\n", what, 100 * closed, 100 * events);
    fail();
}

static void better_hardware_is_never_slower(void **state)
{
    (void)state;
    struct draw draw = draw_start("better hardware", 16);
    for (int i = 0; i < case_count(30); i++) {
        struct arena arena = {0};
        struct random_question question;
        random_question(&arena, &draw, &question);
        for (int n = 0; n < CONSTANT_COUNT; n++) {
            for (int k = 0; k < 2; k++) {
                struct random_question better = question;
                double ratio = k ? 2 : 1.1;
                struct cluster *cluster = cluster_copy(&arena, question.request.cluster);
                improve(cluster, &CONSTANTS[n], ratio);
                better.request.cluster = cluster;
                random_question_again(&arena, &better);
                check_not_slower(CONSTANTS[n].name, ratio, &question, &better);
            }
        }
        arena_free(&arena);
    }
}

static void double_rates(struct arena *arena, struct random_question *question)
{
    struct evaluation_request *request = &question->request;
    struct cluster *cluster = cluster_copy(arena, request->cluster);
    for (int n = 0; n < CONSTANT_COUNT; n++) {
        if (!CONSTANTS[n].is_shape) improve(cluster, &CONSTANTS[n], 2);
    }
    cluster->network.loss_stall_s /= 2;
    request->cluster = cluster;
    struct stack *stack = stack_copy(arena, request->stack);
    stack->attention_flop_per_s_most *= 2;
    double *times[] = {&stack->host_op_s,       &stack->host_task_s, &stack->expert_host_s,
                       &stack->pipeline_sync_s, &stack->node_sync_s, &stack->step_overhead_s};
    for (size_t i = 0; i < sizeof times / sizeof *times; i++)
        *times[i] /= 2;
    request->stack = stack;
    struct fabrics *fabrics = fabrics_copy(arena, request->fabrics);
    for (int i = 0; i < fabrics->count; i++) {
        struct fabric *row = &fabrics->rows[i];
        row->link_bytes_per_s_least *= 2;
        for (int k = 0; k < PROTOCOL_COUNT; k++)
            row->protocols[k].base_latency_s /= 2;
    }
    request->fabrics = fabrics;
}

static void doubled_rates_halve_the_time(void **state)
{
    (void)state;
    struct draw draw = draw_start("doubled rates", 2);
    for (int i = 0; i < case_count(150); i++) {
        struct arena arena = {0};
        struct random_question question, doubled;
        random_question(&arena, &draw, &question);
        doubled = question;
        double_rates(&arena, &doubled);
        random_question_again(&arena, &doubled);
        doubled.closed_form_s *= 2;
        doubled.evaluation.prediction.step_s *= 2;
        check_equal("doubled", &question, &doubled);
        arena_free(&arena);
    }
}

// Which stages lie on slow devices does matter where a pipeline has several.
static void the_order_of_node_entries_is_no_matter(void **state)
{
    (void)state;
    struct draw draw = draw_start("reversed entries", 5);
    for (int i = 0; i < case_count(100); i++) {
        struct arena arena = {0};
        struct random_question question, reversed;
        random_question_mixed(&arena, &draw, &question);
        reversed = question;
        struct cluster *cluster = cluster_copy(&arena, question.request.cluster);
        int last = cluster->node_group_count - 1;
        for (int n = 0; n <= last; n++)
            cluster->nodes[n] = question.request.cluster->nodes[last - n];
        reversed.request.cluster = cluster;
        random_question_again(&arena, &reversed);
        if (question.request.parallel.degree[AXIS_PP] > 1)
            reversed.evaluation.prediction.step_s = question.evaluation.prediction.step_s;
        // Nor is it for what stages share, which goes over the links of their nodes.
        if (question.evaluation.price->tie_count > 0)
            reversed.closed_form_s = question.closed_form_s;
        check_equal("reversed", &question, &reversed);
        arena_free(&arena);
    }
}

// Rooms that gradients and weights of a bucket pass may be more than the states that leave, where
// a rank has so few of them that all fit into one bucket: by so much a stage may need more.
static int64_t rooms_beyond(const struct random_question *before,
                            const struct random_question *after)
{
    int64_t most = 0;
    for (int s = 0; s < before->evaluation.program->shape.stage_count; s++) {
        const struct memory_parts *a = &before->evaluation.stage_memory[s];
        const struct memory_parts *b = &after->evaluation.stage_memory[s];
        int64_t more =
            b->buffers_bytes - a->buffers_bytes - (a->optimizer_bytes - b->optimizer_bytes);
        most = more > most ? more : most;
    }
    return most;
}

static void check_not_larger(const char *what, const struct random_question *before,
                             const struct random_question *after)
{
    const struct prediction *a = &before->evaluation.prediction, *b = &after->evaluation.prediction;
    int64_t rooms = rooms_beyond(before, after);
    if (b->peak_bytes <= a->peak_bytes + rooms && b->reserved_bytes <= a->reserved_bytes + rooms)
        return;
    random_question_print(before);
    print_error("%s: allocated %lld -> %lld, reserved %lld -> %lld\n", what,
                (long long)a->peak_bytes, (long long)b->peak_bytes, (long long)a->reserved_bytes,
                (long long)b->reserved_bytes);
    fail();
}

// The same plan, without anything recomputed or moved.
static struct random_question plain_of(const struct random_question *question)
{
    struct random_question plain = *question;
    struct parallel *parallel = &plain.request.parallel;
    parallel->recompute = RECOMPUTE_NONE;
    parallel->recompute_classes = 0;
    parallel->recompute_layers = -1;
    parallel->offload = (struct offload){0};
    return plain;
}

// What is moved, on the plan as it is.
static void check_offloads(struct arena *arena, const struct random_question *question)
{
    static const char *const OFFLOADS[] = {
        "optimizer", "optimizer@nvme", "activations", "activations:2",        "attention",
        "mlp",       "norm",           "other",       "optimizer,activations"};
    struct random_question before = *question;
    before.request.parallel.offload = (struct offload){0};
    if (!random_question_try(arena, &before)) return;
    for (size_t i = 0; i < sizeof OFFLOADS / sizeof *OFFLOADS; i++) {
        struct random_question moved = before;
        bool ok = offload_parse(OFFLOADS[i], &moved.request.parallel.offload);
        assert_true(ok);
        if (random_question_try(arena, &moved)) check_not_larger(OFFLOADS[i], &before, &moved);
    }
}

// Where B and W are tasks of their own, what is recomputed in B is kept for W, and the room for a
// layer's work is counted beside the heaviest moment whichever it is.
static void check_recompute(struct arena *arena, const struct random_question *question)
{
    static const unsigned CLASSES[] = {0, 1u << OP_CLASS_NORM, 1u << OP_CLASS_ACTIVATION};
    struct random_question plain = plain_of(question);
    bool is_fused = schedule_row(plain.request.parallel.schedule)->backward_fused;
    if (!is_fused || !random_question_try(arena, &plain)) return;
    struct random_question recomputed = plain;
    recomputed.request.parallel.recompute = RECOMPUTE_FULL;
    if (random_question_try(arena, &recomputed)) check_not_larger("full", &plain, &recomputed);
    recomputed.request.parallel.recompute = RECOMPUTE_SELECTIVE;
    for (size_t i = 0; i < sizeof CLASSES / sizeof *CLASSES; i++) {
        recomputed.request.parallel.recompute_classes = CLASSES[i];
        if (random_question_try(arena, &recomputed))
            check_not_larger("selective", &plain, &recomputed);
    }
}

static void what_is_recomputed_or_moved_never_raises_the_peak(void **state)
{
    (void)state;
    struct draw draw = draw_start("peaks", 3);
    for (int i = 0; i < case_count(100); i++) {
        struct arena arena = {0};
        struct random_question question;
        random_question(&arena, &draw, &question);
        check_offloads(&arena, &question);
        check_recompute(&arena, &question);
        arena_free(&arena);
    }
}

static const double AGREEMENT = 0.02;

static void the_closed_form_agrees_with_the_events(void **state)
{
    (void)state;
    struct draw draw = draw_start("closed form against events", 7);
    double worst[SCHEDULE_KIND_COUNT] = {0};
    for (int i = 0; i < case_count(200); i++) {
        struct arena arena = {0};
        struct random_question question;
        random_question(&arena, &draw, &question);
        double step_s = question.evaluation.prediction.step_s;
        double apart = fabs(question.closed_form_s / step_s - 1);
        double *most = &worst[question.request.parallel.schedule];
        if (apart >= AGREEMENT) random_question_print(&question);
        *most = fmax(*most, apart);
        arena_free(&arena);
    }
    for (int i = 0; i < SCHEDULE_KIND_COUNT; i++) {
        printf("# %s: worst %.2f %%\n", schedule_name((enum schedule_kind)i), 100 * worst[i]);
        assert_true(worst[i] < AGREEMENT);
    }
}

// Twice the sequence or twice the sequences of the same plan.
static void more_work_is_never_faster(void **state)
{
    (void)state;
    struct draw draw = draw_start("more work", 9);
    for (int i = 0; i < case_count(150); i++) {
        struct arena arena = {0};
        struct random_question question, longer, larger;
        random_question(&arena, &draw, &question);
        longer = larger = question;
        longer.request.workload.seq_len *= 2;
        if (random_question_try(&arena, &longer))
            check_not_slower("half of the sequence", 2, &longer, &question);
        larger.request.workload.global_batch *= 2;
        // A single micro-batch scatters its gradients in its backward, stage after stage; several
        // scatter their sum at the end, all stages at once.
        bool adds_up = question.evaluation.program->parallel.accumulates;
        if (random_question_try(&arena, &larger) &&
            larger.evaluation.program->parallel.accumulates == adds_up)
            check_not_slower("half of the batch", 2, &larger, &question);
        arena_free(&arena);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_recomputed_or_moved_never_raises_the_peak),
        cmocka_unit_test(the_closed_form_agrees_with_the_events),
        cmocka_unit_test(more_work_is_never_faster),
        cmocka_unit_test(doubled_rates_halve_the_time),
        cmocka_unit_test(the_order_of_node_entries_is_no_matter),
        cmocka_unit_test(better_hardware_is_never_slower),
    };
    return cmocka_run_group_tests(tests, arena_setup, arena_teardown);
}
