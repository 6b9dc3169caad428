#include "validation/fit.h"
#include "core/file.h"

#include <assert.h>
#include <math.h>
#include <string.h>

// What of a step's log error remains between runs of one kind when constants are right (the median
// in sample is as large), and where Huber's loss bends. Of three scales of the priors' spreads over
// this sigma the middle one is kept (2026-11-21, tier A): left-out errors were alike to 0.2 points
// for dense runs, compared with a solver that tried no constant alone and could stop at a corner;
// with the present one only this setting was measured (dense 6.5 %, mixtures 9.4 %).
static const double SIGMA = 0.04, HUBER_DELTA = 3;

// One fit: rows that can be predicted, machines whose constants move, and the problem over both.
struct fit {
    struct arena *arena;
    struct arena scratch;   // of the solver
    struct arena step;      // of one price, reset by each
    struct arena released;  // of one stack at an earlier release
    const struct fit_options *options;
    struct trials trials;
    const struct fabrics *fabrics;  // as shipped
    struct fit_machines machines;
    struct fit_parameters parameters;
    struct fit_row *rows;
    int row_count;
    struct fit_problem problem;
    double *measured_ln, *weight;
};

struct fit_row {
    struct trial *trial;
    int device, stack;    // indices of the machines
    const char *release;  // of the stack; NULL: the newest
    struct trial_program *program;
    bool fitted;
};

const char *fit_leave_out_name(enum fit_leave_out what)
{
    static const char *const NAMES[FIT_LEAVE_COUNT] = {"family", "source", "device", "software"};
    assert(what < FIT_LEAVE_COUNT);
    return NAMES[what];
}

static void report(const struct fit *fit, const char *what, int done, int count)
{
    const struct fit_options *options = fit->options;
    if (options->progress) options->progress(options->progress_context, what, done, count);
}

// The machine's stack at the release that the row ran: what releases change is no constant of the
// fit.
static const struct stack *stack_of(struct arena *arena, const struct fit *fit,
                                    const struct fit_row *row)
{
    const struct stack *stack = fit->machines.stacks[row->stack];
    return row->release ? stack_at_release(arena, stack, row->release) : stack;
}

// By name: rows share a device's constants, whatever file their cluster came from.
static int device_index(struct fit *fit, const struct device *device)
{
    struct fit_machines *machines = &fit->machines;
    for (int i = 0; i < machines->device_count; i++) {
        if (strcmp(machines->devices[i]->name, device->name) == 0) return i;
    }
    machines->devices[machines->device_count] = device_copy(fit->arena, device);
    return machines->device_count++;
}

static int stack_index(struct fit *fit, const struct stack *stack)
{
    struct fit_machines *machines = &fit->machines;
    for (int i = 0; i < machines->stack_count; i++) {
        if (strcmp(machines->stacks[i]->name, stack->name) == 0) return i;
    }
    machines->stacks[machines->stack_count] = stack_copy(fit->arena, stack);
    return machines->stack_count++;
}

// Devices that no row ran on as well: what is learned of their silicon moves them.
static bool add_shipped_devices(struct fit *fit, struct err *err)
{
    int count = 0;
    const char **names = file_list_data(fit->arena, "topologies/devices", &count);
    for (int i = 0; i < count && !err->kind; i++) {
        const struct device *device = device_load(fit->arena, names[i], err);
        if (device) device_index(fit, device);
    }
    return !err->kind;
}

// Answers every row with the machines as they are. `fit->rows` become those that have an answer and
// a measured step.
static void answer(struct fit *fit)
{
    fit->row_count = 0;
    for (int i = 0; i < fit->trials.count; i++) {
        struct trial *trial = &fit->trials.items[i];
        report(fit, "choosing", i + 1, fit->trials.count);
        assert(fit->row_count <= i);
        if (!trial->stack || trial->row->step_s == 0) continue;
        struct fit_row *row = &fit->rows[fit->row_count];
        row->trial = trial;
        row->device = device_index(fit, trial->cluster->nodes[0].device);
        const struct stack *newest = trial->stack->newest;
        row->release = newest ? trial->stack->release : NULL;
        row->stack = stack_index(fit, newest ? newest : trial->stack);
        trial->cluster =
            cluster_with_device(fit->arena, trial->cluster, fit->machines.devices[row->device]);
        trial->stack =
            stack_for_model(fit->arena, stack_of(fit->arena, fit, row), trial->has_experts);
        trial_answer(fit->arena, trial, fit->machines.fabrics, NULL);
        if (!trial->answered) continue;
        row->program = trial_program_new(fit->arena, trial);
        row->fitted = fit->options->fitted ? fit->options->fitted[i]
                                           : strchr(fit->options->tiers, trial->row->tier) != NULL;
        fit->row_count++;
    }
}

static void answer_at(struct fit *fit, const double *z, const bool *wanted, bool is_exact,
                      double *ln)
{
    fit_parameters_set(&fit->parameters, z);
    for (int i = 0; i < fit->row_count; i++) {
        const struct fit_row *row = &fit->rows[i];
        if (!wanted[i]) continue;
        struct arena_mark mark = arena_mark(&fit->released);
        const struct device *device = fit->machines.devices[row->device];
        const struct stack *stack = stack_of(&fit->released, fit, row);
        const struct fabrics *fabrics = fit->machines.fabrics;
        ln[i] =
            log(is_exact ? trial_program_step_s(row->program, &fit->step, device, stack, fabrics)
                         : trial_program_closed_form_s(row->program, device, stack, fabrics));
        arena_reset(&fit->released, mark);
    }
}

// By the event engine: what is compared with measured steps.
static void predict(void *context, const double *z, const bool *wanted, double *ln)
{
    answer_at(context, z, wanted, true, ln);
}

// In closed form, a third of the time: good enough for slopes.
static void approximate(void *context, const double *z, const bool *wanted, double *ln)
{
    answer_at(context, z, wanted, false, ln);
}

// Whether a group of the row's ranks may run over this row of the fabrics. A network that the
// source does not state was assumed, so that the run teaches nothing about networks.
static bool uses_fabric(const struct fit *fit, const struct fit_row *row, int fabric)
{
    const struct fabrics *fabrics = fit->machines.fabrics;
    const struct cluster *cluster = row->trial->cluster;
    const struct node_group *node = &cluster->nodes[0];
    const struct fabric *of = &fabrics->rows[fabric];
    if (fabrics_find(fabrics, node->intra.kind, node->intra.bandwidth_bytes_per_s) == of)
        return true;
    // The share of one rank, as the price of a group asks for it.
    double network = node->nics.count * node->nics.bandwidth_bytes_per_s / node->gpus;
    return cluster->node_count > 1 && row->trial->row->network_stated &&
           fabrics_find(fabrics, cluster->network.kind, network) == of;
}

static bool depends(void *context, int row, int parameter)
{
    const struct fit *fit = context;
    const struct fit_parameter *of = &fit->parameters.items[parameter];
    const struct fit_row *at = &fit->rows[row];
    switch (of->owner) {
    case CONSTANT_DEVICE:
        return at->device == of->owner_index;
    case CONSTANT_STACK:
        return at->stack == of->owner_index &&
               (!of->term->of_network || at->trial->row->network_stated);
    case CONSTANT_FABRIC:
        break;
    }
    return uses_fabric(fit, at, of->owner_index);
}

// Of fitted rows alone: others weigh nothing.
static int family_size(const struct fit *fit, const char *family)
{
    int count = 0;
    for (int i = 0; i < fit->row_count; i++) {
        const struct fit_row *row = &fit->rows[i];
        count += row->fitted && strcmp(row->trial->row->family, family) == 0;
    }
    return count;
}

static void set_weights(struct fit *fit)
{
    for (int i = 0; i < fit->row_count; i++) {
        const struct fit_row *row = &fit->rows[i];
        double size = row->fitted ? family_size(fit, row->trial->row->family) : 0;
        assert(!row->fitted || size >= 1);
        fit->weight[i] = row->fitted ? pow(size, -FIT_FAMILY_EXPONENT) : 0;
    }
}

static void set_problem(struct fit *fit)
{
    for (int i = 0; i < fit->row_count; i++) {
        fit->measured_ln[i] = log(fit->rows[i].trial->row->step_s);
    }
    set_weights(fit);
    fit->problem = (struct fit_problem){
        .row_count = fit->row_count,
        .parameter_count = fit->parameters.count,
        .measured_ln = fit->measured_ln,
        .weight = fit->weight,
        .sigma = SIGMA,
        .huber_delta = HUBER_DELTA,
        .ties = fit->parameters.ties,
        .tie_count = fit->parameters.tie_count,
        .predict = predict,
        .approximate = approximate,
        .depends = depends,
        .context = fit,
    };
}

// Parameters that no fitted row depends on, and none that is tied to them, are left at their
// priors.
static void drop_idle(struct fit *fit)
{
    struct fit_point point = fit_start(fit->arena, &fit->problem);
    bool *kept = ARENA_NEW(fit->arena, bool, fit->parameters.count);
    bool *busy = ARENA_NEW(fit->arena, bool, fit->parameters.count);
    for (int i = 0; i < fit->parameters.count; i++) {
        bool is_fixed =
            fit->options->from_values && fit->parameters.items[i].owner == CONSTANT_FABRIC;
        busy[i] = !is_fixed && fit_row_count(&fit->problem, &point, i) > 0;
        kept[i] = busy[i];
    }
    for (int i = 0; i < fit->parameters.tie_count; i++) {
        const struct fit_tie *tie = &fit->parameters.ties[i];
        kept[tie->a] |= busy[tie->b];
        kept[tie->b] |= busy[tie->a];
    }
    fit->parameters = fit_parameters_keep(fit->arena, &fit->parameters, kept);
    set_problem(fit);
}

// Is row `i` left out together with row `k`?
static bool is_together(const struct fit *fit, enum fit_leave_out what, int i, int k)
{
    const struct row *a = fit->rows[i].trial->row, *b = fit->rows[k].trial->row;
    switch (what) {
    case FIT_LEAVE_FAMILY:
        return strcmp(a->family, b->family) == 0;
    case FIT_LEAVE_SOURCE: {
        size_t length = strcspn(a->family, "-");
        return length == strcspn(b->family, "-") && strncmp(a->family, b->family, length) == 0;
    }
    case FIT_LEAVE_SOFTWARE:
        return fit->rows[i].stack == fit->rows[k].stack;
    case FIT_LEAVE_DEVICE:
    case FIT_LEAVE_COUNT:
        break;
    }
    return fit->rows[i].device == fit->rows[k].device;
}

// Leaves out each group in turn and fits anew from the priors, where nothing is known of it. A
// group without a fitted row was left out already.
static void leave_out(struct fit *fit, enum fit_leave_out what, const struct fit_point *start,
                      struct fit_prediction *predictions)
{
    for (int i = 0; i < fit->row_count; i++) {
        if (predictions[i].left_out_s[what] > 0) continue;
        report(fit, fit_leave_out_name(what), i + 1, fit->row_count);
        struct arena_mark mark = arena_mark(fit->arena);
        set_weights(fit);
        bool any = false;
        for (int k = 0; k < fit->row_count; k++) {
            if (!is_together(fit, what, i, k)) continue;
            any |= fit->weight[k] > 0;
            fit->weight[k] = 0;
        }
        struct fit_point point = fit_point_copy(fit->arena, &fit->problem, start);
        if (any) fit_solve(&fit->scratch, &fit->problem, &point);
        for (int k = 0; k < fit->row_count; k++) {
            if (is_together(fit, what, i, k)) predictions[k].left_out_s[what] = exp(point.ln[k]);
        }
        arena_reset(fit->arena, mark);
    }
    set_weights(fit);
}

static void list_constants(const struct fit *fit, const struct fit_point *point,
                           struct fit_result *result)
{
    int count = 0;
    for (int i = 0; i < fit->parameters.count; i++) {
        count += fit->parameters.items[i].member_count;
    }
    result->constants = ARENA_NEW(fit->arena, struct fit_constant, count);
    for (int i = 0; i < fit->parameters.count; i++) {
        const struct fit_parameter *parameter = &fit->parameters.items[i];
        for (int k = 0; k < parameter->member_count; k++) {
            const struct fit_member *member = &parameter->members[k];
            double value = fit_member_value(member, point->z[i]);
            result->constants[result->constant_count++] = (struct fit_constant){
                .owner = parameter->owner,
                .owner_name = parameter->owner_name,
                .key = member->key,
                .prior = member->prior,
                .spread = member->spread,
                .prior_kind = member->prior_kind,
                .value = value,
                .moved = point->z[i],
                .row_count = fit_row_count(&fit->problem, point, i),
                .at_bound = value == member->low || value == member->high,
            };
        }
    }
}

// Searches again at the fitted constants. How many answers are others than before.
static int choose_again(struct fit *fit, const struct fit_point *point)
{
    int moved = 0;
    for (int i = 0; i < fit->row_count; i++) {
        struct fit_row *row = &fit->rows[i];
        report(fit, "choosing again", i + 1, fit->row_count);
        if (row->release) {
            row->trial->stack = stack_for_model(fit->arena, stack_of(fit->arena, fit, row),
                                                row->trial->has_experts);
        }
        trial_answer(fit->arena, row->trial, fit->machines.fabrics, NULL);
        assert(row->trial->answered && "what could be answered can be at other constants");
        double before_s = exp(point->ln[i]), after_s = row->trial->prediction.step_s;
        if (fabs(after_s - before_s) < 1e-9 * before_s) continue;
        row->program = trial_program_new(fit->arena, row->trial);
        moved++;
    }
    return moved;
}

// `start` is the place of the priors, with the choices that the point has.
static struct fit_point solve(struct fit *fit, struct fit_result *result, struct fit_point *start)
{
    assert(result->prediction_count == fit->row_count);
    report(fit, "fitting", 0, 1);
    *start = fit_start(fit->arena, &fit->problem);
    for (int i = 0; i < fit->row_count; i++) {
        result->predictions[i].prior_s = exp(start->ln[i]);
    }
    struct fit_point point = fit_point_copy(fit->arena, &fit->problem, start);
    fit_solve(&fit->scratch, &fit->problem, &point);
    fit_parameters_set(&fit->parameters, point.z);
    result->choice_count = choose_again(fit, &point);
    if (result->choice_count > 0) {
        *start = fit_start(fit->arena, &fit->problem);
        point = fit_point_copy(fit->arena, &fit->problem, start);
        fit_solve(&fit->scratch, &fit->problem, &point);
    }
    report(fit, "fitting", 1, 1);
    result->converged = point.converged;
    return point;
}

static void fit_all(struct fit *fit, struct fit_result *result)
{
    result->predictions = ARENA_NEW(fit->arena, struct fit_prediction, fit->row_count);
    result->prediction_count = fit->row_count;
    struct fit_point start, point = solve(fit, result, &start);
    for (int i = 0; i < fit->row_count; i++) {
        struct fit_prediction *prediction = &result->predictions[i];
        prediction->row = fit->rows[i].trial->row;
        prediction->fitted = fit->rows[i].fitted;
        prediction->step_s = exp(point.ln[i]);
        bool is_first = fit->rows[i].fitted;
        for (int k = 0; k < i && is_first; k++) {
            is_first = !fit->rows[k].fitted || !is_together(fit, FIT_LEAVE_FAMILY, i, k);
        }
        result->family_count += is_first;
        result->row_count += prediction->fitted;
    }
    list_constants(fit, &point, result);
    for (int what = 0; what < FIT_LEAVE_COUNT; what++) {
        if (!(fit->options->leave_out >> what & 1)) continue;
        leave_out(fit, (enum fit_leave_out)what, &start, result->predictions);
    }
    fit_parameters_set(&fit->parameters, point.z);
}

// Room for every trial's machines, though most share them.
static bool start(struct fit *fit, const struct trials *trials, struct err *err)
{
    struct arena *arena = fit->arena;
    const struct err *fault = &trials->fault;
    fit->fabrics = fabrics_load(arena, err);
    if (!fit->fabrics) return false;
    if (fault->kind) return err_set(err, fault->kind, "%s", fault->text);
    fit->trials = *trials;
    int shipped_count = 0;
    file_list_data(arena, "topologies/devices", &shipped_count);
    fit->machines.devices = ARENA_NEW(arena, struct device *, trials->count + shipped_count);
    fit->machines.stacks = ARENA_NEW(arena, struct stack *, trials->count);
    fit->machines.fabrics = fabrics_copy(arena, fit->fabrics);
    fit->rows = ARENA_NEW(arena, struct fit_row, trials->count);
    fit->measured_ln = ARENA_NEW(arena, double, trials->count);
    fit->weight = ARENA_NEW(arena, double, trials->count);
    if (!fit->options->from_values && !add_shipped_devices(fit, err)) return false;
    answer(fit);
    return true;
}

bool fit_trials(struct arena *arena, const struct trials *trials, const struct fit_options *options,
                struct fit_result *result, struct err *err)
{
    *result = (struct fit_result){0};
    struct fit fit = {.arena = arena, .options = options};
    if (!start(&fit, trials, err)) return false;
    bool any = false;
    for (int i = 0; i < fit.row_count; i++) {
        any |= fit.rows[i].fitted;
    }
    if (any) {
        fit.parameters = fit_parameters_make(arena, &fit.machines, options->from_values);
        set_problem(&fit);
        drop_idle(&fit);
        fit_all(&fit, result);
    }
    arena_free(&fit.scratch);
    arena_free(&fit.step);
    arena_free(&fit.released);
    if (any) return true;
    return err_set(err, ERR_INPUT, "no row of tier %s with a measured step can be predicted",
                   options->tiers);
}

bool fit_run(struct arena *arena, const struct rows *rows, const struct fit_options *options,
             struct fit_result *result, struct err *err)
{
    struct trials trials;
    trials_ask(arena, rows, options->detail, &trials);
    return fit_trials(arena, &trials, options, result, err);
}
