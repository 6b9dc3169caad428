#pragma once

// What --version prints and every plan records as its maker.
#define MESHWRIGHT_VERSION "0.1.0"
