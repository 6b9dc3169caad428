#pragma once
#include "core/json.h"

#include <stdint.h>

// Writing JSON as text with stable bytes: two-space indentation, keys in the order they are
// written, numbers as the shortest decimal that reads back to the same double (independent of the
// locale), integers up to 2^53 in full. NaN and infinity are bugs (assert). Arrays of numbers and
// texts are kept on one line (json_open_array with `flat`).
//
// struct json_writer w = {.arena = arena};
// json_open(&w, NULL, '{');  json_put_f64(&w, "step_s", 1.5);  json_close(&w, '}');

struct json_writer {
    struct arena *arena;
    char *text;  // NUL-terminated, in the arena
    size_t length, capacity;
    int depth;
    int flat_depth;   // > 0 inside a container that is kept on one line
    bool has_member;  // the open container already holds something
};

// `key` is NULL inside an array and for the root. `bracket` is '{' or '['.
void json_open(struct json_writer *writer, const char *key, char bracket);
void json_open_flat(struct json_writer *writer, const char *key, char bracket);
void json_close(struct json_writer *writer, char bracket);
void json_put_text(struct json_writer *writer, const char *key, const char *text);  // NULL: null
void json_put_f64(struct json_writer *writer, const char *key, double value);
// The same of a number that may be none or without end, which is null.
void json_put_known(struct json_writer *writer, const char *key, double value);
void json_put_i64(struct json_writer *writer, const char *key, int64_t value);
void json_put_bool(struct json_writer *writer, const char *key, bool value);
void json_put_null(struct json_writer *writer, const char *key);
// Arrays on one line.
void json_put_f64s(struct json_writer *writer, const char *key, const double *values, int count);
void json_put_i64s(struct json_writer *writer, const char *key, const int64_t *values, int count);
void json_put_ints(struct json_writer *writer, const char *key, const int *values, int count);
void json_put_texts(struct json_writer *writer, const char *key, const char *const *texts,
                    int count);
// The members of a record that the rows of `fields` describe (core/json.h), in their order; an
// optional one that is 0, false or NULL is absent. Ends at a row that is read by hand, which it
// returns, or at the last one.
const struct json_field *json_put_fields(struct json_writer *writer,
                                         const struct json_field *fields, const void *record);
// A value that was read, with everything below it, as it is (null for a cursor without a value).
void json_put_copy(struct json_writer *writer, const char *key, const struct json *value);
