#include "core/names.h"
#include "topologies/found.h"
#include "topologies/xml.h"

#include <stdlib.h>
#include <string.h>

// hwloc's XML. GPUs are PCI devices of class 03 (or 12, AMD's) and of a vendor of GPUs; links are
// the matrix NVLinkBandwidth in MB/s, whose rows of GPUs sum to what a GPU has, whether it goes to
// other GPUs or to switches. hwloc can also say what a pair reaches through switches ("lstopo
// --distances-transform closure"): such rows sum to more than any GPU has links for.

enum { LINKS_MOST_MB_PER_S = 18 * 50000 };  // of NVLink 5

enum { OBJECTS_MAX = 256, VALUES_MAX = 65536, GPUS_MAX = 64 };

struct reader {
    struct arena *arena;
    struct found_facts *found;
    bool is_switched;
    const char *gpu_objects[4 * GPUS_MAX];  // gp_index of GPUs and of OS devices in them
    int gpu_object_count;
    int gpu_depth;  // depth below which everything belongs to a GPU; 0: none is open
    const char *objects[OBJECTS_MAX];
    int object_count;
    double values[VALUES_MAX];
    int value_count;
    bool in_links;
};

static void read_pci(struct reader *reader, const struct xml_tag *tag, int depth)
{
    struct found_facts *found = reader->found;
    const char *type = xml_attribute(reader->arena, tag, "pci_type");
    const char *subtype = xml_attribute(reader->arena, tag, "subtype");
    const char *speed = xml_attribute(reader->arena, tag, "pci_link_speed");
    if (subtype && strcmp(subtype, "NVSwitch") == 0) reader->is_switched = true;
    if (!type || strlen(type) < 16) return;
    bool is_display = strncmp(type, "03", 2) == 0 || strncmp(type, "12", 2) == 0;
    bool is_gpu = is_display && (strstr(type, "[10de:") || strstr(type, "[1002:"));
    if (!is_gpu || found->gpus == GPUS_MAX) return;
    found->gpus++;
    // "0302 [10de:1db8] ..."
    const char *id = arena_print(reader->arena, "%.9s", type + 6);
    found->device = found_device_of(id);
    if (!found->device) found->model = id;
    if (speed && atof(speed) > 1) found->pcie_bytes_per_s = atof(speed) * 1e9;
    reader->gpu_depth = tag->closes ? 0 : depth;
    const char *index = xml_attribute(reader->arena, tag, "gp_index");
    if (index && reader->gpu_object_count < 4 * GPUS_MAX)
        reader->gpu_objects[reader->gpu_object_count++] = index;
}

static void read_object(struct reader *reader, const struct xml_tag *tag, int depth)
{
    const char *type = xml_attribute(reader->arena, tag, "type");
    const char *index = xml_attribute(reader->arena, tag, "gp_index");
    if (!type) return;
    if (strcmp(type, "Core") == 0) reader->found->cores++;
    if (strcmp(type, "NUMANode") == 0) {
        const char *memory = xml_attribute(reader->arena, tag, "local_memory");
        if (memory) reader->found->memory_bytes += atof(memory);
    }
    if (strcmp(type, "PCIDev") == 0) read_pci(reader, tag, depth);
    bool is_device = strcmp(type, "OSDev") == 0;
    if (is_device && reader->gpu_depth && index && reader->gpu_object_count < 4 * GPUS_MAX)
        reader->gpu_objects[reader->gpu_object_count++] = index;
    const char *kind = is_device ? xml_attribute(reader->arena, tag, "osdev_type") : NULL;
    bool is_fabric = kind && (strcmp(kind, "3") == 0 || strcmp(kind, "openfabrics") == 0 ||
                              strcmp(kind, "OpenFabrics") == 0);
    if (is_fabric && !reader->gpu_depth) {
        reader->found->nics++;
        reader->found->network = "infiniband";
    }
}

// "PCIDev:449 OSDev:802": the numbers behind the colons; plain numbers are ids of their own.
static void read_objects(struct reader *reader, const struct xml_tag *tag)
{
    char *text = arena_print(reader->arena, "%.*s", (int)tag->text_bytes, tag->text), *rest = text;
    for (char *word = strtok_r(text, " \n\t\r", &rest); word;
         word = strtok_r(NULL, " \n\t\r", &rest)) {
        const char *colon = strchr(word, ':');
        if (reader->object_count < OBJECTS_MAX)
            reader->objects[reader->object_count++] = colon ? colon + 1 : word;
    }
}

static void read_values(struct reader *reader, const struct xml_tag *tag)
{
    char *text = arena_print(reader->arena, "%.*s", (int)tag->text_bytes, tag->text);
    for (char *end = text; *text; text = end) {
        double value = strtod(text, &end);
        if (end == text) break;
        if (reader->value_count < VALUES_MAX) reader->values[reader->value_count++] = value;
    }
}

static bool is_gpu(const struct reader *reader, const char *object)
{
    return name_index(reader->gpu_objects, (size_t)reader->gpu_object_count, object) >= 0;
}

// The largest row of a GPU: where one has fewer links, it is the others that set the pace of most.
static void sum_links(struct reader *reader)
{
    int count = reader->object_count;
    if (count == 0 || reader->value_count != count * count) return;
    double most = 0, pair = 0;
    for (int i = 0; i < count; i++) {
        double sum = 0;
        for (int j = 0; j < count && is_gpu(reader, reader->objects[i]); j++) {
            double value = i == j ? 0 : reader->values[i * count + j];
            sum += value;
            if (value > pair) pair = value;
        }
        if (sum > most) most = sum;
    }
    if (most > LINKS_MOST_MB_PER_S) {
        reader->is_switched = true;
        most = pair;
    }
    reader->found->intra_bytes_per_s = most * 1e6;
}

bool found_lstopo(struct arena *arena, const struct found_source *source, struct found_facts *found,
                  struct err *err)
{
    struct xml xml = {.path = source->path, .text = source->text, .line = 1, .err = err};
    struct reader *reader = ARENA_NEW(arena, struct reader, 1);
    *reader = (struct reader){.arena = arena, .found = found};
    for (struct xml_tag tag; xml_next(&xml, &tag);) {
        bool is_matrix = strncmp(tag.name, "distances2", strlen("distances2")) == 0;
        if (tag.opens && strcmp(tag.name, "object") == 0) read_object(reader, &tag, xml.depth);
        if (tag.closes && xml.depth < reader->gpu_depth) reader->gpu_depth = 0;
        if (is_matrix && tag.opens) {
            const char *name = xml_attribute(arena, &tag, "name");
            reader->in_links = name && strcmp(name, "NVLinkBandwidth") == 0;
        }
        if (!reader->in_links || tag.opens) continue;
        if (strcmp(tag.name, "indexes") == 0) read_objects(reader, &tag);
        if (strcmp(tag.name, "u64values") == 0) read_values(reader, &tag);
        if (is_matrix) reader->in_links = false;
    }
    if (err->kind) return false;
    sum_links(reader);
    if (found->intra_bytes_per_s > 0) found->intra = reader->is_switched ? "nvswitch" : "nvlink";
    return true;
}
