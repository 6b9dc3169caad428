#pragma once
#include "core/err.h"

#include <stdint.h>

struct cJSON;

// Reading JSON with exact places. A document is parsed once by cJSON; `struct json` is a cursor
// (value, parent, where it stands in the parent). Line and column are found by walking the text
// again, and only when an error is reported:
//   ring8.json:3:55: $.nodes[1].gpus: expected a number, found a string
// Refused before parsing: NUL bytes, nesting deeper than JSON_DEPTH_MAX, files over 64 MiB.
// Keys are compared with case (cJSON's own lookup ignores it). Whole numbers are exact to 2^53;
// past that an integer field is an error.

enum { JSON_DEPTH_MAX = 64 };

struct json_document {
    const char *path;  // as given; "-" never means stdin
    const char *text;
    size_t text_bytes;
    int line;            // of the file, where the text starts; from 1
    struct cJSON *root;  // a copy in the arena, children side by side
};

struct json {
    const struct json_document *document;
    const struct json *parent;  // NULL at the root; must outlive this cursor
    const struct cJSON *value;
    int ordinal;  // position among the parent's members
};

enum json_type {
    JSON_TYPE_I64,
    JSON_TYPE_INT,
    JSON_TYPE_F64,
    JSON_TYPE_BOOL,
    JSON_TYPE_TEXT,
    JSON_TYPE_ANY
};

// One line a field: the key is the member's name. `low` and `high` are inclusive.
// JSON_ANY declares a key that the caller reads by hand (an object or array).
struct json_field {
    const char *key;
    enum json_type type;
    size_t offset;
    double low, high;
    bool optional;  // absent: the member is left as it is, so set defaults before json_read
};

#define JSON_I64(type, member, low, high) \
#member, JSON_TYPE_I64, offsetof(type, member), low, high, false
#define JSON_INT(type, member, low, high) \
#member, JSON_TYPE_INT, offsetof(type, member), low, high, false
#define JSON_F64(type, member, low, high) \
#member, JSON_TYPE_F64, offsetof(type, member), low, high, false
#define JSON_BOOL(type, member) #member, JSON_TYPE_BOOL, offsetof(type, member), 0, 0, false
#define JSON_TEXT(type, member) #member, JSON_TYPE_TEXT, offsetof(type, member), 0, 0, false
#define JSON_ANY(name) name, JSON_TYPE_ANY, 0, 0, 0, false
#define JSON_OPT_I64(type, member, low, high) \
#member, JSON_TYPE_I64, offsetof(type, member), low, high, true
#define JSON_OPT_INT(type, member, low, high) \
#member, JSON_TYPE_INT, offsetof(type, member), low, high, true
#define JSON_OPT_F64(type, member, low, high) \
#member, JSON_TYPE_F64, offsetof(type, member), low, high, true
#define JSON_OPT_BOOL(type, member) #member, JSON_TYPE_BOOL, offsetof(type, member), 0, 0, true
#define JSON_OPT_TEXT(type, member) #member, JSON_TYPE_TEXT, offsetof(type, member), 0, 0, true
#define JSON_OPT_ANY(name) name, JSON_TYPE_ANY, 0, 0, 0, true

// Reads and parses a file. False with ERR_INPUT for a missing, unreadable or malformed one. The
// document and every text read from it live as long as `arena`.
MUST_CHECK bool json_load(struct arena *arena, const char *path, struct json_document *document,
                          struct err *err);
// The same from memory; `path` names it in errors. `text` need not end in NUL.
MUST_CHECK bool json_parse(struct arena *arena, const char *path, const char *text,
                           size_t text_bytes, struct json_document *document, struct err *err);
// The same for a text that starts at this line of its file (JSON lines).
MUST_CHECK bool json_parse_from(struct arena *arena, const char *path, int line, const char *text,
                                size_t text_bytes, struct json_document *document, struct err *err);
struct json json_root(const struct json_document *document);

// Strict reading of an object: unknown, missing, duplicate and mistyped keys and values out of
// range are errors at their place, all of the object in one line:
//   mine.json:4:5: $.nodes[0]: missing "gpus", "device"; 5:7: $.nodes[0].host.core: unknown key,
//   ...
// What is too much for a line is counted: "; and 3 more". The table ends with a {0} row.
void json_read(const struct json *object, const struct json_field *fields, void *into,
               struct err *err);
// The same, but unknown keys are allowed (Hugging Face configs). A key that is not known but one
// edit away from a known one is passed to `warn` (may be NULL), once each.
void json_read_lenient(const struct json *object, const struct json_field *fields, void *into,
                       void (*warn)(void *context, const char *line), void *context,
                       struct err *err);

// What stands below an object, so that all that is wrong in a file is found at once: a JSON_ANY row
// of `fields` may have a part that says what it holds. Parts end with a {0} row; NULL: none.
enum json_part_kind {
    JSON_PART_OBJECT,
    JSON_PART_LIST,   // an array of objects
    JSON_PART_NAMED,  // an object, or a text that names one elsewhere
};
struct json_shape {
    const struct json_field *fields;
    const struct json_part *parts;
};
struct json_part {
    const char *key;
    enum json_part_kind kind;
    const struct json_shape *shape;  // NULL: of a text alone (JSON_PART_NAMED)
    // Whether this object must have the part, where that depends on its other members; the cursor
    // has no value where the object itself is missing. NULL: as the row of `fields` says.
    bool (*is_needed)(const struct json *object);
};
// Checks an object and all below it as json_read would, every fault in one line; a part that is
// missing is told by the keys that it needs ("intra.kind"). What it lets pass json_read reads.
void json_check(const struct json *object, const struct json_shape *shape, struct err *err);

// Navigation by hand. A missing key or wrong type sets `err` at the right place; the returned
// cursor then holds a NULL value, and reading from it does nothing.
struct json json_get(const struct json *object, const char *key, struct err *err);
bool json_has(const struct json *object, const char *key);  // present and not null
// The member, or a cursor without a value where there is none; never an error.
struct json json_find(const struct json *object, const char *key);
// How many a json_item() of this may ask for: of an array, of an object; anything else is an error.
int json_count(const struct json *array, struct err *err);
int json_member_count(const struct json *object, struct err *err);
struct json json_item(const struct json *value, int index);
const char *json_key(const struct json *member);  // the key under which a member stands
bool json_is_text(const struct json *value);
bool json_is_number(const struct json *value);
bool json_is_object(const struct json *value);
bool json_is_array(const struct json *value);
// A text that is plain (core/plain.h) and not too long; any other is an error at its place.
const char *json_text(const struct json *value, struct err *err);
// Any text, however long and whatever its characters: data, which is shown to nobody.
const char *json_data_text(const struct json *value, struct err *err);
double json_f64(const struct json *value, double low, double high, struct err *err);
int64_t json_i64(const struct json *value, double low, double high, struct err *err);
bool json_bool(const struct json *value, struct err *err);

// Where the value's text stands in its document.
struct json_span {
    size_t offset, bytes;
};
struct json_span json_span_of(const struct json *value);

// An error at this value: "path:line:column: $.a.b[1]: " and the formatted rest. Returns false.
bool json_fail(const struct json *value, struct err *err, const char *format, ...)
    PRINTF_LIKE(3, 4);
