#include "reports/machine/host_parts.h"
#include "core/plain.h"
#include "core/table.h"
#include "core/units.h"

#include <hwloc.h>
#include <string.h>

static hwloc_obj_t place_of(hwloc_obj_t object)
{
    while (object && !object->nodeset)
        object = object->parent;
    return object;
}

// "0", "0-1"; "-" where nobody says.
static const char *node_text(struct arena *arena, hwloc_obj_t object, int node_count)
{
    hwloc_obj_t place = place_of(object);
    if (!place || hwloc_bitmap_iszero(place->nodeset)) return "-";
    if (hwloc_bitmap_weight(place->nodeset) == node_count && node_count > 1) return "any";
    char text[64];
    hwloc_bitmap_list_snprintf(text, sizeof text, place->nodeset);
    return arena_copy(arena, text);
}

static const char *info_of(struct arena *arena, hwloc_obj_t object, const char *key)
{
    const char *text = object ? hwloc_obj_get_info_by_name(object, key) : NULL;
    return text ? plain_copy(arena, text) : NULL;
}

// PCI Code and ID Assignment Specification, 1.11: the base class is the high byte.
static const char *class_words(unsigned short class_id)
{
    switch (class_id >> 8) {
    case 0x02:
        return "network";
    case 0x03:
        return "GPU or display";
    case 0x12:
        return "accelerator";
    default:
        break;
    }
    return class_id == 0x0108 ? "NVMe" : NULL;
}

// "mlx5_0, ib0": what the system calls the device.
static const char *system_names(struct arena *arena, hwloc_obj_t device)
{
    const char *names = "";
    for (hwloc_obj_t child = device->io_first_child; child; child = child->next_sibling) {
        if (child->type != HWLOC_OBJ_OS_DEVICE || !child->name) continue;
        names =
            arena_print(arena, "%s%s%s", names, *names ? ", " : "", plain_copy(arena, child->name));
    }
    return names;
}

static void put_devices(struct arena *arena, hwloc_topology_t topology, int node_count,
                        struct table *table)
{
    for (hwloc_obj_t device = NULL; (device = hwloc_get_next_pcidev(topology, device));) {
        const struct hwloc_pcidev_attr_s *pci = &device->attr->pcidev;
        const char *what = class_words(pci->class_id);
        if (!what) continue;
        const char *name = info_of(arena, device, "PCIDevice");
        if (!name) name = info_of(arena, device, "PCIVendor");
        if (!name) name = arena_print(arena, "%04x:%04x", pci->vendor_id, pci->device_id);
        table_row(
            table,
            (const char *const[]){
                what, node_text(arena, device->parent, node_count),
                arena_print(arena, "%04x:%02x:%02x.%x", pci->domain, pci->bus, pci->dev, pci->func),
                pci->linkspeed > 0 ? units_bytes_per_s(arena, 1e9 * (double)pci->linkspeed) : "-",
                name, system_names(arena, device)});
    }
}

static void put_nodes(struct arena *arena, hwloc_topology_t topology, int node_count,
                      struct table *table)
{
    for (int i = 0; i < node_count; i++) {
        hwloc_obj_t node = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, (unsigned)i);
        int cores = hwloc_get_nbobjs_inside_cpuset_by_type(topology, node->cpuset, HWLOC_OBJ_CORE);
        int threads = hwloc_bitmap_weight(node->cpuset);
        table_row(table, (const char *const[]){
                             arena_print(arena, "%u", node->os_index),
                             arena_print(arena, "%d", cores), arena_print(arena, "%d", threads),
                             units_bytes(arena, (double)node->attr->numanode.local_memory)});
    }
}

// "4 of L2, 1.00 MiB each", a line a level.
static const char *caches_text(struct arena *arena, hwloc_topology_t topology)
{
    static const hwloc_obj_type_t LEVELS[] = {HWLOC_OBJ_L1CACHE, HWLOC_OBJ_L2CACHE,
                                              HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L4CACHE};
    const char *text = "";
    for (int i = 0; i < (int)(sizeof LEVELS / sizeof *LEVELS); i++) {
        int count = hwloc_get_nbobjs_by_type(topology, LEVELS[i]);
        hwloc_obj_t first = hwloc_get_obj_by_type(topology, LEVELS[i], 0);
        if (count < 1 || !first || first->attr->cache.size == 0) continue;
        text = arena_print(arena, "%s%s%d x L%d of %s", text, *text ? ", " : "", count, i + 1,
                           units_bytes(arena, (double)first->attr->cache.size));
    }
    return text;
}

static char *text_of(struct arena *arena, hwloc_topology_t topology)
{
    static const char *const NODE_HEADER[] = {"NUMA node", "cores", "threads", "memory"};
    static const char *const DEVICE_HEADER[] = {"device", "NUMA node", "address",
                                                "link",   "name",      "as"};
    int node_count = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_NUMANODE);
    struct table nodes = table_new(arena, "rrrr"), devices = table_new(arena, "lrlrll");
    table_row(&nodes, NODE_HEADER);
    put_nodes(arena, topology, node_count, &nodes);
    table_row(&devices, DEVICE_HEADER);
    put_devices(arena, topology, node_count, &devices);
    const char *caches = caches_text(arena, topology);
    const char *found =
        devices.row_count > 1 ? table_text(&devices) : "no GPU, network or NVMe on a PCI bus\n";
    return arena_print(arena, "%s%s%s%s\n%s", table_text(&nodes), *caches ? "caches: " : "", caches,
                       *caches ? "\n" : "", found);
}

char *host_parts_text(struct arena *arena)
{
    hwloc_topology_t topology;
    if (hwloc_topology_init(&topology) != 0) return arena_copy(arena, "");
    hwloc_topology_set_io_types_filter(topology, HWLOC_TYPE_FILTER_KEEP_IMPORTANT);
    char *text =
        hwloc_topology_load(topology) == 0 ? text_of(arena, topology) : arena_copy(arena, "");
    hwloc_topology_destroy(topology);
    return text;
}
