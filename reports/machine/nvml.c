#include "reports/machine/nvml.h"

#include "core/plain.h"
#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

// Numbers of nvml.h.
enum {
    NVML_SUCCESS = 0,
    NVML_LINKS_MAX = 18,  // of a GPU
    NVML_REMOTE_SWITCH = 2,
    NVML_NAME_BYTES = 96,
};

struct pci_info {  // nvmlPciInfo_t
    char legacy_id[16];
    unsigned domain, bus, device;
    unsigned device_id;  // the device in the upper half, its vendor in the lower
    unsigned subsystem_id;
    char id[32];
};

struct memory_info {  // nvmlMemory_t
    unsigned long long total, free, used;
};

struct library {
    int (*init)(void);
    int (*shutdown)(void);
    const char *(*error_text)(int result);
    int (*driver)(char *text, unsigned bytes);
    int (*count)(unsigned *count);
    int (*handle)(unsigned index, void **gpu);
    int (*name)(void *gpu, char *text, unsigned bytes);
    int (*pci)(void *gpu, struct pci_info *pci);
    int (*memory)(void *gpu, struct memory_info *memory);
    int (*capability)(void *gpu, int *major, int *minor);
    int (*pcie_generation)(void *gpu, unsigned *generation);
    int (*pcie_lanes)(void *gpu, unsigned *lanes);
    int (*link_state)(void *gpu, unsigned link, int *is_up);
    int (*link_end)(void *gpu, unsigned link, struct pci_info *pci);
    int (*link_kind)(void *gpu, unsigned link, int *kind);  // NULL: an older driver
};

static const struct symbol {
    const char *name;
    size_t offset;
    bool is_optional;
} SYMBOLS[] = {
    {"nvmlInit_v2", offsetof(struct library, init), false},
    {"nvmlShutdown", offsetof(struct library, shutdown), false},
    {"nvmlErrorString", offsetof(struct library, error_text), false},
    {"nvmlSystemGetDriverVersion", offsetof(struct library, driver), false},
    {"nvmlDeviceGetCount_v2", offsetof(struct library, count), false},
    {"nvmlDeviceGetHandleByIndex_v2", offsetof(struct library, handle), false},
    {"nvmlDeviceGetName", offsetof(struct library, name), false},
    {"nvmlDeviceGetPciInfo_v3", offsetof(struct library, pci), false},
    {"nvmlDeviceGetMemoryInfo", offsetof(struct library, memory), false},
    {"nvmlDeviceGetCudaComputeCapability", offsetof(struct library, capability), false},
    {"nvmlDeviceGetMaxPcieLinkGeneration", offsetof(struct library, pcie_generation), false},
    {"nvmlDeviceGetMaxPcieLinkWidth", offsetof(struct library, pcie_lanes), false},
    {"nvmlDeviceGetNvLinkState", offsetof(struct library, link_state), false},
    {"nvmlDeviceGetNvLinkRemotePciInfo_v2", offsetof(struct library, link_end), false},
    {"nvmlDeviceGetNvLinkRemoteDeviceType", offsetof(struct library, link_kind), true},
};

static bool open_library(struct library *library, struct err *err)
{
    void *opened = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!opened) {
        err_set(err, ERR_SYSTEM,
                "NVML (libnvidia-ml.so.1) is not there: it comes with NVIDIA's driver");
        return false;
    }
    for (size_t i = 0; i < sizeof SYMBOLS / sizeof *SYMBOLS; i++) {
        void *address = dlsym(opened, SYMBOLS[i].name);
        if (!address && !SYMBOLS[i].is_optional) {
            err_set(err, ERR_SYSTEM, "NVML (libnvidia-ml.so.1) is too old: it has no %s",
                    SYMBOLS[i].name);
            return false;
        }
        memcpy((char *)library + SYMBOLS[i].offset, &address, sizeof address);
    }
    return true;
}

// Links end at addresses: those of GPUs first, then what is at them.
static void read_links(const struct library *library, void *gpu, struct nvml_machine *machine,
                       struct nvml_gpu *into)
{
    assert(machine->count > 0 && machine->count <= NVML_GPUS_MAX);
    for (unsigned link = 0; link < NVML_LINKS_MAX; link++) {
        struct pci_info end = {.domain = 0};
        int is_up = 0, kind = -1;
        if (library->link_state(gpu, link, &is_up) != NVML_SUCCESS || !is_up) continue;
        into->link_count++;
        if (library->link_kind && library->link_kind(gpu, link, &kind) == NVML_SUCCESS &&
            kind == NVML_REMOTE_SWITCH) {
            into->switch_links++;
            continue;
        }
        if (library->link_end(gpu, link, &end) != NVML_SUCCESS) continue;
        end.id[sizeof end.id - 1] = '\0';
        for (int other = 0; other < machine->count; other++)
            into->links_to[other] += strcasecmp(machine->gpus[other].address, end.id) == 0;
    }
}

static bool read_gpu(struct arena *arena, const struct library *library, void *gpu,
                     struct nvml_gpu *into)
{
    char name[NVML_NAME_BYTES] = "";
    struct pci_info pci = {.domain = 0};
    struct memory_info memory = {0};
    unsigned generation = 0, lanes = 0;
    int major = 0, minor = 0;
    if (library->name(gpu, name, sizeof name) != NVML_SUCCESS ||
        library->pci(gpu, &pci) != NVML_SUCCESS || library->memory(gpu, &memory) != NVML_SUCCESS)
        return false;
    name[sizeof name - 1] = pci.id[sizeof pci.id - 1] = '\0';
    if (library->capability(gpu, &major, &minor) == NVML_SUCCESS) into->sm = 10 * major + minor;
    if (library->pcie_generation(gpu, &generation) == NVML_SUCCESS &&
        library->pcie_lanes(gpu, &lanes) == NVML_SUCCESS) {
        into->pcie_generation = (int)generation;
        into->pcie_lanes = (int)lanes;
    }
    into->name = plain_copy(arena, name);
    into->address = plain_copy(arena, pci.id);
    into->id = arena_print(arena, "%04x:%04x", pci.device_id & 0xffff, pci.device_id >> 16);
    into->memory_bytes = (double)memory.total;
    return true;
}

static bool read_machine(struct arena *arena, const struct library *library,
                         struct nvml_machine *machine, struct err *err)
{
    char driver[NVML_NAME_BYTES] = "";
    unsigned count = 0;
    int result = library->count(&count);
    if (result != NVML_SUCCESS)
        return err_set(err, ERR_SYSTEM, "NVML counts no GPUs: %s", library->error_text(result));
    if (count == 0 || count > NVML_GPUS_MAX)
        return err_set(err, ERR_SYSTEM, "NVML finds %u GPUs, expected 1 to %d", count,
                       NVML_GPUS_MAX);
    if (library->driver(driver, sizeof driver) != NVML_SUCCESS) driver[0] = '\0';
    driver[sizeof driver - 1] = '\0';
    void *gpus[NVML_GPUS_MAX];
    *machine = (struct nvml_machine){.driver = plain_copy(arena, driver),
                                     .gpus = ARENA_NEW(arena, struct nvml_gpu, count),
                                     .count = (int)count};
    for (unsigned i = 0; i < count; i++) {
        if (library->handle(i, &gpus[i]) != NVML_SUCCESS ||
            !read_gpu(arena, library, gpus[i], &machine->gpus[i]))
            return err_set(err, ERR_SYSTEM, "NVML says nothing of GPU %u", i);
    }
    for (unsigned i = 0; i < count; i++)
        read_links(library, gpus[i], machine, &machine->gpus[i]);
    return true;
}

bool nvml_find(struct arena *arena, struct nvml_machine *machine, struct err *err)
{
    struct library library = {0};
    *machine = (struct nvml_machine){.driver = ""};
    if (!open_library(&library, err)) return false;
    int result = library.init();
    if (result != NVML_SUCCESS)
        return err_set(err, ERR_SYSTEM, "NVML does not start: %s", library.error_text(result));
    bool done = read_machine(arena, &library, machine, err);
    library.shutdown();
    return done;
}

// PCI Express base specifications 1.0 to 6.0: transfers a second of a lane.
static double pcie_bytes_per_s(const struct nvml_gpu *gpu)
{
    static const double TRANSFERS[] = {0, 2.5e9, 5e9, 8e9, 16e9, 32e9, 64e9};
    int known = sizeof TRANSFERS / sizeof *TRANSFERS, generation = gpu->pcie_generation;
    if (generation < 0 || generation >= known) return 0;
    return found_pcie_bytes_per_s(TRANSFERS[generation], gpu->pcie_lanes);
}

static double link_bytes_per_s(const struct nvml_gpu *gpu)
{
    char sm[16];
    snprintf(sm, sizeof sm, "%d", gpu->sm);
    return found_link_bytes_per_s("sm", sm);
}

// "18 to switches", "4 to GPU 1, 4 to GPU 2"
static const char *links_text(struct arena *arena, const struct nvml_machine *machine,
                              const struct nvml_gpu *gpu)
{
    assert(gpu->switch_links <= gpu->link_count);
    const char *text = "";
    if (gpu->link_count == 0) return "none";
    if (gpu->switch_links > 0) text = arena_print(arena, "%d to switches", gpu->switch_links);
    for (int i = 0; i < machine->count; i++) {
        if (gpu->links_to[i] == 0) continue;
        text = arena_print(arena, "%s%s%d to GPU %d", text, *text ? ", " : "", gpu->links_to[i], i);
    }
    return *text ? text : arena_print(arena, "%d", gpu->link_count);
}

char *nvml_text(struct arena *arena, const struct nvml_machine *machine)
{
    assert(machine->count > 0 && machine->count <= NVML_GPUS_MAX);
    static const char *const HEADER[] = {"GPU", "name", "address", "memory", "PCIe", "NVLinks"};
    struct table table = table_new(arena, "rllrrl");
    table_row(&table, HEADER);
    for (int i = 0; i < machine->count; i++) {
        const struct nvml_gpu *gpu = &machine->gpus[i];
        double pcie = pcie_bytes_per_s(gpu);
        const char *cells[] = {arena_print(arena, "%d", i),
                               gpu->name,
                               gpu->address,
                               units_bytes(arena, gpu->memory_bytes),
                               pcie > 0 ? units_bytes_per_s(arena, pcie) : "-",
                               links_text(arena, machine, gpu)};
        table_row(&table, cells);
    }
    return arena_print(arena, "%s%s%s%s", table_text(&table), *machine->driver ? "driver " : "",
                       machine->driver, *machine->driver ? "\n" : "");
}

bool nvml_facts(struct arena *arena, const struct nvml_machine *machine, struct found_facts *found,
                struct err *err)
{
    assert(machine->count > 0 && machine->count <= NVML_GPUS_MAX);
    const struct nvml_gpu *first = &machine->gpus[0];
    // The GPU with fewest links is the one that the others wait for.
    const struct nvml_gpu *least = first;
    bool is_switched = true;
    for (int i = 0; i < machine->count; i++) {
        const struct nvml_gpu *gpu = &machine->gpus[i];
        if (strcmp(gpu->id, first->id) != 0)
            return err_set(err, ERR_INPUT, "NVML: GPU %d is %s and GPU 0 %s: a node is of one kind",
                           i, gpu->name, first->name);
        if (gpu->link_count < least->link_count) least = gpu;
        is_switched = is_switched && gpu->switch_links > 0;
    }
    *found = (struct found_facts){.gpus = machine->count,
                                  .device = found_device_of(first->id),
                                  .pcie_bytes_per_s = pcie_bytes_per_s(first)};
    if (!found->device) found->model = arena_print(arena, "%s (%s)", first->name, first->id);
    if (machine->count == 1) return true;
    found->links = least->link_count;
    found->intra = found->links == 0 ? "pcie" : is_switched ? "nvswitch" : "nvlink";
    found->intra_bytes_per_s =
        found->links > 0 ? found->links * link_bytes_per_s(least) : pcie_bytes_per_s(least);
    return true;
}
