#include "planner/strategy/state.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const double REFUSED = REDUCED_FORBIDDEN / 2;

struct choice_state *state_new(struct arena *arena, const struct choice_model *model)
{
    struct choice_state *state = ARENA_NEW(arena, struct choice_state, 1);
    state->model = model;
    state->choice = ARENA_NEW(arena, int, model->node_count);
    state->used = ARENA_NEW(arena, double, model->point_count);
    return state;
}

static void charge(struct choice_state *state, double cost, int sign)
{
    if (cost >= REFUSED)
        state->forbidden += sign;
    else
        state->cost += sign * cost;
}

void state_set(struct choice_state *state, const int *choice)
{
    const struct choice_model *model = state->model;
    if (choice != state->choice)
        memcpy(state->choice, choice, (size_t)model->node_count * sizeof(int));
    memset(state->used, 0, (size_t)model->point_count * sizeof(double));
    state->cost = state->excess = 0;
    state->forbidden = 0;
    for (int i = 0; i < model->node_count; i++) {
        charge(state, model->cost[model->starts[i] + choice[i]], 1);
        for (int a = model->arc_starts[i]; a < model->arc_starts[i + 1]; a++) {
            const struct model_arc *arc = &model->arcs[a];
            if (arc->side == 1) continue;
            int others = model_choices(model, arc->node);
            charge(state, arc->cost[choice[i] * others + choice[arc->node]], 1);
        }
        for (int p = model->part_starts[i]; p < model->part_starts[i + 1]; p++) {
            const struct model_part *part = &model->parts[p];
            double usage = model->usages[part->usage + choice[i]];
            for (int t = part->birth; usage > 0 && t < part->death; t++)
                state->used[t] += usage;
        }
    }
    for (int t = 0; t < model->point_count; t++)
        state->excess += fmax(0, state->used[t] - model->room[t]);
}

// A node alone: what it and its edges cost now and then.
static void charge_change(struct choice_state *state, int node, int before, int after)
{
    const struct choice_model *model = state->model;
    charge(state, model->cost[model->starts[node] + before], -1);
    charge(state, model->cost[model->starts[node] + after], 1);
    for (int a = model->arc_starts[node]; a < model->arc_starts[node + 1]; a++) {
        const struct model_arc *arc = &model->arcs[a];
        int others = model_choices(model, arc->node), other = state->choice[arc->node];
        charge(state, arc->cost[before * others + other], -1);
        charge(state, arc->cost[after * others + other], 1);
    }
    state->work += 2 * (model->arc_starts[node + 1] - model->arc_starts[node]);
}

static void use_less(struct choice_state *state, const struct model_part *part, double by)
{
    const double *room = state->model->room;
    for (int t = part->birth; t < part->death; t++) {
        double over = state->used[t] - room[t];
        state->used[t] -= by;
        if (over > 0) state->excess -= fmin(by, over);
    }
    state->work += (part->death - part->birth) / 2;
}

static void use_more(struct choice_state *state, const struct model_part *part, double by,
                     double *worst, int *point)
{
    const double *room = state->model->room;
    for (int t = part->birth; t < part->death; t++) {
        state->used[t] += by;
        double over = state->used[t] - room[t];
        if (over <= 0) continue;
        state->excess += fmin(by, over);
        if (over > *worst) *worst = over, *point = t;
    }
    state->work += (part->death - part->birth) / 2;
}

void state_move(struct choice_state *state, const int *nodes, int count, int *chosen, int *point)
{
    const struct choice_model *model = state->model;
    double worst = 0;
    int at = -1;
    for (int i = 0; i < count; i++) {
        int before = state->choice[nodes[i]];
        if (before == chosen[i]) continue;
        charge_change(state, nodes[i], before, chosen[i]);
        state->choice[nodes[i]] = chosen[i];
        chosen[i] = before;
    }
    for (int more = 0; more < 2; more++) {
        for (int i = 0; i < count; i++) {
            int after = state->choice[nodes[i]], before = chosen[i];
            if (after == before) continue;
            for (int p = model->part_starts[nodes[i]]; p < model->part_starts[nodes[i] + 1]; p++) {
                const struct model_part *part = &model->parts[p];
                double by =
                    model->usages[part->usage + after] - model->usages[part->usage + before];
                if (more && by > 0) use_more(state, part, by, &worst, &at);
                if (!more && by < 0) use_less(state, part, -by);
            }
        }
    }
    assert(state->forbidden >= 0);
    if (point) *point = at;
}
