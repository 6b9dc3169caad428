// libFuzzer: whatever the bytes, a packing problem is read or refused with one located line, and
// what is written of it reads back as the same.
#include "memory/formats.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_back(struct arena *arena, const struct packing_file *file)
{
    int count = file->problem.count;
    int64_t *offsets = ARENA_NEW(arena, int64_t, count);
    for (int i = 0; i < count; i++) {
        const struct pack_buffer *buffer = &file->problem.buffers[i];
        assert(buffer->lower <= buffer->upper && buffer->size > 0 && buffer->alignment > 0);
        assert(buffer->fixed_offset >= -1);
        offsets[i] = 3 * i * buffer->alignment;
    }
    struct err err = {0};
    struct packing_file again;
    const char *text = packing_text(arena, file, offsets);
    bool is_read = packing_parse(arena, "again.csv", text, strlen(text), &again, &err);
    assert(is_read && again.problem.count == count);
    for (int i = 0; i < count; i++) {
        const struct pack_buffer *a = &file->problem.buffers[i], *b = &again.problem.buffers[i];
        assert(a->lower == b->lower && a->upper == b->upper && a->size == b->size);
        assert(a->alignment == b->alignment && b->fixed_offset == offsets[i]);
        assert(strcmp(file->ids[i], again.ids[i]) == 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 14) return 0;
    struct arena arena = {0};
    struct err err = {0};
    struct packing_file file;
    bool is_read = packing_parse(&arena, "fuzz.csv", (const char *)data, size, &file, &err);
    assert(is_read == (err.kind == ERR_NONE));
    assert(is_read || strncmp(err.text, "fuzz.csv:", strlen("fuzz.csv:")) == 0);
    assert(!strchr(err.text, '\n'));
    if (is_read) read_back(&arena, &file);
    arena_free(&arena);
    return 0;
}
