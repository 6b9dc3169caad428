#pragma once
#include "core/file.h"
#include "validation/fit.h"

// Fitted constants as data files. A file keeps its text: only the numbers and the provenance
// entries of fitted constants change, so that a difference shows what was fitted. An entry says
// which fit, and after "; prior: " what the value before any run rested on; a later fit replaces
// the one and keeps the other.

// The text of the file that `object` stands in, with the fitted constants of `owner_name` (of this
// kind), which `object` describes: a device, a stack or a row of the fabrics. Values have four
// significant digits. `source`: which fit. NULL and a set `err` where a key is missing. Lives in
// `arena`.
MUST_CHECK char *fit_edit_text(struct arena *arena, const struct json *object,
                               const struct fit_result *result, enum constant_owner owner,
                               const char *owner_name, const char *source, struct err *err);

// The texts of every device, every stack and the fabrics that have fitted constants, below `folder`
// where the source tree has them ("topologies/devices/NAME.json"), made from the shipped files.
// `count` of them; NULL and a set `err` on failure. They live in `arena`.
MUST_CHECK struct file_text *fit_files_text(struct arena *arena, const struct fit_result *result,
                                            const char *folder, const char *source, int *count,
                                            struct err *err);
