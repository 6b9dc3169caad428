#include "planner/memory/order_division.h"

#include "planner/memory/order_branch.h"

// A side branch longer than this is rather work of its own: it stays in the core.
enum { SIDE_OPERATORS_MAX = 32 };

struct divider {
    struct arena *arena, *scratch;
    const struct memory_problem *problem;
    int *segment, *parent;  // parent: of a union-find forest over side operators
    bool *is_side;
    struct order_division *division;
};

static int find_root(int *parent, int item)
{
    while (parent[item] != item)
        item = parent[item] = parent[parent[item]];
    return item;
}

// What the end of a longest path does not need is beside the core.
static void mark_sides(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    int count = problem->operator_count, end = 0;
    int *depth = ARENA_NEW(divider->scratch, int, count);
    for (int op = 0; op < count; op++) {
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            int before = depth[problem->predecessors[p]] + 1;
            if (before > depth[op]) depth[op] = before;
        }
        if (depth[op] >= depth[end]) end = op;
        divider->is_side[op] = true;
    }
    for (int op = end; op >= 0; op--) {
        bool needed = op == end;
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            needed = needed || !divider->is_side[problem->successors[s]];
        }
        if (needed) divider->is_side[op] = false;
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

// An operator is a cut when every operator of the core before it has a successor up to it, and
// every one behind it a predecessor from it on: then chains of them lead to it and away from it.
static int cut_core(struct divider *divider, bool no_segments)
{
    const struct memory_problem *problem = divider->problem;
    int count = problem->operator_count;
    int *reach = ARENA_NEW(divider->scratch, int, count + 1);  // of those behind, the least
    reach[count] = count;
    for (int op = count - 1; op >= 0; op--) {
        reach[op] = reach[op + 1];
        if (divider->is_side[op]) continue;
        int nearest = -1;
        for (int p = problem->first_predecessor[op]; p < problem->first_predecessor[op + 1]; p++) {
            nearest = problem->predecessors[p];
        }
        if (nearest < reach[op]) reach[op] = nearest;
    }
    int segment = 0, farthest = -1;
    for (int op = 0; op < count; op++) {
        if (divider->is_side[op]) continue;
        divider->segment[op] = segment;
        bool is_cut = farthest <= op && reach[op + 1] >= op && !no_segments;
        int nearest = count;
        for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
            int next = problem->successors[s];
            if (!divider->is_side[next] && next < nearest) nearest = next;
        }
        if (nearest > farthest) farthest = nearest;
        if (is_cut) segment++;
    }
    int last = 0;
    for (int op = 0; op < count; op++) {
        if (!divider->is_side[op] && divider->segment[op] > last) last = divider->segment[op];
    }
    return last + 1;
}

static void attach_sides(struct divider *divider)
{
    const struct memory_problem *problem = divider->problem;
    for (int op = 0; op < problem->operator_count; op++) {
        if (!divider->is_side[op]) continue;
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
    for (int i = 0; i < count; i++) {
        numbering->unit[operators[i]] = numbering->unit_count;
        numbering->operators[numbering->operator_count++] = operators[i];
    }
    numbering->first_operator[++numbering->unit_count] = numbering->operator_count;
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
    int *first_member, *first_of_segment;
    int *members = sort_into(divider->scratch, group_of, count, count, &first_member);
    int *sorted = sort_into(divider->scratch, divider->segment, count, division->segment_count,
                            &first_of_segment);
    int *first_unit = ARENA_NEW(divider->arena, int, division->segment_count + 1);
    int *core_count = ARENA_NEW(divider->arena, int, division->segment_count);
    for (int k = 0; k < division->segment_count; k++) {
        for (int i = first_of_segment[k]; i < first_of_segment[k + 1]; i++) {
            if (!divider->is_side[sorted[i]]) put_unit(numbering, &sorted[i], 1);
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
    division->first_unit = first_unit, division->core_count = core_count;
}

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
        relaxed[first] += division->relaxed_bytes[b], relaxed[last + 1] -= division->relaxed_bytes[b];
    }
    for (int k = 1; k <= end; k++)
        base[k] += base[k - 1], relaxed[k] += relaxed[k - 1];
    division->last_segment = last_segment;
    division->base_bytes = base, division->relaxed_base_bytes = relaxed;
}

struct order_division *order_divide(struct arena *arena, struct arena *scratch,
                                    const struct memory_problem *problem, bool no_segments,
                                    bool no_sides)
{
    struct arena_mark mark = arena_mark(scratch);
    int count = problem->operator_count;
    struct order_division *division = ARENA_NEW(arena, struct order_division, 1);
    struct divider divider = {.arena = arena, .scratch = scratch, .problem = problem};
    divider.segment = ARENA_NEW(arena, int, count);
    divider.parent = ARENA_NEW(scratch, int, count);
    divider.is_side = ARENA_NEW(scratch, bool, count);
    divider.division = division;
    if (!no_sides) {
        mark_sides(&divider);
        join_sides(&divider, false);
        return_large_sides(&divider);
    }
    division->problem = problem;
    division->segment_count = cut_core(&divider, no_segments);
    attach_sides(&divider);
    join_sides(&divider, true);
    struct numbering numbering = {ARENA_NEW(arena, int, count), ARENA_NEW(arena, int, count + 1),
                                  ARENA_NEW(arena, int, count), 0, 0,
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
