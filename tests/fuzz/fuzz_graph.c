// libFuzzer: whatever the bytes, a memory graph is read or refused with one located line; one that
// is read is in program order, makes a problem and reads back as it was written.
#include "memory/formats.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_problem(struct arena *arena, const struct memory_graph *graph)
{
    const struct memory_problem *problem = memory_problem_make(arena, graph, 512);
    int *order = ARENA_NEW(arena, int, problem->operator_count);
    for (int i = 0; i < problem->operator_count; i++) {
        order[i] = i;
        for (int j = problem->first_successor[i]; j < problem->first_successor[i + 1]; j++) {
            assert(problem->successors[j] > i);
        }
    }
    int *birth = ARENA_NEW(arena, int, problem->buffer_count);
    int *death = ARENA_NEW(arena, int, problem->buffer_count);
    int64_t peak_bytes = memory_lifetimes(arena, problem, order, birth, death);
    int64_t total_bytes = 0;
    for (int i = 0; i < problem->buffer_count; i++) {
        assert(problem->operator_count == 0 || birth[i] < death[i]);
        total_bytes += problem->buffers[i].bytes;
    }
    assert(0 <= peak_bytes && peak_bytes <= total_bytes);
}

static void read_back(struct arena *arena, const struct memory_graph *graph)
{
    struct err err = {0};
    const char *text = memory_graph_text(arena, graph);
    const struct memory_graph *again =
        memory_graph_parse(arena, "again.json", text, strlen(text), &err);
    // In the other dialect a name may be that of another with its number.
    if (!again) assert(strstr(err.text, "a second"));
    if (again) assert(strcmp(memory_graph_text(arena, again), text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 14) return 0;
    struct arena arena = {0};
    struct err err = {0};
    const struct memory_graph *graph =
        memory_graph_parse(&arena, "fuzz.json", (const char *)data, size, &err);
    assert((graph != NULL) == (err.kind == ERR_NONE));
    assert(graph || strncmp(err.text, "fuzz.json:", strlen("fuzz.json:")) == 0);
    assert(!strchr(err.text, '\n'));
    if (graph) {
        check_problem(&arena, graph);
        read_back(&arena, graph);
    }
    arena_free(&arena);
    return 0;
}
