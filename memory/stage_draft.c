#include "memory/stage_draft.h"

#include <assert.h>
#include <string.h>

// Items with room for one more: they grow where the count is a power of two.
// Twice the room each time: a stage has hundreds of thousands of tensors.
static void *with_room(struct arena *arena, void *items, int count, size_t size)
{
    if (count & (count - 1)) return items;
    void *grown = arena_alloc(arena, count ? 2 * (size_t)count : 1, size);
    if (count) memcpy(grown, items, (size_t)count * size);
    return grown;
}

// Each once, as the graph wants its lists.
void index_list_add(struct arena *arena, struct index_list *list, int item)
{
    for (int i = 0; i < list->count; i++) {
        if (list->items[i] == item) return;
    }
    list->items = with_room(arena, list->items, list->count, sizeof *list->items);
    list->items[list->count++] = item;
}

int draft_operator_add(struct draft *draft, const struct draft_operator *operator)
{
    draft->operators =
        with_room(&draft->growing, draft->operators, draft->operator_count, sizeof *operator);
    draft->operators[draft->operator_count] = *operator;
    return draft->operator_count++;
}

int draft_tensor_add(struct draft *draft, const struct draft_tensor *tensor)
{
    draft->tensors =
        with_room(&draft->growing, draft->tensors, draft->tensor_count, sizeof *tensor);
    draft->tensors[draft->tensor_count] = *tensor;
    return draft->tensor_count++;
}

void draft_reads(struct draft *draft, int operator, int tensor)
{
    assert(operator<draft->operator_count && tensor >= 0 && tensor<draft->tensor_count);
    assert(operator>= 0 && operator<draft->operator_count && tensor<draft->tensor_count);
    index_list_add(draft->arena, &draft->operators[operator].inputs, tensor);
}

void draft_makes(struct draft *draft, int operator, int tensor)
{
    assert(operator<draft->operator_count && tensor >= 0 && tensor<draft->tensor_count);
    assert(operator>= 0 && operator<draft->operator_count && tensor<draft->tensor_count);
    draft->tensors[tensor].producer = operator;
    index_list_add(draft->arena, &draft->operators[operator].outputs, tensor);
}

void draft_follows(struct draft *draft, int operator, int before)
{
    assert(operator<draft->operator_count && before<draft->operator_count && before >= 0);
    assert(before >= 0 && before < draft->operator_count);
    index_list_add(draft->arena, &draft->operators[operator].after, before);
}

// Marks inputs whose maker this operator stands behind.
void draft_finishes(struct draft *draft, int operator)
{
    assert(operator>= 0 && operator<draft->operator_count);
    const struct draft_operator *of = &draft->operators[operator];
    for (int i = 0; i < of->inputs.count; i++) {
        struct draft_tensor *tensor = &draft->tensors[of->inputs.items[i]];
        for (int k = 0; k < of->after.count; k++)
            if (tensor->producer == of->after.items[k]) tensor->finished = operator;
    }
}

static void fill_operators(const struct draft *draft, struct memory_graph *graph,
                           struct stage_graph *stage)
{
    int count = draft->operator_count;
    enum task_kind *kinds = ARENA_NEW(draft->arena, enum task_kind, count);
    int *maps[5];
    for (int i = 0; i < 5; i++)
        maps[i] = ARENA_NEW(draft->arena, int, count);
    graph->operators = ARENA_NEW(draft->arena, struct memory_operator, count);
    graph->operator_count = count;
    for (int o = 0; o < count; o++) {
        const struct draft_operator *from = &draft->operators[o];
        graph->operators[o] = (struct memory_operator){
            .name = from->name,
            .inputs = from->inputs.items,
            .input_count = from->inputs.count,
            .outputs = from->outputs.items,
            .output_count = from->outputs.count,
            .after = from->after.items,
            .after_count = from->after.count,
        };
        kinds[o] = from->kind;
        maps[0][o] = from->instr;
        maps[1][o] = from->position;
        maps[2][o] = from->chunk;
        maps[3][o] = from->micro_batch;
        maps[4][o] = from->slot;
    }
    stage->kind = kinds;
    stage->instr = maps[0];
    stage->position = maps[1];
    stage->chunk = maps[2];
    stage->micro_batch = maps[3];
    stage->slot = maps[4];
}

struct stage_graph *draft_finish(struct draft *draft, const char *name, struct err *err)
{
    struct stage_graph *stage = ARENA_NEW(draft->arena, struct stage_graph, 1);
    struct memory_graph *graph = ARENA_NEW(draft->arena, struct memory_graph, 1);
    graph->name = name;
    fill_operators(draft, graph, stage);
    int *buffer = ARENA_NEW(draft->arena, int, draft->tensor_count);
    int *turns = ARENA_NEW(draft->arena, int, draft->tensor_count);
    graph->tensors = ARENA_NEW(draft->arena, struct memory_tensor, draft->tensor_count);
    graph->tensor_count = draft->tensor_count;
    for (int t = 0; t < draft->tensor_count; t++) {
        const struct draft_tensor *from = &draft->tensors[t];
        graph->tensors[t] = (struct memory_tensor){
            .name = from->name,
            .bytes = from->bytes,
            .producer = from->producer,
            .storage = t,
            .overwrites = from->overwrites,
            .shares = from->shares,
            .persistent = from->persistent,
            .kept = from->kept,
        };
        buffer[t] = from->buffer;
        turns[t] = from->turns;
    }
    stage->graph = graph;
    stage->micro_batches = draft->slots->micro_batches;
    stage->buffer = buffer;
    stage->turns = turns;
    arena_free(&draft->growing);
    return memory_graph_finish(draft->arena, graph, name, err) ? stage : NULL;
}
