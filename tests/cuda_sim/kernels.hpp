// The kernels that the simulated driver can launch: the project's own, probes for its tests, and
// that of examples/train_cuda.cpp.
#pragma once

#include "engine.hpp"

#include "../../kernels/assemble.cu"
#include "../../kernels/copy.cu"
#include "../../kernels/digest.cu"
#include "../../kernels/lz4.cu"
#include "probe.cu"
#include "train_step.cu"

namespace sim {

template <auto kernel>
struct Launcher;

template <class... A, void (*kernel)(A...)>
struct Launcher<kernel> {
  static void launch(dim3 grid, dim3 block, size_t shared, void** parameters,
                     simt::Schedule schedule) {
    simt::launch_params(kernel, grid, block, shared, parameters, schedule);
  }
  static constexpr Kernel row(const char* name) {
    static_assert(sizeof...(A) <= 16, "at most 16 parameters");
    static_assert((0 + ... + ((sizeof(A) + 15) / 16 * 16)) <= kParameterBytes, "parameters fit");
    return {name, sizeof...(A), {uint16_t(sizeof(A))...}, launch};
  }
};

#define SIM_KERNEL(name) Launcher<&name>::row(#name)

inline const Kernel kernel_table[] = {
    SIM_KERNEL(wavetrain_assemble),
    SIM_KERNEL(wavetrain_copy),
    SIM_KERNEL(wavetrain_digest),
    SIM_KERNEL(wavetrain_lz4),
    SIM_KERNEL(simcuda_probe_add),
    SIM_KERNEL(simcuda_probe_write),
    SIM_KERNEL(train_step),
};

}  // namespace sim
