#include "memory/schedule.h"

#include "core/names.h"
#include "core/progress.h"
#include "memory/check.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    CERTIFY_OPERATORS = 30,  // what the precedence model decides in well under a second
    CERTIFY_BUFFERS = 12,    // what the layout model does
};

// Of the time for a method, what order may take; the rest is for addresses. The whole-graph program
// has them from greedy rules, which are quick.
static const double ORDER_TIME_RATIO = 0.5, GLOBAL_ILP_TIME_RATIO = 0.9;

static const char *const NAMES[] = {
    [MEMORY_PROGRAM] = "program",
    [MEMORY_GREEDY] = "greedy",
    [MEMORY_GLOBAL_ILP] = "global-ilp",
    [MEMORY_ROAM] = "roam",
};

const char *memory_method_name(enum memory_method method)
{
    assert(method < sizeof NAMES / sizeof *NAMES);
    return NAMES[method];
}

bool memory_method_from_name(const char *name, enum memory_method *method)
{
    int found = NAME_INDEX(NAMES, name);
    if (found >= 0) *method = (enum memory_method)found;
    return found >= 0;
}

static double over(int64_t bytes, int64_t base_bytes)
{
    return base_bytes > 0 ? (double)bytes / (double)base_bytes - 1 : 0;
}

double memory_fragmentation(const struct memory_schedule *schedule)
{
    return over(schedule->arena_bytes, schedule->live_bytes);
}

double memory_gap(const struct memory_schedule *schedule)
{
    return over(schedule->arena_bytes, schedule->bound_bytes);
}

// One call's question and the clock it runs against.
struct task {
    struct arena *arena, *scratch;
    const struct memory_options *options;
    double start_s;
};

static double deadline_s(const struct task *task, double ratio)
{
    assert(ratio > 0 && ratio <= 1 && task->options->time_limit_s >= 0);
    double limit_s = task->options->time_limit_s;
    return limit_s > 0 ? task->start_s + ratio * limit_s : 0;
}

static struct milp_options milp_options_of(const struct task *task, double deadline)
{
    double left_s = deadline - clock_s();
    return (struct milp_options){
        .time_limit_s = deadline == 0 ? 0 : fmax(left_s, 0.1),
        .log = task->options->log,
        .log_context = task->options->log_context,
    };
}

static struct pack_options pack_options_of(const struct task *task)
{
    return (struct pack_options){.deadline_s = deadline_s(task, 1),
                                 .node_cap = task->options->node_cap,
                                 .patience = task->options->patience,
                                 .enough = task->options->enough_bytes};
}

// The buffers of a problem as an order lets them live.
static struct pack_problem lives_of(const struct task *task, const struct memory_problem *problem,
                                    const int *order, struct memory_schedule *schedule)
{
    int count = problem->buffer_count;
    int *birth = ARENA_NEW(task->scratch, int, count);
    int *death = ARENA_NEW(task->scratch, int, count);
    schedule->live_bytes = memory_lifetimes(task->scratch, problem, order, birth, death);
    int64_t *births = ARENA_NEW(task->arena, int64_t, count);
    int64_t *deaths = ARENA_NEW(task->arena, int64_t, count);
    struct pack_buffer *buffers = ARENA_NEW(task->scratch, struct pack_buffer, count);
    for (int b = 0; b < count; b++) {
        births[b] = birth[b];
        deaths[b] = death[b];
        buffers[b] = (struct pack_buffer){
            .lower = birth[b],
            .upper = death[b],
            .size = problem->buffers[b].bytes,
            .alignment = task->options->alignment,
            .fixed_offset = -1,
        };
    }
    assert(schedule->live_bytes >= 0);
    schedule->order = order;
    schedule->birth = births;
    schedule->death = deaths;
    schedule->buffer_count = count;
    return (struct pack_problem){buffers, count, task->options->capacity};
}

static int by_death(const void *a, const void *b)
{
    const struct pack_buffer *x = *(const struct pack_buffer *const *)a;
    const struct pack_buffer *y = *(const struct pack_buffer *const *)b;
    if (x->upper != y->upper) return x->upper < y->upper ? -1 : 1;
    return x < y ? -1 : x > y;
}

// What a framework would do: memory is asked for when a buffer is made and given back when it dies,
// at one instant the dead first.
static void allocate(const struct task *task, const struct pack_problem *problem,
                     struct memory_schedule *schedule)
{
    int count = problem->count, event_count = 0, dead = 0;
    struct arena *scratch = task->scratch;
    const struct pack_buffer **born = ARENA_NEW(scratch, const struct pack_buffer *, count);
    const struct pack_buffer **dying = ARENA_NEW(scratch, const struct pack_buffer *, count);
    for (int b = 0; b < count; b++)
        born[b] = dying[b] = &problem->buffers[b];
    qsort(born, (size_t)count, sizeof *born, pack_compare_births);
    qsort(dying, (size_t)count, sizeof *dying, by_death);
    struct allocator_event *events = ARENA_NEW(scratch, struct allocator_event, 2 * count);
    for (int b = 0; b < count; b++) {
        if (born[b]->lower == born[b]->upper) continue;
        for (; dead < count && dying[dead]->upper <= born[b]->lower; dead++) {
            if (dying[dead]->lower == dying[dead]->upper) continue;
            events[event_count++] =
                (struct allocator_event){(int)(dying[dead] - problem->buffers), true, 0};
        }
        events[event_count++] =
            (struct allocator_event){(int)(born[b] - problem->buffers), false, born[b]->size};
    }
    assert(event_count <= 2 * count);
    int64_t *offsets = ARENA_NEW(task->arena, int64_t, count);
    struct allocator_result result = allocator_run(scratch, events, event_count, count, 0, offsets);
    schedule->offsets = offsets;
    schedule->arena_bytes = result.reserved_bytes;
}

static void take_pack(struct memory_schedule *schedule, const struct pack_result *pack)
{
    schedule->offsets = pack->offsets;
    schedule->arena_bytes = pack->height;
    schedule->pack_counts = *pack;
}

static void place(const struct task *task, const struct pack_problem *problem,
                  struct memory_schedule *schedule)
{
    enum memory_method method = schedule->method;
    struct pack_options options = pack_options_of(task);
    // Where another order was packed before.
    if (schedule->arena_bytes > 0) options.patience /= 4;
    options.no_search = method == MEMORY_GLOBAL_ILP;
    if (method == MEMORY_PROGRAM) {
        allocate(task, problem, schedule);
    } else if (method == MEMORY_GREEDY) {
        int64_t *offsets = ARENA_NEW(task->arena, int64_t, problem->count);
        schedule->arena_bytes = pack_long_lived_best_fit(task->scratch, problem, offsets);
        schedule->offsets = offsets;
    } else {
        struct pack_result pack = pack_solve(task->arena, task->scratch, problem, &options);
        take_pack(schedule, &pack);
    }
}

// Whether GLPK's layout model, asked on a small problem, proves what was found wrong.
static bool layout_agrees(const struct task *task, const struct pack_problem *problem,
                          const struct memory_schedule *schedule, struct err *err)
{
    bool is_proven = schedule->arena_bytes == schedule->pack_counts.bound;
    if (!task->options->certify || problem->count > CERTIFY_BUFFERS || problem->count == 0 ||
        !is_proven)
        return true;
    struct milp_options options = milp_options_of(task, deadline_s(task, 1));
    struct pack_problem open = *problem;
    open.capacity = 0;
    int64_t *offsets = ARENA_NEW(task->scratch, int64_t, problem->count);
    struct milp_result result = certify_pack(task->scratch, &open, &options, offsets);
    if (result.status != MILP_OPTIMAL ||
        (int64_t)llround(result.objective) == schedule->arena_bytes)
        return true;
    return err_set(err, ERR_SYSTEM,
                   "a bug: the search says that no arena is below %lld bytes, GLPK finds %.0f",
                   (long long)schedule->arena_bytes, result.objective);
}

static void judge(const struct task *task, struct memory_schedule *schedule)
{
    int64_t capacity = task->options->capacity;
    schedule->fits = capacity == 0 || schedule->arena_bytes <= capacity;
    schedule->infeasible = !schedule->fits && schedule->bound_bytes > capacity;
    schedule->order_proven = schedule->live_bytes == schedule->bound_bytes;
    schedule->layout_proven = schedule->arena_bytes == schedule->live_bytes;
    schedule->seconds = clock_s() - task->start_s;
    assert(schedule->bound_bytes <= schedule->arena_bytes);
}

// An order by the method, and what it proves; returns the bound on bytes alive at once.
static int64_t find_order(const struct task *task, const struct memory_problem *problem,
                          struct memory_schedule *schedule, const int **order)
{
    int64_t bound_bytes = order_simple_bound(problem);
    bool is_global = schedule->method == MEMORY_GLOBAL_ILP;
    double deadline = deadline_s(task, is_global ? GLOBAL_ILP_TIME_RATIO : ORDER_TIME_RATIO);
    if (schedule->method == MEMORY_ROAM) {
        struct order_options options = {
            .deadline_s = deadline,
            .certify_operators = task->options->certify ? CERTIFY_OPERATORS : 0,
            .log = task->options->log,
            .log_context = task->options->log_context,
        };
        schedule->order_counts = order_solve(task->arena, task->scratch, problem, &options);
        *order = schedule->order_counts.order;
        int64_t proven_bytes = schedule->order_counts.bound_bytes;
        return proven_bytes > bound_bytes ? proven_bytes : bound_bytes;
    }
    if (schedule->method == MEMORY_GREEDY) {
        *order = order_greedy(task->arena, task->scratch, problem);
    } else if (is_global) {
        struct milp_options options = milp_options_of(task, deadline);
        int *found = ARENA_NEW(task->arena, int, problem->operator_count);
        struct milp_result result = global_order(task->arena, problem, &options, found);
        *order = found;
        // Bounds of floating point are taken a byte and a millionth lower.
        if (isfinite(result.bound) && result.bound > (double)bound_bytes)
            bound_bytes = (int64_t)floor(result.bound * (1 - 1e-6)) - 1;
    } else {
        *order = order_program(task->arena, problem);
    }
    return bound_bytes;
}

static bool live_alike(const struct memory_schedule *a, const struct memory_schedule *b)
{
    size_t bytes = (size_t)a->buffer_count * sizeof *a->birth;
    return memcmp(a->birth, b->birth, bytes) == 0 && memcmp(a->death, b->death, bytes) == 0;
}

// Where fragmentation is left, other orders may pack better: R6 of the requirements, never above
// any heuristic.
static void try_order(const struct task *task, const struct memory_problem *problem,
                      const int *order, struct memory_schedule *schedule)
{
    struct memory_schedule other = *schedule;
    struct pack_problem lives = lives_of(task, problem, order, &other);
    if (other.live_bytes >= schedule->arena_bytes || live_alike(schedule, &other)) return;
    place(task, &lives, &other);
    if (other.arena_bytes < schedule->arena_bytes) *schedule = other;
}

bool memory_schedule_graph(struct arena *arena, struct arena *scratch,
                           const struct memory_graph *graph, const struct memory_problem *problem,
                           const struct memory_options *options, struct memory_schedule *schedule,
                           struct err *err)
{
    struct arena_mark mark = arena_mark(scratch);
    const struct task task = {arena, scratch, options, clock_s()};
    *schedule = (struct memory_schedule){
        .method = options->method,
        .persistent_bytes = problem->persistent_bytes,
    };
    const int *order;
    schedule->bound_bytes = find_order(&task, problem, schedule, &order);
    struct pack_problem lives = lives_of(&task, problem, order, schedule);
    assert(schedule->bound_bytes <= schedule->live_bytes);
    place(&task, &lives, schedule);
    bool ok = layout_agrees(&task, &lives, schedule, err);
    bool is_enough = schedule->arena_bytes <= options->enough_bytes;
    if (options->method == MEMORY_ROAM && schedule->arena_bytes > schedule->bound_bytes &&
        !is_enough) {
        try_order(&task, problem, order_program(arena, problem), schedule);
        try_order(&task, problem, order_greedy(arena, scratch, problem), schedule);
    }
    judge(&task, schedule);
    const char *why = "";
    if (options->spoil) options->spoil(schedule);
    if (ok && !check_graph(scratch, graph, problem, options->alignment, options->capacity, schedule,
                           &why))
        ok = err_set(err, ERR_SYSTEM, "a bug: the schedule is wrong: %s", why);
    arena_reset(scratch, mark);
    return ok;
}

bool memory_schedule_packing(struct arena *arena, struct arena *scratch,
                             const struct pack_problem *problem,
                             const struct memory_options *options, struct memory_schedule *schedule,
                             struct err *err)
{
    struct arena_mark mark = arena_mark(scratch);
    const struct task task = {arena, scratch, options, clock_s()};
    *schedule = (struct memory_schedule){
        .method = options->method,
        .live_bytes = pack_bound(scratch, problem),
        .buffer_count = problem->count,
    };
    schedule->bound_bytes = schedule->live_bytes;
    place(&task, problem, schedule);
    if (schedule->pack_counts.bound > schedule->bound_bytes)
        schedule->bound_bytes = schedule->pack_counts.bound;
    bool ok = layout_agrees(&task, problem, schedule, err);
    judge(&task, schedule);
    schedule->order_proven = true;
    schedule->layout_proven = schedule->arena_bytes == schedule->bound_bytes;
    schedule->infeasible |= schedule->pack_counts.infeasible;
    const char *why = "";
    if (options->spoil) options->spoil(schedule);
    if (ok && !check_packing(scratch, problem, schedule, &why))
        ok = err_set(err, ERR_SYSTEM, "a bug: the packing is wrong: %s", why);
    arena_reset(scratch, mark);
    return ok;
}
