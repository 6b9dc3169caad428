#pragma once
#include "core/err.h"

// Plug-ins of the executor: shared objects beside the binary, beside the folder it is in (tests),
// or in PREFIX/lib/meshwright.

// dlopen's handle; NULL when the file is not there (*is_there false) or does not open (dlerror says
// why). `flags` are dlopen's.
void *plugin_open(const char *file, int flags, bool *is_there);
