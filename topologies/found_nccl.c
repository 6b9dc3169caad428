#include "topologies/found.h"
#include "topologies/xml.h"

#include <stdlib.h>
#include <string.h>

// NCCL's topology: <pci class= link_speed= link_width=> holding <gpu sm=> with <nvlink count=>, and
// <net speed=> in Mbit/s. Files of clouds leave gpu and net out: the class tells what a device is.

// One direction of one link. NVIDIA data sheets: NVLink of V100 300 GB/s both ways over 6 links,
// A100 600 over 12, H100 900 over 18, B200 1800 over 18; AMD MI300X: 7 links of 128 GB/s both ways.
static const struct {
    const char *key, *value;
    double bytes_per_s;
} LINKS[] = {
    {"sm", "70", 25e9},  {"sm", "80", 25e9},      {"sm", "90", 25e9},
    {"sm", "100", 50e9}, {"gcn", "gfx942", 64e9},
};

double found_link_bytes_per_s(const char *key, const char *value)
{
    for (size_t i = 0; i < sizeof LINKS / sizeof *LINKS; i++)
        if (strcmp(key, LINKS[i].key) == 0 && strcmp(value, LINKS[i].value) == 0)
            return LINKS[i].bytes_per_s;
    return 0;
}

double found_pcie_bytes_per_s(double transfers, double lanes)
{
    return transfers * lanes / 8 * (transfers >= 8e9 ? 128.0 / 130 : 0.8);
}

struct reader {
    struct arena *arena;
    struct found_facts *found;
    int links;  // of the GPU that is open
    double link_bytes_per_s;
    bool is_switched, is_xgmi;
};

static bool begins(const char *text, const char *start)
{
    return text && strncmp(text, start, strlen(start)) == 0;
}

// "32.0 GT/s PCIe" and "16" lanes.
static double pcie_bytes_per_s(struct reader *reader, const struct xml_tag *tag)
{
    const char *speed = xml_attribute(reader->arena, tag, "link_speed");
    const char *width = xml_attribute(reader->arena, tag, "link_width");
    double transfers = speed ? atof(speed) * 1e9 : 0, lanes = width ? atof(width) : 0;
    return found_pcie_bytes_per_s(transfers, lanes);
}

static void read_pci(struct reader *reader, const struct xml_tag *tag)
{
    struct found_facts *found = reader->found;
    const char *class = xml_attribute(reader->arena, tag, "class");
    const char *vendor = xml_attribute(reader->arena, tag, "vendor");
    const char *device = xml_attribute(reader->arena, tag, "device");
    if (begins(class, "0x03") || begins(class, "0x12")) {
        found->gpus++;
        double bytes_per_s = pcie_bytes_per_s(reader, tag);
        if (bytes_per_s > 0) found->pcie_bytes_per_s = bytes_per_s;
        if (begins(vendor, "0x") && begins(device, "0x")) {
            const char *id = arena_print(reader->arena, "%.4s:%.4s", vendor + 2, device + 2);
            found->device = found_device_of(id);
            if (!found->device) found->model = id;
        }
    } else if (begins(class, "0x0207")) {
        found->nics++;
        found->network = "infiniband";
    } else if (begins(class, "0x02")) {
        found->nics++;
        found->network = "ethernet";
    }
}

static void read_gpu(struct reader *reader, const struct xml_tag *tag)
{
    reader->links = 0;
    reader->link_bytes_per_s = 0;
    static const char *const KEYS[] = {"sm", "gcn"};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++) {
        const char *value = xml_attribute(reader->arena, tag, KEYS[i]);
        double bytes_per_s = value ? found_link_bytes_per_s(KEYS[i], value) : 0;
        if (bytes_per_s > 0) reader->link_bytes_per_s = bytes_per_s;
    }
}

static void read_link(struct reader *reader, const struct xml_tag *tag)
{
    struct found_facts *found = reader->found;
    const char *count = xml_attribute(reader->arena, tag, "count");
    const char *class = xml_attribute(reader->arena, tag, "tclass");
    reader->links += count ? atoi(count) : 0;
    reader->is_switched = reader->is_switched || begins(class, "0x0680");
    reader->is_xgmi = reader->is_xgmi || strcmp(tag->name, "xgmi") == 0;
    if (reader->links <= found->links) return;
    found->links = reader->links;
    found->intra_bytes_per_s = reader->links * reader->link_bytes_per_s;
}

static void read_net(struct reader *reader, const struct xml_tag *tag)
{
    const char *speed = xml_attribute(reader->arena, tag, "speed");
    const char *name = xml_attribute(reader->arena, tag, "name");
    if (speed && atof(speed) > 0) reader->found->nic_bytes_per_s = atof(speed) * 1e6 / 8;
    // AWS calls the devices of its fabric rdmapNsN.
    if (begins(name, "rdmap")) reader->found->network = "efa";
    if (begins(name, "mlx5")) reader->found->network = "infiniband";
}

bool found_nccl(struct arena *arena, const struct found_source *source, struct found_facts *found,
                struct err *err)
{
    struct xml xml = {.path = source->path, .text = source->text, .line = 1, .err = err};
    struct reader reader = {.arena = arena, .found = found};
    for (struct xml_tag tag; xml_next(&xml, &tag);) {
        if (!tag.opens) continue;
        if (strcmp(tag.name, "pci") == 0) read_pci(&reader, &tag);
        if (strcmp(tag.name, "gpu") == 0) read_gpu(&reader, &tag);
        if (strcmp(tag.name, "nvlink") == 0 || strcmp(tag.name, "xgmi") == 0)
            read_link(&reader, &tag);
        if (strcmp(tag.name, "net") == 0) read_net(&reader, &tag);
    }
    if (found->links > 0)
        found->intra = reader.is_xgmi ? "xgmi" : reader.is_switched ? "nvswitch" : "nvlink";
    return !err->kind;
}
