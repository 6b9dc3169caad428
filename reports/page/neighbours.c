#include "reports/page/neighbours.h"

#include <assert.h>

struct finding {
    struct arena *arena, *scratch;
    const struct evaluation_request *request;
    struct neighbours *found;
    int capacity;
};

// Degrees but dp multiply to the ranks of a pipeline; dp is what is left of the GPUs. Stages with
// meshes of their own have said what each does with its ranks.
static bool follow_with_dp(struct arena *arena, struct parallel *parallel, int64_t gpus,
                           const char **why)
{
    assert(gpus > 0);
    int64_t others = 1;
    *why = "stages have ranks and tp of their own";
    if (parallel_has_meshes(parallel)) return false;
    *why = arena_print(arena, "%lld ranks do not divide by it", (long long)gpus);
    for (int axis = 0; axis < AXIS_COUNT; axis++) {
        if (axis != AXIS_DP && axis_takes_ranks((enum axis)axis)) others *= parallel->degree[axis];
    }
    if (others > gpus || gpus % others != 0) return false;
    parallel->degree[AXIS_DP] = (int)(gpus / others);
    return true;
}

static void price(const struct finding *finding, const struct parallel *parallel,
                  struct neighbour *neighbour)
{
    struct evaluation_request request = *finding->request;
    struct evaluation evaluation;
    struct err err = {0};
    request.parallel = *parallel;
    // What a batch cannot be split by is refused below, with what it can be.
    int64_t batch = (int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch;
    assert(batch > 0);
    if (request.workload.global_batch % batch == 0)
        request.parallel.accumulates =
            stack_accumulates(request.stack, parallel, request.workload.global_batch);
    request.engine = (struct engine_options){0};
    if (!evaluate(finding->arena, finding->scratch, &request, &evaluation, &err)) {
        neighbour->status = NEIGHBOUR_IMPOSSIBLE;
        neighbour->reason = arena_copy(finding->arena, err.text);
        return;
    }
    neighbour->prediction = evaluation.prediction;
    neighbour->lack_bytes =
        evaluation.prediction.reserved_bytes - evaluation.prediction.device_bytes;
    if (neighbour->lack_bytes < 0) neighbour->lack_bytes = 0;
    bool fits = neighbour->lack_bytes == 0 && hosts_shortfall(&evaluation.hosts) == 0;
    neighbour->status = fits ? NEIGHBOUR_FITS : NEIGHBOUR_LACKS_MEMORY;
}

// Of the others the ranks stay as many.
static bool moves_dp(enum choice choice)
{
    return choice == CHOICE_TP || choice == CHOICE_CP || choice == CHOICE_PP;
}

static void try_value(struct finding *finding, enum choice choice, int64_t value)
{
    assert(choice < CHOICE_COUNT);
    struct arena *arena = finding->arena;
    struct parallel parallel = finding->request->parallel;
    int64_t was = choice_value(&parallel, choice);
    int64_t gpus = finding->request->cluster->rank_count;
    if (value == was) return;
    choice_put(&parallel, choice, value);
    // All layers, which is what the word alone means on the command line.
    if (choice == CHOICE_RECOMPUTE) choice_put(&parallel, CHOICE_RECOMPUTE_LAYERS, -1);
    // More chunks than one are what interleaving is for, and one chunk is plain 1F1B.
    if (choice == CHOICE_VPP && parallel.schedule == SCHEDULE_1F1B)
        parallel.schedule = SCHEDULE_INTERLEAVED;
    if (choice == CHOICE_VPP && value == 1 && parallel.schedule == SCHEDULE_INTERLEAVED)
        parallel.schedule = SCHEDULE_1F1B;
    // Layers that were placed by hand are those of as many stages.
    if (choice == CHOICE_PP) parallel.stage_layers = NULL, parallel.stage_layers_count = 0;
    ARENA_GROW(arena, finding->found->list, finding->found->count, finding->capacity);
    struct neighbour *neighbour = &finding->found->list[finding->found->count++];
    *neighbour = (struct neighbour){.choice = choice,
                                    .was = choice_text(arena, choice, was),
                                    .value = choice_text(arena, choice, value)};
    const char *why = NULL;
    if (!moves_dp(choice) || follow_with_dp(arena, &parallel, gpus, &why)) {
        price(finding, &parallel, neighbour);
        return;
    }
    neighbour->status = NEIGHBOUR_IMPOSSIBLE;
    neighbour->reason = why;
}

// Half and twice of what is counted in powers; one less and one more of a stage of sharding.
static void try_number(struct finding *finding, enum choice choice)
{
    int64_t was = choice_value(&finding->request->parallel, choice);
    if (choice == CHOICE_ZERO) {
        if (was > 0) try_value(finding, choice, was - 1);
        if (was < 3) try_value(finding, choice, was + 1);
        return;
    }
    if (was % 2 == 0) try_value(finding, choice, was / 2);
    try_value(finding, choice, 2 * was);
}

// What a schedule cannot do with this many stages and micro-batches is no neighbour.
static bool is_schedule_there(const struct finding *finding, int schedule)
{
    const struct evaluation_request *request = finding->request;
    const struct schedule_row *row = schedule_row((enum schedule_kind)schedule);
    const struct parallel *parallel = &request->parallel;
    int64_t rounds = request->workload.global_batch /
                     ((int64_t)parallel->degree[AXIS_DP] * parallel->micro_batch);
    const struct schedule_shape shape = {parallel->degree[AXIS_PP], parallel->vpp, (int)rounds, 0,
                                         NULL};
    const char *why = NULL;
    return row->legal(&shape, &why);
}

struct neighbours neighbours_find(struct arena *arena, struct arena *scratch,
                                  const struct evaluation_request *request,
                                  const struct graph *graph)
{
    static const enum choice NUMBERS[] = {CHOICE_TP,  CHOICE_CP,          CHOICE_PP,  CHOICE_EP,
                                          CHOICE_VPP, CHOICE_MICRO_BATCH, CHOICE_ZERO};
    struct neighbours found = {0};
    struct finding finding = {arena, scratch, request, &found, 0};
    const struct parallel *parallel = &request->parallel;
    for (size_t i = 0; i < sizeof NUMBERS / sizeof *NUMBERS; i++) {
        if (NUMBERS[i] == CHOICE_EP && graph->expert_count == 0) continue;
        if (NUMBERS[i] == CHOICE_VPP && parallel->degree[AXIS_PP] == 1) continue;
        try_number(&finding, NUMBERS[i]);
    }
    if (parallel->degree[AXIS_TP] > 1) try_value(&finding, CHOICE_SP, !parallel->sp);
    for (int i = 0; i < RECOMPUTE_COUNT; i++)
        try_value(&finding, CHOICE_RECOMPUTE, recompute_value((enum recompute)i, 0));
    for (int i = 0; parallel->degree[AXIS_PP] > 1 && i < SCHEDULE_KIND_COUNT; i++) {
        if (is_schedule_there(&finding, i)) try_value(&finding, CHOICE_SCHEDULE, i);
    }
    return found;
}
