#include "executor/calibrate/calibrate.h"

#include <assert.h>
#include <hwloc.h>

// Cores, not hardware threads: two ranks on one core would share its units.

static bool open_topology(hwloc_topology_t *topology, unsigned long flags)
{
    if (hwloc_topology_init(topology) != 0) return false;
    if (hwloc_topology_set_flags(*topology, flags) == 0 && hwloc_topology_load(*topology) == 0)
        return true;
    hwloc_topology_destroy(*topology);
    return false;
}

// hwloc leaves out what the host does not let the process use.
static int cores_of(hwloc_topology_t topology)
{
    int count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE);
    if (count < 1) count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_PU);
    return count < 1 ? 1 : count;
}

static bool bind_to(hwloc_topology_t topology, int core, struct binding *binding)
{
    hwloc_obj_t object = hwloc_get_obj_by_type(topology, HWLOC_OBJ_CORE, (unsigned)core);
    if (!object) object = hwloc_get_obj_by_type(topology, HWLOC_OBJ_PU, (unsigned)core);
    hwloc_bitmap_t before = hwloc_bitmap_alloc();
    bool known =
        object && before && hwloc_get_cpubind(topology, before, HWLOC_CPUBIND_PROCESS) == 0;
    if (known && hwloc_set_cpubind(topology, object->cpuset, HWLOC_CPUBIND_PROCESS) == 0) {
        binding->before = before;
        return true;
    }
    hwloc_bitmap_free(before);
    return false;
}

struct binding binding_make(int rank, int rank_count)
{
    struct binding binding = {.core_count = 1};
    hwloc_topology_t topology;
    assert(rank >= 0 && rank < rank_count);
    if (!open_topology(&topology, 0)) return binding;
    binding.core_count = cores_of(topology);
    // With more ranks than cores some would share one for good, while others stand idle.
    if (rank_count <= binding.core_count) binding.is_bound = bind_to(topology, rank, &binding);
    hwloc_topology_destroy(topology);
    return binding;
}

void binding_undo(struct binding *binding)
{
    hwloc_topology_t topology;
    if (!binding->is_bound || !open_topology(&topology, 0)) return;
    // A process that cannot go back stays where it is, which harms nothing.
    (void)hwloc_set_cpubind(topology, binding->before, HWLOC_CPUBIND_PROCESS);
    hwloc_bitmap_free(binding->before);
    binding->is_bound = false;
    hwloc_topology_destroy(topology);
}

int binding_core_count(void)
{
    hwloc_topology_t topology;
    // And what it was told not to use (taskset).
    unsigned long flags =
        HWLOC_TOPOLOGY_FLAG_IS_THISSYSTEM | HWLOC_TOPOLOGY_FLAG_RESTRICT_TO_CPUBINDING;
    if (!open_topology(&topology, flags)) return 1;
    int count = cores_of(topology);
    hwloc_topology_destroy(topology);
    return count;
}
