#include "reports/machine/machine.h"

#include "core/file.h"

#include <assert.h>
#include <ctype.h>
#include <math.h>
#include <string.h>

static bool is_part(char c)
{
    return isalnum((unsigned char)c) != 0;
}

// Whether `name` up to its first dash, "h200", is a word of "NVIDIA H200", whatever the case.
static bool names_one(const char *name, const char *text)
{
    assert(*name);
    size_t length = strcspn(name, "-");
    for (const char *at = text; *at; at++) {
        bool begins = at == text || !is_part(at[-1]);
        if (begins && strncasecmp(at, name, length) == 0 && !is_part(at[length])) return true;
    }
    return false;
}

const struct device *machine_like(struct arena *arena, const struct backend_device_facts *facts)
{
    static const double MEMORY_OFF = 0.1;
    int count = 0;
    const char **names = file_list_data(arena, "topologies/devices", &count);
    for (int i = 0; i < count; i++) {
        if (!names_one(names[i], facts->name)) continue;
        const struct device *device = device_load(arena, names[i], &(struct err){0});
        if (!device || device->multiprocessor_count != facts->multiprocessor_count) continue;
        double ratio = (double)facts->memory_bytes / (double)device->memory_bytes;
        if (fabs(ratio - 1) <= MEMORY_OFF) return device;
    }
    return NULL;
}
