#include "cost_models/tables/table_stack.h"

#include "core/file.h"

#include <assert.h>

static const struct json_field FIELDS[] = {
    {JSON_TEXT(struct table_stack, name)},
    {JSON_TEXT(struct table_stack, description)},
    {JSON_BOOL(struct table_stack, overlaps)},
    {JSON_BOOL(struct table_stack, prefetches_ids)},
    {JSON_BOOL(struct table_stack, hierarchical)},
    {JSON_F64(struct table_stack, gemm_scale, 0.001, 4)},
    {JSON_F64(struct table_stack, cross_passes_forward, 0, 64)},
    {JSON_F64(struct table_stack, cross_passes_backward, 0, 64)},
    {JSON_F64(struct table_stack, join_passes, 0, 64)},
    {JSON_F64(struct table_stack, activation_passes_backward, 0, 64)},
    {JSON_F64(struct table_stack, sort_bytes_per_id, 0, 4096)},
    {JSON_F64(struct table_stack, sparse_kernels, 0, 4096)},
    {JSON_F64(struct table_stack, copy_ratio, 0.01, 1)},
    {JSON_F64(struct table_stack, step_overhead_s, 0, 1000)},
    {JSON_I64(struct table_stack, reserve_bytes, 0, 1e12)},
    {JSON_ANY("provenance")},
    {0},
};

const struct table_stack *table_stack_read(struct arena *arena, const struct json *object,
                                           struct err *err)
{
    struct table_stack *stack = ARENA_NEW(arena, struct table_stack, 1);
    struct provenance_list list = {0};
    json_read(object, FIELDS, stack, err);
    if (!err->kind) list = provenance_read(arena, object, "stack", err);
    stack->provenance = list.entries;
    stack->provenance_count = list.count;
    return err->kind ? NULL : stack;
}

const struct table_stack *table_stack_load(struct arena *arena, const char *name, struct err *err)
{
    const char *path =
        file_find_data(arena, "cost_models/tables", name, "stack for recommendation", err);
    struct json_document *document = ARENA_NEW(arena, struct json_document, 1);
    if (!path || !json_load(arena, path, document, err)) return NULL;
    struct json root = json_root(document);
    return table_stack_read(arena, &root, err);
}

void table_stack_write(struct json_writer *writer, const char *key, const struct table_stack *stack)
{
    assert(stack->provenance_count >= 0);
    json_open(writer, key, '{');
    json_put_fields(writer, FIELDS, stack);
    provenance_write(writer, stack->provenance, stack->provenance_count);
    json_close(writer, '}');
}
