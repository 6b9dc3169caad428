#pragma once
#include "core/json.h"

// What the two halves of the JSON reader share; nobody else includes this.

// The member under `key`, or a cursor without a value.
struct json json_find(const struct json *object, const char *key);
// False after an error, without a value, or with an error when the value is no object.
bool json_expect_object(const struct json *value, struct err *err);
// An error that stands at the member's key instead of its value.
bool json_fail_key(const struct json *value, struct err *err, const char *why);
