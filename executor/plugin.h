#pragma once
#include "core/err.h"

// Plug-ins of the executor are shared objects in the one folder that belongs to the binary:
// BASE/lib/meshwright for one that stands in BASE/bin, wherever the tree was moved to, the binary's
// own folder for any other (the build tree). Links to the binary are resolved first.
// MESHWRIGHT_PLUGINS names another, by its whole path. Nothing is opened from a parent folder, the
// working directory or a path that the loader is told: whoever can write there must not run code
// here.

enum { PLUGIN_FOLDER_BYTES = 4096 };

// That folder. False when the system does not say where the binary is.
bool plugin_folder(char folder[PLUGIN_FOLDER_BYTES]);
// dlopen's handle; NULL when the file is not there (*is_there false) or does not open (dlerror says
// why). `flags` are dlopen's.
void *plugin_open(const char *file, int flags, bool *is_there);
