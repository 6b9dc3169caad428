// In the place of NVIDIA's NVML, for tests: a machine as the environment's STUB names it.
//   h100   8 GPUs, each with 18 links to switches
//   mesh   4 V100, 2 links to the next GPU and 1 to the one after that; link 5 is down
//   pcie   2 GPUs that no shipped device is, without links
//   mixed  an H100 and an A100
//   none   the driver does not run
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pci_info {
    char legacy_id[16];
    unsigned domain, bus, device, device_id, subsystem_id;
    char id[32];
};
struct memory_info {
    unsigned long long total, free, used;
};

enum { SUCCESS = 0, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, DRIVER_NOT_LOADED = 9 };

static int is(const char *name)
{
    const char *stub = getenv("STUB");
    return stub && strcmp(stub, name) == 0;
}

static unsigned count(void)
{
    return is("h100") ? 8 : is("mesh") ? 4 : 2;
}

static unsigned index_of(void *gpu)
{
    return (unsigned)((char *)gpu - (char *)0x1000);
}

static void address(unsigned gpu, struct pci_info *pci)
{
    memset(pci, 0, sizeof *pci);
    pci->bus = 0x1b + gpu;
    snprintf(pci->id, sizeof pci->id, "00000000:%02X:00.0", pci->bus);
}

int nvmlInit_v2(void)
{
    return is("none") ? DRIVER_NOT_LOADED : SUCCESS;
}

int nvmlShutdown(void)
{
    return SUCCESS;
}

const char *nvmlErrorString(int result)
{
    return result == DRIVER_NOT_LOADED ? "Driver Not Loaded" : "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *text, unsigned bytes)
{
    snprintf(text, bytes, "550.54.15");
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *found)
{
    *found = count();
    return SUCCESS;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu)
{
    *gpu = (char *)0x1000 + index;
    return index < count() ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetName(void *gpu, char *text, unsigned bytes)
{
    int is_hopper = is("h100") || (is("mixed") && index_of(gpu) == 0);
    snprintf(text, bytes, "%s",
             is_hopper     ? "NVIDIA H100 80GB HBM3"
             : is("mesh")  ? "Tesla V100-SXM2-32GB"
             : is("mixed") ? "NVIDIA A100-SXM4-80GB"
                           : "NVIDIA T1000\033[31m");
    return SUCCESS;
}

int nvmlDeviceGetPciInfo_v3(void *gpu, struct pci_info *pci)
{
    int is_hopper = is("h100") || (is("mixed") && index_of(gpu) == 0);
    address(index_of(gpu), pci);
    unsigned id = is_hopper ? 0x2330 : is("mesh") ? 0x1db5 : is("mixed") ? 0x20b2 : 0x1fb0;
    pci->device_id = id << 16 | 0x10de;
    return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *gpu, struct memory_info *memory)
{
    (void)gpu;
    memory->total = 80ull << 30;
    return SUCCESS;
}

int nvmlDeviceGetCudaComputeCapability(void *gpu, int *major, int *minor)
{
    (void)gpu;
    *major = is("mesh") ? 7 : 9;
    *minor = 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkGeneration(void *gpu, unsigned *generation)
{
    (void)gpu;
    *generation = is("mesh") ? 3 : 5;
    return SUCCESS;
}

int nvmlDeviceGetMaxPcieLinkWidth(void *gpu, unsigned *lanes)
{
    (void)gpu;
    *lanes = 16;
    return SUCCESS;
}

int nvmlDeviceGetNvLinkState(void *gpu, unsigned link, int *is_up)
{
    (void)gpu;
    if (!is("h100") && !is("mesh")) return NOT_SUPPORTED;
    *is_up = is("h100") || link < 3;
    return link < 18 ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *gpu, unsigned link, struct pci_info *pci)
{
    address((index_of(gpu) + (link < 2 ? 1 : 2)) % count(), pci);
    return SUCCESS;
}

int nvmlDeviceGetNvLinkRemoteDeviceType(void *gpu, unsigned link, int *kind)
{
    (void)gpu;
    (void)link;
    *kind = is("h100") ? 2 : 0;
    return SUCCESS;
}
