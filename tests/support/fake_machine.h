#pragma once
#include "reports/machine/machine.h"

// A machine whose clock is a formula: a back end and a transport that compute nothing and take
// exactly as long as they are said to. What calibration finds is then known beforehand.

struct fake_machine {
    double now_s;
    double slowness;  // of the wall over the processor's time; 1: alone on the machine
    // of the kernels
    double gemm_flop_per_s, gemm_k_ramp;
    double attention_flop_per_s;
    double memory_bytes_per_s, update_bytes_per_s, copy_bytes_per_s;
    double call_s;
    // of the collectives: as a ring
    double latency_s, bus_bytes_per_s;
    int rank_count;
    int run_count;
    // of a device (fake_device_request): products in two precisions, bf16 and fp32, copies to the
    // host and from it, what the host needs for a call, and memory
    double bf16_flop_per_s, pcie_bytes_per_s, host_call_s;
    double host_s;  // the host is ahead of the device by so much less
    int64_t held_bytes;
    bool is_low_precision;  // bf16 is running
    const char *fails_at;   // name of the op that fails; NULL: none
};

// A core of a processor, and a device of the size of an H200; no real one was measured for either.
extern const struct fake_machine FAKE_PROCESSOR, FAKE_DEVICE;

// There is one at a time, for tables of functions have no place for it.
void fake_machine_use(struct fake_machine *machine);
struct calibrate_request fake_machine_request(struct fake_machine *machine);
// The same machine as a device with marks, which works on its own beside the host.
struct calibrate_request fake_device_request(struct fake_machine *machine);
