#include "reports/whatif/scenario.h"

#include "core/units.h"
#include "planner/idle.h"
#include "planner/question.h"
#include "planner/scan.h"
#include "reports/whatif/scenario_share.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { WORKER_MAX = 256 };

// What the workers share. Each takes the next leader (scenario_share.h), writes that outcome alone,
// and keeps what it points at in an arena of its own.
struct pool {
    const struct scenario_request *request;
    const struct scenario *scenarios;
    struct scenario_outcome *outcomes;
    const int *leaders;  // indices of the scenarios that are searched, ascending
    int leader_count;
    pthread_mutex_t lock;  // of all below
    int next, done;
    int failed;  // the first scenario in the list's order that failed; -1: none
    struct err err;
};

struct worker {
    struct pool *pool;
    pthread_t thread;
    struct arena arena;
};

// "needs 150 GiB of 79.1 GiB reserved, most of it optimizer"
static const char *nothing_text(struct arena *arena, const struct scenario *scenario,
                                const struct search_result *result)
{
    double device_bytes = (double)cluster_device_bytes(scenario->cluster);
    const struct candidate *closest = &result->closest;
    if ((double)closest->memory.reserved_bytes <= device_bytes) {
        return arena_print(arena, "a host lacks %s of %s",
                           units_bytes(arena, (double)result->shortfall_bytes), result->limit);
    }
    return arena_print(arena, "needs %s of %s, most of it %s",
                       units_bytes(arena, (double)closest->memory.reserved_bytes),
                       units_bytes(arena, device_bytes), result->limit);
}

static bool predict(struct arena *arena, const struct scenario_request *request,
                    const struct search_request *search, double selected_count,
                    struct scenario_outcome *outcome, struct err *err)
{
    struct arena work = {0}, scratch = {0};
    struct evaluation_request question = search_question(search, &outcome->best.parallel);
    question.bands = request->bands;
    question.selected_count = selected_count;
    struct evaluation evaluation = {0};
    bool done = evaluate(&work, &scratch, &question, &evaluation, err);
    if (done) {
        outcome->prediction = prediction_keep(arena, &evaluation.prediction);
        outcome->parameter_count = (double)evaluation.graph->parameter_count;
        outcome->communicators = communicators_of(evaluation.program);
        // The rates at which machines fail are published of GPUs.
        if (strcmp(search->cluster->nodes[0].device->kind, "cpu") != 0) {
            outcome->checkpoint_bytes =
                goodput_checkpoint_bytes(evaluation.program, evaluation.graph, search->stack);
        }
    }
    if (err->kind == ERR_USAGE) {  // pins that no plan can have
        outcome->status = SCENARIO_IMPOSSIBLE;
        outcome->reason = arena_copy(arena, err->text);
        *err = (struct err){0};
        done = true;
    }
    arena_free(&scratch);
    arena_free(&work);
    return done;
}

static bool answer(struct arena *arena, const struct scenario_request *request,
                   const struct scenario *scenario, struct scenario_outcome *outcome,
                   struct err *err)
{
    struct search_request search = {
        .model = scenario->model ? scenario->model : request->model,
        .cluster = scenario->cluster,
        .stack = request->stack,
        .fabrics = request->fabrics,
        .workload = scenario->workload,
        .pins = scenario->pins,
        .objective = request->objective,
        .top = 1,
        .nothing = request->nothing,
        .stop = request->stop,
        .below_s = scenario->slowest_s > 0 ? nextafter(scenario->slowest_s, INFINITY) : 0,
    };
    search.workload.tokens = 0;  // what follows from the length of the run comes last
    struct arena work = {0};
    struct search_result result;
    struct idle_answer idle = {.cluster = scenario->cluster};
    bool done = request->may_idle ? idle_search(&work, &search, &idle, &result, err)
                                  : search_plans(&work, &search, &result, err);
    search.cluster = idle.cluster;
    outcome->idle_gpus = idle.cluster->idle_gpus;
    if (done && result.status == SEARCH_STOPPED) {
        arena_free(&work);
        return true;  // half of a search is no answer beside whole ones
    }
    outcome->reason = NULL;
    if (done && result.status == SEARCH_NOTHING_FITS) {
        outcome->status = SCENARIO_NOTHING_FITS;
        if (request->nothing != SEARCH_FITS_ONLY) {
            outcome->best = candidate_copy(arena, &result.closest);
            outcome->reason = nothing_text(arena, scenario, &result);
        }
    } else if (done) {
        outcome->status = SCENARIO_FITS;
        outcome->best = candidate_copy(arena, &result.best[0]);
        done = predict(arena, request, &search, result.considered_count, outcome, err);
    } else if (err->kind == ERR_USAGE) {
        outcome->status = SCENARIO_IMPOSSIBLE;
        outcome->reason = arena_copy(arena, err->text);
        *err = (struct err){0};
        done = true;
    }
    arena_free(&work);
    return done;
}

static int take(struct pool *pool)
{
    pthread_mutex_lock(&pool->lock);
    const atomic_bool *stop = pool->request->stop;
    bool is_over = pool->next == pool->leader_count || (stop && atomic_load(stop));
    int index = is_over ? -1 : pool->leaders[pool->next++];
    pthread_mutex_unlock(&pool->lock);
    return index;
}

static void report(struct pool *pool, int index, const struct err *err)
{
    const struct scenario_request *request = pool->request;
    pthread_mutex_lock(&pool->lock);
    pool->done++;
    assert(pool->done <= pool->leader_count);
    if (err->kind && (pool->failed < 0 || index < pool->failed)) {
        pool->failed = index;
        pool->err = *err;
    }
    if (request->progress) {
        request->progress(request->progress_context, pool->done, pool->leader_count);
    }
    pthread_mutex_unlock(&pool->lock);
}

static void *work(void *context)
{
    struct worker *worker = context;
    struct pool *pool = worker->pool;
    for (int index = take(pool); index >= 0; index = take(pool)) {
        struct err err = {0};
        if (!answer(&worker->arena, pool->request, &pool->scenarios[index], &pool->outcomes[index],
                    &err)) {
            assert(err.kind);
        }
        report(pool, index, &err);
    }
    return NULL;
}

static int worker_count(const struct scenario_request *request, int job_count)
{
    assert(job_count >= 0);
    long wanted = request->workers > 0 ? request->workers : sysconf(_SC_NPROCESSORS_ONLN);
    if (wanted > job_count) wanted = job_count;
    if (wanted > WORKER_MAX) wanted = WORKER_MAX;
    return wanted > 1 ? (int)wanted : 1;
}

// The calling thread is the first worker. A machine that starts fewer threads than wanted is only
// slower: whoever runs takes what is left.
static void run_workers(struct worker *workers, int count)
{
    assert(count > 0);
    int started = 1;
    while (started < count &&
           pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0) {
        started++;
    }
    work(&workers[0]);
    for (int i = 1; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
    }
}

// The outcomes point into the arenas of the workers; in the order of the list they move to the
// caller's.
static void bring_home(struct arena *arena, const struct pool *pool)
{
    for (int i = 0; i < pool->leader_count; i++) {
        struct scenario_outcome *outcome = &pool->outcomes[pool->leaders[i]];
        outcome->best = candidate_copy(arena, &outcome->best);
        if (outcome->reason) outcome->reason = arena_copy(arena, outcome->reason);
        outcome->prediction = prediction_keep(arena, &outcome->prediction);
    }
}

// Only when all are finished: who shares the plan may fail less often.
static void refuse_endless(struct scenario_outcome *outcome)
{
    const struct goodput *goodput = &outcome->prediction.goodput;
    bool ends = !goodput->is_known || goodput->goodput_ratio >= GOODPUT_LEAST_RATIO;
    if (outcome->status != SCENARIO_FITS || ends) return;
    outcome->status = SCENARIO_IMPOSSIBLE;
    outcome->reason = "interruptions come faster than checkpoints: the run never ends";
}

bool scenarios_run(struct arena *arena, const struct scenario_request *request,
                   const struct scenario *scenarios, int count, struct scenario_outcome *outcomes,
                   struct err *err)
{
    assert(count >= 0);
    struct arena scratch = {0};
    int *leader_of = ARENA_NEW(&scratch, int, count), *leaders = ARENA_NEW(&scratch, int, count);
    scenarios_share(&scratch, request, scenarios, count, leader_of);
    struct pool pool = {.request = request,
                        .scenarios = scenarios,
                        .outcomes = outcomes,
                        .leaders = leaders,
                        .lock = PTHREAD_MUTEX_INITIALIZER,
                        .failed = -1};
    memset(outcomes, 0, (size_t)count * sizeof *outcomes);
    for (int i = 0; i < count; i++) {
        if (leader_of[i] != i) continue;
        leaders[pool.leader_count++] = i;
        outcomes[i].status = SCENARIO_STOPPED;  // until it is searched
        outcomes[i].reason = "stopped by SIGINT";
    }
    int workers = worker_count(request, pool.leader_count);
    struct worker *all = ARENA_NEW(&scratch, struct worker, workers);
    for (int i = 0; i < workers; i++) {
        all[i].pool = &pool;
    }
    run_workers(all, workers);
    bring_home(arena, &pool);
    for (int i = 0; i < workers; i++) {
        arena_free(&all[i].arena);
    }
    for (int i = 0; i < count && pool.failed < 0; i++) {
        scenario_finish(&scenarios[i], &outcomes[leader_of[i]], &outcomes[i]);
        outcomes[i].shared = leader_of[i] != i;
    }
    for (int i = 0; i < count && pool.failed < 0; i++) {
        refuse_endless(&outcomes[i]);
    }
    arena_free(&scratch);
    if (pool.failed < 0) return true;
    return err_set(err, pool.err.kind, "%s: %.900s", scenarios[pool.failed].label, pool.err.text);
}

int scenarios_searched(const struct scenario_outcome *outcomes, int count)
{
    int searched = 0;
    for (int i = 0; i < count; i++) {
        searched += !outcomes[i].shared;
    }
    return searched;
}
