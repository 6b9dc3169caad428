#pragma once
#include "core/err.h"

// Plug-ins of the executor are shared objects in the one folder that belongs to the binary:
// PREFIX/lib/meshwright for the one that is installed as PREFIX/bin/meshwright, the binary's own
// folder for any other (the build tree). Links to the binary are resolved first. Nothing is opened
// from a parent folder, the working directory or a path of the environment: whoever can write
// there must not run code here.

enum { PLUGIN_FOLDER_BYTES = 4096 };

// That folder. False when the system does not say where the binary is.
bool plugin_folder(char folder[PLUGIN_FOLDER_BYTES]);
// dlopen's handle; NULL when the file is not there (*is_there false) or does not open (dlerror says
// why). `flags` are dlopen's.
void *plugin_open(const char *file, int flags, bool *is_there);
