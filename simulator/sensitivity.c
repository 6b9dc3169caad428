#include "simulator/sensitivity.h"
#include "core/real.h"
#include "simulator/unlike.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double SMALL = 0.01, LARGE = 0.10;

struct bench *bench_new(struct arena *arena, const struct evaluation_request *request)
{
    struct bench *bench = ARENA_NEW(arena, struct bench, 1);
    struct price_context context = evaluation_context(request);
    struct device *device = device_copy(arena, context.compute.device);
    struct stack *stack = stack_copy(arena, request->stack);
    struct fabrics *fabrics = fabrics_copy(arena, request->fabrics);
    bench->request = *request;
    bench->request.cluster = cluster_with_device(arena, request->cluster, device);
    bench->request.stack = stack;
    bench->request.fabrics = fabrics;
    bench->constants = constants_list(arena, device, stack, fabrics);
    return bench;
}

// At this ratio of its value, as far as its reader accepts it.
static double value_at(const struct constant *constant, double ratio)
{
    assert(constant->low <= constant->high && ratio > 0);
    return fmax(constant->low, fmin(constant->high, *constant->value * ratio));
}

static const struct step_price *price_on(const struct bench *bench, struct arena *arena,
                                         const struct program *program)
{
    struct price_context context = evaluation_context(&bench->request);
    return step_price(arena, &context, program);
}

static double play_s(struct arena *scratch, const struct evaluation_request *request,
                     const struct program *program, const struct step_price *price)
{
    struct arena work = {0};
    double step_s =
        unlike_play(scratch, &work, request, program, price, &(struct engine_options){0})
            ->cost.step_s;
    arena_free(&work);
    return step_s;
}

static bool same_bytes(const void *a, const void *b, size_t size)
{
    return memcmp(a, b, size) == 0;
}

// Byte by byte, padding and all: what only seems different is played once more than needed.
static bool same_price(const struct step_price *a, const struct step_price *b)
{
    struct step_price one = *a, other = *b;
    assert(a->class_count == b->class_count && "both are prices of one program");
    one.classes = other.classes = NULL;
    return same_bytes(&one, &other, sizeof one) &&
           same_bytes(a->classes, b->classes, (size_t)a->class_count * sizeof *a->classes);
}

// Whether any price changes when the constants from `first` to `end` do.
static bool changes(const struct bench_plan *plan, struct arena *scratch, int first, int end,
                    double ratio)
{
    struct arena_mark mark = arena_mark(scratch);
    const struct constant *items = plan->bench->constants.items;
    double *kept = ARENA_NEW(scratch, double, end - first);
    assert(0 <= first && first < end && end <= plan->bench->constants.count);
    for (int i = first; i < end; i++) {
        kept[i - first] = *items[i].value;
        *items[i].value = value_at(&items[i], ratio);
    }
    const struct step_price *price = price_on(plan->bench, scratch, plan->program);
    for (int i = first; i < end; i++)
        *items[i].value = kept[i - first];
    bool is_same = same_price(price, plan->price);
    arena_reset(scratch, mark);
    return !is_same;
}

static int owner_end(const struct constant_list *list, int first)
{
    const struct constant *item = &list->items[first];
    int end = first;
    while (end < list->count && list->items[end].owner == item->owner &&
           strcmp(list->items[end].owner_name, item->owner_name) == 0)
        end++;
    assert(end > first);
    return end;
}

struct bench_plan bench_plan_new(struct arena *arena, struct arena *scratch,
                                 const struct bench *bench, const struct program *program)
{
    const struct constant_list *list = &bench->constants;
    struct bench_plan plan = {.bench = bench, .program = program};
    plan.price = price_on(bench, arena, program);
    plan.step_s = play_s(scratch, &bench->request, program, plan.price);
    plan.counts = ARENA_NEW(arena, bool, list->count);
    for (int first = 0, end; first < list->count; first = end) {
        end = owner_end(list, first);
        // Of most fabrics the plan uses no link.
        if (!changes(&plan, scratch, first, end, 1 + LARGE) &&
            !changes(&plan, scratch, first, end, 1 - LARGE)) {
            continue;
        }
        for (int i = first; i < end; i++) {
            plan.counts[i] = changes(&plan, scratch, i, i + 1, 1 + LARGE) ||
                             changes(&plan, scratch, i, i + 1, 1 - LARGE);
        }
    }
    return plan;
}

double bench_step_s(const struct bench_plan *plan, struct arena *scratch, int constant,
                    double ratio)
{
    assert(constant >= 0 && constant < plan->bench->constants.count && ratio > 0);
    if (!plan->counts[constant]) return plan->step_s;
    struct arena_mark mark = arena_mark(scratch);
    const struct constant *item = &plan->bench->constants.items[constant];
    double kept = *item->value;
    *item->value = value_at(item, ratio);
    const struct step_price *price = price_on(plan->bench, scratch, plan->program);
    bool is_same = same_price(price, plan->price);
    double step_s =
        is_same ? plan->step_s : play_s(scratch, &plan->bench->request, plan->program, price);
    *item->value = kept;
    arena_reset(scratch, mark);
    return step_s;
}

static struct sensitivity_row row_of(const struct bench_plan *plan, struct arena *scratch, int i)
{
    const struct constant *constant = &plan->bench->constants.items[i];
    double low = value_at(constant, 1 - SMALL), high = value_at(constant, 1 + SMALL);
    double below_s = bench_step_s(plan, scratch, i, 1 - SMALL);
    double above_s = bench_step_s(plan, scratch, i, 1 + SMALL);
    return (struct sensitivity_row){
        .constant = constant,
        .elasticity = high > low ? real_log(above_s / below_s) / real_log(high / low) : 0,
        .can_grow = value_at(constant, 1 + LARGE) > *constant->value,
        .more_s = bench_step_s(plan, scratch, i, 1 + LARGE) - plan->step_s,
        .less_s = bench_step_s(plan, scratch, i, 1 - LARGE) - plan->step_s,
    };
}

static int compare(const void *a, const void *b)
{
    const struct sensitivity_row *first = a, *second = b;
    double one = fabs(first->elasticity), other = fabs(second->elasticity);
    if (one != other) return one < other ? 1 : -1;
    return first->constant < second->constant ? -1 : 1;
}

struct sensitivity sensitivity_make(struct arena *arena, struct arena *scratch,
                                    const struct evaluation_request *request,
                                    const struct evaluation *evaluation)
{
    const struct bench *bench = bench_new(arena, request);
    struct bench_plan plan = bench_plan_new(arena, scratch, bench, evaluation->program);
    struct sensitivity all = {.step_s = plan.step_s};
    assert(fabs(all.step_s - evaluation->prediction.step_s) <= 1e-9 * all.step_s);
    all.rows = ARENA_NEW(arena, struct sensitivity_row, bench->constants.count);
    for (int i = 0; i < bench->constants.count; i++) {
        struct sensitivity_row row = row_of(&plan, scratch, i);
        double most_s = fmax(fabs(row.more_s), fabs(row.less_s));
        bool is_idle =
            fabs(row.elasticity) < SENSITIVITY_LEAST && most_s < SENSITIVITY_LEAST * all.step_s;
        if (is_idle) {
            all.idle_count++;
            all.idle_elasticity += fabs(row.elasticity);
        } else {
            all.rows[all.count++] = row;
        }
    }
    qsort(all.rows, (size_t)all.count, sizeof *all.rows, compare);
    return all;
}
