#include "executor/cuda/device_code.h"

// Takes time and threads, nothing else. Bound by the clock. A block has so many threads,
// ROW_THREADS, that no large GEMM fits beside it on its multiprocessor.

DEVICE int64_t now_ns(void)
{
#if defined(__CUDACC__)
    uint64_t ns;
    asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
    return (int64_t)ns;
#else
    return emulate_ns();
#endif
}

ROW_KERNEL(delay, struct delay_args, a)
{
    if (threadIdx.x == 0 && a.marks) *a.origin_ns = now_ns();
    if (threadIdx.x == 0 && !a.marks) {
        int64_t end = (a.origin_ns ? *a.origin_ns : now_ns()) + a.ns;
        while (now_ns() < end) {
        }
    }
    __syncthreads();
}

void kernel_delay(struct CUstream_st *stream, const struct delay_args *args)
{
    LAUNCH(delay, *args, args->blocks, ROW_THREADS, stream);
}
