#include "memory/certify.h"

#include "memory/certify_bytes.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// One binary for each pair of operators that no edge orders: that u runs before v. Rows make the
// pairs one total order, and for each buffer and operator a column says whether the buffer is alive
// while the operator runs. Without time steps GLPK proves 30 operators in about a second; models
// with them take minutes for 15 (measured).

// Of 100 operators in any order there are 160,000 triangles.
enum { OPERATORS_MOST = 100 };

struct model {
    const struct memory_problem *problem;
    struct milp *milp;
    int count;     // of operators
    bool *before;  // [u * count + v]: edges make u run before v
    int *pair;     // [u * count + v], u < v, no edges between: column, 1 where u runs before v
    double unit_bytes;
    int peak;  // column
};

// That u runs before v: constant + sign * column.
struct precedence {
    double constant, sign;
    int column;  // -1: none
};

static struct precedence precedence_of(const struct model *model, int u, int v)
{
    if (model->before[u * model->count + v]) return (struct precedence){1, 0, -1};
    if (model->before[v * model->count + u]) return (struct precedence){0, 0, -1};
    if (u < v) return (struct precedence){0, 1, model->pair[u * model->count + v]};
    return (struct precedence){1, -1, model->pair[v * model->count + u]};
}

static void put(struct model *model, int row, struct precedence precedence, double factor)
{
    if (precedence.column >= 0)
        milp_put(model->milp, row, precedence.column, factor * precedence.sign);
}

// Operators stand in program order: a successor has a higher number.
static void close_edges(struct model *model)
{
    const struct memory_problem *problem = model->problem;
    for (int u = model->count - 1; u >= 0; u--) {
        bool *row = &model->before[u * model->count];
        for (int s = problem->first_successor[u]; s < problem->first_successor[u + 1]; s++) {
            int v = problem->successors[s];
            assert(v > u);
            row[v] = true;
            for (int w = v + 1; w < model->count; w++)
                row[w] |= model->before[v * model->count + w];
        }
    }
}

static void add_pairs(struct model *model)
{
    for (int u = 0; u < model->count; u++) {
        for (int v = u + 1; v < model->count; v++) {
            int at = u * model->count + v;
            model->pair[at] =
                model->before[at] ? -1 : milp_column(model->milp, MILP_BINARY, 0, 1, 0);
        }
    }
}

// uv + vw - uw within 0 .. 1 leaves out both cycles of u < v < w. Where edges order two of the
// three pairs they leave nothing out but what the closure has ordered, too.
static void add_triangle(struct model *model, int u, int v, int w)
{
    struct precedence uv = precedence_of(model, u, v), vw = precedence_of(model, v, w),
                      uw = precedence_of(model, u, w);
    if ((uv.column >= 0) + (vw.column >= 0) + (uw.column >= 0) < 2) return;
    double constant = uv.constant + vw.constant - uw.constant;
    int row = milp_row(model->milp, -constant, 1 - constant);
    put(model, row, uv, 1);
    put(model, row, vw, 1);
    put(model, row, uw, -1);
}

static void add_triangles(struct model *model)
{
    for (int u = 0; u < model->count; u++) {
        for (int v = u + 1; v < model->count; v++) {
            for (int w = v + 1; w < model->count; w++)
                add_triangle(model, u, v, w);
        }
    }
}

enum life { LIFE_NEVER, LIFE_ALWAYS, LIFE_MAYBE };

// Whether buffer b is alive while v, which does not touch it, runs.
static enum life life_of(const struct model *model, const struct memory_buffer *buffer, int v)
{
    const int *users = &model->problem->users[buffer->first_user];
    int made = buffer->producer;
    if (made >= 0 && model->before[v * model->count + made]) return LIFE_NEVER;
    if (made >= 0 && buffer->user_count == 0 && !buffer->kept) return LIFE_NEVER;
    bool is_made = made < 0 || model->before[made * model->count + v];
    bool is_used = buffer->kept, is_over = !buffer->kept && buffer->user_count > 0;
    for (int u = 0; u < buffer->user_count; u++) {
        is_used |= model->before[v * model->count + users[u]];
        is_over &= model->before[users[u] * model->count + v];
    }
    if (is_over) return LIFE_NEVER;
    return is_made && is_used ? LIFE_ALWAYS : LIFE_MAYBE;
}

static bool touches(const struct memory_problem *problem, int op, int buffer)
{
    for (int i = problem->first_touched[op]; i < problem->first_touched[op + 1]; i++)
        if (problem->touched[i] == buffer) return true;
    return false;
}

// alive >= made + used - 1, for each user that runs last among those that edges compare.
static void add_uses(struct model *model, const struct memory_buffer *buffer, int v, int alive)
{
    const int *users = &model->problem->users[buffer->first_user];
    struct precedence made = {1, 0, -1};
    if (buffer->producer >= 0) made = precedence_of(model, buffer->producer, v);
    for (int u = 0; u < buffer->user_count; u++) {
        bool is_last = true;
        for (int w = 0; w < buffer->user_count && is_last; w++)
            is_last = !model->before[users[u] * model->count + users[w]];
        struct precedence used = precedence_of(model, v, users[u]);
        if (!is_last || (used.column < 0 && used.constant == 0)) continue;
        int row = milp_row(model->milp, made.constant + used.constant - 1, INFINITY);
        milp_put(model->milp, row, alive, 1);
        put(model, row, made, -1);
        put(model, row, used, -1);
    }
}

// Of buffers without users: kept ones live on once they are made, those that are there from the
// start live in the first step, whoever runs then.
static void add_other_lives(struct model *model, const struct memory_buffer *buffer, int v,
                            int alive)
{
    if (buffer->kept) {
        struct precedence made = precedence_of(model, buffer->producer, v);
        int row = milp_row(model->milp, made.constant, INFINITY);
        milp_put(model->milp, row, alive, 1);
        put(model, row, made, -1);
        return;
    }
    if (buffer->user_count > 0) return;
    double constant = 0;
    for (int w = 0; w < model->count; w++)
        if (w != v) constant += precedence_of(model, v, w).constant;
    int row = milp_row(model->milp, constant - (model->count - 2), INFINITY);
    milp_put(model->milp, row, alive, 1);
    for (int w = 0; w < model->count; w++)
        if (w != v) put(model, row, precedence_of(model, v, w), -1);
}

static void add_memory(struct model *model, int v)
{
    const struct memory_problem *problem = model->problem;
    int64_t base_bytes = 0;
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        if (touches(problem, v, b) || life_of(model, buffer, v) == LIFE_ALWAYS)
            base_bytes += buffer->bytes;
    }
    int row = milp_row(model->milp, (double)base_bytes / model->unit_bytes, INFINITY);
    milp_put(model->milp, row, model->peak, 1);
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        if (touches(problem, v, b) || life_of(model, buffer, v) != LIFE_MAYBE) continue;
        int alive = milp_column(model->milp, MILP_CONTINUOUS, 0, 1, 0);
        milp_put(model->milp, row, alive, -(double)buffer->bytes / model->unit_bytes);
        add_uses(model, buffer, v, alive);
        add_other_lives(model, buffer, v, alive);
    }
}

static void take_order(const struct model *model, const double *values, int *order)
{
    for (int v = 0; v < model->count; v++) {
        double step = 0;
        for (int u = 0; u < model->count; u++) {
            struct precedence before = precedence_of(model, u, v);
            if (u == v) continue;
            step += before.constant;
            if (before.column >= 0) step += before.sign * values[before.column];
        }
        // As many run before it as its step says: the triangles leave only total orders.
        assert(step > -0.5 && step < model->count - 0.5);
        order[(int)lround(step)] = v;
    }
}

static struct model model_make(struct arena *arena, const struct memory_problem *problem,
                               int64_t upper_bytes)
{
    int count = problem->operator_count;
    struct model model = {.problem = problem, .milp = milp_new(arena, "order"), .count = count};
    model.before = ARENA_NEW(arena, bool, count *count);
    model.pair = ARENA_NEW(arena, int, count *count);
    bool is_exact = false;
    model.unit_bytes = certify_unit_bytes(problem, upper_bytes, &is_exact);
    double least = (double)certify_least_bytes(problem) / model.unit_bytes;
    double upper = (double)upper_bytes / model.unit_bytes * (1 + 1e-6);
    if (is_exact) upper = floor((double)upper_bytes / model.unit_bytes);
    model.peak =
        milp_column(model.milp, is_exact ? MILP_INTEGER : MILP_CONTINUOUS, least, upper, 1);
    close_edges(&model);
    add_pairs(&model);
    add_triangles(&model);
    for (int v = 0; v < count; v++)
        add_memory(&model, v);
    return model;
}

static void say_too_large(const struct milp_options *options, int count)
{
    char line[96];
    snprintf(line, sizeof line, "order: %d operators are too many to certify, at most %d", count,
             OPERATORS_MOST);
    if (options->log) options->log(options->log_context, line);
}

struct milp_result certify_order(struct arena *arena, const struct memory_problem *problem,
                                 int64_t upper_bytes, const struct milp_options *options,
                                 int *order)
{
    int count = problem->operator_count;
    double least_bytes = (double)certify_least_bytes(problem);
    if (count > OPERATORS_MOST) {
        say_too_large(options, count);
        return (struct milp_result){MILP_UNKNOWN, INFINITY, least_bytes, NULL, ""};
    }
    int64_t most_bytes = upper_bytes;
    for (int b = 0; upper_bytes <= 0 && b < problem->buffer_count; b++)
        most_bytes += problem->buffers[b].bytes;
    struct model model = model_make(arena, problem, most_bytes);
    struct milp_options own = *options;
    own.start = NULL;
    own.has_cutoff = false;
    own.no_presolve = true;  // two to ten times as fast without (measured)
    struct milp_result result = milp_solve(model.milp, &own);
    if (isfinite(result.bound))
        result.bound = (double)certify_bound_bytes(problem, result.bound * model.unit_bytes,
                                                   (int64_t)least_bytes);
    if (result.status == MILP_UNKNOWN) result.bound = fmax(result.bound, least_bytes);
    if (!result.values) return result;
    int *found = order ? order : ARENA_NEW(arena, int, count);
    take_order(&model, result.values, found);
    result.objective = (double)certify_peak_bytes(arena, problem, found);
    result.bound = fmin(result.bound, result.objective);
    return result;
}
