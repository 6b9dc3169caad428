#include "memory/order/order_division.h"

#include "memory/order/order_branch.h"

#include <assert.h>

enum {
    // A side branch longer than this is rather work of its own: it stays in the core.
    SIDE_OPERATORS_MAX = 32,
    // How far from the end of the longest path the core may end. The sum of two gradients of one
    // weight is the end of a path that keeps the first of them in the core.
    ENDS_MAX = 16,
};

struct divider {
    struct arena *arena, *scratch;
    const struct memory_problem *problem;
    int *segment, *parent;  // parent: of a union-find forest over side operators
    bool *is_side, *makes_nothing;
    const int *wanted_anchor;  // NULL, or as asked
    int *anchor;  // [operator] where it has nothing to wait for: what it runs right before; else -1
    struct order_division *division;
};

static int find_root(int *parent, int item)
{
    while (parent[item] != item)
        item = parent[item] = parent[parent[item]];
    return item;
}

static int64_t made_bytes(const struct memory_problem *problem, int operator)
{
    int64_t sum_bytes = 0;
    for (int t = problem->first_touched[operator]; t < problem->first_touched[operator + 1]; t++) {
        const struct memory_buffer *buffer = &problem->buffers[problem->touched[t]];
        if (buffer->producer == operator) sum_bytes += buffer->bytes;
    }
    return sum_bytes;
}

// Of the peak of `operator` what is not left alive behind it, at most; -1 where it may leave less
// alive than it found.
static int64_t passing_bytes(const struct memory_problem *problem, int operator)
{
    int64_t left_bytes = 0, freed_bytes = 0, passing = 0;
    for (int t = problem->first_touched[operator]; t < problem->first_touched[operator + 1]; t++) {
        const struct memory_buffer *buffer = &problem->buffers[problem->touched[t]];
        if (buffer->producer != operator) {
            if (!buffer->kept) freed_bytes += buffer->bytes;
        } else if (buffer->kept || buffer->user_count > 0) {
            left_bytes += buffer->bytes;
        } else {
            passing += buffer->bytes;
        }
    }
    return left_bytes >= freed_bytes ? passing + freed_bytes : -1;
}

// Operators that wait for nothing (a first gradient of one, a mask) may run at any time before what
// they are for. None is better than right before, where they leave no less alive than they find and
// peak no higher than what follows.
static void anchor_sources(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    int count = problem->operator_count;
    bool *is_free = ARENA_NEW(divider->scratch, bool, count);
    for (int op = 0; op < count; op++) {
        divider->anchor[op] = -1;
        bool has_one_reader = problem->first_successor[op + 1] - problem->first_successor[op] == 1;
        is_free[op] = has_one_reader && passing_bytes(problem, op) >= 0;
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++)
            is_free[op] = is_free[op] && is_free[problem->predecessors[p]];
    }
    for (int op = count - 1; op >= 0; op--) {
        if (divider->is_side[op] || divider->makes_nothing[op]) continue;
        int wanted = divider->wanted_anchor ? divider->wanted_anchor[op] : -1;
        if (wanted >= 0 && !divider->is_side[wanted] && !divider->makes_nothing[wanted]) {
            bool moves_on = divider->anchor[wanted] >= 0;  // what it goes with goes with another
            divider->anchor[op] = moves_on ? divider->anchor[wanted] : wanted;
        } else if (is_free[op]) {
            int next = problem->successors[problem->first_successor[op]];
            int anchor = divider->anchor[next] >= 0 ? divider->anchor[next] : next;
            bool is_lower = passing_bytes(problem, op) <= made_bytes(problem, anchor);
            if (is_lower && !divider->makes_nothing[anchor]) divider->anchor[op] = anchor;
        }
    }
}

// Operators stand in an order that holds: predecessors are done first.
static int *find_depths(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    int *depth = ARENA_NEW(divider->scratch, int, problem->operator_count);
    for (int op = 0; op < problem->operator_count; op++) {
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int before = depth[problem->predecessors[p]] + 1;
            if (before > depth[op]) depth[op] = before;
        }
    }
    return depth;
}

// What `end` does not need is beside the core.
static void mark_sides(struct divider *divider, int end)
{
    const struct memory_problem *problem = divider->problem;
    for (int op = problem->operator_count - 1; op >= 0; op--) {
        bool needed = op == end;
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            needed = needed || !divider->is_side[problem->successors[s]];
        }
        divider->is_side[op] = !needed;
    }
}

// Joins side operators that are neighbours; `same_segment`: only those of one segment.
static void join_sides(struct divider *divider, bool same_segment)
{
    const struct memory_problem *problem = divider->problem;
    for (int op = 0; op < problem->operator_count; op++)
        divider->parent[op] = op;
    for (int op = 0; op < problem->operator_count; op++) {
        if (!divider->is_side[op]) continue;
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            int next = problem->successors[s];
            if (same_segment && divider->segment[next] != divider->segment[op]) continue;
            int a = find_root(divider->parent, op), b = find_root(divider->parent, next);
            divider->parent[a > b ? a : b] = a > b ? b : a;
        }
    }
}

static void return_large_sides(struct divider *divider)
{
    int count = divider->problem->operator_count;
    int *size = ARENA_NEW(divider->scratch, int, count);
    for (int op = 0; op < count; op++) {
        if (divider->is_side[op]) size[find_root(divider->parent, op)]++;
    }
    for (int op = 0; op < count; op++) {
        bool is_large = size[find_root(divider->parent, op)] > SIDE_OPERATORS_MAX;
        if (divider->is_side[op] && is_large) divider->is_side[op] = false;
    }
}

static void take_core(struct divider *divider, int end)
{
    mark_sides(divider, end);
    join_sides(divider, false);
    return_large_sides(divider);
    anchor_sources(divider);
}

// Operators of the core that make nothing lose nothing by running as soon as they can: cuts need
// not mind them, but for what they lead to.
static void mark_empty(struct divider *divider)
{
    for (int op = 0; op < divider->problem->operator_count; op++)
        divider->makes_nothing[op] = made_bytes(divider->problem, op) == 0;
}

static bool is_cut_at(const struct divider *divider, int operator)
{
    return !divider->is_side[operator] && divider->anchor[operator] < 0 &&
           !divider->makes_nothing[operator];
}

// The nearest operators before, -1 where there is none, and behind, operator_count where none, that
// have a place between cuts.
static void find_nearest(struct divider *divider, int *before, int *behind)
{
    const struct memory_problem *problem = divider->problem;
    int count = problem->operator_count;
    for (int op = 0; op < count; op++) {
        before[op] = -1;
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int from = problem->predecessors[p];
            if (divider->is_side[from] || divider->anchor[from] >= 0) continue;
            if (divider->makes_nothing[from]) from = before[from];
            if (from > before[op]) before[op] = from;
        }
    }
    for (int op = count - 1; op >= 0; op--) {
        behind[op] = count;
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            int to = problem->successors[s];
            if (divider->is_side[to]) continue;
            if (divider->makes_nothing[to]) to = behind[to];
            if (to < behind[op]) behind[op] = to;
        }
    }
}

// An operator is a cut when every operator of the core before it has a successor up to it, and
// every one behind it a predecessor from it on: then chains of them lead to it and away from it.
// Anchored operators go with what they are anchored to. Returns how many segments there are.
static int cut_core(struct divider *divider, bool no_segments)
{
    int count = divider->problem->operator_count;
    int *before = ARENA_NEW(divider->scratch, int, count);
    int *behind = ARENA_NEW(divider->scratch, int, count);
    int *reach = ARENA_NEW(divider->scratch, int, count + 1);  // of those behind, the least
    find_nearest(divider, before, behind);
    reach[count] = count;
    for (int op = count - 1; op >= 0; op--) {
        bool is_nearer = is_cut_at(divider, op) && before[op] < reach[op + 1];
        reach[op] = is_nearer ? before[op] : reach[op + 1];
    }
    int segment = 0, last = 0, farthest = -1;
    for (int op = 0; op < count; op++) {
        if (!is_cut_at(divider, op)) continue;
        divider->segment[op] = last = segment;
        if (farthest <= op && reach[op + 1] >= op && !no_segments) segment++;
        if (behind[op] > farthest) farthest = behind[op];
    }
    assert(last < count || count == 0);
    assert(last >= 0 && last < (count > 0 ? count : 1));
    return last + 1;
}

// Side operators and those that make nothing belong where they can first run.
static void attach_others(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    for (int op = problem->operator_count - 1; op >= 0; op--) {
        int anchor = divider->anchor[op];
        if (anchor >= 0) divider->segment[op] = divider->segment[anchor];
    }
    for (int op = 0; op < problem->operator_count; op++) {
        if (is_cut_at(divider, op) || divider->anchor[op] >= 0) continue;
        divider->segment[op] = 0;
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int before = divider->segment[problem->predecessors[p]];
            if (before > divider->segment[op]) divider->segment[op] = before;
        }
    }
}

struct numbering {
    int *unit, *first_operator, *operators;
    int unit_count, operator_count;
    int64_t *relaxed_bytes;
};

static void put_unit(struct numbering *numbering, const int *operators, int count)
{
    assert(count > 0);
    for (int i = 0; i < count; i++) {
        numbering->unit[operators[i]] = numbering->unit_count;
        numbering->operators[numbering->operator_count++] = operators[i];
    }
    numbering->first_operator[++numbering->unit_count] = numbering->operator_count;
}

// Right before its anchor, in one unit with it.
static void put_anchored(struct numbering *numbering, const int *anchored, int count, int op)
{
    for (int i = 0; i < count; i++) {
        numbering->unit[anchored[i]] = numbering->unit_count;
        numbering->operators[numbering->operator_count++] = anchored[i];
    }
    put_unit(numbering, &op, 1);
}

static bool leads_out(const struct divider *divider, const int *operators, int count)
{
    const struct memory_problem *problem = divider->problem;
    for (int i = 0; i < count; i++) {
        int op = operators[i];
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            if (divider->segment[problem->successors[s]] != divider->segment[op]) return true;
        }
    }
    return false;
}

// A group of side operators that can start in the same segment.
static void put_group(struct divider *divider, struct numbering *numbering, const int *operators,
                      int count)
{
    const struct memory_problem *problem = divider->problem;
    int sequence[ORDER_BRANCH_MAX];
    int block = order_branch_block(divider->scratch, problem, operators, count, sequence);
    if (block && leads_out(divider, sequence, block)) block = 0;
    if (block) put_unit(numbering, sequence, block);
    for (int i = 0; i < count; i++) {
        int op = operators[i];
        bool is_blocked = false;
        for (int k = 0; k < block; k++)
            is_blocked = is_blocked || sequence[k] == op;
        if (is_blocked) continue;
        put_unit(numbering, &op, 1);
        for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++) {
            int buffer = problem->touched[t];
            if (problem->buffers[buffer].producer == op) numbering->relaxed_bytes[buffer] = 0;
        }
    }
}

// Members of lists, by list: first[list] to first[list + 1]. Stable.
static int *sort_into(struct arena *arena, const int *list_of, int item_count, int list_count,
                      int **first)
{
    *first = ARENA_NEW(arena, int, list_count + 1);
    int *items = ARENA_NEW(arena, int, item_count);
    int *next = ARENA_NEW(arena, int, list_count + 1);
    for (int i = 0; i < item_count; i++) {
        if (list_of[i] >= 0) (*first)[list_of[i] + 1]++;
    }
    for (int list = 0; list < list_count; list++) {
        (*first)[list + 1] += (*first)[list];
        next[list] = (*first)[list];
    }
    for (int i = 0; i < item_count; i++) {
        if (list_of[i] >= 0) items[next[list_of[i]]++] = i;
    }
    return items;
}

static void number_units(struct divider *divider, struct numbering *numbering)
{
    struct order_division *division = divider->division;
    int count = divider->problem->operator_count;
    int *group_of = ARENA_NEW(divider->scratch, int, count);
    for (int op = 0; op < count; op++) {
        group_of[op] = divider->is_side[op] ? find_root(divider->parent, op) : -1;
    }
    int *first_member, *first_of_segment, *first_anchored;
    int *anchored = sort_into(divider->scratch, divider->anchor, count, count, &first_anchored);
    int *members = sort_into(divider->scratch, group_of, count, count, &first_member);
    int *sorted = sort_into(divider->scratch, divider->segment, count, division->segment_count,
                            &first_of_segment);
    int *first_unit = ARENA_NEW(divider->arena, int, division->segment_count + 1);
    int *core_count = ARENA_NEW(divider->arena, int, division->segment_count);
    for (int k = 0; k < division->segment_count; k++) {
        for (int i = first_of_segment[k]; i < first_of_segment[k + 1]; i++) {
            int op = sorted[i];
            if (divider->is_side[op] || divider->anchor[op] >= 0) continue;
            int from = first_anchored[op];
            put_anchored(numbering, &anchored[from], first_anchored[op + 1] - from, op);
        }
        core_count[k] = numbering->unit_count - first_unit[k];
        for (int i = first_of_segment[k]; i < first_of_segment[k + 1]; i++) {
            int op = sorted[i];
            if (group_of[op] != op) continue;  // the group's first operator stands for it
            put_group(divider, numbering, &members[first_member[op]],
                      first_member[op + 1] - first_member[op]);
        }
        first_unit[k + 1] = numbering->unit_count;
    }
    assert(numbering->operator_count == count && "every operator is in one unit");
    assert(numbering->operator_count == count && "each operator is in one unit");
    division->first_unit = first_unit, division->core_count = core_count;
}

// As differences at segments' ends, summed once: linear in buffers and segments.
static void sum_bases(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    struct order_division *division = divider->division;
    int end = division->segment_count;
    int *last_segment = ARENA_NEW(divider->arena, int, problem->buffer_count);
    int64_t *base = ARENA_NEW(divider->arena, int64_t, end + 2);
    int64_t *relaxed = ARENA_NEW(divider->arena, int64_t, end + 2);
    for (int b = 0; b < problem->buffer_count; b++) {
        const struct memory_buffer *buffer = &problem->buffers[b];
        int first = buffer->producer < 0 ? 0 : divider->segment[buffer->producer] + 1;
        int last = buffer->producer < 0 ? -1 : divider->segment[buffer->producer];
        for (int i = 0; i < buffer->user_count; i++) {
            int at = divider->segment[problem->users[buffer->first_user + i]];
            if (at > last) last = at;
        }
        last_segment[b] = last;
        if (buffer->kept) last = end;
        if (last < first) continue;
        base[first] += buffer->bytes, base[last + 1] -= buffer->bytes;
        relaxed[first] += division->relaxed_bytes[b],
            relaxed[last + 1] -= division->relaxed_bytes[b];
    }
    for (int k = 1; k <= end; k++)
        base[k] += base[k - 1], relaxed[k] += relaxed[k - 1];
    division->last_segment = last_segment;
    division->base_bytes = base, division->relaxed_base_bytes = relaxed;
}

// The core that is cut into most segments, of those that end close to the end of the longest path.
static void choose_core(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    const int *depth = find_depths(divider);
    int end = 0, best_end = -1, most = 0;
    for (int op = 0; op < problem->operator_count; op++) {
        if (depth[op] >= depth[end]) end = op;
    }
    for (int i = 0; i < ENDS_MAX && end >= 0; i++) {
        struct arena_mark mark = arena_mark(divider->scratch);
        take_core(divider, end);
        int segment_count = cut_core(divider, false);
        arena_reset(divider->scratch, mark);
        if (segment_count > most) best_end = end, most = segment_count;
        int before = -1;
        for (int p = problem->first_predecessor[end]; p < problem->first_predecessor[end + 1];
             p++) {
            if (depth[problem->predecessors[p]] == depth[end] - 1)
                before = problem->predecessors[p];
        }
        end = before;
    }
    assert(best_end >= 0);
    take_core(divider, best_end);
}

struct order_division *order_divide(struct arena *arena, struct arena *scratch,
                                    const struct memory_problem *problem, const int *anchor,
                                    bool no_segments, bool no_sides)
{
    struct arena_mark mark = arena_mark(scratch);
    int count = problem->operator_count;
    struct order_division *division = ARENA_NEW(arena, struct order_division, 1);
    struct divider divider = {.arena = arena, .scratch = scratch, .problem = problem};
    divider.segment = ARENA_NEW(arena, int, count);
    divider.parent = ARENA_NEW(scratch, int, count);
    divider.is_side = ARENA_NEW(scratch, bool, count);
    divider.division = division;
    divider.anchor = ARENA_NEW(scratch, int, count);
    divider.makes_nothing = ARENA_NEW(scratch, bool, count);
    divider.wanted_anchor = anchor;
    mark_empty(&divider);
    if (no_sides) {
        anchor_sources(&divider);
    } else {
        choose_core(&divider);
    }
    division->problem = problem;
    division->segment_count = cut_core(&divider, no_segments);
    attach_others(&divider);
    join_sides(&divider, true);
    struct numbering numbering = {ARENA_NEW(arena, int, count),
                                  ARENA_NEW(arena, int, count + 1),
                                  ARENA_NEW(arena, int, count),
                                  0,
                                  0,
                                  ARENA_NEW(arena, int64_t, problem->buffer_count)};
    for (int b = 0; b < problem->buffer_count; b++)
        numbering.relaxed_bytes[b] = problem->buffers[b].bytes;
    number_units(&divider, &numbering);
    division->segment = divider.segment;
    division->unit = numbering.unit, division->unit_count = numbering.unit_count;
    division->first_operator = numbering.first_operator;
    division->operators = numbering.operators;
    division->relaxed_bytes = numbering.relaxed_bytes;
    sum_bases(&divider);
    arena_reset(scratch, mark);
    return division;
}
