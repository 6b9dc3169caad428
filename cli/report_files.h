#pragma once
#include "core/err.h"

struct report_facts;

// Writes index.html and the figures into the folder, which is made if absent; the page comes last.
// Without gnuplot there are no figures beside the page, which a line on stderr says. Says what was
// written on stdout. False with ERR_SYSTEM.
MUST_CHECK bool report_files_write(struct arena *arena, const struct report_facts *facts,
                                   const char *folder, struct err *err);
