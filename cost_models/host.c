#include "cost_models/host.h"
#include "core/real.h"
#include "cost_models/step.h"

#include <assert.h>
#include <math.h>

// Launching and computing overlap: the p-norm of both (p of the stack, else 3) less the device's
// own.
double host_wait_s(const struct stack *stack, double device_s, double host_s)
{
    if (device_s <= 0 || host_s <= 0) return fmax(host_s, 0);
    double large = fmax(device_s, host_s), ratio = fmin(device_s, host_s) / large;
    double norm = stack->host_norm;
    double both = norm > 0 ? real_power(1 + real_power(ratio, norm), 1 / norm)
                           : real_cube_root(1 + ratio * ratio * ratio);
    return large * both - device_s;
}

void host_waits(const struct stack *stack, const double device_s[PHASE_COUNT],
                const double host_s[PHASE_COUNT], double wait_s[PHASE_COUNT])
{
    double all_device_s = 0, all_host_s = 0, alone_s = 0;
    for (int phase = 0; phase < PHASE_COUNT; phase++) {
        wait_s[phase] = host_wait_s(stack, device_s[phase], host_s[phase]);
        all_device_s += device_s[phase];
        all_host_s += host_s[phase];
        alone_s += wait_s[phase];
    }
    if (stack->host_norm <= 0 || alone_s <= 0) return;
    double all_s = host_wait_s(stack, all_device_s, all_host_s);
    assert(all_s <= alone_s + 1e-9 * all_device_s && "a norm of sums is below the sum of norms");
    for (int phase = 0; phase < PHASE_COUNT; phase++)
        wait_s[phase] *= fmin(1, all_s / alone_s);
}

// W sends and receives nothing.
void step_add_host(const struct stack *stack, int stage_count, struct chunk_price *chunk)
{
    assert(stage_count >= 1 && stack->host_task_s >= 0);
    if (stage_count == 1) return;
    chunk->phase_s[PHASE_FORWARD][PART_COMPUTE] += stack->host_task_s;
    chunk->phase_s[PHASE_BACKWARD][PART_COMPUTE] += stack->host_task_s;
}
