#include "memory/spill/spill_parts.h"

#include <assert.h>

// The independent check of what is recomputed and moved: it reads the graph as it was and as it is
// now, and shares nothing with what made the one from the other.

static bool fault(struct arena *scratch, const char **why, const char *name, const char *what)
{
    *why = arena_print(scratch, "\"%.99s\" %s", name, what);
    return false;
}

// Operands may be copies, but of the same values in the same places.
static bool has_origins(const int *origin, const int *now, int count, const int *then, int other)
{
    if (count != other) return false;
    for (int i = 0; i < count; i++) {
        if (origin[now[i]] != then[i]) return false;
    }
    return true;
}

// An operator reads and writes the values that it did.
static bool check_operator(struct arena *scratch, const struct spill_request *request,
                           const struct spill_result *result, int operator, const char ** why)
{
    const int *origin = result->tensor_origin;
    const struct memory_operator *now = &result->graph->operators[operator];
    const struct memory_operator *then =
        &request->graph->operators[result->operator_origin[operator]];
    bool is_right =
        has_origins(origin, now->inputs, now->input_count, then->inputs, then->input_count) &&
        has_origins(origin, now->outputs, now->output_count, then->outputs, then->output_count) &&
        now->workspace_bytes == then->workspace_bytes && now->update == then->update;
    return is_right || fault(scratch, why, now->name, "has other operands than it had");
}

// What comes in went out before: the operator that it waits for took it.
static bool check_copy(struct arena *scratch, const struct spill_request *request,
                       const struct spill_result *result, int operator, const char ** why)
{
    const struct memory_graph *graph = result->graph;
    const struct memory_operator *copy = &graph->operators[operator];
    if (!request->may_move) return fault(scratch, why, copy->name, "may not be moved");
    if (copy->input_count == 1 && copy->output_count == 0) return true;
    if (copy->input_count != 0 || copy->output_count != 1)
        return fault(scratch, why, copy->name, "is no copy");
    for (int i = 0; i < copy->after_count; i++) {
        const struct memory_operator *out = &graph->operators[copy->after[i]];
        bool is_out = result->operator_origin[copy->after[i]] < 0 && out->input_count == 1;
        if (is_out &&
            result->tensor_origin[out->inputs[0]] == result->tensor_origin[copy->outputs[0]])
            return true;
    }
    return fault(scratch, why, copy->name, "fetches what was not copied out before");
}

// A tensor is as large as it was, at the place of the same value, and where it had a maker it has
// one, or is a view.
static bool check_tensor(struct arena *scratch, const struct spill_request *request,
                         const struct spill_result *result, int tensor, const char **why)
{
    const struct memory_tensor *now = &result->graph->tensors[tensor];
    int origin = result->tensor_origin[tensor];
    assert(origin >= 0 && origin < request->graph->tensor_count);
    const struct memory_tensor *then = &request->graph->tensors[origin];
    bool is_copy = tensor >= request->graph->tensor_count;
    bool is_like = now->bytes == then->bytes && (now->shares >= 0) == (then->shares >= 0) &&
                   now->persistent == (then->persistent && !is_copy) &&
                   now->kept == (then->kept && !is_copy) &&
                   now->overwrites == (then->overwrites && !is_copy);
    if (!is_like || (is_copy && (then->persistent || then->overwrites)))
        return fault(scratch, why, now->name, "is not like what it was");
    if (now->shares >= 0 && result->tensor_origin[now->shares] != then->shares)
        return fault(scratch, why, now->name, "is a view of something else");
    if (then->producer >= 0 && now->producer < 0 && now->shares < 0)
        return fault(scratch, why, now->name, "has nobody who makes it");
    return true;
}

// Every operator runs once at least; what runs again is what the result counts.
bool check_spill(struct arena *scratch, const struct spill_request *request,
                 const struct spill_result *result, const char **why)
{
    const struct memory_graph *graph = result->graph;
    int *times = ARENA_NEW(scratch, int, request->graph->operator_count);
    int repeated = 0;
    double repeated_s = 0;
    for (int i = 0; i < graph->operator_count; i++) {
        int origin = result->operator_origin[i];
        bool is_right = origin < 0 ? check_copy(scratch, request, result, i, why)
                                   : check_operator(scratch, request, result, i, why);
        if (!is_right) return false;
        assert(origin < request->graph->operator_count);
        if (origin < 0 || times[origin]++ == 0) continue;
        if (!request->may_recompute || graph->operators[i].update)
            return fault(scratch, why, graph->operators[i].name, "may not be repeated");
        repeated++;
        repeated_s += request->operator_s[origin];
    }
    for (int i = 0; i < request->graph->operator_count; i++) {
        if (times[i] == 0)
            return fault(scratch, why, request->graph->operators[i].name, "does not run");
    }
    for (int i = 0; i < graph->tensor_count; i++) {
        if (!check_tensor(scratch, request, result, i, why)) return false;
    }
    double apart_s = repeated_s - result->repeated_s;
    bool is_counted = repeated == result->repeated_count && apart_s <= 1e-9 * repeated_s &&
                      -apart_s <= 1e-9 * repeated_s;
    return is_counted || fault(scratch, why, graph->name, "is counted wrongly");
}
