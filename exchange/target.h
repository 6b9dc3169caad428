#pragma once
#include "exchange/option_table.h"
#include "exchange/rows.h"

// A program that plans are exported to and imported from: one file of exchange/targets/ and a line
// in targets.inc.

struct exchange_syntax;

// A second file of options, of settings whose keys begin with `prefix`; an option of the first file
// names it.
struct exchange_beside {
    const char *file;  // NULL: there is none
    const struct exchange_syntax *syntax;
    const char *option;   // "--deepspeed_config"
    const char *prefix;   // "ds."
    const char *options;  // name of the table of its options, without the prefix
};

// What a target is told, how, and what starts it.
struct exchange_target {
    const char *name;     // "megatron"
    const char *program;  // "Megatron-LM"
    const char *version;  // that the rows are of
    const char *stack;    // that plans for it are priced with
    const char *file;     // of the options: "arguments.sh"
    const struct exchange_syntax *syntax;
    struct exchange_beside beside;
    const char *opening;  // lines that stand above the options; NULL: none
    const char *starter;  // what starts a node's processes, as struct launch tells; NULL: torchrun
    const char *command;  // what a launcher starts, with "{}" for how the file is named to it
    const char *options;  // name of the table of its options (exchange/option_table.h); NULL: none
    bool has_model;       // the model is told by options
    bool has_recipes;     // Python files of recipes are read as well
    const struct exchange_row *rows;
    const struct exchange_row *environment;  // rows of "NAME=VALUE"; NULL: none
    // What several options say together, as one more setting (a name that no file has), before the
    // rows are asked; NULL: nothing.
    void (*prepare)(struct settings *settings);
    // The other way: what of the options is written otherwise for these facts; NULL: nothing.
    void (*finish)(const struct facts *facts, struct settings *settings);
    // Whether a fact means something to this program; NULL: as exchange/facts.inc says.
    bool (*matters)(const struct facts *facts, const char *name);
    // Whether a file of these options is one of the target's: how many keys only it has.
    const char *known_by;  // keys that only its files have, joined by blanks
};

extern const struct exchange_target *const TARGETS[];  // ends with NULL
// By name; NULL and ERR_USAGE with all names where there is none.
MUST_CHECK const struct exchange_target *target_find(const char *name, struct err *err);
// Whether the program has anything to start on this cluster's devices: graph compilers are for
// their own. Else `why` says so. `stack` is that of the target.
MUST_CHECK bool target_runs_on(struct arena *arena, const struct exchange_target *target,
                               const struct stack *stack, const struct cluster *cluster,
                               const char **why);
// "a|b|c"
const char *target_names(struct arena *arena);

// The facts that mean something to the target.
void target_clean(const struct exchange_target *target, struct facts *facts);

// The options of a plan's facts, and what the target cannot express.
void target_export(const struct exchange_target *target, const struct facts *facts,
                   struct settings *settings, struct refusals *refusals);
// The settings of the first file or of the one beside it, there without its prefix.
struct settings target_part(struct arena *arena, const struct exchange_target *target,
                            const struct settings *settings, bool is_beside);
// What the program's tables say of an option; false: they have none of this name, or there is none.
bool target_option(struct arena *arena, const struct exchange_target *target, const char *key,
                   struct option_fact *fact);
// And back: adds those that were read from the file beside.
void target_join(const struct exchange_target *target, const struct settings *beside,
                 struct settings *settings);
// The facts of options.
void target_import(const struct exchange_target *target, struct settings *settings,
                   struct facts *facts);
