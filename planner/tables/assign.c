#include "planner/tables/assign.h"
#include "memory/milp.h"

#include <assert.h>
#include <math.h>

// Within this of the bound nothing more is looked for.
static const double ENOUGH = 0.002;
enum { PROGRAM_COLUMNS_MAX = 400, PROGRAM_NODES_MAX = 3000, ROUNDS_MAX = 400 };

struct loads {
    const struct assign_request *request;
    double *load_s;               // [rank]
    double (*bytes)[TIER_COUNT];  // [rank]
    int *order;                   // of items
};

static double limit_of(const struct table_limits *limits, int tier)
{
    return tier == TIER_DEVICE ? limits->device : tier == TIER_HOST ? limits->host : limits->nvme;
}

static bool rank_has_room(const struct loads *state, int rank, const struct assign_item *in,
                          const struct assign_item *out)
{
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        double more = in->bytes[tier] - (out ? out->bytes[tier] : 0);
        double all = state->bytes[rank][tier] + more;
        if (more > 0 && all > limit_of(state->request->limits, tier)) return false;
    }
    return true;
}

// Items that change places have equal spans.
static bool has_room(const struct loads *state, int rank, const struct assign_item *in,
                     const struct assign_item *out)
{
    for (int r = rank; r < rank + in->span; r++) {
        if (!rank_has_room(state, r, in, out)) return false;
    }
    return true;
}

static void put(struct loads *state, struct assign_item *item, int rank, double sign)
{
    assert(rank >= 0 && rank + item->span <= state->request->limits->rank_count);
    int inside = state->request->limits->node_ranks, node = rank / inside * inside;
    for (int r = rank; r < rank + item->span; r++) {
        state->load_s[r] += sign * item->s;
        for (int tier = 0; tier < TIER_COUNT; tier++)
            state->bytes[r][tier] += sign * item->bytes[tier];
    }
    int end = node + (item->span > inside ? item->span : inside);
    if (end > state->request->limits->rank_count) end = state->request->limits->rank_count;
    for (int r = node; item->node_s > 0 && r < end; r++)
        state->load_s[r] += sign * item->node_s;
    if (sign > 0) item->rank = rank;
}

static void clear(struct loads *state)
{
    for (int rank = 0; rank < state->request->limits->rank_count; rank++) {
        state->load_s[rank] = state->request->base_s;
        for (int tier = 0; tier < TIER_COUNT; tier++)
            state->bytes[rank][tier] = state->request->base_bytes[tier];
    }
}

static double filled(const struct table_limits *limits, const struct assign_item *item)
{
    double most = 0;
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        double limit = limit_of(limits, tier);
        if (limit > 0) most = fmax(most, item->bytes[tier] / limit);
    }
    return most;
}

// Longest first, or largest first; stable, so that equal inputs give equal answers.
static void sort_items(struct loads *state, bool by_bytes)
{
    const struct assign_request *request = state->request;
    for (int i = 0; i < request->item_count; i++) {
        const struct assign_item *item = &request->items[i];
        double key = by_bytes ? filled(request->limits, item) : item->s;
        int at = i;
        for (; at > 0; at--) {
            const struct assign_item *before = &request->items[state->order[at - 1]];
            if ((by_bytes ? filled(request->limits, before) : before->s) >= key) break;
            state->order[at] = state->order[at - 1];
        }
        state->order[at] = i;
    }
}

static int busiest(const struct loads *state)
{
    int most = 0;
    for (int rank = 1; rank < state->request->limits->rank_count; rank++) {
        if (state->load_s[rank] > state->load_s[most]) most = rank;
    }
    return most;
}

// The last rank that an item may begin on: of 20 ranks in nodes of 8 the last four are no node.
static int last_place(const struct loads *state, const struct assign_item *item)
{
    return state->request->limits->rank_count - item->span;
}

// The first of `span` ranks that are least busy after it.
static int best_place(struct loads *state, struct assign_item *item)
{
    int best = -1;
    double best_s = INFINITY;
    for (int rank = 0; rank <= last_place(state, item); rank += item->span) {
        if (!has_room(state, rank, item, NULL)) continue;
        double after_s = 0;
        for (int r = rank; r < rank + item->span; r++)
            after_s = fmax(after_s, state->load_s[r] + item->s + item->node_s);
        if (after_s >= best_s) continue;
        best = rank;
        best_s = after_s;
    }
    return best;
}

// Returns the share of a rank that did not find room; 0: all did.
static double fill_greedily(struct loads *state, bool by_bytes)
{
    const struct assign_request *request = state->request;
    double left = 0;
    clear(state);
    sort_items(state, by_bytes);
    for (int i = 0; i < request->item_count; i++) {
        struct assign_item *item = &request->items[state->order[i]];
        int best = best_place(state, item);
        if (best >= 0) put(state, item, best, 1);
        if (best < 0) left += filled(request->limits, item) * item->span;
    }
    return left;
}

struct change_of {
    struct assign_item *out, *in;  // in NULL: nothing comes back
    int rank;                      // where `out` goes
};

static void apply(struct loads *state, const struct change_of *change)
{
    int from = change->out->rank;
    put(state, change->out, from, -1);
    if (change->in) put(state, change->in, change->rank, -1);
    put(state, change->out, change->rank, 1);
    if (change->in) put(state, change->in, from, 1);
}

// The busiest rank's seconds after the change; the state stays as it was.
static double changed_s(struct loads *state, const struct change_of *change)
{
    int from = change->out->rank;
    apply(state, change);
    double s = state->load_s[busiest(state)];
    const struct change_of back = {change->out, change->in, from};
    apply(state, &back);
    return s;
}

static void weigh(struct loads *state, const struct change_of *change, double *best_s,
                  struct change_of *best)
{
    double s = changed_s(state, change);
    if (s >= *best_s) return;
    *best_s = s;
    *best = *change;
}

static void weigh_item(struct loads *state, struct assign_item *item, double *best_s,
                       struct change_of *best)
{
    const struct assign_request *request = state->request;
    int from = item->rank;
    for (int rank = 0; rank <= last_place(state, item); rank += item->span) {
        const struct change_of move = {item, NULL, rank};
        if (rank != from && has_room(state, rank, item, NULL)) weigh(state, &move, best_s, best);
    }
    for (int k = 0; k < request->item_count; k++) {
        struct assign_item *other = &request->items[k];
        const struct change_of swap = {item, other, other->rank};
        bool is_gain = other->rank != from && other->span == item->span &&
                       other->s + other->node_s < item->s + item->node_s;
        if (is_gain && has_room(state, other->rank, item, other) &&
            has_room(state, from, other, item))
            weigh(state, &swap, best_s, best);
    }
}

// The best change of an item of the busiest rank; false: none helps.
static bool improve(struct loads *state)
{
    const struct assign_request *request = state->request;
    int from = busiest(state);
    double best_s = state->load_s[from] * (1 - 1e-9);
    struct change_of best = {0};
    for (int i = 0; i < request->item_count; i++) {
        struct assign_item *item = &request->items[i];
        int inside = request->limits->node_ranks;
        bool is_here = item->rank <= from && from < item->rank + item->span;
        bool is_in_node = item->node_s > 0 && item->rank / inside <= from / inside &&
                          from / inside <= (item->rank + item->span - 1) / inside;
        if (is_here || is_in_node) weigh_item(state, item, &best_s, &best);
    }
    if (!best.out) return false;
    apply(state, &best);
    return true;
}

// z and a choice of each item's rank; ranks are alike, so that item i goes to one of the first
// i + 1.
static bool solve(struct arena *arena, struct loads *state, struct assign_result *result,
                  struct err *err)
{
    assert(result->fits && result->busiest_s > 0);
    const struct assign_request *request = state->request;
    int ranks = request->limits->rank_count, items = request->item_count;
    double scale = result->busiest_s;
    struct milp *milp = milp_new(arena, "ranks");
    double *start = ARENA_NEW(arena, double, 1 + items * ranks);
    milp_column(milp, MILP_CONTINUOUS, request->bound_s / scale, INFINITY, 1);
    start[0] = 1;
    for (int i = 0; i < items; i++) {
        for (int r = 0; r < ranks; r++) {
            milp_column(milp, MILP_BINARY, 0, 1, 0);
            start[1 + i * ranks + r] = request->items[i].rank == r;
        }
        int once = milp_row(milp, 1, 1);
        for (int r = 0; r < ranks; r++)
            milp_put(milp, once, 1 + i * ranks + r, 1);
    }
    for (int r = 0; r < ranks; r++) {
        int load = milp_row(milp, request->base_s / scale, INFINITY);
        milp_put(milp, load, 0, 1);
        for (int i = 0; i < items; i++)
            milp_put(milp, load, 1 + i * ranks + r, -request->items[i].s / scale);
        for (int tier = 0; tier < TIER_COUNT; tier++) {
            double limit = limit_of(request->limits, tier);
            if (limit <= 0) continue;
            int room = milp_row(milp, 0, 1 - request->base_bytes[tier] / limit);
            for (int i = 0; i < items; i++)
                milp_put(milp, room, 1 + i * ranks + r, request->items[i].bytes[tier] / limit);
        }
    }
    const struct milp_options options = {
        .gap_ratio = ENOUGH, .node_cap = PROGRAM_NODES_MAX, .start = start};
    const struct milp_result solved = milp_solve(milp, &options);
    if (solved.status == MILP_FAILED)
        return err_set(err, ERR_SYSTEM, "placing tables: %s", solved.message);
    result->is_program = true;
    result->bound_s = fmax(result->bound_s, solved.bound * scale);
    if (!solved.values || solved.objective * scale >= result->busiest_s) return true;
    clear(state);
    for (int i = 0; i < items; i++) {
        for (int r = 0; r < ranks; r++) {
            if (solved.values[1 + i * ranks + r] > 0.5) put(state, &request->items[i], r, 1);
        }
    }
    result->busiest_s = state->load_s[busiest(state)];
    return true;
}

static struct loads state_start(struct arena *arena, const struct assign_request *request)
{
    int ranks = request->limits->rank_count;
    return (struct loads){.request = request,
                          .load_s = ARENA_NEW(arena, double, ranks),
                          .bytes = arena_alloc(arena, (size_t)ranks, TIER_COUNT * sizeof(double)),
                          .order = ARENA_NEW(arena, int, request->item_count)};
}

double assign_quickly(struct arena *scratch, const struct assign_request *request)
{
    struct loads state = state_start(scratch, request);
    double left = fill_greedily(&state, false);
    if (left > 0) left = fmin(left, fill_greedily(&state, true));
    return left > 0 ? UNPLACED_S * (1 + left) : state.load_s[busiest(&state)];
}

bool assign_items(struct arena *arena, const struct assign_request *request,
                  struct assign_result *result, struct err *err)
{
    int ranks = request->limits->rank_count;
    struct loads state = state_start(arena, request);
    *result = (struct assign_result){.bound_s = request->bound_s};
    result->fits = fill_greedily(&state, false) <= 0 || fill_greedily(&state, true) <= 0;
    if (!result->fits) return true;
    for (int i = 0; i < ROUNDS_MAX && improve(&state); i++)
        ;
    result->busiest_s = state.load_s[busiest(&state)];
    assert(result->busiest_s >= request->base_s * (1 - 1e-9));
    bool is_near = result->busiest_s <= request->bound_s * (1 + ENOUGH);
    bool is_flat = true;  // what falls on nodes is balanced by changes alone
    for (int i = 0; i < request->item_count; i++)
        is_flat &= request->items[i].node_s == 0 && request->items[i].span == 1;
    if (is_near || !is_flat || request->item_count * ranks > PROGRAM_COLUMNS_MAX) return true;
    return solve(arena, &state, result, err);
}
