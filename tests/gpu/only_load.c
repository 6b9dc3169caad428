// A driver's library that loads modules and launches nothing. Over the toolkit's stub, under
// another name, it lets cuDNN compile plans on a machine without a device: what it compiled it
// loads at once, and the stub refuses that. Handles are numbers that nobody looks behind. With
// ONLY_LOAD_TRACE in the environment the kernels of the plans are named on standard error.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

enum { LIBRARY = 0x1000, KERNEL = 0x2000, FUNCTION = 0x3000, MODULE = 0x4000 };
enum { OK = 0, NOT_FOUND = 500 };

static int give(void **handle, uintptr_t number, const char *name)
{
    if (name && getenv("ONLY_LOAD_TRACE")) fprintf(stderr, "%s\n", name);
    *handle = (void *)number;
    return OK;
}

int cuLibraryLoadData(void **library, const void *code, void *options, void **values,
                      unsigned count, void *more, void **more_values, unsigned more_count);
int cuLibraryLoadData(void **library, const void *code, void *options, void **values,
                      unsigned count, void *more, void **more_values, unsigned more_count)
{
    (void)code, (void)options, (void)values, (void)count;
    (void)more, (void)more_values, (void)more_count;
    return give(library, LIBRARY, NULL);
}

int cuLibraryUnload(void *library);
int cuLibraryUnload(void *library)
{
    (void)library;
    return OK;
}

int cuLibraryGetKernel(void **kernel, void *library, const char *name);
int cuLibraryGetKernel(void **kernel, void *library, const char *name)
{
    (void)library;
    return give(kernel, KERNEL, name);
}

int cuKernelGetFunction(void **function, void *kernel);
int cuKernelGetFunction(void **function, void *kernel)
{
    (void)kernel;
    return give(function, FUNCTION, NULL);
}

int cuKernelSetAttribute(int attribute, int value, void *kernel, int device);
int cuKernelSetAttribute(int attribute, int value, void *kernel, int device)
{
    (void)attribute, (void)value, (void)kernel, (void)device;
    return OK;
}

int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device);
int cuKernelGetAttribute(int *value, int attribute, void *kernel, int device)
{
    (void)attribute, (void)kernel, (void)device;
    *value = 0;
    return OK;
}

int cuFuncSetAttribute(void *function, int attribute, int value);
int cuFuncSetAttribute(void *function, int attribute, int value)
{
    (void)function, (void)attribute, (void)value;
    return OK;
}

int cuFuncGetAttribute(int *value, int attribute, void *function);
int cuFuncGetAttribute(int *value, int attribute, void *function)
{
    (void)attribute, (void)function;
    *value = 0;
    return OK;
}

int cuModuleLoadData(void **module, const void *code);
int cuModuleLoadData(void **module, const void *code)
{
    (void)code;
    return give(module, MODULE, NULL);
}

int cuModuleLoadDataEx(void **module, const void *code, unsigned count, void *options,
                       void **values);
int cuModuleLoadDataEx(void **module, const void *code, unsigned count, void *options,
                       void **values)
{
    (void)count, (void)options, (void)values;
    return cuModuleLoadData(module, code);
}

int cuModuleGetFunction(void **function, void *module, const char *name);
int cuModuleGetFunction(void **function, void *module, const char *name)
{
    (void)module;
    return give(function, FUNCTION, name);
}

int cuModuleUnload(void *module);
int cuModuleUnload(void *module)
{
    (void)module;
    return OK;
}

// Everything else is the stub's.
int cuGetProcAddress(const char *name, void **address, int version, uint64_t flags);
int cuGetProcAddress(const char *name, void **address, int version, uint64_t flags)
{
    (void)version, (void)flags;
    *address = dlsym(dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD), name);
    return *address ? OK : NOT_FOUND;
}

int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status);
int cuGetProcAddress_v2(const char *name, void **address, int version, uint64_t flags, int *status)
{
    int code = cuGetProcAddress(name, address, version, flags);
    if (status) *status = code ? 1 : 0;
    return code;
}
