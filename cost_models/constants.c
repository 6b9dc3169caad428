#include "cost_models/constants.h"
#include "topologies/provenance.h"

#include <assert.h>
#include <string.h>

// A list that is being made: what the numbers added next belong to.
struct maker {
    struct arena *arena;
    struct constant_list list;
    int capacity;
    enum constant_owner owner;
    const char *owner_name;
    struct provenance_list provenance;
};

// The list hands the pointer on to who sets values.
// NOLINTNEXTLINE(readability-non-const-parameter)
static void add(struct maker *maker, const char *key, double *value, double low, double high)
{
    assert(low < high);
    assert(maker->list.count < maker->capacity);
    maker->list.items[maker->list.count++] = (struct constant){
        .owner = maker->owner,
        .owner_name = maker->owner_name,
        .key = key,
        .value = value,
        .low = low,
        .high = high,
        .provenance = provenance_find(&maker->provenance, key),
    };
}

// The numbers among `fields` of `members`, their keys behind `prefix`. An optional one that is 0
// was not in the file.
static void add_fields(struct maker *maker, const struct json_field *fields, void *members,
                       const char *prefix)
{
    for (const struct json_field *field = fields; field->key; field++) {
        if (field->type != JSON_TYPE_F64) continue;
        void *member = (char *)members + field->offset;
        double *value = member;
        if (field->optional && *value == 0) continue;
        const char *key = arena_print(maker->arena, "%s%s", prefix, field->key);
        add(maker, key, value, field->low, field->high);
    }
}

static void add_precisions(struct maker *maker, const char *prefix, double *values, double low,
                           double high)
{
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (values[i] == 0) continue;
        const char *name = precision_name((enum precision)i);
        add(maker, arena_print(maker->arena, "%s.%s", prefix, name), &values[i], low, high);
    }
}

static void add_device(struct maker *maker, struct device *device)
{
    maker->owner = CONSTANT_DEVICE;
    maker->owner_name = device->name;
    maker->provenance = (struct provenance_list){device->provenance, device->provenance_count};
    add_precisions(maker, "peak_flop_per_s", device->peak_flop_per_s, 1, DEVICE_PEAK_HIGH);
    add_fields(maker, device_fields(), device, "");
    add_precisions(maker, "efficiency.gemm_ratio", device->efficiency.gemm_ratio, DEVICE_RATIO_LOW,
                   1);
    add_fields(maker, device_efficiency_fields(), &device->efficiency, "efficiency.");
}

static void add_stack(struct maker *maker, struct stack *stack)
{
    maker->owner = CONSTANT_STACK;
    maker->owner_name = stack->name;
    maker->provenance = (struct provenance_list){stack->provenance, stack->provenance_count};
    add_fields(maker, stack_fields(), stack, "");
}

static void add_fabric(struct maker *maker, struct fabric *fabric)
{
    maker->owner = CONSTANT_FABRIC;
    maker->owner_name = fabric_name(maker->arena, fabric);
    maker->provenance = (struct provenance_list){fabric->provenance, fabric->provenance_count};
    add_fields(maker, fabric_fields(), fabric, "");
    for (int i = 0; i < PROTOCOL_COUNT; i++) {
        if (fabric->protocols[i].bandwidth_ratio == 0) continue;
        const char *name = protocol_name((enum protocol)i);
        add_fields(maker, fabric_protocol_fields(), &fabric->protocols[i],
                   arena_print(maker->arena, "protocols.%s.", name));
    }
    for (int i = 0; i < fabric->group_efficiency_count; i++) {
        struct group_efficiency *group = &fabric->group_efficiency[i];
        add(maker, arena_print(maker->arena, "group_efficiency.%d", group->rank_count),
            &group->ratio, FABRIC_GROUP_RATIO_LOW, 1);
    }
}

static int field_count(const struct json_field *fields)
{
    int count = 0;
    while (fields[count].key)
        count++;
    return count;
}

// Room for all members of all rows, though optional ones may be left out.
static int fabrics_most(const struct fabrics *fabrics)
{
    int most = 0;
    for (int i = 0; i < fabrics->count; i++) {
        most += field_count(fabric_fields()) + fabrics->rows[i].group_efficiency_count +
                PROTOCOL_COUNT * field_count(fabric_protocol_fields());
    }
    return most;
}

struct constant_list constants_list(struct arena *arena, struct device *device, struct stack *stack,
                                    struct fabrics *fabrics)
{
    struct maker maker = {.arena = arena};
    if (device) {
        maker.capacity += field_count(device_fields()) + field_count(device_efficiency_fields()) +
                          2 * PRECISION_COUNT;
    }
    if (stack) maker.capacity += field_count(stack_fields());
    if (fabrics) maker.capacity += fabrics_most(fabrics);
    maker.list.items = ARENA_NEW(arena, struct constant, maker.capacity);
    if (device) add_device(&maker, device);
    if (stack) add_stack(&maker, stack);
    for (int i = 0; fabrics && i < fabrics->count; i++)
        add_fabric(&maker, &fabrics->rows[i]);
    return maker.list;
}

struct constant *constants_find(const struct constant_list *list, enum constant_owner owner,
                                const char *owner_name, const char *key)
{
    for (int i = 0; i < list->count; i++) {
        struct constant *item = &list->items[i];
        if (item->owner != owner || strcmp(item->key, key) != 0) continue;
        if (!owner_name || strcmp(item->owner_name, owner_name) == 0) return item;
    }
    return NULL;
}

const char *constant_owner_name(enum constant_owner owner)
{
    static const char *const NAMES[] = {"device", "stack", "fabric"};
    assert(owner < sizeof NAMES / sizeof *NAMES);
    return NAMES[owner];
}
