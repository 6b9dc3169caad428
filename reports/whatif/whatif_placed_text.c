#include "core/table.h"
#include "core/units.h"
#include "reports/whatif/whatif_placed.h"

#include <assert.h>
#include <math.h>

// Of one rank: what it has in its host's memory, then on the drives.
static const char *home_text(struct arena *arena, const struct placed_size *size)
{
    const char *host = units_bytes(arena, (double)size->home_bytes[TIER_HOST]);
    if (size->home_bytes[TIER_NVME] == 0) return host;
    return arena_print(arena, "%s + %s", host,
                       units_bytes(arena, (double)size->home_bytes[TIER_NVME]));
}

static const char *times_text(struct arena *arena, const struct placed_size *size,
                              double device_count)
{
    assert(size->parameter_count > 0);
    if (device_count <= 0) return "-";
    return arena_print(arena, "%.1fx", size->parameter_count / device_count);
}

static const char *tier_text(struct arena *arena, const struct placed_sizes *found,
                             enum capacity tier, const char *with, double device_count)
{
    assert(found->largest[tier] < found->count);
    if (found->largest[tier] < 0) {
        return arena_print(arena, "With %s: not even the smallest fits\n", with);
    }
    const struct placed_size *size = &found->sizes[found->largest[tier]];
    const char *times = device_count <= 0 ? ""
                                          : arena_print(arena, ", %s what fits on the device",
                                                        times_text(arena, size, device_count));
    return arena_print(arena, "With %s: %s parameters%s; %.4g tokens/s\n", with,
                       units_count(arena, size->parameter_count), times, size->tokens_per_s);
}

char *placed_sizes_text(struct arena *arena, const struct placed_sizes *found, double device_count)
{
    static const char *const HEADS[] = {"parameters", "times",           "host + NVMe a rank",
                                        "step s",     "waits",           "over bound",
                                        "tokens/s",   "FLOP/s a device", "layout"};
    if (found->is_piped)
        return arena_print(arena,
                           "With all training state off the device: not asked of pipelines\n");
    struct table table = table_new(arena, "rrrrrrrrl");
    table_row(&table, HEADS);
    for (int i = 0; i < found->count; i++) {
        const struct placed_size *size = &found->sizes[i];
        const char *cells[] = {
            units_count(arena, size->parameter_count),
            times_text(arena, size, device_count),
            home_text(arena, size),
            arena_print(arena, "%.4g", size->step_s),
            units_percent(arena, 1 - size->compute_s / size->step_s),
            units_percent(arena, fmax(0, size->step_s / size->busiest_s - 1)),
            arena_print(arena, "%.4g", size->tokens_per_s),
            units_flop_per_s(arena, size->flop_per_s_per_gpu),
            size->layout,
        };
        table_row(&table, cells);
    }
    const char *sensible =
        found->sensible < 0
            ? ""
            : arena_print(
                  arena,
                  "Sensible up to %s parameters: the largest of these at half of the best rate\n",
                  units_count(arena, found->sizes[found->sensible].parameter_count));
    return arena_print(
        arena,
        "With all training state off the device, chunk by chunk, and updates on the host (priced "
        "as\n"
        "memory --policies places it; over bound: what no order of these copies goes below; run\n"
        "moves no more than the plans above):\n%s%s%s%s",
        found->count > 0 ? table_text(&table) : "",
        tier_text(arena, found, CAPACITY_HOST, "the hosts' memory", device_count),
        found->has_nvme ? tier_text(arena, found, CAPACITY_NVME, "NVMe as well", device_count)
                        : "The hosts have no NVMe\n",
        sensible);
}

void placed_sizes_write(struct json_writer *writer, const struct placed_sizes *found)
{
    json_open(writer, "placed", '[');
    for (int i = 0; i < found->count; i++) {
        const struct placed_size *size = &found->sizes[i];
        json_open(writer, NULL, '{');
        json_put_f64(writer, "parameter_count", size->parameter_count);
        json_put_i64(writer, "host_bytes", size->home_bytes[TIER_HOST]);
        json_put_i64(writer, "nvme_bytes", size->home_bytes[TIER_NVME]);
        json_put_f64(writer, "step_s", size->step_s);
        json_put_f64(writer, "compute_s", size->compute_s);
        json_put_f64(writer, "busiest_s", size->busiest_s);
        json_put_f64(writer, "tokens_per_s", size->tokens_per_s);
        json_put_f64(writer, "flop_per_s_per_gpu", size->flop_per_s_per_gpu);
        json_put_bool(writer, "largest_with_host", found->largest[CAPACITY_HOST] == i);
        json_put_bool(writer, "largest_with_nvme", found->largest[CAPACITY_NVME] == i);
        json_put_bool(writer, "largest_sensible", found->sensible == i);
        json_close(writer, '}');
    }
    json_close(writer, ']');
}
