#include "cli/memory_bug.h"

#include "core/file.h"

#include <string.h>

static bool save(const char *path, const char *text, struct err *err)
{
    const struct err found = *err;
    *err = (struct err){0};
    if (file_write(path, text, strlen(text), err))
        return err_set(err, found.kind, "%.900s; wrote %s", found.text, path);
    *err = found;
    return false;
}

bool memory_save_graph(struct arena *arena, const struct memory_graph *graph, struct err *err)
{
    return save("meshwright-memory-bug.json", memory_graph_text(arena, graph), err);
}

bool memory_save_packing(struct arena *arena, const struct pack_problem *problem, struct err *err)
{
    return save("meshwright-memory-bug.csv", packing_problem_text(arena, problem), err);
}
