#include "memory/certify.h"

#include "memory/certify_bytes.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// For each operator and step of its window whether it runs there, and for each buffer and step
// whether it is preserved from the step before: MODeL's create and preserve, with one create for
// all that an operator makes. Several operators may run in one step; one after the other they then
// need no more.

// 400,000 columns (606 operators of a GPT) took half a gigabyte, and ended a second after a limit
// of ten without a first relaxation.
enum { COLUMNS_MOST = 1000000 };

struct order_window {
    int first, last;  // steps, both within
};

// A buffer, or the edges of an operator that no buffer stands for: those have no bytes.
struct token {
    int producer, first_user, user_count;  // users[]
    const int *users;
    double units;
    bool kept;
    struct order_window window;  // where it may be preserved
    int column;                  // of the first step; -1: never
};

struct global {
    const struct memory_problem *problem;
    struct milp *milp;
    int count;
    struct order_window *windows;
    int *runs;  // [operator]: column of its first step
    struct token *tokens;
    int token_count;
    double unit_bytes;
    int peak;
};

// Before an operator run all that it depends on, after it all that depend on it.
static struct order_window *windows_of(struct arena *arena, struct arena *scratch,
                                       const struct memory_problem *problem)
{
    int count = problem->operator_count;
    struct order_window *windows = ARENA_NEW(arena, struct order_window, count);
    bool *seen = ARENA_NEW(scratch, bool, count);
    int *found = ARENA_NEW(scratch, int, count);
    for (int v = 0; v < count; v++) {
        for (int way = 0; way < 2; way++) {
            const int *first = way ? problem->first_successor : problem->first_predecessor;
            const int *next = way ? problem->successors : problem->predecessors;
            int end = 0, at = v;
            memset(seen, 0, (size_t)count * sizeof *seen);
            for (int i = -1; i < end; at = ++i < end ? found[i] : v) {
                for (int e = first[at]; e < first[at + 1]; e++) {
                    if (!seen[next[e]]) found[end++] = next[e];
                    seen[next[e]] = true;
                }
            }
            *(way ? &windows[v].last : &windows[v].first) = way ? count - 1 - end : end;
        }
    }
    return windows;
}

static void add_token(struct global *global, struct token token)
{
    assert(token.units >= 0);
    int last = token.kept ? global->count - 1 : -1;
    for (int u = 0; u < token.user_count; u++) {
        int user_last = global->windows[token.users[u]].last;
        if (user_last > last) last = user_last;
    }
    token.window.first = token.producer < 0 ? 0 : global->windows[token.producer].first + 1;
    token.window.last = last;
    // What is there from the start and used by nobody is there in the first step.
    if (token.producer < 0 && last < 0) token.window.last = 0;
    global->tokens[global->token_count++] = token;
}

static bool has_buffer(const struct memory_problem *problem, int u, int v)
{
    for (int i = problem->first_touched[u]; i < problem->first_touched[u + 1]; i++) {
        const struct memory_buffer *buffer = &problem->buffers[problem->touched[i]];
        if (buffer->producer != u) continue;
        for (int j = 0; j < buffer->user_count; j++)
            if (problem->users[buffer->first_user + j] == v) return true;
    }
    return false;
}

static void add_tokens(struct arena *arena, struct global *global)
{
    const struct memory_problem *problem = global->problem;
    global->tokens =
        ARENA_NEW(arena, struct token, problem->buffer_count + problem->operator_count);
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        add_token(global, (struct token){.producer = buffer->producer,
                                         .users = &problem->users[buffer->first_user],
                                         .user_count = buffer->user_count,
                                         .units = (double)buffer->bytes / global->unit_bytes,
                                         .kept = buffer->kept});
    }
    for (int u = 0; u < problem->operator_count; u++) {
        int first = problem->first_successor[u], end = problem->first_successor[u + 1], count = 0;
        int *bare = ARENA_NEW(arena, int, end - first);
        for (int s = first; s < end; s++)
            if (!has_buffer(problem, u, problem->successors[s]))
                bare[count++] = problem->successors[s];
        if (count > 0)
            add_token(global, (struct token){.producer = u, .users = bare, .user_count = count});
    }
}

static int64_t column_count(const struct global *global)
{
    int64_t columns = 1;
    for (int v = 0; v < global->count; v++)
        columns += global->windows[v].last - global->windows[v].first + 1;
    for (int i = 0; i < global->token_count; i++) {
        const struct order_window *window = &global->tokens[i].window;
        if (window->last >= window->first) columns += window->last - window->first + 1;
    }
    return columns;
}

static bool is_in(const struct order_window *window, int step)
{
    return step >= window->first && step <= window->last;
}

static int run_column(const struct global *global, int op, int step)
{
    const struct order_window *window = &global->windows[op];
    return is_in(window, step) ? global->runs[op] + step - window->first : -1;
}

static int token_column(const struct token *token, int step)
{
    return is_in(&token->window, step) ? token->column + step - token->window.first : -1;
}

static void put(struct global *global, int row, int column, double value)
{
    if (column >= 0) milp_put(global->milp, row, column, value);
}

static void add_columns(struct global *global)
{
    for (int v = 0; v < global->count; v++) {
        const struct order_window *window = &global->windows[v];
        assert(window->first <= v && v <= window->last && "program order is one of those");
        int once = milp_row(global->milp, 1, 1);
        global->runs[v] = milp_column_count(global->milp);
        for (int t = window->first; t <= window->last; t++)
            put(global, once, milp_column(global->milp, MILP_BINARY, 0, 1, 0), 1);
    }
    for (int i = 0; i < global->token_count; i++) {
        struct token *token = &global->tokens[i];
        token->column = milp_column_count(global->milp);
        bool is_lone = token->producer < 0 && token->user_count == 0;
        for (int t = token->window.first; t <= token->window.last; t++)
            milp_column(global->milp, MILP_BINARY, is_lone && t == 0, 1, 0);
    }
}

// Preserved only what was there the step before; of what is kept, all of that. Who reads it runs
// where it is preserved.
static void add_lives(struct global *global, const struct token *token)
{
    for (int t = token->window.first; t <= token->window.last; t++) {
        if (t > 0) {
            int row = milp_row(global->milp, token->kept ? 0 : -INFINITY, 0);
            put(global, row, token_column(token, t), 1);
            put(global, row, token_column(token, t - 1), -1);
            if (token->producer >= 0)
                put(global, row, run_column(global, token->producer, t - 1), -1);
        } else if (token->kept) {
            put(global, milp_row(global->milp, 1, 1), token_column(token, 0), 1);
        }
    }
    for (int u = 0; u < token->user_count; u++) {
        const struct order_window *window = &global->windows[token->users[u]];
        for (int t = window->first; t <= window->last; t++) {
            int row = milp_row(global->milp, -INFINITY, 0);
            put(global, row, run_column(global, token->users[u], t), 1);
            put(global, row, token_column(token, t), -1);
        }
    }
}

static void add_memory(struct arena *arena, struct global *global)
{
    double *made = ARENA_NEW(arena, double, global->count);
    int first = milp_row_count(global->milp);
    for (int t = 0; t < global->count; t++)
        put(global, milp_row(global->milp, -INFINITY, 0), global->peak, -1);
    for (int i = 0; i < global->token_count; i++) {
        const struct token *token = &global->tokens[i];
        if (token->producer >= 0) made[token->producer] += token->units;
        for (int t = token->window.first; t <= token->window.last; t++)
            put(global, first + t, token_column(token, t), token->units);
    }
    for (int v = 0; v < global->count; v++) {
        for (int t = global->windows[v].first; t <= global->windows[v].last; t++)
            put(global, first + t, run_column(global, v, t), made[v]);
    }
}

// Steps may stay empty but the first: what nobody uses is there with whoever runs first.
static void fill_first_step(struct global *global)
{
    int row = milp_row(global->milp, 1, INFINITY);
    for (int v = 0; v < global->count; v++)
        put(global, row, run_column(global, v, 0), 1);
}

// Program order as values of the columns.
static double *start_of(struct arena *arena, const struct global *global, int64_t peak_bytes)
{
    double *start = ARENA_NEW(arena, double, milp_column_count(global->milp));
    start[global->peak] = (double)peak_bytes / global->unit_bytes;
    for (int v = 0; v < global->count; v++)
        start[run_column(global, v, v)] = 1;
    for (int i = 0; i < global->token_count; i++) {
        const struct token *token = &global->tokens[i];
        int last = token->kept ? global->count - 1 : token->producer;
        for (int u = 0; u < token->user_count; u++)
            if (token->users[u] > last) last = token->users[u];
        if (token->producer < 0 && last < 0) last = 0;
        for (int t = token->producer + 1; t <= last; t++)
            start[token_column(token, t)] = 1;
    }
    return start;
}

static void take_order(const struct global *global, const double *values, int *order)
{
    int at = 0;
    for (int t = 0; t < global->count; t++) {
        for (int v = 0; v < global->count; v++) {
            int column = run_column(global, v, t);
            if (column >= 0 && values[column] > 0.5) order[at++] = v;
        }
    }
    assert(at == global->count);
}

static void say(const struct milp_options *options, int64_t columns)
{
    char line[128];
    snprintf(line, sizeof line,
             "global order: %lld columns, of at most %d that are tried; program order stands",
             (long long)columns, COLUMNS_MOST);
    if (options->log) options->log(options->log_context, line);
}

static struct milp_result solve(struct arena *arena, struct global *global,
                                const struct milp_options *options, int64_t program_bytes)
{
    add_columns(global);
    for (int i = 0; i < global->token_count; i++)
        add_lives(global, &global->tokens[i]);
    add_memory(arena, global);
    fill_first_step(global);
    struct milp_options own = *options;
    own.has_cutoff = false;
    own.no_presolve = true;
    own.start = start_of(arena, global, program_bytes);
    return milp_solve(global->milp, &own);
}

struct milp_result global_order(struct arena *arena, const struct memory_problem *problem,
                                const struct milp_options *options, int *order)
{
    int count = problem->operator_count;
    struct arena scratch = {0};
    struct global global = {.problem = problem, .count = count};
    for (int t = 0; t < count; t++)
        order[t] = t;
    int64_t program_bytes = certify_peak_bytes(&scratch, problem, order);
    int64_t least_bytes = certify_least_bytes(problem);
    struct milp_result result = {MILP_FEASIBLE, (double)program_bytes, (double)least_bytes, NULL,
                                 ""};
    assert(least_bytes <= program_bytes);
    if (least_bytes >= program_bytes) result.status = MILP_OPTIMAL;

    bool is_exact = false;
    global.unit_bytes = certify_unit_bytes(problem, program_bytes, &is_exact);
    global.windows = windows_of(arena, &scratch, problem);
    arena_free(&scratch);
    add_tokens(arena, &global);
    int64_t columns = column_count(&global);
    if (result.status == MILP_OPTIMAL) return result;
    if (columns > COLUMNS_MOST) {
        say(options, columns);
        return result;
    }
    global.milp = milp_new(arena, "global order");
    global.runs = ARENA_NEW(arena, int, count);
    global.peak = milp_column(global.milp, is_exact ? MILP_INTEGER : MILP_CONTINUOUS,
                              (double)least_bytes / global.unit_bytes,
                              (double)program_bytes / global.unit_bytes, 1);
    struct milp_result found = solve(arena, &global, options, program_bytes);
    result.message = found.message;
    if (!found.values) return result;
    take_order(&global, found.values, order);
    result.status = found.status;
    result.objective = (double)certify_peak_bytes(arena, problem, order);
    result.bound =
        (double)certify_bound_bytes(problem, found.bound * global.unit_bytes, least_bytes);
    result.bound = fmin(result.bound, result.objective);
    return result;
}
