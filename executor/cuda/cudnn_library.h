#pragma once
#include <cudnn.h>

// cuDNN is opened when a device is, not linked: a machine without it loses fused attention and
// keeps the back end. These are all functions of it that are called, by their names without
// "cudnn".
#define CUDNN_FUNCTIONS(X)      \
    X(Create)                   \
    X(Destroy)                  \
    X(GetVersion)               \
    X(GetErrorString)           \
    X(SetStream)                \
    X(BackendCreateDescriptor)  \
    X(BackendDestroyDescriptor) \
    X(BackendSetAttribute)      \
    X(BackendGetAttribute)      \
    X(BackendFinalize)          \
    X(BackendExecute)

struct cudnn_functions {
#define CUDNN_MEMBER(name) __typeof__(cudnn##name) *name;
    CUDNN_FUNCTIONS(CUDNN_MEMBER)
#undef CUDNN_MEMBER
};

// NULL, or why there is no cuDNN; static. Once it is open it stays open.
const char *cudnn_open(void);
// After cudnn_open has said NULL.
const struct cudnn_functions *cudnn(void);
