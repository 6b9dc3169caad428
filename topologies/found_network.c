#include "topologies/found.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// `ibnetdiscover`: blocks of channel adapters, `Ca 1 "H-guid" # "host HCA-1"`, each followed by its
// links, `[1](guid) "S-guid"[4] # lid 4 lmc 0 "switch" lid 6 4xNDR`.

// Data rate of a lane in Gbit/s, coding taken off (InfiniBand architecture specification, volume 2;
// FDR and later code 64 bits in 66).
static const struct {
    const char *name;
    double gbit_per_s;
} SPEEDS[] = {
    {"SDR", 2},  {"DDR", 4},  {"QDR", 8},   {"FDR10", 10}, {"FDR", 13.64},
    {"EDR", 25}, {"HDR", 50}, {"NDR", 100}, {"XDR", 200},
};

static double rate_of(const char *line)
{
    const char *word = strrchr(line, ' ');
    char *end = NULL;
    double lanes = word ? strtod(word + 1, &end) : 0;
    if (!word || end == word + 1 || *end != 'x') return 0;
    char name[8] = "";
    for (int i = 0; i < 7 && isalnum((unsigned char)end[1 + i]); i++)
        name[i] = end[1 + i];
    for (size_t i = 0; i < sizeof SPEEDS / sizeof *SPEEDS; i++)
        if (strcmp(SPEEDS[i].name, name) == 0) return lanes * SPEEDS[i].gbit_per_s * 1e9 / 8;
    return 0;
}

// The host of `# "node17 HCA-2"`: without the adapter. Adapters that carry no host's name (only
// what they are) stand each for a host of their own.
static const char *host_of(struct arena *arena, const char *line)
{
    const char *start = strchr(line, '#'), *quote = start ? strchr(start, '"') : NULL;
    const char *end = quote ? strchr(quote + 1, '"') : NULL;
    const char *guid = strchr(line, '"');
    guid =
        arena_print(arena, "%.*s", guid ? (int)strcspn(guid + 1, "\"") : 0, guid ? guid + 1 : "");
    if (!end) return guid;
    char *name = arena_print(arena, "%.*s", (int)(end - quote - 1), quote + 1);
    char *adapter = strrchr(name, ' ');
    bool has_host =
        adapter && (strncmp(adapter + 1, "HCA-", 4) == 0 || strncmp(adapter + 1, "mlx", 3) == 0);
    if (!has_host) return guid;
    *adapter = '\0';
    return name;
}

struct hosts {
    const char **names;
    int *nics;
    int count, capacity, nic_capacity;
};

static int host_index(struct arena *arena, struct hosts *hosts, const char *name)
{
    for (int i = 0; i < hosts->count; i++)
        if (strcmp(hosts->names[i], name) == 0) return i;
    ARENA_GROW(arena, hosts->names, hosts->count, hosts->capacity);
    ARENA_GROW(arena, hosts->nics, hosts->count, hosts->nic_capacity);
    hosts->names[hosts->count] = name;
    hosts->nics[hosts->count] = 0;
    return hosts->count++;
}

static bool sum_up(const struct found_source *source, const struct hosts *hosts,
                   double nic_bytes_per_s, struct found_facts *found, struct err *err)
{
    if (hosts->count == 0)
        return err_set(err, ERR_INPUT, "%s: no channel adapter (Ca)", source->path);
    for (int i = 1; i < hosts->count; i++) {
        if (hosts->nics[i] != hosts->nics[0])
            return err_set(err, ERR_INPUT,
                           "%s: %s has %d ports in use, %s has %d: a cluster file of nodes that "
                           "differ is written by hand",
                           source->path, hosts->names[0], hosts->nics[0], hosts->names[i],
                           hosts->nics[i]);
    }
    found->nodes = hosts->count;
    found->nics = hosts->nics[0];
    found->nic_bytes_per_s = nic_bytes_per_s;
    found->network = "infiniband";
    return true;
}

bool found_network(struct arena *arena, const struct found_source *source,
                   struct found_facts *found, struct err *err)
{
    struct hosts hosts = {0};
    char *text = arena_copy(arena, source->text), *rest = NULL;
    double slowest = 0;
    int host = -1;
    for (char *line = strtok_r(text, "\r\n", &rest); line; line = strtok_r(NULL, "\r\n", &rest)) {
        if (strncmp(line, "Ca", 2) == 0 && isspace((unsigned char)line[2]))
            host = host_index(arena, &hosts, host_of(arena, line));
        else if (*line != '[')
            host = -1;
        if (host < 0 || *line != '[') continue;
        double rate = rate_of(line);
        if (rate <= 0)
            return err_set(err, ERR_INPUT, "%s: no width and speed at the end of \"%.60s\"",
                           source->path, line);
        hosts.nics[host]++;
        if (slowest == 0 || rate < slowest) slowest = rate;
    }
    return sum_up(source, &hosts, slowest, found, err);
}
