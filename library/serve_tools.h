#pragma once
#include "core/json_write.h"

// The tools of library/serve.h. One row of a table each: name, what it is for, the schema of its
// arguments, and the function that answers.

struct serve_answer {
    const char *text;               // for people and models, a few lines
    struct json_writer structured;  // an open object, which the caller closes
};

struct serve_tool {
    const char *name, *description, *schema;  // of the arguments: a JSON object
    bool (*answer)(struct arena *arena, const struct json *arguments, struct serve_answer *answer,
                   struct err *err);
};
// Ends with a row of zeros.
extern const struct serve_tool SERVE_TOOLS[];
