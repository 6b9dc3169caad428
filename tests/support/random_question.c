#include "tests/support/random_question.h"

#include "core/file.h"
#include "planner/choice.h"
#include "simulator/closed_form.h"
#include "tests/support/random_network.h"
#include "tests/support/test.h"

#include <stdio.h>

static const char *draw_name(struct arena *arena, struct draw *draw, const char *folder)
{
    int count;
    const char **names = file_list_data(arena, folder, &count);
    assert_true(count > 0);
    // Numbers of nodes are drawn, and those of several kinds stand in their file.
    int kept = 0;
    for (int i = 0; i < count; i++) {
        if (!strstr(names[i], "-mixed")) names[kept++] = names[i];
    }
    return names[draw_int(draw, 0, kept - 1)];
}

struct cluster *cluster_copy(struct arena *arena, const struct cluster *cluster)
{
    struct cluster *copy = ARENA_NEW(arena, struct cluster, 1);
    *copy = *cluster;
    copy->nodes = ARENA_NEW(arena, struct node_group, cluster->node_group_count);
    for (int i = 0; i < cluster->node_group_count; i++) {
        copy->nodes[i] = cluster->nodes[i];
        copy->nodes[i].device = device_copy(arena, cluster->nodes[i].device);
    }
    return copy;
}

static struct cluster *draw_nodes(struct arena *arena, struct draw *draw)
{
    static const int NODES[] = {1, 1, 2, 3, 4, 8};
    struct err err = {0};
    struct cluster *cluster = cluster_load(arena, draw_name(arena, draw, "topologies"), &err);
    assert_string_equal(err.text, "");
    bool ok = cluster_set_nodes(cluster, DRAW_ONE(draw, NODES), &err);
    assert_true(ok);
    random_tiers(draw, &cluster->network);
    return cluster_copy(arena, cluster);
}

static struct cluster *draw_cluster(struct arena *arena, struct draw *draw)
{
    struct err err = {0};
    struct cluster *cluster = draw_nodes(arena, draw);
    if (draw_int(draw, 0, 3) == 0) {
        bool ok = cluster_take_gpus(cluster, draw_int(draw, 1, cluster->rank_count), &err);
        assert_true(ok);
    }
    return cluster;
}

// Nodes of two or three kinds on the network of the first.
static struct cluster *draw_mixed(struct arena *arena, struct draw *draw)
{
    struct cluster *cluster = draw_nodes(arena, draw);
    struct node_group *groups = ARENA_NEW(arena, struct node_group, 3);
    groups[0] = cluster->nodes[0];
    cluster->nodes = groups;
    cluster->network.tier_count = 0;  // of nodes of as many GPUs each
    cluster->node_group_count = draw_int(draw, 2, 3);
    for (int i = 1; i < cluster->node_group_count; i++) {
        const struct cluster *other = draw_nodes(arena, draw);
        groups[i] = other->nodes[0];
        cluster->node_count += other->node_count;
        cluster->rank_count += other->rank_count;
    }
    return cluster;
}

// The n-th set bit of a mask.
static int draw_bit(struct draw *draw, unsigned mask)
{
    int bits[32], count = 0;
    for (int bit = 0; bit < 32; bit++) {
        if (mask >> bit & 1) bits[count++] = bit;
    }
    return count ? bits[draw_int(draw, 0, count - 1)] : 0;
}

static int draw_divisor(struct draw *draw, int number, int most)
{
    int divisor = draw_int(draw, 1, most < number ? most : number);
    while (number % divisor)
        divisor--;
    return divisor;
}

static void draw_degrees(struct draw *draw, const struct evaluation_request *request,
                         struct parallel *parallel)
{
    int left = request->cluster->rank_count;
    unsigned axes = request->stack->axes;
    static const struct {
        enum axis axis;
        int most;
    } AXES[] = {{AXIS_TP, 8}, {AXIS_PP, 16}, {AXIS_CP, 4}};
    for (int i = 0; i < 3; i++) {
        bool is_split = axes >> AXES[i].axis & 1 && draw_int(draw, 0, 2);
        int degree = is_split ? draw_divisor(draw, left, AXES[i].most) : 1;
        parallel->degree[AXES[i].axis] = degree;
        left /= degree;
    }
    parallel->degree[AXIS_DP] = left;
    int ranks = left * parallel->degree[AXIS_TP] * parallel->degree[AXIS_CP];
    if (axes >> AXIS_EP & 1 && draw_int(draw, 0, 1))
        parallel->degree[AXIS_EP] = draw_divisor(draw, ranks, 64);
}

static void draw_parallel(struct draw *draw, struct evaluation_request *request)
{
    const struct stack *stack = request->stack;
    struct parallel *parallel = &request->parallel;
    *parallel =
        (struct parallel){.degree = {[0 ... AXIS_COUNT - 1] = 1}, .vpp = 1, .recompute_layers = -1};
    parallel_default_order(parallel);
    draw_degrees(draw, request, parallel);
    bool pipelined = parallel->degree[AXIS_PP] > 1;
    parallel->sp = stack->sequence_parallel && draw_int(draw, 0, 1);
    parallel->schedule =
        pipelined ? (enum schedule_kind)draw_bit(draw, stack->schedules) : SCHEDULE_1F1B;
    if (parallel->schedule == SCHEDULE_INTERLEAVED) parallel->vpp = draw_int(draw, 2, 12);
    if (parallel->schedule == SCHEDULE_ZB_V) parallel->vpp = 2;
    parallel->micro_batch = 1 << draw_int(draw, 0, 2);
    unsigned stages = pipelined ? stack->zero_stages_with_pipeline : stack->zero_stages;
    parallel->zero = draw_bit(draw, stages);
    parallel->recompute = (enum recompute)draw_bit(draw, stack->recompute);
    if (parallel->recompute == RECOMPUTE_SELECTIVE && draw_int(draw, 0, 1))
        parallel->recompute_classes = (unsigned)draw_bits(draw) & stack->recompute_classes;
    if (parallel->recompute == RECOMPUTE_FULL && draw_int(draw, 0, 2) == 0)
        parallel->recompute_layers = draw_int(draw, 1, 8);
    parallel->cp_kind = (enum cp_kind)draw_bit(draw, stack->cp_kinds);
    parallel->attention = (enum attention)draw_bit(draw, stack->attention);
    parallel->overlap = stack->overlap_default;
    if (draw_int(draw, 0, 1)) parallel->overlap = (unsigned)draw_bits(draw) & stack->overlap;
    parallel->passes = stack->passes;
    if (draw_int(draw, 0, 3) == 0) parallel->passes &= (unsigned)draw_bits(draw);
    if (draw_int(draw, 0, 3) == 0 && stack->offload >> OFFLOADS_OPTIMIZER & 1)
        parallel->offload.optimizer = TIER_HOST;
}

static void draw_workload(struct draw *draw, struct evaluation_request *request)
{
    static const int SEQ_LENS[] = {512, 1024, 2048, 4096, 8192, 16384};
    static const int ROUNDS[] = {1, 2, 3, 4, 8, 12, 32};
    const struct parallel *parallel = &request->parallel;
    int64_t rounds = DRAW_ONE(draw, ROUNDS);
    if (parallel->schedule == SCHEDULE_INTERLEAVED) rounds *= parallel->degree[AXIS_PP];
    unsigned precisions = 0;
    for (int i = 0; i < PRECISION_COUNT; i++) {
        struct err err = {0};
        bool runs = cluster_check_precision(request->cluster, (enum precision)i, &err) &&
                    stack_check_precision(request->stack, (enum precision)i, &err);
        precisions |= (unsigned)runs << i;
    }
    request->workload = (struct workload){
        .seq_len = DRAW_ONE(draw, SEQ_LENS),
        .global_batch = rounds * parallel->micro_batch * parallel->degree[AXIS_DP],
        .precision = (enum precision)draw_bit(draw, precisions),
        .optimizer = (enum optimizer)draw_int(draw, 0, 1),
        .expert_imbalance = draw_int(draw, 0, 1) ? 0 : 1.3,
        .capacity_factor = draw_int(draw, 0, 3) ? 0 : 0.5 * draw_int(draw, 1, 4),
    };
}

bool random_question_try(struct arena *arena, struct random_question *question)
{
    struct arena scratch = {0};
    struct err err = {0};
    question->evaluation = (struct evaluation){0};
    bool ok = evaluate(arena, &scratch, &question->request, &question->evaluation, &err);
    arena_free(&scratch);
    if (ok) question->closed_form_s = closed_form(question->evaluation.price).step_s;
    return ok;
}

void random_question_again(struct arena *arena, struct random_question *question)
{
    bool ok = random_question_try(arena, question);
    if (!ok) random_question_print(question);
    assert_true(ok);
}

static void draw_question(struct arena *arena, struct draw *draw, struct random_question *question,
                          struct cluster *(*cluster)(struct arena *arena, struct draw *draw))
{
    struct err err = {0};
    *question = (struct random_question){0};
    struct evaluation_request *request = &question->request;
    request->fabrics = fabrics_load(arena, &err);
    do {
        request->stack = stack_load(arena, draw_name(arena, draw, "cost_models/stacks"), &err);
        request->model = model_load(arena, draw_name(arena, draw, "models/zoo"), NULL, NULL, &err);
        request->cluster = cluster(arena, draw);
        draw_parallel(draw, request);
        draw_workload(draw, request);
        assert_string_equal(err.text, "");
    } while (!random_question_try(arena, question));
}

void random_question(struct arena *arena, struct draw *draw, struct random_question *question)
{
    draw_question(arena, draw, question, draw_cluster);
}

void random_question_mixed(struct arena *arena, struct draw *draw, struct random_question *question)
{
    draw_question(arena, draw, question, draw_mixed);
}

void random_question_print(const struct random_question *question)
{
    struct arena spare = {0};
    const struct evaluation_request *request = &question->request;
    const struct workload *workload = &request->workload;
    printf("# %s, %d x %s, stack %s, seq %lld, batch %lld, %s, capacity %g, imbalance %g\n#  ",
           request->model->name, request->cluster->rank_count, request->cluster->name,
           request->stack->name, (long long)workload->seq_len, (long long)workload->global_batch,
           precision_name(workload->precision), workload->capacity_factor,
           workload->expert_imbalance);
    for (int i = 0; i < CHOICE_COUNT; i++) {
        int64_t value = choice_value(&request->parallel, (enum choice)i);
        printf(" %s=%s", choice_name((enum choice)i), choice_text(&spare, (enum choice)i, value));
    }
    printf("\n");
    fflush(stdout);
    arena_free(&spare);
}
