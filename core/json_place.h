#pragma once
#include "core/json.h"

// What the parts of the JSON reader share; nobody else includes this.

// False after an error, without a value, or with an error when the value is no object.
bool json_expect_object(const struct json *value, struct err *err);
// An error that stands at the member's key instead of its value.
bool json_fail_key(const struct json *value, struct err *err, const char *why);

// What is wrong with a document, as one line.
struct json_faults {
    struct err all;    // the first fault, and the others behind it as long as there is room
    int untold_count;  // no room
    struct err one;    // where a fault is made before it is added
};
// Takes the fault in `one`, if there is any.
void json_faults_take(struct json_faults *faults, const struct json *at);
void json_faults_report(const struct json_faults *faults, struct err *err);

// Adds what keys of the object are duplicate, unknown (`strict`) and missing.
void json_find_faults(const struct json *object, const struct json_shape *shape, bool strict,
                      struct json_faults *faults);
// Reads the fields, or only looks at them (`into` NULL).
void json_read_fields(const struct json *object, const struct json_field *fields, void *into,
                      struct json_faults *faults);
const char *json_nearest_key(const struct json_field *fields, const char *key, int *distance);
const struct json_field *json_field_of(const struct json_field *fields, const char *key);
