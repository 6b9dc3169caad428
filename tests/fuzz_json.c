// libFuzzer: whatever the bytes, reading them ends with a value or with one located error.
#include "core/json.h"
#include "topologies/cluster.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Every value is visited, and an error raised at it, so that each place is found again.
static void visit(const struct json *value)
{
    struct err err = {0};
    json_fail(value, &err, "here");
    assert(strstr(err.text, "here") || strlen(err.text) > 500);
    if (!json_is_array(value) && !json_is_object(value)) return;
    err = (struct err){0};
    int count = json_count(value, &err);
    for (int i = 0; i < count && i < 20; i++) {
        struct json item = json_item(value, i);
        visit(&item);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 14) return 0;
    struct arena arena = {0};
    struct err err = {0};
    struct json_document document;
    if (json_parse(&arena, "fuzz.json", (const char *)data, size, &document, &err)) {
        struct json root = json_root(&document);
        visit(&root);
        const struct cluster *cluster = cluster_read(&arena, &root, &err);
        assert(!cluster == (err.kind != ERR_NONE));
    }
    assert(!strchr(err.text, '\n'));
    arena_free(&arena);
    return 0;
}
