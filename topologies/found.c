#include "topologies/found.h"

#include "core/file.h"
#include "core/json_write.h"
#include "core/plain.h"
#include "core/table.h"
#include "core/units.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

// NVIDIA's and AMD's ids as the PCI ID database lists them (pci-ids.ucw.cz).
static const struct {
    const char *id, *device;
} DEVICES[] = {
    {"10de:1db5", "v100-sxm2-32g"},  {"10de:1db8", "v100-sxm3-32g"}, {"10de:20b0", "a100-sxm4-40g"},
    {"10de:20b2", "a100-sxm4-80g"},  {"10de:20b5", "a100-pcie-80g"}, {"10de:2330", "h100-sxm5-80g"},
    {"10de:2335", "h200-sxm5-141g"}, {"10de:26b9", "l40s-48g"},      {"10de:2684", "rtx-4090-24g"},
    {"1002:74a1", "mi300x-192g"},
};

const char *found_device_of(const char *vendor_and_device)
{
    for (size_t i = 0; i < sizeof DEVICES / sizeof *DEVICES; i++)
        if (strcmp(DEVICES[i].id, vendor_and_device) == 0) return DEVICES[i].device;
    return NULL;
}

enum fact_type { FACT_IS_INT, FACT_IS_F64, FACT_IS_TEXT };
enum fact_need { NEED_ALWAYS, NEED_SEVERAL_GPUS, NEED_SEVERAL_NODES, NEED_NEVER };

static const struct fact {
    const char *name, *option;
    enum fact_type type;
    size_t offset;
    enum fact_need need;
    bool is_certain;  // files that say different things contradict each other
} FACTS[FACT_COUNT] = {
    [FACT_DEVICE] = {"device", "--device", FACT_IS_TEXT, offsetof(struct found_facts, device),
                     NEED_ALWAYS, true},
    [FACT_GPUS] = {"GPUs of a node", "--gpus-per-node", FACT_IS_INT,
                   offsetof(struct found_facts, gpus), NEED_ALWAYS, true},
    [FACT_INTRA] = {"kind of the links in a node", "--intra", FACT_IS_TEXT,
                    offsetof(struct found_facts, intra), NEED_SEVERAL_GPUS, false},
    [FACT_INTRA_BANDWIDTH] = {"bandwidth of a GPU's links", "--intra-bandwidth", FACT_IS_F64,
                              offsetof(struct found_facts, intra_bytes_per_s), NEED_SEVERAL_GPUS,
                              false},
    [FACT_NODES] = {"nodes", "--nodes", FACT_IS_INT, offsetof(struct found_facts, nodes),
                    NEED_NEVER, true},
    [FACT_NICS] = {"NICs of a node", "--nics", FACT_IS_INT, offsetof(struct found_facts, nics),
                   NEED_SEVERAL_NODES, true},
    [FACT_NIC_BANDWIDTH] = {"bandwidth of a NIC", "--nic-bandwidth", FACT_IS_F64,
                            offsetof(struct found_facts, nic_bytes_per_s), NEED_SEVERAL_NODES,
                            false},
    [FACT_NETWORK] = {"kind of the network", "--network", FACT_IS_TEXT,
                      offsetof(struct found_facts, network), NEED_SEVERAL_NODES, false},
    [FACT_CORES] = {"cores of a host", NULL, FACT_IS_INT, offsetof(struct found_facts, cores),
                    NEED_NEVER, false},
    [FACT_MEMORY] = {"memory of a host", NULL, FACT_IS_F64,
                     offsetof(struct found_facts, memory_bytes), NEED_NEVER, false},
    [FACT_PCIE] = {"PCIe of a GPU", NULL, FACT_IS_F64,
                   offsetof(struct found_facts, pcie_bytes_per_s), NEED_NEVER, false},
};

static void *member(const struct found_facts *found, const struct fact *fact)
{
    return (char *)found + fact->offset;
}

static bool found_has(const struct found_facts *found, enum found_fact fact)
{
    const void *at = member(found, &FACTS[fact]);
    switch (FACTS[fact].type) {
    case FACT_IS_INT:
        return *(const int *)at > 0;
    case FACT_IS_F64:
        return *(const double *)at > 0;
    case FACT_IS_TEXT:
        break;
    }
    return *(const char *const *)at != NULL;
}

void found_by_hand(struct found_facts *found)
{
    for (enum found_fact i = 0; i < FACT_COUNT; i++)
        if (found_has(found, i)) found->from[i] = FACTS[i].option;
}

static void copy_fact(struct found_facts *to, const struct found_facts *from, enum found_fact fact,
                      const char *source)
{
    void *into = member(to, &FACTS[fact]);
    const void *of = member(from, &FACTS[fact]);
    if (FACTS[fact].type == FACT_IS_INT)
        *(int *)into = *(const int *)of;
    else if (FACTS[fact].type == FACT_IS_F64)
        *(double *)into = *(const double *)of;
    else
        *(const char **)into = *(const char *const *)of;
    to->from[fact] = source;
}

static const char *value_text(struct arena *arena, const struct found_facts *found,
                              enum found_fact fact)
{
    const void *at = member(found, &FACTS[fact]);
    if (FACTS[fact].type == FACT_IS_INT) return units_count(arena, *(const int *)at);
    if (FACTS[fact].type == FACT_IS_TEXT) return *(const char *const *)at;
    double value = *(const double *)at;
    return fact == FACT_MEMORY ? units_bytes(arena, value) : units_bytes_per_s(arena, value);
}

static const char *found_kind_name(enum found_kind kind)
{
    static const char *const NAMES[FOUND_KIND_COUNT] = {
        "lstopo XML", "NCCL topology", "nvidia-smi topo -m", "ibnetdiscover", "sinfo"};
    return NAMES[kind];
}

enum { FILE_BYTES_MAX = 256 << 20 };

// What only such a file says. A JSON file begins with a brace.
static bool kind_of(const char *text, enum found_kind *kind)
{
    static const struct {
        const char *mark;
        enum found_kind kind;
    } MARKS[] = {
        {"<topology", FOUND_LSTOPO},    {"<system", FOUND_NCCL},    {"caguid=", FOUND_NETWORK},
        {"switchguid=", FOUND_NETWORK}, {"GPU0", FOUND_MATRIX},     {"NODELIST", FOUND_SLURM},
        {"GRES", FOUND_SLURM},          {"PARTITION", FOUND_SLURM},
    };
    const char *at = text + strspn(text, " \t\r\n");
    for (size_t i = 0; *at != '{' && i < sizeof MARKS / sizeof *MARKS; i++) {
        if (!strstr(at, MARKS[i].mark)) continue;
        *kind = MARKS[i].kind;
        return true;
    }
    return false;
}

bool found_is(struct arena *arena, const char *path, bool *is_found, enum found_kind *kind,
              struct err *err)
{
    size_t bytes = 0;
    *is_found = false;
    // A name of a shipped cluster is no file.
    if (!file_exists(path)) return true;
    struct arena_mark mark = arena_mark(arena);
    const char *text = file_read(arena, path, FILE_BYTES_MAX, &bytes, err);
    *is_found = text && kind_of(text, kind);
    arena_reset(arena, mark);
    return !err->kind;
}

bool found_add(struct arena *arena, const struct found_facts *said, const char *source,
               struct found_facts *found, struct err *err)
{
    assert(said && source && found);
    for (enum found_fact i = 0; i < FACT_COUNT; i++) {
        if (!found_has(said, i)) continue;
        if (!found_has(found, i)) {
            copy_fact(found, said, i, source);
            continue;
        }
        const char *here = value_text(arena, said, i), *there = value_text(arena, found, i);
        bool by_hand = found->from[i][0] == '-';
        if (!FACTS[i].is_certain || by_hand || strcmp(here, there) == 0) continue;
        return err_set(err, ERR_INPUT, "%s: %s: %s, but %s says %s%s%s", source, FACTS[i].name,
                       here, found->from[i], there,
                       FACTS[i].option ? "; what holds is said by " : "",
                       FACTS[i].option ? FACTS[i].option : "");
    }
    if (!found->model) found->model = said->model;
    if (!found->links) found->links = said->links;
    return true;
}

bool found_read(struct arena *arena, const char *path, struct found_facts *found, struct err *err)
{
    static bool (*const READERS[FOUND_KIND_COUNT])(struct arena *, const struct found_source *,
                                                   struct found_facts *, struct err *) = {
        found_lstopo, found_nccl, found_matrix, found_network, found_slurm};
    struct found_source source = {.path = plain_copy(arena, path)};
    source.text = file_read(arena, path, FILE_BYTES_MAX, &source.bytes, err);
    if (!source.text) return false;
    enum found_kind kind;
    if (!kind_of(source.text, &kind)) {
        return err_set(err, ERR_INPUT,
                       "%s: no output of lstopo (XML), NCCL, nvidia-smi topo -m, ibnetdiscover or "
                       "sinfo",
                       source.path);
    }
    struct found_facts said = {0};
    if (!READERS[kind](arena, &source, &said, err)) return false;
    const char *name = arena_print(arena, "%s %s", found_kind_name(kind), source.path);
    return found_add(arena, &said, name, found, err);
}

void found_fill(struct arena *arena, struct found_facts *found, const struct cluster *like)
{
    const struct node_group *group = &like->nodes[0];
    const struct found_facts other = {
        .gpus = group->gpus,
        .device = group->device->name,
        .intra = group->intra.kind,
        .intra_bytes_per_s = group->intra.bandwidth_bytes_per_s,
        .nics = group->nics.count,
        .nic_bytes_per_s = group->nics.bandwidth_bytes_per_s,
        .network = like->network.kind,
    };
    const char *source = arena_print(arena, "--like %s", like->name);
    for (enum found_fact i = 0; i < FACT_COUNT; i++)
        if (!found_has(found, i) && found_has(&other, i)) copy_fact(found, &other, i, source);
}

static bool is_needed(const struct found_facts *found, const struct fact *fact)
{
    switch (fact->need) {
    case NEED_ALWAYS:
        return true;
    case NEED_SEVERAL_GPUS:
        return found->gpus != 1;
    case NEED_SEVERAL_NODES:
        return found->nodes > 1;
    case NEED_NEVER:
        break;
    }
    return false;
}

// All that is missing, with what the input says that helps to say it.
static bool check(struct arena *arena, const struct found_facts *found, const char *path,
                  struct err *err)
{
    const char *missing = "";
    for (enum found_fact i = 0; i < FACT_COUNT; i++) {
        if (found_has(found, i) || !is_needed(found, &FACTS[i])) continue;
        const char *hint = "";
        if (i == FACT_DEVICE && found->model)
            hint = arena_print(arena, ", called %s", found->model);
        if (i == FACT_INTRA_BANDWIDTH && found->links)
            hint = arena_print(arena, ", %d links", found->links);
        missing = arena_print(arena, "%s%s%s (%s%s)", missing, *missing ? ", " : "", FACTS[i].name,
                              FACTS[i].option, hint);
    }
    if (!*missing) return true;
    return err_set(err, ERR_INPUT,
                   "%s does not say: %s; --like CLUSTER takes what is missing from a shipped one",
                   plain_copy(arena, path), missing);
}

static void put_host(struct json_writer *writer, const struct found_facts *found)
{
    if (!found->cores && !(found->memory_bytes > 0) && !(found->pcie_bytes_per_s > 0)) return;
    json_open_flat(writer, "host", '{');
    if (found->memory_bytes > 0) json_put_i64(writer, "memory_bytes", (int64_t)found->memory_bytes);
    if (found->cores) json_put_i64(writer, "cores", found->cores);
    if (found->pcie_bytes_per_s > 0)
        json_put_f64(writer, "pcie_bytes_per_s", found->pcie_bytes_per_s);
    json_close(writer, '}');
}

char *found_cluster_text(struct arena *arena, const struct found_facts *found, const char *name,
                         const char *path, struct err *err)
{
    if (!check(arena, found, path, err)) return NULL;
    bool has_network = found->nics && found->nic_bytes_per_s > 0 && found->network;
    assert(has_network || found->nodes <= 1);
    struct json_writer writer = {.arena = arena};
    json_open(&writer, NULL, '{');
    json_put_text(&writer, "name", name);
    json_open(&writer, "nodes", '[');
    json_open(&writer, NULL, '{');
    json_put_i64(&writer, "count", found->nodes ? found->nodes : 1);
    json_put_i64(&writer, "gpus", found->gpus);
    json_put_text(&writer, "device", found->device);
    if (found->intra && found->intra_bytes_per_s > 0) {
        json_open_flat(&writer, "intra", '{');
        json_put_text(&writer, "kind", found->intra);
        json_put_f64(&writer, "bandwidth_bytes_per_s", found->intra_bytes_per_s);
        json_close(&writer, '}');
    }
    put_host(&writer, found);
    if (has_network) {
        json_open_flat(&writer, "nics", '{');
        json_put_i64(&writer, "count", found->nics);
        json_put_f64(&writer, "bandwidth_bytes_per_s", found->nic_bytes_per_s);
        json_close(&writer, '}');
    }
    json_close(&writer, '}');
    json_close(&writer, ']');
    if (has_network) {
        json_open_flat(&writer, "network", '{');
        json_put_text(&writer, "kind", found->network);
        json_close(&writer, '}');
    }
    json_close(&writer, '}');
    return writer.text;
}

char *found_text(struct arena *arena, const struct found_facts *found)
{
    struct table table = table_new(arena, "lll");
    table.head_count = 0;
    for (enum found_fact i = 0; i < FACT_COUNT; i++) {
        if (!found_has(found, i)) continue;
        const char *cells[] = {arena_print(arena, "  %s", FACTS[i].name),
                               value_text(arena, found, i), found->from[i]};
        table_row(&table, cells);
    }
    return arena_print(arena, "Found, and by whom:\n%s", table_text(&table));
}
