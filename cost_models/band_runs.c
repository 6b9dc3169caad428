#include "core/units.h"
#include "cost_models/band.h"

#include <assert.h>
#include <string.h>

// Datasheet rows count the same runs once more.
static bool is_own(const struct band *band, const char *device, const char *stack)
{
    return !band_is_datasheet(band) && strcmp(band->device, device) == 0 &&
           strcmp(band->stack, stack) == 0;
}

// A family may have run on several devices, so that only rows of device "*" count each once.
int bands_families(const struct bands *bands, const char *stack)
{
    int count = 0;
    for (int i = 0; i < bands->count; i++) {
        if (is_own(&bands->rows[i], "*", stack)) count += bands->rows[i].family_count;
    }
    return count;
}

int bands_runs(const struct bands *bands, const char *device, const char *stack)
{
    int count = 0;
    for (int i = 0; i < bands->count; i++) {
        if (is_own(&bands->rows[i], device, stack)) count += bands->rows[i].row_count;
    }
    return count;
}

// Node groups may repeat a device: its runs count once.
int bands_cluster_runs(const struct bands *bands, const struct cluster *cluster, const char *stack)
{
    assert(cluster->node_group_count > 0);
    int count = 0;
    for (int i = 0; i < cluster->node_group_count; i++) {
        const char *device = cluster->nodes[i].device->name;
        bool is_known = false;
        for (int j = 0; j < i; j++) {
            is_known = is_known || strcmp(cluster->nodes[j].device->name, device) == 0;
        }
        if (!is_known) count += bands_runs(bands, device, stack);
    }
    return count;
}

const char *bands_runs_text(struct arena *arena, const struct bands *bands,
                            const struct cluster *cluster, const char *stack)
{
    int count = bands_cluster_runs(bands, cluster, stack);
    const char *where = cluster->nodes[0].device->name;
    for (int i = 1; i < cluster->node_group_count; i++) {
        if (strcmp(cluster->nodes[i].device->name, where) != 0) where = "these devices";
    }
    if (count == 0) return arena_print(arena, "no measured run on %s", where);
    return arena_print(arena, "%s measured run%s on %s", units_count(arena, count),
                       count == 1 ? "" : "s", where);
}
