#include "tests/gpu/emulate_streams.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// How often each kernel ran, those of the libraries among them. MESHWRIGHT_EMULATED_LAUNCHES names
// a file to which a process adds a line each, "name count", when it ends: what an account of
// launches says is held against it (tests/launches.t).

enum { NAMES_MAX = 256 };

static struct {
    const char *name;
    int64_t count;
} launched[NAMES_MAX];

void emulate_launched(const char *name)
{
    int at = 0;
    while (at < NAMES_MAX && launched[at].name && strcmp(launched[at].name, name) != 0)
        at++;
    assert(at < NAMES_MAX);
    launched[at].name = name;
    launched[at].count++;
}

__attribute__((destructor)) static void tell(void)
{
    const char *path = getenv("MESHWRIGHT_EMULATED_LAUNCHES");
    FILE *file = path ? fopen(path, "a") : NULL;
    if (!file) return;
    for (int i = 0; i < NAMES_MAX && launched[i].name; i++)
        fprintf(file, "%s %lld\n", launched[i].name, (long long)launched[i].count);
    fclose(file);
}
