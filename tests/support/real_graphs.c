#include "tests/support/real_graphs.h"

#include "core/file.h"

#include <stdio.h>
#include <stdlib.h>

const char *real_graph(struct arena *arena, const char *name)
{
    const char *folder = getenv("MESHWRIGHT_GRAPHS");
    const char *path = arena_print(arena, "%s/%s", folder ? folder : "../shared/graphs", name);
    if (file_exists(path)) return path;
    printf("# SKIP %s is not there\n", path);
    return NULL;
}
