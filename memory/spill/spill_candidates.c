#include "memory/spill/spill_parts.h"

#include <assert.h>
#include <string.h>

// Repeating more operators than this at once is not looked at.
enum { AGAIN_MOST = 64, GENERATIONS_MOST = 32 };

struct finding {
    struct arena *arena;
    const struct spill_request *request;
    struct spill_space *space;
    int *buffer_of;       // [tensor]: of its storage; -1: none, or it is persistent
    bool *stays;          // [tensor]: of its storage: it is never given up
    int *overwritten_at;  // [tensor]: step at which its value is gone; step_count: never
    int *mark;            // [operator]: the try in which it is repeated
    int try;
    int capacity;
};

// Views have no buffer of their own: that of their storage speaks for them.
static int *storage_buffers(const struct finding *finding)
{
    const struct memory_graph *graph = finding->request->graph;
    int *buffer_of = ARENA_NEW(finding->arena, int, graph->tensor_count);
    int *of_root = ARENA_NEW(finding->arena, int, graph->tensor_count);
    for (int i = 0; i < graph->tensor_count; i++)
        of_root[i] = -1;
    for (int b = 0; b < finding->space->problem->buffer_count; b++) {
        int tensor = finding->space->problem->buffers[b].tensor;
        if (tensor >= 0) of_root[tensor] = b;
    }
    for (int i = 0; i < graph->tensor_count; i++)
        buffer_of[i] = of_root[graph->tensors[i].storage];
    return buffer_of;
}

// Values that are written in place cannot be made again from what made them.
static bool *staying(const struct finding *finding)
{
    const struct memory_graph *graph = finding->request->graph;
    bool *stays = ARENA_NEW(finding->arena, bool, graph->tensor_count);
    for (int i = 0; i < graph->tensor_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[i];
        if (tensor->overwrites || tensor->kept || tensor->persistent) stays[tensor->storage] = true;
    }
    for (int i = 0; i < graph->tensor_count; i++)
        stays[i] = stays[graph->tensors[i].storage];
    return stays;
}

// When what overwrites a value runs: that of the value, and of all views of it.
static int *overwriting_steps(const struct finding *finding)
{
    const struct memory_graph *graph = finding->request->graph;
    int *at = ARENA_NEW(finding->arena, int, graph->tensor_count);
    int *value = ARENA_NEW(finding->arena, int, graph->tensor_count);
    for (int i = 0; i < graph->tensor_count; i++) {
        at[i] = finding->space->step_count;
        value[i] = i;
        while (graph->tensors[value[i]].shares >= 0 && !graph->tensors[value[i]].overwrites)
            value[i] = graph->tensors[value[i]].shares;
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        if (!graph->tensors[i].overwrites) continue;
        int gone = value[graph->tensors[i].shares];
        at[gone] = finding->space->step_of[graph->tensors[i].producer];
    }
    for (int i = 0; i < graph->tensor_count; i++)
        at[i] = at[value[i]];
    return at;
}

// Steps at which a buffer is used, ascending, that of its producer first.
static int users_of(const struct finding *finding, int buffer, int *steps)
{
    const struct memory_problem *problem = finding->space->problem;
    const struct memory_buffer *of = &problem->buffers[buffer];
    int count = 0;
    if (of->producer >= 0) steps[count++] = finding->space->step_of[of->producer];
    for (int i = 0; i < of->user_count; i++) {
        int step = finding->space->step_of[problem->users[of->first_user + i]], at = count++;
        for (; at > 0 && steps[at - 1] > step; at--)
            steps[at] = steps[at - 1];
        assert(step >= 0 && step < finding->space->step_count);
        steps[at] = step;
    }
    return count;
}

static struct spill_candidate *add(struct finding *finding)
{
    struct spill_space *space = finding->space;
    ARENA_GROW(finding->arena, space->candidates, space->count, finding->capacity);
    struct spill_candidate *added = &space->candidates[space->count++];
    *added = (struct spill_candidate){0};
    return added;
}

static void add_moved(struct finding *finding, struct spill_freed freed, int64_t bytes)
{
    assert(bytes >= 0 && finding->request->move_bytes_per_s > 0);
    struct spill_candidate *moved = add(finding);
    struct spill_freed *own = ARENA_NEW(finding->arena, struct spill_freed, 1);
    *own = freed;
    moved->freed = own;
    moved->freed_count = 1;
    moved->step = freed.last;
    const struct spill_request *request = finding->request;
    moved->cost_s = 2 * ((double)bytes / request->move_bytes_per_s + request->move_start_s);
}

// Operators that are repeated together, from the one whose result is wanted back.
struct again {
    int operators[AGAIN_MOST], generation[AGAIN_MOST];
    int count;
    int needs[4 * AGAIN_MOST];
    int need_count;
};

static bool is_alive(const struct finding *finding, int buffer, int step)
{
    return finding->space->birth[buffer] <= step && step < finding->space->death[buffer];
}

// Not what changes anything but its outputs, nor what reads a value that is gone.
static bool may_repeat(const struct finding *finding, int index, int step)
{
    const struct memory_graph *graph = finding->request->graph;
    if (index < 0 || graph->operators[index].update) return false;
    if (finding->request->operator_s[index] < 0) return false;
    const struct memory_operator *of = &graph->operators[index];
    for (int i = 0; i < of->output_count; i++) {
        const struct memory_tensor *tensor = &graph->tensors[of->outputs[i]];
        if (tensor->overwrites || tensor->persistent || tensor->shares >= 0) return false;
    }
    for (int i = 0; i < of->input_count; i++) {
        if (finding->overwritten_at[of->inputs[i]] < step) return false;
    }
    return finding->space->step_of[index] < step;
}

static bool add_operator(struct finding *finding, struct again *again, int operator, int step,
                         int generation)
{
    if (finding->mark[operator] == finding->try) return true;
    if (again->count == AGAIN_MOST || !may_repeat(finding, operator, step)) return false;
    finding->mark[operator] = finding->try;
    again->operators[again->count] = operator;
    again->generation[again->count++] = generation;
    return true;
}

// Ascending and each once, so that equal candidates compare equal.
static bool add_need(struct again *again, int storage)
{
    int at = 0;
    while (at < again->need_count && again->needs[at] < storage)
        at++;
    if (at < again->need_count && again->needs[at] == storage) return true;
    if (again->need_count == 4 * AGAIN_MOST) return false;
    memmove(&again->needs[at + 1], &again->needs[at],
            (size_t)(again->need_count - at) * sizeof *again->needs);
    assert(at <= again->need_count && again->need_count < 4 * AGAIN_MOST);
    again->needs[at] = storage;
    again->need_count++;
    return true;
}

// What made an input: that of its storage, since views have none of their own that matters.
static int maker_of(const struct finding *finding, int tensor)
{
    const struct memory_graph *graph = finding->request->graph;
    return graph->tensors[graph->tensors[tensor].storage].producer;
}

// Goes back `generations` from the operators there are: what is there at `step` is repeated too,
// where it may be, and beyond them only what is not there.
static bool close_inputs(struct finding *finding, struct again *again, int step, int generations)
{
    const struct memory_graph *graph = finding->request->graph;
    for (int k = 0; k < again->count; k++) {
        const struct memory_operator *of = &graph->operators[again->operators[k]];
        int generation = again->generation[k];
        for (int i = 0; i < of->input_count; i++) {
            int tensor = of->inputs[i], buffer = finding->buffer_of[tensor];
            if (buffer < 0) continue;  // persistent, or of no bytes
            bool is_there = is_alive(finding, buffer, step);
            int maker = maker_of(finding, tensor);
            bool goes_back = generation + 1 < generations && !finding->stays[tensor];
            if (goes_back && is_there && maker >= 0 && may_repeat(finding, maker, step)) {
                if (!add_operator(finding, again, maker, step, generation + 1)) return false;
            } else if (is_there) {
                if (!add_need(again, graph->tensors[tensor].storage)) return false;
            } else if (finding->stays[tensor] || maker < 0 ||
                       !add_operator(finding, again, maker, step, generation + 1)) {
                return false;
            }
        }
    }
    return true;
}

// The last use of a buffer before a step, and whether it is alive at it: it can be given up
// between.
static bool gap_around(const struct finding *finding, int buffer, int step, int *first)
{
    const struct memory_problem *problem = finding->space->problem;
    const struct memory_buffer *of = &problem->buffers[buffer];
    if (!is_alive(finding, buffer, step) || of->producer < 0) return false;
    *first = finding->space->step_of[of->producer] + 1;
    for (int i = 0; i < of->user_count; i++) {
        int used = finding->space->step_of[problem->users[of->first_user + i]];
        if (used < step && used + 1 > *first) *first = used + 1;
    }
    return true;
}

// In the order in which they ran, in which their inputs are made before they are read.
static void sort_operators(const struct finding *finding, int *operators, int count)
{
    const int *step_of = finding->space->step_of;
    for (int i = 1; i < count; i++) {
        int moved = operators[i], at = i;
        for (; at > 0 && step_of[operators[at - 1]] > step_of[moved]; at--)
            operators[at] = operators[at - 1];
        operators[at] = moved;
    }
}

// The candidate of what is repeated: all its results that are alive at the step are given up until
// then; the others live for the moment.
static void add_again(struct finding *finding, const struct again *again, int step)
{
    const struct memory_graph *graph = finding->request->graph;
    struct arena *arena = finding->arena;
    int64_t workspace_bytes = 0;
    int outputs = 0;
    for (int k = 0; k < again->count; k++)
        outputs += graph->operators[again->operators[k]].output_count;
    struct spill_freed *freed = ARENA_NEW(arena, struct spill_freed, outputs);
    int *operators = ARENA_NEW(arena, int, again->count), *needs;
    struct spill_candidate made = {.freed = freed,
                                   .step = step,
                                   .again = operators,
                                   .again_count = again->count,
                                   .need_count = again->need_count};
    memcpy(operators, again->operators, (size_t)again->count * sizeof *operators);
    sort_operators(finding, operators, again->count);
    made.needs = needs = ARENA_NEW(arena, int, again->need_count);
    memcpy(needs, again->needs, (size_t)again->need_count * sizeof *needs);
    for (int k = 0; k < again->count; k++) {
        const struct memory_operator *of = &graph->operators[operators[k]];
        made.cost_s += finding->request->operator_s[operators[k]];
        if (of->workspace_bytes > workspace_bytes) workspace_bytes = of->workspace_bytes;
        for (int i = 0; i < of->output_count; i++) {
            int tensor = of->outputs[i], buffer = finding->buffer_of[tensor], first;
            if (buffer < 0) continue;
            bool comes_back = !finding->stays[tensor] && gap_around(finding, buffer, step, &first);
            if (!comes_back)
                made.extra_bytes += finding->space->problem->buffers[buffer].bytes;
            else if (first < step)
                freed[made.freed_count++] =
                    (struct spill_freed){graph->tensors[tensor].storage, first, step};
        }
    }
    made.extra_bytes += workspace_bytes;
    assert(made.freed_count <= outputs && made.extra_bytes >= 0 && made.cost_s >= 0);
    if (made.freed_count > 0) *add(finding) = made;
}

static void add_repeated(struct finding *finding, int storage, int step)
{
    int last_count = 0;
    for (int generations = 1; generations <= GENERATIONS_MOST; generations *= 2) {
        struct again again = {0};
        finding->try++;
        int maker = finding->request->graph->tensors[storage].producer;
        if (!add_operator(finding, &again, maker, step, 0) ||
            !close_inputs(finding, &again, step, generations))
            return;
        if (again.count > last_count) add_again(finding, &again, step);
        last_count = again.count;
    }
}

static void find(struct finding *finding, int buffer, int *steps)
{
    const struct memory_buffer *of = &finding->space->problem->buffers[buffer];
    if (of->tensor < 0 || finding->stays[of->tensor]) return;
    int count = users_of(finding, buffer, steps);
    for (int i = 0; i + 1 < count; i++) {
        struct spill_freed freed = {of->tensor, steps[i] + 1, steps[i + 1]};
        if (freed.first >= freed.last) continue;
        if (finding->request->may_move) add_moved(finding, freed, of->bytes);
        if (finding->request->may_recompute) add_repeated(finding, of->tensor, freed.last);
    }
}

static void measure(struct arena *arena, struct spill_space *space)
{
    space->load = ARENA_NEW(arena, int64_t, space->step_count + 1);
    for (int b = 0; b < space->problem->buffer_count; b++) {
        for (int t = space->birth[b]; t < space->death[b]; t++)
            space->load[t] += space->problem->buffers[b].bytes;
    }
}

struct spill_space spill_space_make(struct arena *arena, const struct spill_request *request,
                                    const struct memory_problem *problem, const int *order)
{
    struct spill_space space = {.graph = request->graph,
                                .problem = problem,
                                .order = order,
                                .step_count = problem->operator_count};
    int *step_of = ARENA_NEW(arena, int, space.step_count);
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    for (int t = 0; t < space.step_count; t++)
        step_of[order[t]] = t;
    memory_lifetimes(arena, problem, order, birth, death);
    space.step_of = step_of;
    space.birth = birth;
    space.death = death;
    measure(arena, &space);
    struct finding finding = {.arena = arena, .request = request, .space = &space};
    finding.buffer_of = storage_buffers(&finding);
    finding.stays = staying(&finding);
    finding.overwritten_at = overwriting_steps(&finding);
    finding.mark = ARENA_NEW(arena, int, space.step_count);
    int *steps = ARENA_NEW(arena, int, space.step_count + 1);
    for (int b = 0; b < problem->buffer_count; b++)
        find(&finding, b, steps);
    return space;
}
