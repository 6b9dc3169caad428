#include "core/names.h"
#include "topologies/found.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

// `sinfo -o "%P %D %c %m %G"`: partition, nodes, processors, memory in MiB and generic resources,
// told by the words of the header, in any order. Of several lines with GPUs all must be alike.

enum { COLUMNS_MAX = 32 };

static int split(char *line, char **words)
{
    int count = 0;
    char *rest = line;
    for (char *word = strtok_r(line, " \t|\r", &rest); word && count < COLUMNS_MAX;
         word = strtok_r(NULL, " \t|\r", &rest))
        words[count++] = word;
    return count;
}

// "gpu:h100:8(S:0-1)": 8, and what it calls the GPU; "(null)": none.
static int gpus_of(struct arena *arena, const char *word, const char **model)
{
    const char *gpu = strstr(word, "gpu:");
    if (!gpu) return 0;
    gpu += strlen("gpu:");
    const char *colon = strchr(gpu, ':'), *end = strpbrk(gpu, "(,");
    if (colon && (!end || colon < end)) {
        *model = arena_print(arena, "%.*s", (int)(colon - gpu), gpu);
        gpu = colon + 1;
    }
    return atoi(gpu);
}

struct line {
    int nodes, gpus, cores;
    double memory_bytes;
    const char *model;
};

static bool add_line(const struct found_source *source, const struct line *line,
                     struct found_facts *found, struct err *err)
{
    if (found->gpus && found->gpus != line->gpus)
        return err_set(err, ERR_INPUT,
                       "%s: nodes with %d and with %d GPUs: give the lines of one partition",
                       source->path, found->gpus, line->gpus);
    found->gpus = line->gpus;
    found->nodes += line->nodes;
    found->cores = line->cores;
    found->memory_bytes = line->memory_bytes;
    found->model = line->model;
    return true;
}

bool found_slurm(struct arena *arena, const struct found_source *source, struct found_facts *found,
                 struct err *err)
{
    char *text = arena_copy(arena, source->text), *rest = NULL, *words[COLUMNS_MAX];
    char *header = strtok_r(text, "\n", &rest);
    int count = header ? split(header, words) : 0;
    int nodes = name_index((const char *const *)words, (size_t)count, "NODES"),
        gres = name_index((const char *const *)words, (size_t)count, "GRES");
    int cores = name_index((const char *const *)words, (size_t)count, "CPUS"),
        memory = name_index((const char *const *)words, (size_t)count, "MEMORY");
    if (nodes < 0 || gres < 0)
        return err_set(err, ERR_INPUT,
                       "%s: no columns NODES and GRES: print them with sinfo -o \"%%P %%D %%c %%m "
                       "%%G\"",
                       source->path);
    for (char *at = strtok_r(NULL, "\n", &rest); at; at = strtok_r(NULL, "\n", &rest)) {
        int found_count = split(at, words);
        if (found_count == 0) continue;
        if (found_count < count)
            return err_set(err, ERR_INPUT, "%s: a line has %d of %d columns", source->path,
                           found_count, count);
        struct line line = {.nodes = atoi(words[nodes])};
        line.gpus = gpus_of(arena, words[gres], &line.model);
        if (cores >= 0) line.cores = atoi(words[cores]);
        if (memory >= 0) line.memory_bytes = atof(words[memory]) * (1 << 20);
        if (line.gpus > 0 && !add_line(source, &line, found, err)) return false;
    }
    if (found->gpus > 0) return true;
    return err_set(err, ERR_INPUT, "%s: no node with GPUs (gpu:... under GRES)", source->path);
}
