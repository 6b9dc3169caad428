#include "planner/meshes_check.h"

#include "planner/branches.h"
#include "planner/choice.h"

#include <assert.h>

int meshes_smallest(const int *numbers, int count)
{
    assert(count >= 1);
    int least = numbers[0];
    for (int s = 1; s < count; s++)
        if (numbers[s] < least) least = numbers[s];
    return least;
}

int meshes_largest(const int *numbers, int count)
{
    assert(count >= 1);
    int most = numbers[0];
    for (int s = 1; s < count; s++)
        if (numbers[s] > most) most = numbers[s];
    return most;
}

bool meshes_have_network(const struct search_request *request)
{
    return fabrics_find(request->fabrics, request->cluster->network.kind, 0) != NULL;
}

bool meshes_search_numbers(const struct pins *pins)
{
    return pins->search_stage_ranks || pins->stage_ranks_count > 0;
}

bool meshes_put_degrees(struct parallel *parallel, int64_t sequences)
{
    assert(parallel->stage_ranks_count >= 1 && sequences >= 1);
    int cp = parallel->degree[AXIS_CP], widest = 0;
    for (int s = 0; s < parallel->stage_ranks_count; s++) {
        int each = parallel->stage_tp[s] * cp;
        if (parallel->stage_ranks[s] % each != 0) return false;
        if (sequences % (parallel->stage_ranks[s] / each) != 0) return false;
        if (parallel->stage_tp[s] > parallel->stage_tp[widest]) widest = s;
    }
    parallel->degree[AXIS_TP] = parallel->stage_tp[widest];
    parallel->degree[AXIS_DP] = parallel->stage_ranks[widest] / (parallel->stage_tp[widest] * cp);
    parallel->micro_batch = (int)(sequences / parallel->degree[AXIS_DP]);
    assert((int64_t)parallel->micro_batch * parallel->degree[AXIS_DP] == sequences);
    return true;
}

const char *meshes_option(const struct pins *pins)
{
    return meshes_search_numbers(pins) ? "--stage-ranks" : "--stage-tp";
}

static int64_t pinned_or_one(const struct pins *pins, enum choice choice)
{
    struct int_range range = pins_get(pins, choice);
    return range.set && range.low == range.high ? range.low : 1;
}

static bool check_multiples(const struct pins *pins, struct err *err)
{
    for (int s = 0; s < pins->stage_ranks_count; s++) {
        int64_t cp = pinned_or_one(pins, CHOICE_CP);
        int64_t tp = pins->stage_tp_count > 0 ? pins->stage_tp[s] : pinned_or_one(pins, CHOICE_TP);
        if (pins->stage_ranks[s] % (tp * cp) == 0) continue;
        return err_set(err, ERR_USAGE,
                       "--stage-ranks: %d for stage %d is no multiple of its tp %lld times cp %lld",
                       pins->stage_ranks[s], s, (long long)tp, (long long)cp);
    }
    return true;
}

static bool check_ranks(const struct search_request *request, struct err *err)
{
    const struct pins *pins = &request->pins;
    int count = pins->stage_ranks_count, gpus = request->cluster->rank_count, sum = 0;
    if (count == 0) return true;
    for (int s = 0; s < count; s++)
        sum += pins->stage_ranks[s];
    if (pins->stage_tp_count > 0 && pins->stage_tp_count != count)
        return err_set(err, ERR_USAGE, "--stage-ranks: %d numbers, and %d of --stage-tp", count,
                       pins->stage_tp_count);
    if (!pins_allow(pins, CHOICE_PP, count))
        return err_set(err, ERR_USAGE,
                       "--stage-ranks: %d numbers, which --pp does not allow; one a stage", count);
    if (sum == gpus) return check_multiples(pins, err);
    return err_set(err, ERR_USAGE, "--stage-ranks: %d ranks in all, the cluster has %d GPUs", sum,
                   gpus);
}

bool meshes_check_pinned(const struct search_request *request, struct err *err)
{
    const struct pins *pins = &request->pins;
    const char *option = meshes_option(pins);
    if (!stack_is_executed(request->stack))
        return err_set(err, ERR_USAGE,
                       "%s: stack %s gives all stages one mesh; --stack meshwright runs unlike "
                       "ones",
                       option, request->stack->name);
    if (pins->replica_count > 0)
        return err_set(err, ERR_USAGE, "%s: not with --replica-batches", option);
    if (!branches_check_pinned(request, err) || !check_ranks(request, err)) return false;
    if (pins->stage_tp_count == 0) return true;
    int most = meshes_largest(pins->stage_tp, pins->stage_tp_count);
    for (int s = 0; s < pins->stage_tp_count; s++)
        if (most % pins->stage_tp[s] != 0)
            return err_set(err, ERR_USAGE,
                           "--stage-tp: %d for stage %d does not divide %d, the "
                           "largest",
                           pins->stage_tp[s], s, most);
    if (!pins_allow(pins, CHOICE_TP, most))
        return err_set(err, ERR_USAGE,
                       "--stage-tp: the largest is %d, which --tp does not allow; they are one",
                       most);
    if (pins_allow(pins, CHOICE_PP, pins->stage_tp_count)) return true;
    return err_set(err, ERR_USAGE, "--stage-tp: %d numbers, which --pp does not allow; one a stage",
                   pins->stage_tp_count);
}
