#include "memory/milp.h"

#include "core/progress.h"
#include "memory/milp_simplex.h"

#include <assert.h>
#include <glpk.h>
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <string.h>

struct column {
    enum milp_kind kind;
    double low, high, cost;
};

struct milp_row {
    double low, high;
};

struct entry {
    int row, column;
    double value;
};

struct milp {
    struct arena *arena;
    const char *name;
    struct column *columns;
    struct milp_row *rows;
    struct entry *entries;
    int column_count, row_count, entry_count;
    int column_room, row_room, entry_room;
};

// A solution has to be better than cutoff and start by this much of their value: ten times the
// tolerances that GLPK works with.
static const double BETTER_RATIO = 1e-6;
// Bounds of integer columns that miss an integer by less were meant to be it.
static const double INTEGER_SLACK = 1e-6;

enum { LINE_SIZE = 512 };

// What the hooks and the callback of GLPK share with milp_solve. Lives on its caller's frame, so
// that nothing in it is lost by the jump out of the error hook.
struct solve {
    const struct milp *milp;
    const struct milp_options *options;
    double deadline_s;
    double limit;   // solutions whose objective is above it are of no use
    double *start;  // numbered from 1; NULL when it is not offered to the tree
    double *values;
    struct milp_result result;
    bool has_presolve;
    char line[LINE_SIZE], previous[LINE_SIZE];
    int line_length;
    jmp_buf jump;
};

struct milp *milp_new(struct arena *arena, const char *name)
{
    struct milp *milp = ARENA_NEW(arena, struct milp, 1);
    milp->arena = arena;
    milp->name = name;
    return milp;
}

static void *with_room(struct arena *arena, void *items, int count, int *room, size_t size)
{
    if (count < *room) return items;
    assert(*room <= INT_MAX / 2);
    *room = *room ? 2 * *room : 64;
    void *larger = arena_alloc(arena, (size_t)*room, size);
    if (count > 0) memcpy(larger, items, (size_t)count * size);
    return larger;
}

int milp_column(struct milp *milp, enum milp_kind kind, double low, double high, double cost)
{
    assert(low < INFINITY && high > -INFINITY && isfinite(cost));
    milp->columns = with_room(milp->arena, milp->columns, milp->column_count, &milp->column_room,
                              sizeof *milp->columns);
    if (kind == MILP_BINARY) {
        low = fmax(low, 0);
        high = fmin(high, 1);
    }
    if (kind != MILP_CONTINUOUS) {
        low = ceil(low - INTEGER_SLACK);
        high = floor(high + INTEGER_SLACK);
    }
    milp->columns[milp->column_count] = (struct column){kind, low, high, cost};
    return milp->column_count++;
}

int milp_row(struct milp *milp, double low, double high)
{
    assert(low < INFINITY && high > -INFINITY);
    milp->rows =
        with_room(milp->arena, milp->rows, milp->row_count, &milp->row_room, sizeof *milp->rows);
    milp->rows[milp->row_count] = (struct milp_row){low, high};
    return milp->row_count++;
}

void milp_put(struct milp *milp, int row, int column, double value)
{
    assert(row >= 0 && row < milp->row_count);
    assert(column >= 0 && column < milp->column_count);
    assert(isfinite(value));
    if (value == 0) return;
    milp->entries = with_room(milp->arena, milp->entries, milp->entry_count, &milp->entry_room,
                              sizeof *milp->entries);
    milp->entries[milp->entry_count++] = (struct entry){row, column, value};
}

int milp_column_count(const struct milp *milp)
{
    return milp->column_count;
}

int milp_row_count(const struct milp *milp)
{
    return milp->row_count;
}

static double objective_of(const struct milp *milp, const double *values)
{
    double objective = 0;
    for (int c = 0; c < milp->column_count; c++)
        objective += milp->columns[c].cost * values[c];
    return objective;
}

static bool is_within(double value, double low, double high)
{
    double slack = 1e-6 * (1 + fabs(value));
    return value >= low - slack && value <= high + slack;
}

static bool is_feasible(const struct milp *milp, const double *values)
{
    double *sums = ARENA_NEW(milp->arena, double, milp->row_count);
    for (int e = 0; e < milp->entry_count; e++) {
        const struct entry *entry = &milp->entries[e];
        sums[entry->row] += entry->value * values[entry->column];
    }
    for (int r = 0; r < milp->row_count; r++)
        if (!is_within(sums[r], milp->rows[r].low, milp->rows[r].high)) return false;
    for (int c = 0; c < milp->column_count; c++) {
        const struct column *column = &milp->columns[c];
        if (!is_within(values[c], column->low, column->high)) return false;
        if (column->kind != MILP_CONTINUOUS && values[c] != round(values[c])) return false;
    }
    return true;
}

static int bound_type(double low, double high)
{
    if (low == -INFINITY) return high == INFINITY ? GLP_FR : GLP_UP;
    if (high == INFINITY) return GLP_LO;
    return low == high ? GLP_FX : GLP_DB;
}

// The limit on the objective is a bound of the one column that costs anything, else a row.
static int only_cost(const struct milp *milp)
{
    int only = -1;
    for (int c = 0; c < milp->column_count; c++) {
        if (milp->columns[c].cost == 0) continue;
        if (only >= 0) return -1;
        only = c;
    }
    return only;
}

static void set_columns(const struct solve *solve, glp_prob *prob)
{
    const struct milp *milp = solve->milp;
    for (int c = 0; c < milp->column_count; c++) {
        const struct column *column = &milp->columns[c];
        glp_set_col_bnds(prob, c + 1, bound_type(column->low, column->high), column->low,
                         column->high);
        glp_set_col_kind(prob, c + 1, column->kind == MILP_CONTINUOUS ? GLP_CV : GLP_IV);
        glp_set_obj_coef(prob, c + 1, column->cost);
    }
    for (int r = 0; r < milp->row_count; r++) {
        const struct milp_row *row = &milp->rows[r];
        glp_set_row_bnds(prob, r + 1, bound_type(row->low, row->high), row->low, row->high);
    }
}

// NULL: the limit on the objective leaves nothing.
static glp_prob *set_limit(const struct solve *solve, glp_prob *prob)
{
    const struct milp *milp = solve->milp;
    if (solve->limit == INFINITY) return prob;
    int only = only_cost(milp);
    if (only < 0) {
        glp_set_row_bnds(prob, milp->row_count + 1, GLP_UP, 0, solve->limit);
        return prob;
    }
    struct column column = milp->columns[only];
    double end = solve->limit / column.cost;
    bool is_integer = column.kind != MILP_CONTINUOUS;
    if (column.cost > 0) column.high = fmin(column.high, is_integer ? floor(end) : end);
    if (column.cost < 0) column.low = fmax(column.low, is_integer ? ceil(end) : end);
    if (column.low > column.high) return NULL;
    glp_set_col_bnds(prob, only + 1, bound_type(column.low, column.high), column.low, column.high);
    return prob;
}

static void set_matrix(const struct solve *solve, glp_prob *prob, bool has_limit_row)
{
    const struct milp *milp = solve->milp;
    int count = milp->entry_count + (has_limit_row ? milp->column_count : 0);
    int *rows = ARENA_NEW(milp->arena, int, count + 1);
    int *columns = ARENA_NEW(milp->arena, int, count + 1);
    double *values = ARENA_NEW(milp->arena, double, count + 1);
    int at = 0;
    for (int e = 0; e < milp->entry_count; e++) {
        rows[++at] = milp->entries[e].row + 1;
        columns[at] = milp->entries[e].column + 1;
        values[at] = milp->entries[e].value;
    }
    for (int c = 0; has_limit_row && c < milp->column_count; c++) {
        if (milp->columns[c].cost == 0) continue;
        rows[++at] = milp->row_count + 1;
        columns[at] = c + 1;
        values[at] = milp->columns[c].cost;
    }
    glp_load_matrix(prob, at, rows, columns, values);
}

static glp_prob *load(const struct solve *solve)
{
    const struct milp *milp = solve->milp;
    glp_prob *prob = glp_create_prob();
    glp_set_obj_dir(prob, GLP_MIN);
    bool has_limit_row = solve->limit != INFINITY && only_cost(milp) < 0;
    int row_count = milp->row_count + has_limit_row;
    if (row_count > 0) glp_add_rows(prob, row_count);
    if (milp->column_count > 0) glp_add_cols(prob, milp->column_count);
    set_columns(solve, prob);
    set_matrix(solve, prob, has_limit_row);
    return set_limit(solve, prob);
}

// GLPK writes pieces of lines. Nothing reaches the terminal: a hook that returns 1 has done it.
static int take_text(void *info, const char *text)
{
    struct solve *solve = info;
    for (; *text; text++) {
        if (*text != '\n') {
            if (solve->line_length < LINE_SIZE - 1) solve->line[solve->line_length++] = *text;
            continue;
        }
        solve->line[solve->line_length] = '\0';
        if (solve->options->log) solve->options->log(solve->options->log_context, solve->line);
        // The last line before GLPK gives up names its own source: the one before says why.
        if (strncmp(solve->line, "Error detected", 14) != 0)
            memcpy(solve->previous, solve->line, sizeof solve->line);
        solve->line_length = 0;
    }
    return 1;
}

static void jump_out(void *info)
{
    struct solve *solve = info;
    longjmp(solve->jump, 1);
}

static int time_left_ms(const struct solve *solve)
{
    if (solve->deadline_s == INFINITY) return INT_MAX;
    double left_ms = ceil(1e3 * (solve->deadline_s - clock_s()));
    return left_ms < 1 ? 1 : left_ms < INT_MAX ? (int)left_ms : INT_MAX;
}

static bool is_over(const struct solve *solve, glp_tree *tree)
{
    if (solve->deadline_s != INFINITY && clock_s() > solve->deadline_s) return true;
    int total = 0;
    glp_ios_tree_size(tree, NULL, NULL, &total);
    return solve->options->node_cap > 0 && total > solve->options->node_cap;
}

static void watch_tree(glp_tree *tree, void *info)
{
    struct solve *solve = info;
    int best = glp_ios_best_node(tree);
    if (best) {
        double bound = glp_ios_node_bound(tree, best);
        if (bound > solve->result.bound) solve->result.bound = bound;
    }
    if (glp_ios_reason(tree) == GLP_IHEUR && solve->start) {
        glp_ios_heur_sol(tree, solve->start);
        solve->start = NULL;
    }
    if (is_over(solve, tree)) glp_ios_terminate(tree);
}

static void fail(struct solve *solve, const char *what)
{
    const struct milp *milp = solve->milp;
    solve->result = (struct milp_result){MILP_FAILED, INFINITY, -INFINITY, NULL, ""};
    solve->result.message = arena_print(milp->arena, "%s: %s", milp->name, what);
}

// The linear relaxation, which the tree starts from where there is no presolve. False: that has
// answered already.
static bool relax(struct solve *solve, glp_prob *prob)
{
    glp_smcp parameters;
    glp_init_smcp(&parameters);
    parameters.msg_lev = solve->options->log ? GLP_MSG_ALL : GLP_MSG_OFF;
    parameters.tm_lim = time_left_ms(solve);
    glp_scale_prob(prob, GLP_SF_AUTO);
    int code = milp_simplex(prob, &parameters);
    int status = glp_get_status(prob);
    if (code == 0 && status == GLP_OPT) {
        solve->result.bound = glp_get_obj_val(prob);
        return true;
    }
    if (code == GLP_ETMLIM || code == GLP_EITLIM) {
        solve->result.status = MILP_UNKNOWN;
    } else if (code == 0 && status == GLP_NOFEAS) {
        solve->result.status = MILP_INFEASIBLE;
    } else if (code == 0 && status == GLP_UNBND) {
        fail(solve, "the relaxation is unbounded");
    } else {
        fail(solve, arena_print(solve->milp->arena, "glp_simplex returned %d", code));
    }
    return false;
}

static void take_values(struct solve *solve, glp_prob *prob)
{
    const struct milp *milp = solve->milp;
    for (int c = 0; c < milp->column_count; c++) {
        double value = glp_mip_col_val(prob, c + 1);
        solve->values[c] = milp->columns[c].kind == MILP_CONTINUOUS ? value : round(value);
    }
    solve->result.values = solve->values;
    solve->result.objective = objective_of(milp, solve->values);
}

static void take_answer(struct solve *solve, glp_prob *prob, int code)
{
    struct milp_result *result = &solve->result;
    int status = glp_mip_status(prob);
    bool has_ended = code == 0, has_stopped = code == GLP_ETMLIM || code == GLP_ESTOP;
    if (code == GLP_ENODFS) {
        fail(solve, "the relaxation has no bound, or no solution");
    } else if (code == GLP_ENOPFS || (has_ended && status == GLP_NOFEAS)) {
        result->status = MILP_INFEASIBLE;
    } else if (!has_ended && !has_stopped && code != GLP_EMIPGAP) {
        fail(solve, arena_print(solve->milp->arena, "glp_intopt returned %d", code));
    } else if (status != GLP_OPT && status != GLP_FEAS) {
        result->status = MILP_UNKNOWN;
    } else {
        take_values(solve, prob);
        result->status = has_stopped ? MILP_FEASIBLE : MILP_OPTIMAL;
        // The tree ended within the gap: that is proven, whatever the last callback saw.
        double gap = code == GLP_EMIPGAP ? solve->options->gap_ratio : 0;
        double proven = result->objective - gap * fabs(result->objective);
        if (!has_stopped) result->bound = fmax(result->bound, proven);
        result->bound = fmin(result->bound, result->objective);
    }
}

static void run(struct solve *solve)
{
    const struct milp_options *options = solve->options;
    glp_prob *prob = load(solve);
    if (!prob) {
        solve->result.status = MILP_INFEASIBLE;
        return;
    }
    if (!solve->has_presolve && !relax(solve, prob)) return;
    int cuts = options->no_cuts ? GLP_OFF : GLP_ON;
    glp_iocp parameters;
    glp_init_iocp(&parameters);
    parameters.msg_lev = options->log ? GLP_MSG_ALL : GLP_MSG_OFF;
    parameters.presolve = solve->has_presolve ? GLP_ON : GLP_OFF;
    parameters.mir_cuts = parameters.cov_cuts = parameters.clq_cuts = cuts;
    parameters.mip_gap = options->gap_ratio;
    parameters.tm_lim = time_left_ms(solve);
    parameters.cb_func = watch_tree;
    parameters.cb_info = solve;
    take_answer(solve, prob, glp_intopt(prob, &parameters));
}

// A function of its own: none of its locals changes between setjmp and the jump.
static bool run_guarded(struct solve *solve)
{
    if (setjmp(solve->jump)) return false;
    glp_error_hook(jump_out, solve);
    glp_term_hook(take_text, solve);
    run(solve);
    return true;
}

static void attempt(struct solve *solve, bool has_presolve)
{
    solve->has_presolve = has_presolve;
    solve->result = (struct milp_result){MILP_UNKNOWN, INFINITY, -INFINITY, NULL, ""};
    solve->line_length = 0;
    if (!run_guarded(solve)) fail(solve, solve->previous);
    // Frees the problem as well. After a jump nothing of GLPK but this may be called.
    glp_free_env();
}

// What one way gets wrong the other may get right. The presolver lets rows be missed by 0.001, and
// stops GLPK ("invalid number of columns") where it
// has removed every column but not every row.
static bool is_sound(const struct solve *solve)
{
    const struct milp_result *result = &solve->result;
    return result->status != MILP_FAILED &&
           (!result->values || is_feasible(solve->milp, result->values));
}

// Where rows were missed that far, the limit on the objective may have been, too.
static void hold_to_limit(struct solve *solve)
{
    struct milp_result *result = &solve->result;
    if (!result->values || result->objective <= solve->limit) return;
    result->status = result->status == MILP_OPTIMAL ? MILP_INFEASIBLE : MILP_UNKNOWN;
    result->values = NULL;
    result->objective = INFINITY;
}

static bool has_crossed_bounds(const struct milp *milp)
{
    for (int c = 0; c < milp->column_count; c++)
        if (milp->columns[c].low > milp->columns[c].high) return true;
    for (int r = 0; r < milp->row_count; r++)
        if (milp->rows[r].low > milp->rows[r].high) return true;
    return false;
}

static double below(double value)
{
    return value - BETTER_RATIO * fmax(1, fabs(value));
}

static void take_start(struct solve *solve, const double *start, double objective)
{
    struct milp_result *result = &solve->result;
    if (result->status == MILP_FAILED) return;
    if (result->values && result->objective <= objective) return;
    if (result->status == MILP_INFEASIBLE) {
        result->status = MILP_OPTIMAL;
        result->bound = objective;
    } else if (result->status == MILP_UNKNOWN) {
        result->status = MILP_FEASIBLE;
    }
    memcpy(solve->values, start, (size_t)solve->milp->column_count * sizeof *start);
    result->values = solve->values;
    result->objective = objective;
    result->bound = fmin(result->bound, objective);
}

struct milp_result milp_solve(struct milp *milp, const struct milp_options *options)
{
    struct solve solve = {.milp = milp, .options = options, .deadline_s = INFINITY};
    if (options->time_limit_s > 0) solve.deadline_s = clock_s() + options->time_limit_s;
    solve.values = ARENA_NEW(milp->arena, double, milp->column_count);
    solve.result = (struct milp_result){MILP_INFEASIBLE, INFINITY, -INFINITY, NULL, ""};
    solve.limit = options->has_cutoff ? below(options->cutoff) : INFINITY;

    const double *start = options->start;
    double start_objective = start ? objective_of(milp, start) : INFINITY;
    if (start) assert(is_feasible(milp, start));
    if (start_objective > solve.limit) start = NULL;
    if (start && options->no_presolve) {
        solve.start = ARENA_NEW(milp->arena, double, milp->column_count + 1);
        memcpy(solve.start + 1, start, (size_t)milp->column_count * sizeof *start);
    } else if (start) {
        solve.limit = below(start_objective);
    }

    if (!has_crossed_bounds(milp)) {
        attempt(&solve, !options->no_presolve);
        if (!is_sound(&solve)) {
            solve.start = NULL;
            attempt(&solve, !solve.has_presolve);
        }
        if (!is_sound(&solve) && solve.result.status != MILP_FAILED)
            fail(&solve, "the solution misses a row");
        hold_to_limit(&solve);
    }
    if (start) take_start(&solve, start, start_objective);
    if (solve.result.status == MILP_INFEASIBLE) solve.result.bound = INFINITY;
    if (options->has_cutoff) solve.result.bound = fmin(solve.result.bound, options->cutoff);
    return solve.result;
}
