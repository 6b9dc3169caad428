#pragma once
#include "core/err.h"
#include "exchange/settings.h"

#include <stdint.h>

// The kinds of files that options stand in. Reading takes keys and values as they are and judges
// none of them; what is not the syntax is ERR_INPUT with its line.

struct syntax_head {
    const char *const *lines;  // of the comment on top, one each
    int line_count;
    const char *opening;  // lines above the options; NULL: none
    int64_t nodes, gpus_per_node;
};

struct exchange_syntax {
    const char *suffixes;  // ".json"; "" takes what nobody else does
    char *(*write)(struct arena *arena, const struct settings *settings,
                   const struct syntax_head *head);
    bool (*read)(const char *path, const char *text, struct settings *settings, struct err *err);
};

// Options of a command line: a shell script, with variables, arrays and continued lines, or the
// options alone. What starts them says GPUs ("--nnodes", "--nproc-per-node", or variables of such
// names): these are the setting "nnodes*nproc".
extern const struct exchange_syntax ARGUMENTS_SYNTAX;
extern const struct exchange_syntax JSON_SYNTAX;    // keys of objects joined by '.'
extern const struct exchange_syntax TOML_SYNTAX;    // "section.key"
extern const struct exchange_syntax YAML_SYNTAX;    // keys of maps joined by '.'
extern const struct exchange_syntax PYTHON_SYNTAX;  // keyword arguments of a call: "Call.key"
