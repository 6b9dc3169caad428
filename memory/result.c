#include "core/json_write.h"
#include "core/plain.h"
#include "memory/formats.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

// The name of what lies at a buffer's place.
static const char *buffer_name(struct arena *arena, const struct memory_graph *graph,
                               const struct memory_buffer *buffer)
{
    if (buffer->tensor >= 0) return graph->tensors[buffer->tensor].name;
    return arena_print(arena, "%s.workspace", graph->operators[buffer->producer].name);
}

// Tensors that share a storage, as lists: first[storage], then next[tensor]; -1 ends.
struct sharing {
    int *first, *next;
};

static struct sharing find_sharing(struct arena *arena, const struct memory_graph *graph)
{
    int count = graph->tensor_count;
    struct sharing sharing = {ARENA_NEW(arena, int, count), ARENA_NEW(arena, int, count)};
    for (int i = 0; i < count; i++) {
        sharing.first[i] = -1;
    }
    for (int i = count - 1; i >= 0; i--) {
        int storage = graph->tensors[i].storage;
        assert(storage >= 0 && storage < count && graph->tensors[storage].storage == storage);
        if (storage == i) continue;
        sharing.next[i] = sharing.first[storage];
        sharing.first[storage] = i;
    }
    return sharing;
}

static void write_sharing(struct json_writer *writer, const struct memory_graph *graph,
                          const struct sharing *sharing, int tensor)
{
    if (tensor < 0 || sharing->first[tensor] < 0) return;
    json_open_flat(writer, "shared_by", '[');
    for (int i = sharing->first[tensor]; i >= 0; i = sharing->next[i]) {
        json_put_text(writer, NULL, graph->tensors[i].name);
    }
    json_close(writer, ']');
}

static void write_buffers(struct json_writer *writer, const struct memory_graph *graph,
                          const struct memory_problem *problem,
                          const struct memory_schedule *schedule)
{
    struct sharing sharing = find_sharing(writer->arena, graph);
    json_open(writer, "tensors", '[');
    for (int i = 0; i < problem->buffer_count; i++) {
        const struct memory_buffer *buffer = &problem->buffers[i];
        json_open_flat(writer, NULL, '{');
        json_put_text(writer, "name", buffer_name(writer->arena, graph, buffer));
        assert(schedule->offsets[i] >= 0 && schedule->birth[i] < schedule->death[i]);
        json_put_i64(writer, "offset", schedule->offsets[i]);
        json_put_i64(writer, "bytes", buffer->bytes);
        json_put_i64(writer, "lower", schedule->birth[i]);
        json_put_i64(writer, "upper", schedule->death[i]);
        write_sharing(writer, graph, &sharing, buffer->tensor);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}

char *memory_result_json(struct arena *arena, const struct memory_graph *graph,
                         const struct memory_problem *problem, int64_t alignment,
                         const struct memory_schedule *schedule)
{
    assert(alignment > 0 && schedule->bound_bytes <= schedule->arena_bytes);
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "version", 1);
    json_put_text(&writer, "name", graph->name);
    json_put_text(&writer, "method", memory_method_name(schedule->method));
    json_put_i64(&writer, "alignment", alignment);
    json_put_i64(&writer, "live_bytes", schedule->live_bytes);
    json_put_i64(&writer, "arena_bytes", schedule->arena_bytes);
    json_put_i64(&writer, "bound_bytes", schedule->bound_bytes);
    json_put_i64(&writer, "persistent_bytes", schedule->persistent_bytes);
    json_open_flat(&writer, "order", '[');
    for (int i = 0; i < graph->operator_count; i++) {
        json_put_text(&writer, NULL, graph->operators[schedule->order[i]].name);
    }
    json_close(&writer, ']');
    write_buffers(&writer, graph, problem, schedule);
    json_close(&writer, '}');
    return writer.text;
}

// A cell of CSV: what would end it becomes '_', which also stands before a formula, and the
// buffer's number keeps such names apart.
static const char *cell_text(struct arena *arena, const char *name, int number)
{
    static const char SPECIAL[] = ",\"\r\n\t ";
    bool is_formula = plain_is_formula(name);
    if (*name && !name[strcspn(name, SPECIAL)] && !is_formula) return name;
    char *text = arena_print(arena, "%s%s#%d", is_formula ? "_" : "", name, number);
    for (char *at = text; *(at += strcspn(at, SPECIAL));) {
        *at = '_';
    }
    return text;
}

char *memory_result_csv(struct arena *arena, const struct memory_graph *graph,
                        const struct memory_problem *problem,
                        const struct memory_schedule *schedule)
{
    enum { NUMBERS_BYTES = 4 * 24 };
    static const char HEADER[] = "id,lower,upper,size,offset\n";
    const char **names = ARENA_NEW(arena, const char *, problem->buffer_count);
    size_t most = sizeof HEADER;
    for (int i = 0; i < problem->buffer_count; i++) {
        names[i] = cell_text(arena, buffer_name(arena, graph, &problem->buffers[i]), i);
        most += strlen(names[i]) + NUMBERS_BYTES;
    }
    char *text = ARENA_NEW(arena, char, most), *at = text;
    at += sprintf(at, "%s", HEADER);
    for (int i = 0; i < problem->buffer_count; i++) {
        at += sprintf(at, "%s,%lld,%lld,%lld,%lld\n", names[i], (long long)schedule->birth[i],
                      (long long)schedule->death[i], (long long)problem->buffers[i].bytes,
                      (long long)schedule->offsets[i]);
    }
    assert((size_t)(at - text) < most);
    return text;
}
