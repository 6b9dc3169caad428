// libFuzzer: whatever the bytes, reading them ends with a value or with one located error.
#include "core/json.h"
#include "cost_models/band.h"
#include "plan/plan.h"
#include "topologies/kernels.h"
#include "validation/trial.h"

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
    int count = json_is_array(value) ? json_count(value, &err) : json_member_count(value, &err);
    for (int i = 0; i < count && i < 20; i++) {
        struct json item = json_item(value, i);
        visit(&item);
    }
}

// One reader's answer: a value or one located line, never both.
static void check_answer(bool has_value, const struct err *err)
{
    assert(has_value == (err->kind == ERR_NONE));
    assert(!strchr(err->text, '\n'));
}

// Every reader of the program gets every document; a model that is read is also built.
static void read_all(struct arena *arena, const struct json *root)
{
    struct err err = {0};
    check_answer(cluster_read(arena, root, &err) != NULL, &err);
    err = (struct err){0};
    check_answer(stack_read(arena, root, &err) != NULL, &err);
    err = (struct err){0};
    check_answer(bands_read(arena, root, &err) != NULL, &err);
    err = (struct err){0};
    check_answer(kernels_read(arena, root, &err) != NULL, &err);
    err = (struct err){0};
    struct parallel parallel = {0};
    check_answer(parallel_read(arena, root, &parallel, &err), &err);
    err = (struct err){0};
    struct workload workload = {0};
    check_answer(workload_read(root, &workload, &err), &err);
    err = (struct err){0};
    const struct model_config *config = model_read(arena, "fuzz", root, NULL, NULL, &err);
    check_answer(config != NULL, &err);
    struct import_options options = {.flash = false, .dropout = true, .vocab_multiple = 128};
    if (config) assert(model_graph(arena, config, &options)->parameter_count > 0);
}

// Published rows are a text of many documents; what is read is also asked, which ends with a
// question or with a reason.
static void read_rows(struct arena *arena, const char *text, size_t bytes)
{
    struct err err = {0};
    struct rows rows;
    bool has_rows = rows_parse(arena, "fuzz.jsonl", text, bytes, &rows, &err);
    check_answer(has_rows, &err);
    if (!has_rows) return;
    struct trials trials;
    trials_ask(arena, &rows, QUESTION_STATED, &trials);
    for (int i = 0; i < trials.count; i++) {
        const struct trial *trial = &trials.items[i];
        assert((trial->stack != NULL) == (trial->why_not == NULL));
        assert(!trial->why_not || !strchr(trial->why_not, '\n'));
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
        read_all(&arena, &root);
    }
    read_rows(&arena, (const char *)data, size);
    assert(!strchr(err.text, '\n'));
    arena_free(&arena);
    return 0;
}
