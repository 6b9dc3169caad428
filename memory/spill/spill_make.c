#include "memory/spill/spill_parts.h"

#include <string.h>

// The graph anew, in the base order: copies out behind the last use, copies in and repeated
// operators right before the next. What is repeated or fetched comes behind the operator of the
// step before: earlier, it would be there for longer.

struct making {
    struct arena *arena;
    const struct spill_space *space;
    const struct spill_request *request;
    struct memory_graph *graph;
    int tensor_capacity, operator_capacity, origin_capacity, value_capacity;
    int *tensor_origin, *operator_origin;
    int *current;  // [tensor of the request]: that which has its value now
    int *local;    // [tensor of the request]: within what is repeated now; -1
    int *copies;   // [tensor of the request]: how many there are of it
    int *made;     // [operator of the request]: its own; -1: not yet
    int *out;      // [tensor of the request]: the operator that copied it out; -1
    int *first_member, *next_member;  // [tensor]: of its storage's list; -1 ends
    struct spill_result *result;
};

static struct making start(struct arena *arena, const struct spill_request *request,
                           const struct spill_space *space, struct spill_result *result)
{
    const struct memory_graph *old = request->graph;
    int tensors = old->tensor_count;
    struct making making = {.arena = arena, .space = space, .request = request, .result = result};
    making.graph = ARENA_NEW(arena, struct memory_graph, 1);
    making.graph->name = old->name;
    int **lists[] = {&making.current, &making.local,        &making.copies,
                     &making.out,     &making.first_member, &making.next_member};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        *lists[i] = ARENA_NEW(arena, int, tensors);
    making.made = ARENA_NEW(arena, int, old->operator_count);
    for (int i = 0; i < tensors; i++) {
        making.current[i] = i;
        making.local[i] = making.out[i] = making.first_member[i] = -1;
        ARENA_GROW(arena, making.graph->tensors, i, making.tensor_capacity);
        making.graph->tensors[i] = old->tensors[i];
        ARENA_GROW(arena, making.tensor_origin, i, making.origin_capacity);
        making.tensor_origin[i] = i;
    }
    making.graph->tensor_count = tensors;
    for (int i = tensors - 1; i >= 0; i--) {
        making.next_member[i] = making.first_member[old->tensors[i].storage];
        making.first_member[old->tensors[i].storage] = i;
    }
    return making;
}

static int add_tensor(struct making *making, int origin, int shares)
{
    struct memory_graph *graph = making->graph;
    const struct memory_tensor *of = &making->request->graph->tensors[origin];
    int number = ++making->copies[origin];
    const char *again = number == 1 ? "again" : arena_print(making->arena, "again%d", number);
    ARENA_GROW(making->arena, graph->tensors, graph->tensor_count, making->tensor_capacity);
    ARENA_GROW(making->arena, making->tensor_origin, graph->tensor_count, making->origin_capacity);
    making->tensor_origin[graph->tensor_count] = origin;
    graph->tensors[graph->tensor_count] = (struct memory_tensor){
        .name = arena_print(making->arena, "%s.%s", again, of->name),
        .bytes = of->bytes,
        .shares = shares,
        .producer = -1,
    };
    return graph->tensor_count++;
}

static int add_operator(struct making *making, struct memory_operator added, int origin)
{
    struct memory_graph *graph = making->graph;
    ARENA_GROW(making->arena, graph->operators, graph->operator_count, making->operator_capacity);
    ARENA_GROW(making->arena, making->operator_origin, graph->operator_count,
               making->value_capacity);
    making->operator_origin[graph->operator_count] = origin;
    graph->operators[graph->operator_count] = added;
    return graph->operator_count++;
}

static int *list_of(struct making *making, int value)
{
    int *list = ARENA_NEW(making->arena, int, 1);
    *list = value;
    return list;
}

// The view of a storage that is there again, in `map`; of what it is a view of first.
static int view_again(struct making *making, int *map, int tensor)
{
    int shares = making->request->graph->tensors[tensor].shares;
    if (map[tensor] >= 0 || shares < 0) return map[tensor];
    int below = view_again(making, map, shares);
    return map[tensor] = add_tensor(making, tensor, below);
}

// All that has been made of a storage by a step is there again where its root is.
static void bring_back(struct making *making, int storage, int root, int step)
{
    const struct memory_graph *old = making->request->graph;
    for (int i = making->first_member[storage]; i >= 0; i = making->next_member[i]) {
        int producer = old->tensors[i].producer;
        bool is_made = producer < 0 || making->space->step_of[producer] < step;
        if (is_made) making->current[i] = -1;
    }
    making->current[storage] = root;
    for (int i = making->first_member[storage]; i >= 0; i = making->next_member[i]) {
        if (making->current[i] < 0) view_again(making, making->current, i);
    }
}

static void move_out(struct making *making, int storage)
{
    const struct memory_tensor *tensor = &making->request->graph->tensors[storage];
    making->out[storage] = add_operator(
        making,
        (struct memory_operator){.name = arena_print(making->arena, "out.%s", tensor->name),
                                 .inputs = list_of(making, making->current[storage]),
                                 .input_count = 1},
        -1);
    making->result->moved_count++;
    making->result->out_bytes += tensor->bytes;
    making->result->copy_count++;
}

static int made_before(const struct making *making, int step)
{
    return making->made[making->space->order[step - 1]];
}

static void move_in(struct making *making, const struct spill_candidate *of)
{
    int storage = of->freed->storage, root = add_tensor(making, storage, -1);
    int *after = ARENA_NEW(making->arena, int, 2);
    after[0] = making->out[storage];
    after[1] = made_before(making, of->step);
    const char *name = making->graph->tensors[root].name;
    add_operator(making,
                 (struct memory_operator){.name = arena_print(making->arena, "in.%s", name),
                                          .outputs = list_of(making, root),
                                          .output_count = 1,
                                          .after = after,
                                          .after_count = 2},
                 -1);
    making->result->in_bytes += making->graph->tensors[root].bytes;
    making->result->copy_count++;
    bring_back(making, storage, root, of->step);
}

static int repeated_input(struct making *making, int tensor)
{
    const struct memory_tensor *of = &making->request->graph->tensors[tensor];
    if (making->local[of->storage] < 0) return making->current[tensor];
    return view_again(making, making->local, tensor);
}

static void repeat_operator(struct making *making, int operator, int step)
{
    const struct memory_operator *of = &making->request->graph->operators[operator];
    struct memory_operator again = *of;
    int *inputs = ARENA_NEW(making->arena, int, of->input_count);
    int *outputs = ARENA_NEW(making->arena, int, of->output_count);
    for (int i = 0; i < of->input_count; i++)
        inputs[i] = repeated_input(making, of->inputs[i]);
    for (int i = 0; i < of->output_count; i++) {
        outputs[i] = add_tensor(making, of->outputs[i], -1);
        making->local[of->outputs[i]] = outputs[i];
    }
    again.name = arena_print(making->arena, "again.%s", of->name);
    again.inputs = inputs;
    again.outputs = outputs;
    again.after = list_of(making, made_before(making, step));
    again.after_count = 1;
    add_operator(making, again, operator);
    making->result->repeated_count++;
    making->result->repeated_s += making->request->operator_s[operator];
}

static void repeat(struct making *making, const struct spill_candidate *of)
{
    const struct memory_graph *old = making->request->graph;
    for (int k = 0; k < of->again_count; k++)
        repeat_operator(making, of->again[k], of->step);
    for (int k = 0; k < of->freed_count; k++) {
        int storage = of->freed[k].storage;
        bring_back(making, storage, making->local[storage], of->step);
    }
    for (int k = 0; k < of->again_count; k++) {
        const struct memory_operator *again = &old->operators[of->again[k]];
        for (int i = 0; i < again->output_count; i++) {
            int storage = old->tensors[again->outputs[i]].storage;
            for (int m = making->first_member[storage]; m >= 0; m = making->next_member[m])
                making->local[m] = -1;
        }
    }
}

static void copy_operator(struct making *making, int operator, const int * outs, int out_count)
{
    const struct memory_operator *of = &making->request->graph->operators[operator];
    struct memory_operator copy = *of;
    int *inputs = ARENA_NEW(making->arena, int, of->input_count);
    int *after = ARENA_NEW(making->arena, int, of->after_count + out_count);
    for (int i = 0; i < of->input_count; i++)
        inputs[i] = making->current[of->inputs[i]];
    for (int i = 0; i < of->after_count; i++)
        after[i] = making->made[of->after[i]];
    memcpy(after + of->after_count, outs, (size_t)out_count * sizeof *after);
    for (int i = 0; i < of->output_count; i++) {
        struct memory_tensor *tensor = &making->graph->tensors[of->outputs[i]];
        if (tensor->shares >= 0) tensor->shares = making->current[tensor->shares];
    }
    copy.inputs = inputs;
    copy.after = after;
    copy.after_count = of->after_count + out_count;
    making->made[operator] = add_operator(making, copy, operator);
}

bool spill_make(struct arena *arena, const struct spill_request *request,
                const struct spill_space *space, const bool *taken, struct spill_result *result,
                struct err *err)
{
    struct making making = start(arena, request, space, result);
    int *outs = ARENA_NEW(arena, int, space->count), *chosen = ARENA_NEW(arena, int, space->count);
    int count = 0;
    for (int i = 0; i < space->count; i++) {
        if (taken[i]) chosen[count++] = i;
    }
    result->repeated_count = result->moved_count = result->copy_count = 0;
    result->repeated_s = 0;
    result->out_bytes = result->in_bytes = 0;
    for (int t = 0; t < space->step_count; t++) {
        int out_count = 0;
        for (int i = 0; i < count; i++) {
            const struct spill_candidate *of = &space->candidates[chosen[i]];
            bool leaves =
                of->again_count == 0 && of->freed->first == t && making.out[of->freed->storage] < 0;
            if (!leaves) continue;
            move_out(&making, of->freed->storage);
            outs[out_count++] = making.out[of->freed->storage];
        }
        for (int i = 0; i < count; i++) {
            const struct spill_candidate *of = &space->candidates[chosen[i]];
            if (of->step != t) continue;
            if (of->again_count > 0)
                repeat(&making, of);
            else
                move_in(&making, of);
        }
        copy_operator(&making, space->order[t], outs, out_count);
    }
    result->graph = making.graph;
    result->operator_origin = making.operator_origin;
    result->tensor_origin = making.tensor_origin;
    result->cost_s = result->repeated_s;
    if (request->may_move)
        result->cost_s +=
            (double)(result->out_bytes + result->in_bytes) / request->move_bytes_per_s +
            result->copy_count * request->move_start_s;
    return memory_graph_finish(arena, making.graph, making.graph->name, err);
}
