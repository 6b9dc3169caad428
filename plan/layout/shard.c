#include "plan/layout/shard.h"

#include <assert.h>

// Of these axes those that the group of what is stored so has beside the ones inside of it.
static unsigned level_axes(const struct mesh *mesh, unsigned axes, int level)
{
    unsigned found = 0;
    for (int a = 0; a < mesh->axis_count; a++) {
        unsigned shards = mesh->axes[a].shards;
        bool is_own = shards >> level & 1 && (level == 0 || !(shards >> (level - 1) & 1));
        if (axes >> a & 1 && is_own) found |= 1u << a;
    }
    return found;
}

// Among the ranks that differ on these axes alone, ascending.
static int place_on(const struct mesh *mesh, unsigned axes, int rank)
{
    int place = 0, weight = 1;
    for (int a = 0; a < mesh->axis_count; a++) {
        if (!(axes >> a & 1)) continue;
        place += weight * mesh_coordinate(mesh, a, rank);
        weight *= mesh->axes[a].size;
    }
    return place;
}

struct slice shard_slice(const struct mesh *mesh, unsigned axes, int64_t elements, int rank)
{
    struct slice part = {0, elements};
    for (int level = 0; level < STORED_COUNT; level++) {
        unsigned own = level_axes(mesh, axes, level);
        int64_t parts = mesh_size(mesh, own), each = (part.count + parts - 1) / parts;
        int64_t before = each * place_on(mesh, own, rank);
        if (before > part.count) before = part.count;
        part.first += before;
        part.count = each < part.count - before ? each : part.count - before;
    }
    return part;
}

int shard_members(const struct mesh *mesh, unsigned axes, int rank, int *ranks)
{
    int count = mesh_size(mesh, axes);
    for (int r = 0; r < mesh->rank_count; r++) {
        int place = 0;
        bool is_member = mesh_has(mesh, r);
        for (int a = 0; a < mesh->axis_count && is_member; a++)
            is_member =
                axes >> a & 1 || mesh_coordinate(mesh, a, r) == mesh_coordinate(mesh, a, rank);
        if (!is_member) continue;
        for (int level = 0; level < STORED_COUNT; level++) {
            unsigned own = level_axes(mesh, axes, level);
            place = place * mesh_size(mesh, own) + place_on(mesh, own, r);
        }
        assert(place < count);
        ranks[place] = r;
    }
    return count;
}
