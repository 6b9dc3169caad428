#include "memory/order/order_local.h"
#include "core/hash.h"

#include <assert.h>
#include <string.h>

struct order_builder order_builder_make(struct arena *arena, const struct order_division *division,
                                        const int64_t *bytes)
{
    return (struct order_builder){division, bytes, ARENA_NEW(arena, int, division->unit_count),
                                  ARENA_NEW(arena, int, division->problem->buffer_count)};
}

// What is known of a buffer while the part is built.
struct local_buffer {
    int64_t bytes;
    int number, producer, user_count;
    int birth_step;
    int last_unit, last_touch;  // the newest entry of `touches`, and whose it is
    bool stays;
};

struct building {
    struct order_builder *builder;
    struct order_local *local;
    int segment;
    struct local_buffer *buffers;
    struct order_touch *touches;
    int *first_touch;
    int64_t *made_bytes, *inside_bytes, *outcome_bytes;
};

static struct local_buffer *find_buffer(struct building *building, int number)
{
    assert(number >= 0 && number < building->builder->division->problem->buffer_count);
    const struct order_division *division = building->builder->division;
    struct order_builder *builder = building->builder;
    if (builder->buffer_place[number] == 0) {
        const struct memory_buffer *from = &division->problem->buffers[number];
        struct local_buffer *buffer = &building->buffers[building->local->buffer_count++];
        int place = from->producer < 0 ? 0 : builder->unit_place[division->unit[from->producer]];
        *buffer = (struct local_buffer){.bytes = builder->bytes[number],
                                        .number = number,
                                        .producer = place - 1,
                                        .last_unit = -1};
        buffer->stays = from->kept || division->last_segment[number] > building->segment;
        builder->buffer_place[number] = building->local->buffer_count;
    }
    return &building->buffers[builder->buffer_place[number] - 1];
}

static int count_touches(const struct order_division *division, const int *units, int unit_count)
{
    int count = 0;
    for (int u = 0; u < unit_count; u++) {
        int unit = units[u];
        for (int i = division->first_operator[unit]; i < division->first_operator[unit + 1]; i++) {
            int op = division->operators[i];
            const int *first = &division->problem->first_touched[op];
            count += first[1] - first[0];
        }
    }
    return count;
}

// One entry a unit and buffer, with the last step that touches it.
static void gather_touches(struct building *building)
{
    const struct order_division *division = building->builder->division;
    const struct memory_problem *problem = division->problem;
    struct order_local *local = building->local;
    int count = 0;
    for (int u = 0; u < local->unit_count; u++) {
        int from = division->first_operator[local->units[u]];
        for (int step = 0; from + step < division->first_operator[local->units[u] + 1]; step++) {
            int op = division->operators[from + step];
            for (int t = problem->first_touched[op]; t < problem->first_touched[op + 1]; t++) {
                int number = problem->touched[t];
                // What is not there, or has moved to another operator (order_relax.h), is no buffer
                // here.
                if (building->builder->bytes[number] == 0) continue;
                struct local_buffer *buffer = find_buffer(building, number);
                if (problem->buffers[number].producer == op) buffer->birth_step = step;
                if (buffer->last_unit != u) {
                    buffer->last_unit = u, buffer->last_touch = count;
                    if (buffer->producer != u) buffer->user_count++;
                    int place = (int)(buffer - building->buffers);
                    building->touches[count++] = (struct order_touch){place, step};
                }
                building->touches[buffer->last_touch].step = step;
            }
        }
        building->first_touch[u + 1] = count;
    }
}

// What a unit makes goes to the sums of its steps; what is left of its touches moves together.
static void sum_steps(struct building *building)
{
    const struct order_local *local = building->local;
    int kept = 0, from = 0;
    for (int u = 0; u < local->unit_count; u++) {
        int end = building->first_touch[u + 1];
        for (int t = from; t < end; t++) {
            struct order_touch touch = building->touches[t];
            const struct local_buffer *buffer = &building->buffers[touch.buffer];
            int first = local->first_step[u];
            if (buffer->producer != u) {
                building->touches[kept++] = touch;
            } else if (buffer->stays || buffer->user_count > 0) {
                building->made_bytes[first + buffer->birth_step] += buffer->bytes;
                building->outcome_bytes[u] += buffer->bytes;
            } else {
                for (int step = buffer->birth_step; step <= touch.step; step++)
                    building->inside_bytes[first + step] += buffer->bytes;
            }
        }
        from = end;
        building->first_touch[u + 1] = kept;
    }
}

static void link_units(struct arena *arena, struct building *building)
{
    const struct order_division *division = building->builder->division;
    const struct memory_problem *problem = division->problem;
    struct order_local *local = building->local;
    int count = local->unit_count, edge_count = 0;
    for (int u = 0; u < count; u++) {
        int unit = local->units[u];
        for (int i = division->first_operator[unit]; i < division->first_operator[unit + 1]; i++) {
            const int *first = &problem->first_successor[division->operators[i]];
            edge_count += first[1] - first[0];
        }
    }
    int *first_successor = ARENA_NEW(arena, int, count + 1);
    int *successors = ARENA_NEW(arena, int, edge_count);
    int *indegree = ARENA_NEW(arena, int, count), *seen = ARENA_NEW(arena, int, count);
    edge_count = 0;
    for (int u = 0; u < count; u++) {
        int unit = local->units[u];
        for (int i = division->first_operator[unit]; i < division->first_operator[unit + 1]; i++) {
            int op = division->operators[i];
            for (int s = problem->first_successor[op]; s < problem->first_successor[op + 1]; s++) {
                int next = building->builder->unit_place[division->unit[problem->successors[s]]];
                if (next == 0 || next == u + 1 || seen[next - 1] == u + 1) continue;
                seen[next - 1] = u + 1;
                successors[edge_count++] = next - 1;
                indegree[next - 1]++;
            }
        }
        first_successor[u + 1] = edge_count;
    }
    local->indegree = indegree;
    local->first_successor = first_successor, local->successors = successors;
}

static void copy_buffers(struct arena *arena, struct building *building)
{
    struct order_local *local = building->local;
    int count = local->buffer_count;
    int64_t *bytes = ARENA_NEW(arena, int64_t, count);
    int *user_count = ARENA_NEW(arena, int, count), *number = ARENA_NEW(arena, int, count);
    int *producer = ARENA_NEW(arena, int, count);
    bool *stays = ARENA_NEW(arena, bool, count);
    for (int b = 0; b < count; b++) {
        const struct local_buffer *buffer = &building->buffers[b];
        bytes[b] = buffer->bytes, user_count[b] = buffer->user_count;
        number[b] = buffer->number, producer[b] = buffer->producer, stays[b] = buffer->stays;
    }
    local->buffer_bytes = bytes, local->user_count = user_count, local->buffer = number;
    local->producer = producer, local->stays = stays;
}

// What units touch and make has to be alive with what stays through the whole part.
static void bound_simply(struct building *building)
{
    struct order_local *local = building->local;
    int64_t through_bytes = local->entry_bytes, exit_bytes = 0;
    for (int b = 0; b < local->buffer_count; b++) {
        const struct local_buffer *buffer = &building->buffers[b];
        if (buffer->producer < 0 && !buffer->stays) through_bytes -= buffer->bytes;
        bool is_made = buffer->producer >= 0 && buffer->producer < local->mandatory_count;
        if (is_made && buffer->stays) exit_bytes += buffer->bytes;
    }
    local->least_bytes = through_bytes + exit_bytes;
    if (local->entry_bytes > local->least_bytes) local->least_bytes = local->entry_bytes;
    for (int u = 0; u < local->mandatory_count; u++) {
        int64_t made_bytes = 0;
        for (int step = local->first_step[u]; step < local->first_step[u + 1]; step++) {
            made_bytes += building->made_bytes[step];
            int64_t bytes = through_bytes + made_bytes + building->inside_bytes[step];
            for (int t = local->first_touch[u]; t < local->first_touch[u + 1]; t++) {
                const struct order_touch *touch = &building->touches[t];
                bool is_through = local->producer[touch->buffer] < 0 && local->stays[touch->buffer];
                bool is_needed = touch->step >= step - local->first_step[u];
                if (is_needed && !is_through) bytes += local->buffer_bytes[touch->buffer];
            }
            if (bytes > local->least_bytes) local->least_bytes = bytes;
        }
    }
}

struct order_local *order_local_make(struct arena *arena, struct order_builder *builder,
                                     int segment, const int *units, int unit_count,
                                     int mandatory_count, int64_t entry_bytes)
{
    assert(mandatory_count >= 0 && mandatory_count <= unit_count);
    const struct order_division *division = builder->division;
    struct order_local *local = ARENA_NEW(arena, struct order_local, 1);
    local->unit_count = unit_count, local->mandatory_count = mandatory_count;
    local->units = units, local->entry_bytes = entry_bytes;
    int *first_step = ARENA_NEW(arena, int, unit_count + 1);
    for (int u = 0; u < unit_count; u++) {
        const int *first = &division->first_operator[units[u]];
        first_step[u + 1] = first_step[u] + first[1] - first[0];
        builder->unit_place[units[u]] = u + 1;
    }
    int touch_count = count_touches(division, units, unit_count), steps = first_step[unit_count];
    struct building building = {builder,
                                local,
                                segment,
                                ARENA_NEW(arena, struct local_buffer, touch_count),
                                ARENA_NEW(arena, struct order_touch, touch_count),
                                ARENA_NEW(arena, int, unit_count + 1),
                                ARENA_NEW(arena, int64_t, steps),
                                ARENA_NEW(arena, int64_t, steps),
                                ARENA_NEW(arena, int64_t, unit_count)};
    local->first_step = first_step, local->first_touch = building.first_touch;
    local->touches = building.touches, local->made_bytes = building.made_bytes;
    local->inside_bytes = building.inside_bytes, local->outcome_bytes = building.outcome_bytes;
    gather_touches(&building);
    sum_steps(&building);
    link_units(arena, &building);
    copy_buffers(arena, &building);
    bound_simply(&building);
    assert(local->buffer_count <= touch_count);
    for (int u = 0; u < unit_count; u++)
        builder->unit_place[units[u]] = 0;
    for (int b = 0; b < local->buffer_count; b++)
        builder->buffer_place[local->buffer[b]] = 0;
    return local;
}

#define SAME(a, b, member, count) \
    (memcmp((a)->member, (b)->member, (size_t)(count) * sizeof *(a)->member) == 0)

bool order_local_same(const struct order_local *a, const struct order_local *b)
{
    int units = a->unit_count, buffers = a->buffer_count;
    if (units != b->unit_count || a->mandatory_count != b->mandatory_count) return false;
    if (buffers != b->buffer_count || !SAME(a, b, first_step, units + 1)) return false;
    if (!SAME(a, b, first_touch, units + 1) || !SAME(a, b, first_successor, units + 1))
        return false;
    int steps = a->first_step[units];
    return SAME(a, b, made_bytes, steps) && SAME(a, b, inside_bytes, steps) &&
           SAME(a, b, touches, a->first_touch[units]) &&
           SAME(a, b, successors, a->first_successor[units]) && SAME(a, b, buffer_bytes, buffers) &&
           SAME(a, b, user_count, buffers) && SAME(a, b, stays, buffers) &&
           SAME(a, b, producer, buffers);
}

uint64_t order_local_hash(const struct order_local *local)
{
    uint64_t hash = (uint64_t)local->unit_count;
    for (int step = 0; step < local->first_step[local->unit_count]; step++) {
        hash = hash_word(hash, (uint64_t)local->made_bytes[step]);
        hash = hash_word(hash, (uint64_t)local->inside_bytes[step]);
    }
    for (int t = 0; t < local->first_touch[local->unit_count]; t++)
        hash = hash_word(hash, (uint64_t)local->touches[t].buffer);
    for (int b = 0; b < local->buffer_count; b++)
        hash = hash_word(hash, (uint64_t)local->buffer_bytes[b]);
    return hash;
}
