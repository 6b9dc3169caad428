#include "memory/plan_schedule_check.h"

#include <assert.h>
#include <string.h>

// memory.schedule of plan.json. Lists are on one line each: they are long.

static void put_stage(struct json_writer *writer, const struct stage_schedule *stage)
{
    json_open(writer, NULL, '{');
    json_put_ints(writer, "stages", stage->stages, stage->stage_count);
    json_put_i64(writer, "micro_batches", stage->micro_batches);
    json_put_i64(writer, "live_bytes", stage->live_bytes);
    json_put_i64(writer, "arena_bytes", stage->arena_bytes);
    json_put_i64(writer, "bound_bytes", stage->bound_bytes);
    json_put_ints(writer, "order", stage->order, stage->operator_count);
    json_put_i64s(writer, "offsets", stage->offsets, stage->tensor_count);
    json_close(writer, '}');
}

// The member as it stands two levels deep in the file, behind another one or not.
static char *member_text(struct arena *arena, const struct plan_schedule *schedule, bool has_member)
{
    enum { DEPTH = 2 };
    struct json_writer writer = {.arena = arena, .depth = DEPTH, .has_member = has_member};
    json_open(&writer, "schedule", '{');
    json_put_i64(&writer, "alignment", schedule->alignment);
    json_open(&writer, "stages", '[');
    for (int i = 0; i < schedule->count; i++)
        put_stage(&writer, &schedule->stages[i]);
    json_close(&writer, ']');
    json_close(&writer, '}');
    return writer.text;
}

char *plan_schedule_text(struct arena *arena, const struct json *memory,
                         const struct plan_schedule *schedule)
{
    struct err err = {0};
    const char *text = memory->document->text;
    size_t bytes = memory->document->text_bytes, from, to;
    int count = json_member_count(memory, &err);
    assert(!err.kind && "a plan's memory is an object");
    const char *made = member_text(arena, schedule, count > 0);
    struct json old = json_get(memory, "schedule", &err);
    if (!err.kind) {
        struct json_span span = json_span_of(&old);
        from = span.offset;
        to = span.offset + span.bytes;
        made = strchr(made, '{');
    } else if (count > 0) {
        struct json last = json_item(memory, count - 1);
        struct json_span span = json_span_of(&last);
        from = to = span.offset + span.bytes;
    } else {
        from = to = json_span_of(memory).offset + 1;
    }
    size_t made_bytes = strlen(made);
    char *result = ARENA_NEW(arena, char, from + made_bytes + (bytes - to) + 1);
    memcpy(result, text, from);
    memcpy(result + from, made, made_bytes);
    memcpy(result + from + made_bytes, text + to, bytes - to);
    return result;
}

static const struct json_field SCHEDULE_FIELDS[] = {
    {JSON_I64(struct plan_schedule, alignment, 1, 1 << 30)},
    {JSON_ANY("stages")},
    {0},
};

static const struct json_field STAGE_FIELDS[] = {
    {JSON_ANY("stages")},
    {JSON_INT(struct stage_schedule, micro_batches, 1, 1 << 30)},
    {JSON_I64(struct stage_schedule, live_bytes, 0, 9e15)},
    {JSON_I64(struct stage_schedule, arena_bytes, 0, 9e15)},
    {JSON_I64(struct stage_schedule, bound_bytes, 0, 9e15)},
    {JSON_ANY("order")},
    {JSON_ANY("offsets")},
    {0},
};

static bool expect_count(const struct json *list, int wanted, const char *what, struct err *err)
{
    int count = json_count(list, err);
    if (err->kind) return false;
    if (count == wanted) return true;
    return json_fail(list, err, "expected %d %s, found %d", wanted, what, count);
}

static bool read_ints(const struct json *list, int *items, int count, int below, struct err *err)
{
    for (int i = 0; i < count && !err->kind; i++) {
        struct json item = json_item(list, i);
        items[i] = (int)json_i64(&item, 0, below - 1, err);
    }
    return !err->kind;
}

// Which stages are alike follows from the plan.
static bool read_members(const struct json *object, const struct plan_stage *group, int stage_count,
                         struct arena *arena, struct err *err)
{
    struct json list = json_get(object, "stages", err);
    if (err->kind || !expect_count(&list, group->stage_count, "stages that are alike", err))
        return false;
    int *members = ARENA_NEW(arena, int, group->stage_count);
    if (!read_ints(&list, members, group->stage_count, stage_count, err)) return false;
    for (int i = 0; i < group->stage_count; i++) {
        if (members[i] == group->stages[i]) continue;
        struct json item = json_item(&list, i);
        return json_fail(&item, err, "expected stage %d, found %d", group->stages[i], members[i]);
    }
    return true;
}

static bool read_stage(struct arena *arena, const struct json *object,
                       const struct plan_stage *group, int stage_count,
                       struct stage_schedule *stage, struct err *err)
{
    const struct memory_graph *graph = group->graph->graph;
    json_read(object, STAGE_FIELDS, stage, err);
    if (err->kind || !read_members(object, group, stage_count, arena, err)) return false;
    stage->stage = group->stage;
    stage->stages = group->stages;
    stage->stage_count = group->stage_count;
    if (stage->micro_batches != group->graph->micro_batches) {
        struct json at = json_get(object, "micro_batches", err);
        return json_fail(&at, err, "expected %d, found %d", group->graph->micro_batches,
                         stage->micro_batches);
    }
    stage->operator_count = graph->operator_count;
    stage->tensor_count = graph->tensor_count;
    struct json order = json_get(object, "order", err), offsets = json_get(object, "offsets", err);
    if (!expect_count(&order, stage->operator_count, "operators", err)) return false;
    if (!expect_count(&offsets, stage->tensor_count, "tensors", err)) return false;
    int *operators = ARENA_NEW(arena, int, stage->operator_count);
    int64_t *places = ARENA_NEW(arena, int64_t, stage->tensor_count);
    if (!read_ints(&order, operators, stage->operator_count, stage->operator_count, err))
        return false;
    for (int t = 0; t < stage->tensor_count && !err->kind; t++) {
        struct json item = json_item(&offsets, t);
        places[t] = json_i64(&item, -1, 9e15, err);
    }
    stage->order = operators;
    stage->offsets = places;
    return !err->kind;
}

bool plan_schedule_read(struct arena *arena, const struct json *memory,
                        const struct program *program, const struct stack *stack,
                        const struct plan_schedule **schedule, struct err *err)
{
    *schedule = NULL;
    if (!json_has(memory, "schedule")) return true;
    struct json object = json_get(memory, "schedule", err);
    struct plan_schedule *read = ARENA_NEW(arena, struct plan_schedule, 1);
    json_read(&object, SCHEDULE_FIELDS, read, err);
    struct json list = json_get(&object, "stages", err);
    struct plan_stages groups;
    if (err->kind || !plan_stages_make(arena, program, stack, read->alignment, &groups, err) ||
        !expect_count(&list, groups.count, "groups of stages", err))
        return false;
    read->count = groups.count;
    read->stages = ARENA_NEW(arena, struct stage_schedule, groups.count);
    for (int i = 0; i < groups.count; i++) {
        struct json item = json_item(&list, i);
        struct stage_schedule *stage = &read->stages[i];
        const struct plan_stage *group = &groups.stages[i];
        if (!read_stage(arena, &item, group, program->shape.stage_count, stage, err) ||
            !stage_schedule_check(arena, &item, group, read->alignment, stage, err))
            return false;
    }
    *schedule = read;
    return true;
}
