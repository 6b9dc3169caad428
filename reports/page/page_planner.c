#include "reports/page/page_planner.h"
#include "core/file.h"
#include "core/gzip.h"
#include "core/json_write.h"
#include "cost_models/stack.h"
#include "topologies/cluster.h"

#include <assert.h>
#include <string.h>

static const char STYLE[] =
#include "reports/page/what_if.css.inc"
    ;
static const char SCRIPT[] =
#include "reports/page/planner.js.inc"
#include "reports/page/what_if.js.inc"
#include "reports/page/what_if_choices.js.inc"
    ;

static const size_t FILE_BYTES_MAX = (size_t)64 << 20;

// RFC 4648, section 4.
static char *base64(struct arena *arena, const unsigned char *data, size_t bytes)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = ARENA_NEW(arena, char, (bytes + 2) / 3 * 4 + 1), *out = text;
    for (size_t i = 0; i < bytes; i += 3) {
        size_t left = bytes - i;
        unsigned second = left > 1 ? data[i + 1] : 0, third = left > 2 ? data[i + 2] : 0;
        unsigned bits = (unsigned)data[i] << 16 | second << 8 | third;
        *out++ = DIGITS[bits >> 18];
        *out++ = DIGITS[bits >> 12 & 63];
        *out++ = left > 1 ? DIGITS[bits >> 6 & 63] : '=';
        *out++ = left > 2 ? DIGITS[bits & 63] : '=';
    }
    assert(out == text + (bytes + 2) / 3 * 4);
    return text;
}

static const char *read_table(struct arena *arena, const char *name, struct err *err)
{
    size_t bytes = 0;
    const char *path = file_find_data(arena, "cost_models", name, "table", err);
    return path ? file_read(arena, path, FILE_BYTES_MAX, &bytes, err) : NULL;
}

// What else a plan could be made for: every shipped stack as its file has it, every shipped cluster
// with its devices in place.
static const char *choices_base64(struct arena *arena, struct err *err)
{
    struct json_writer writer = {.arena = arena};
    int count = 0;
    const char **names = file_list_data(arena, "cost_models/stacks", &count);
    json_open(&writer, NULL, '{');
    json_open(&writer, "stacks", '{');
    for (int i = 0; i < count && !err->kind; i++) {
        const struct stack *stack = stack_load(arena, names[i], err);
        if (stack) stack_write(&writer, names[i], stack);
    }
    json_close(&writer, '}');
    names = file_list_data(arena, "topologies", &count);
    json_open(&writer, "clusters", '{');
    for (int i = 0; i < count && !err->kind; i++) {
        const struct cluster *cluster = cluster_load(arena, names[i], err);
        if (cluster) cluster_write(&writer, names[i], cluster);
    }
    json_close(&writer, '}');
    json_close(&writer, '}');
    if (err->kind) return NULL;
    size_t bytes = 0;
    const unsigned char *packed = gzip_pack(arena, writer.text, strlen(writer.text), &bytes);
    return base64(arena, packed, bytes);
}

bool page_planner_load(struct arena *arena, const struct report_planner **planner, struct err *err)
{
    size_t bytes = 0;
    *planner = NULL;
    const char *path = file_find_built(arena, "wasm/planner.wasm.gz");
    if (!path) return true;
    const char *module = file_read(arena, path, FILE_BYTES_MAX, &bytes, err);
    const char *fabrics = read_table(arena, "fabrics", err);
    const char *bands = read_table(arena, "bands", err);
    const char *choices = err->kind ? NULL : choices_base64(arena, err);
    if (err->kind) return false;
    struct report_planner *found = ARENA_NEW(arena, struct report_planner, 1);
    found->style = STYLE;
    found->script = SCRIPT;
    found->module_base64 = base64(arena, (const unsigned char *)module, bytes);
    found->tables = arena_print(arena, "{\"fabrics\":%s,\"bands\":%s}", fabrics, bands);
    found->choices_base64 = choices;
    *planner = found;
    return true;
}
