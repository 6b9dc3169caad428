#pragma once
#include "executor/backend.h"

// The CUDA back end with its kernels on the host (tests/gpu/emulate.h), at a precision; or, when
// MESHWRIGHT_TEST_GPU is set, the one on this machine's GPU.
const struct backend *emulated_backend(enum precision precision);
