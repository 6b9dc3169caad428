#include "library/serve.h"

#include "core/version.h"
#include "library/inquiry.h"
#include "library/serve_tools.h"

#include <assert.h>
#include <string.h>

// JSON-RPC's own numbers.
enum {
    PARSE_ERROR = -32700,
    WRONG_REQUEST = -32600,
    NO_METHOD = -32601,
    WRONG_PARAMETERS = -32602
};

static const char PROTOCOL[] = "2025-06-18";

static struct json_writer begin(struct arena *arena, const struct json *id)
{
    struct json_writer writer = {.arena = arena};
    json_open_flat(&writer, NULL, '{');
    json_put_text(&writer, "jsonrpc", "2.0");
    if (id)
        json_put_copy(&writer, "id", id);
    else
        json_put_null(&writer, "id");
    return writer;
}

// One message is one line: the writer ends a document with a new line.
static char *end(struct json_writer *writer)
{
    json_close(writer, '}');
    writer->text[strcspn(writer->text, "\n")] = '\0';
    return writer->text;
}

static char *fail(struct arena *arena, const struct json *id, int code, const char *message)
{
    assert(code < 0 && *message && "numbers of JSON-RPC's own errors are below 0");
    struct json_writer writer = begin(arena, id);
    json_open_flat(&writer, "error", '{');
    json_put_i64(&writer, "code", code);
    json_put_text(&writer, "message", message);
    json_close(&writer, '}');
    return end(&writer);
}

static char *initialize(struct arena *arena, const struct json *id)
{
    struct json_writer writer = begin(arena, id);
    json_open_flat(&writer, "result", '{');
    json_put_text(&writer, "protocolVersion", PROTOCOL);
    json_open_flat(&writer, "capabilities", '{');
    json_open_flat(&writer, "tools", '{');
    json_close(&writer, '}');
    json_close(&writer, '}');
    json_open_flat(&writer, "serverInfo", '{');
    json_put_text(&writer, "name", "meshwright");
    json_put_text(&writer, "version", MESHWRIGHT_VERSION);
    json_close(&writer, '}');
    json_put_text(
        &writer, "instructions",
        "Plans large training runs: ask plan first, then why, what_if, memory and compare "
        "on the file that it saved. Quote the band and the proof with every figure.");
    json_close(&writer, '}');
    return end(&writer);
}

static char *list_tools(struct arena *arena, const struct json *id)
{
    struct json_writer writer = begin(arena, id);
    json_open_flat(&writer, "result", '{');
    json_open_flat(&writer, "tools", '[');
    for (const struct serve_tool *tool = SERVE_TOOLS; tool->name; tool++) {
        struct json_document document;
        struct err err = {0};
        json_open_flat(&writer, NULL, '{');
        json_put_text(&writer, "name", tool->name);
        json_put_text(&writer, "description", tool->description);
        if (json_parse(arena, tool->name, tool->schema, strlen(tool->schema), &document, &err)) {
            const struct json root = json_root(&document);
            json_put_copy(&writer, "inputSchema", &root);
        }
        json_close(&writer, '}');
    }
    json_close(&writer, ']');
    json_close(&writer, '}');
    return end(&writer);
}

// What a tool finds wrong is its answer, so that who asked can mend it.
static char *call_tool(struct arena *arena, const struct json *id, const struct json *parameters)
{
    struct err err = {0};
    const struct json name = json_get(parameters, "name", &err);
    const char *called = err.kind ? NULL : json_text(&name, &err);
    const struct json arguments = err.kind ? name : json_get(parameters, "arguments", &err);
    if (err.kind) return fail(arena, id, WRONG_PARAMETERS, err.text);
    const struct serve_tool *tool = SERVE_TOOLS;
    while (tool->name && strcmp(tool->name, called) != 0)
        tool++;
    if (!tool->name)
        return fail(arena, id, WRONG_PARAMETERS,
                    arena_print(arena, "no tool is called %s", called));
    struct serve_answer answer = {.text = "", .structured = {.arena = arena}};
    json_open_flat(&answer.structured, NULL, '{');
    bool done = tool->answer(arena, &arguments, &answer, &err);
    json_close(&answer.structured, '}');

    struct json_writer writer = begin(arena, id);
    json_open_flat(&writer, "result", '{');
    json_open_flat(&writer, "content", '[');
    json_open_flat(&writer, NULL, '{');
    json_put_text(&writer, "type", "text");
    json_put_text(&writer, "text", done ? answer.text : inquiry_members(err.text));
    json_close(&writer, '}');
    json_close(&writer, ']');
    struct json_document document;
    const char *text = answer.structured.text;
    if (done && json_parse(arena, "answer", text, strlen(text), &document, &err)) {
        const struct json root = json_root(&document);
        json_put_copy(&writer, "structuredContent", &root);
    }
    json_put_bool(&writer, "isError", !done);
    json_close(&writer, '}');
    return end(&writer);
}

char *serve_line(struct arena *arena, const char *line)
{
    struct json_document document;
    struct err err = {0};
    if (line[strspn(line, " \t\r\n")] == '\0') return NULL;
    if (!json_parse(arena, "request", line, strlen(line), &document, &err))
        return fail(arena, NULL, PARSE_ERROR, err.text);
    const struct json root = json_root(&document);
    if (!json_is_object(&root)) return fail(arena, NULL, WRONG_REQUEST, "expected an object");
    const struct json id = json_find(&root, "id"), method = json_find(&root, "method");
    const char *asked = json_is_text(&method) ? json_text(&method, &err) : NULL;
    if (!asked || err.kind)
        return id.value ? fail(arena, &id, WRONG_REQUEST, "\"method\" is missing") : NULL;
    // A notification has no id and gets no answer.
    if (!id.value) return NULL;
    if (strcmp(asked, "initialize") == 0) return initialize(arena, &id);
    if (strcmp(asked, "tools/list") == 0) return list_tools(arena, &id);
    const struct json parameters = json_find(&root, "params");
    if (strcmp(asked, "tools/call") == 0) {
        if (!json_is_object(&parameters))
            return fail(arena, &id, WRONG_PARAMETERS, "\"params\" is missing");
        return call_tool(arena, &id, &parameters);
    }
    if (strcmp(asked, "ping") == 0) {
        struct json_writer writer = begin(arena, &id);
        json_open_flat(&writer, "result", '{');
        json_close(&writer, '}');
        return end(&writer);
    }
    return fail(arena, &id, NO_METHOD, arena_print(arena, "no method is called %s", asked));
}
