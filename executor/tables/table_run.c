#include "executor/tables/table_run.h"

#include "core/progress.h"
#include "executor/tables/lookups.h"

#include <assert.h>
#include <math.h>
#include <string.h>

void row_apply(const struct row_update *update, double *weights, double *state,
               const double *gradient, double square)
{
    const double epsilon = 1e-8;
    assert(update->columns >= 0 && update->optimizer < TABLE_OPTIMIZER_COUNT);
    // Behind the root, as AdaGrad of PyTorch and FBGEMM's row-wise one have it.
    if (update->optimizer == TABLE_ROWWISE) state[0] += square;
    for (int64_t i = 0; i < update->columns; i++) {
        double slope = 1;
        if (update->optimizer == TABLE_ADAGRAD) {
            state[i] += gradient[i] * gradient[i];
            slope = 1 / (sqrt(state[i]) + epsilon);
        } else if (update->optimizer == TABLE_ROWWISE) {
            slope = 1 / (sqrt(state[0]) + epsilon);
        }
        weights[i] -= update->learning_rate * slope * gradient[i];
    }
}

// What the samples of this rank are.
static void draw_samples(struct table_rank *rank, int step)
{
    const struct recommender *model = rank->data.model;
    struct towers *towers = &rank->towers;
    for (int64_t s = 0; s < towers->samples; s++) {
        // By its number in the whole batch: any number of ranks draws the same samples.
        int64_t sample = rank->request->rank * towers->samples + s;
        for (int64_t f = 0; f < model->dense_features; f++)
            towers->features[s * model->dense_features + f] =
                table_data_feature(&rank->data, step, sample, f);
        towers->labels[s] = table_data_label(&rank->data, step, sample);
    }
}

// Gradients of the towers, and of tables that every rank holds behind them, are added up.
static const char *reduce(struct table_rank *rank)
{
    const struct table_run_request *request = rank->request;
    int64_t count = placement_dense_elements(request->placement);
    struct towers *towers = &rank->towers;
    assert(count >= towers->parameter_count && "tables on every rank come behind the towers");
    assert(count >= towers->parameter_count && "tables on every rank come behind the towers");
    memcpy(rank->dense, towers->gradients, (size_t)towers->parameter_count * sizeof *rank->dense);
    if (request->placement->rank_count < 2) return NULL;
    rank->result->received[TABLE_TASK_REDUCE] += (double)count;
    return request->transport->all_reduce(rank->group, STREAM_DP, ELEMENT_FP32, rank->dense, count,
                                          COMBINE_SUM);
}

static void update_dense(struct table_rank *rank)
{
    struct towers *towers = &rank->towers;
    // The towers keep a number each, whatever tables do.
    bool is_plain = rank->request->workload->optimizer == TABLE_SGD;
    const struct row_update update = {is_plain ? TABLE_SGD : TABLE_ADAGRAD,
                                      rank->request->learning_rate, towers->parameter_count};
    row_apply(&update, towers->parameters, towers->state, rank->dense, 0);
}

struct timed {
    double *task_s;
    double since_s;
};

static void lap(struct timed *timed, enum table_task task)
{
    double now_s = clock_s();
    assert(task < TABLE_TASK_COUNT && now_s >= timed->since_s);
    timed->task_s[task] += now_s - timed->since_s;
    timed->since_s = now_s;
}

// In the order of plan/tables/tasks.inc, which is what the planner prices.
static const char *run_step(struct table_rank *rank, double *loss)
{
    int64_t batch = rank->request->workload->global_batch;
    struct timed timed = {rank->result->task_s, clock_s()};
    const char *failure = lookups_exchange_ids(rank);
    if (failure) return failure;
    lap(&timed, TABLE_TASK_IDS);
    lookups_read(rank);
    lap(&timed, TABLE_TASK_LOOKUP);
    failure = lookups_exchange_sums(rank);
    if (failure) return failure;
    lap(&timed, TABLE_TASK_SUMS);
    towers_bottom(&rank->towers);
    lap(&timed, TABLE_TASK_BOTTOM);
    *loss = towers_top(&rank->towers, batch);
    lap(&timed, TABLE_TASK_TOP);
    towers_top_back(&rank->towers, batch);
    lap(&timed, TABLE_TASK_TOP_BACK);
    failure = lookups_exchange_gradients(rank);
    if (failure) return failure;
    lap(&timed, TABLE_TASK_GRADIENTS);
    towers_bottom_back(&rank->towers);
    lap(&timed, TABLE_TASK_BOTTOM_BACK);
    lookups_add_everywhere(rank);
    failure = reduce(rank);
    if (failure) return failure;
    lap(&timed, TABLE_TASK_REDUCE);
    lookups_add(rank);
    failure = lookups_exchange_norms(rank);
    if (failure) return failure;
    lap(&timed, TABLE_TASK_NORMS);
    lookups_update(rank);
    lap(&timed, TABLE_TASK_UPDATE);
    update_dense(rank);
    lap(&timed, TABLE_TASK_DENSE_UPDATE);
    failure = rank->request->transport->host_sum(rank->group, loss, 1);
    lap(&timed, TABLE_TASK_REST);
    return failure;
}

const char *table_run(struct arena *arena, const struct table_run_request *request,
                      struct table_run_result *result)
{
    const struct table_placement *placement = request->placement;
    assert(request->rank >= 0 && request->rank < placement->rank_count);
    assert(request->workload->global_batch % placement->rank_count == 0);
    *result = (struct table_run_result){.loss = ARENA_NEW(arena, double, request->step_count),
                                        .step_s = ARENA_NEW(arena, double, request->step_count)};
    struct table_rank *rank = ARENA_NEW(arena, struct table_rank, 1);
    rank->arena = arena;
    rank->request = request;
    rank->result = result;
    rank->data = table_data_make(arena, placement->model, request->seed);
    rank->towers =
        towers_make(arena, placement->model,
                    request->workload->global_batch / placement->rank_count, &rank->data);
    rank->dense = ARENA_NEW(arena, double, placement_dense_elements(placement));
    lookups_make(rank);
    int *ranks = ARENA_NEW(arena, int, placement->rank_count);
    for (int r = 0; r < placement->rank_count; r++)
        ranks[r] = r;
    const char *failure = request->transport->group(request->communicator, ranks,
                                                    placement->rank_count, "tables", &rank->group);
    for (int step = 0; step < request->step_count && !failure; step++) {
        draw_samples(rank, step);
        lookups_draw(rank, step);
        // Drawing stands for reading: it is not part of the step's time.
        double start_s = clock_s();
        // What a step needs beside the tables depends on its ids, and goes when it is over.
        struct arena_mark mark = arena_mark(arena);
        failure = run_step(rank, &result->loss[step]);
        arena_reset(arena, mark);
        result->step_s[step] = clock_s() - start_s;
        if (!failure && request->report)
            request->report(request->context, step, result->loss[step], result->step_s[step]);
    }
    memcpy(result->received_by_all, result->received, sizeof result->received);
    if (!failure)
        failure =
            request->transport->host_sum(rank->group, result->received_by_all, TABLE_TASK_COUNT);
    result->dense = rank->towers.parameters;
    result->dense_count = rank->towers.parameter_count;
    return failure;
}
