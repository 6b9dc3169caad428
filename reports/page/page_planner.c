#include "reports/page/page_planner.h"
#include "core/file.h"

static const char STYLE[] =
#include "reports/page/what_if.css.inc"
    ;
static const char SCRIPT[] =
#include "reports/page/planner.js.inc"
#include "reports/page/what_if.js.inc"
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
    return text;
}

static const char *read_table(struct arena *arena, const char *name, struct err *err)
{
    size_t bytes = 0;
    const char *path = file_find_data(arena, "cost_models", name, "table", err);
    return path ? file_read(arena, path, FILE_BYTES_MAX, &bytes, err) : NULL;
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
    if (err->kind) return false;
    struct report_planner *found = ARENA_NEW(arena, struct report_planner, 1);
    found->style = STYLE;
    found->script = SCRIPT;
    found->module_base64 = base64(arena, (const unsigned char *)module, bytes);
    found->tables = arena_print(arena, "{\"fabrics\":%s,\"bands\":%s}", fabrics, bands);
    *planner = found;
    return true;
}
