#include "core/file.h"
#include "topologies/device.h"

#include <string.h>

// A vendor's sheet gives peaks and memory. The rest is how software fares on the silicon, which
// similar silicon tells best: the shipped device of the same kind whose training peak is nearest,
// of equal ones that of the nearest memory bandwidth. One of the same name is the nearest of all.

double device_distance_of(const struct device *device, const struct device *other)
{
    if (strcmp(device->name, other->name) == 0) return 0;
    return device_distance(device_training_peak(device), device_training_peak(other));
}

static bool is_nearer(const struct device *device, const struct device *other,
                      const struct device *than)
{
    if (!than) return true;
    double a = device_distance_of(device, other), b = device_distance_of(device, than);
    if (a < b || a > b) return a < b;
    return device_distance(device->memory_bandwidth_bytes_per_s,
                           other->memory_bandwidth_bytes_per_s) <
           device_distance(device->memory_bandwidth_bytes_per_s,
                           than->memory_bandwidth_bytes_per_s);
}

static const struct device *find_like(struct arena *arena, const struct device *device,
                                      struct err *err)
{
    int count = 0;
    const char **names = file_list_data(arena, "topologies/devices", &count);
    const struct device *like = NULL;
    for (int i = 0; i < count && !err->kind; i++) {
        const struct device *other = device_load(arena, names[i], err);
        if (!other || strcmp(other->kind, device->kind) != 0) continue;
        if (is_nearer(device, other, like)) like = other;
    }
    return like;
}

struct assumer {
    struct arena *arena;
    const struct json *object;
    struct device *device;
    const struct device *like;
    struct provenance_list provenance;
    const char *source;
};

static void take(struct assumer *of, const char *key, double value, const char *source)
{
    taken_add_number(&of->device->taken, key, value, source);
    // What 0 stands for none of is not written, so that no entry may speak of it.
    const char *member = strchr(key, '.');
    if (value > 0 || !member || !device_may_lack(member + 1))
        provenance_assume(of->arena, &of->provenance, key, source);
}

static void take_members(struct assumer *of)
{
    struct device *device = of->device;
    const struct device *like = of->like;
    bool has_processors = json_has(of->object, "multiprocessor_count");
    if (!has_processors) {
        device->multiprocessor_count = like->multiprocessor_count;
        take(of, "multiprocessor_count", like->multiprocessor_count, of->source);
    }
    if (!json_has(of->object, "cache_bytes")) {
        device->cache_bytes = like->cache_bytes;
        take(of, "cache_bytes", (double)like->cache_bytes, of->source);
    }
    if (!json_has(of->object, "launch_latency_s")) {
        device->launch_latency_s = like->launch_latency_s;
        take(of, "launch_latency_s", like->launch_latency_s, of->source);
    }
}

// The special function units come with the multiprocessors; without efficiencies of attention of
// its own, which may hold the exponentials already.
static void take_exponentials(struct assumer *of)
{
    struct device *device = of->device;
    if (json_has(of->object, "exponential_per_s") || of->like->exponential_per_s <= 0) return;
    double share = (double)device->multiprocessor_count / of->like->multiprocessor_count;
    device->exponential_per_s = of->like->exponential_per_s * share;
    bool is_equal = device->multiprocessor_count == of->like->multiprocessor_count;
    take(of, "exponential_per_s", device->exponential_per_s,
         is_equal ? of->source
                  : arena_print(of->arena, "as %s, by multiprocessor", of->like->name));
}

// The ratio of this precision, or of the nearest wider one, or of any.
static enum precision find_ratio(const struct device *like, enum precision precision)
{
    const double *ratio = like->efficiency.gemm_ratio;
    for (int i = (int)precision; i >= 0; i--) {
        if (ratio[i] > 0) return (enum precision)i;
    }
    int at = (int)precision;
    while (ratio[at] <= 0)
        at++;
    return (enum precision)at;
}

static void take_gemm_ratios(struct assumer *of, bool is_told)
{
    struct device *device = of->device;
    for (int i = 0; i < PRECISION_COUNT; i++) {
        if (device->peak_flop_per_s[i] <= 0) continue;
        enum precision from = find_ratio(of->like, (enum precision)i);
        double ratio = of->like->efficiency.gemm_ratio[from];
        device->efficiency.gemm_ratio[i] = ratio;
        const char *key =
            arena_print(of->arena, "efficiency.gemm_ratio.%s", precision_name((enum precision)i));
        if ((int)from != i) {
            take(of, key, ratio,
                 arena_print(of->arena, "as %s of %s", precision_name(from), of->like->name));
        } else if (is_told) {
            take(of, key, ratio, of->source);
        }
    }
}

// One member of the table of efficiencies that the file leaves out.
static void take_efficiency(struct assumer *of, const struct json_field *field, bool is_told)
{
    double *into = (double *)(void *)((char *)&of->device->efficiency + field->offset);
    const char *from = (const char *)&of->like->efficiency + field->offset;
    *into = *(const double *)(const void *)from;
    const char *key = arena_print(of->arena, "efficiency.%s", field->key);
    if (is_told) take(of, key, *into, of->source);
}

static void take_efficiencies(struct assumer *of)
{
    struct json efficiency = json_find(of->object, "efficiency");
    bool has_any = json_has(of->object, "efficiency");
    bool attends = has_any && json_has(&efficiency, "attention_forward_ratio");
    if (!has_any) {
        taken_add(&of->device->taken, "efficiency", "", of->source);
        provenance_assume(of->arena, &of->provenance, "efficiency", of->source);
    }
    if (!has_any || !json_has(&efficiency, "gemm_ratio")) take_gemm_ratios(of, has_any);
    for (const struct json_field *field = device_efficiency_fields(); field->key; field++) {
        bool is_given = has_any && json_has(&efficiency, field->key);
        // Absent beside ratios of attention it says that nobody waits.
        bool is_none = attends && device_may_lack(field->key);
        if (field->type == JSON_TYPE_F64 && !is_given && !is_none)
            take_efficiency(of, field, has_any);
    }
    if (!attends) take_exponentials(of);
}

static bool is_complete(const struct json *object)
{
    struct json efficiency = json_find(object, "efficiency");
    bool is_whole = json_has(object, "kind") && json_has(object, "multiprocessor_count") &&
                    json_has(object, "cache_bytes") && json_has(object, "launch_latency_s") &&
                    json_has(object, "efficiency") && json_has(&efficiency, "gemm_ratio");
    for (const struct json_field *field = device_efficiency_fields(); field->key; field++) {
        is_whole = is_whole && (device_may_lack(field->key) || json_has(&efficiency, field->key));
    }
    return is_whole;
}

void device_assume(struct arena *arena, const struct json *object, struct device *device,
                   struct err *err)
{
    device->taken.arena = arena;
    if (err->kind || is_complete(object)) return;
    if (!json_has(object, "kind"))
        taken_add(&device->taken, "kind", "gpu", "what most clusters are built of");
    struct assumer of = {
        arena, object, device, NULL, {device->provenance, device->provenance_count}, NULL};
    of.like = find_like(arena, device, err);
    if (err->kind) return;
    if (!of.like) {
        json_fail(object, err,
                  "missing \"multiprocessor_count\", \"cache_bytes\", \"launch_latency_s\" or "
                  "\"efficiency\", and no device of kind %s is shipped to take them from",
                  device->kind);
        return;
    }
    bool is_same = strcmp(of.like->name, device->name) == 0;
    of.source =
        is_same ? arena_print(arena, "as the shipped %s", of.like->name)
                : arena_print(arena, "as %s, the nearest shipped device by peak", of.like->name);
    take_members(&of);
    take_efficiencies(&of);
    device->provenance = of.provenance.entries;
    device->provenance_count = of.provenance.count;
}
