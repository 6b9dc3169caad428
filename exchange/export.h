#pragma once
#include "core/file.h"
#include "exchange/launchers.h"
#include "exchange/target.h"
#include "simulator/evaluate.h"

// The files of an export: options, environment, what starts it, which rank does what, the config of
// the model, the plan itself. One file a concern.

enum { EXPORT_FILE_MAX = 8 };

struct export_request {
    const struct exchange_target *target;
    const struct launcher *launcher;
    const struct stack *stack;                  // the target's, as it runs the model
    const struct evaluation_request *question;  // the plan, with that stack or one whose gradients
                                                // are narrower
    const struct evaluation *evaluation;
    const struct facts *facts;
    const struct settings *settings;
    const char *plan_text;  // plan.json
    const char *version;    // of meshwright
};

// Fills `files` with paths below `folder`; returns how many. The plan is the last.
int export_files(struct arena *arena, const struct export_request *request, const char *folder,
                 struct file_text files[EXPORT_FILE_MAX]);
