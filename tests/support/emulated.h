#pragma once
#include "executor/communicators/communicator.h"

// The CUDA back end with its kernels on the host (tests/gpu/emulate.h), at a precision; or, when
// MESHWRIGHT_TEST_GPU is set, the one on this machine's GPU.
const struct backend *emulated_backend(enum precision precision);

// How many groups of products the emulation has run; -1 on a GPU.
int64_t emulated_groups(void);

// The transport `nccl` on the emulation of NCCL (tests/gpu/nccl.h), beside what else there is.
MUST_CHECK const struct transport *nccl_emulated(const struct communicator_request *request,
                                                 struct communicator **communicator,
                                                 struct err *err);
