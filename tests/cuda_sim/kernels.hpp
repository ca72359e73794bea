// The kernels that the simulated driver can launch: the project's own, probes for its tests, and
// that of examples/train_cuda.cpp.
#pragma once

#include "engine.hpp"

#include <atomic>
#include <cstring>

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

inline std::atomic<unsigned> refused_one_in{0};

// The kernel's own launch, and refusals that no stream of a well-formed store makes.
struct Lz4Launcher : Launcher<&wavetrain_lz4> {
  static void launch(dim3 grid, dim3 block, size_t shared, void** parameters,
                     simt::Schedule schedule) {
    Launcher::launch(grid, block, shared, parameters, schedule);
    unsigned one_in = refused_one_in;
    if (!one_in) return;
    const auto* wave = *static_cast<const uint8_t**>(parameters[0]);
    auto streams_at = *static_cast<uint64_t*>(parameters[2]);
    auto count = *static_cast<uint32_t*>(parameters[3]);
    auto* decoded = *static_cast<uint8_t**>(parameters[4]);
    auto* status = *static_cast<uint32_t**>(parameters[6]);
    for (uint32_t i = 0; i < count; i++) {
      wavetrain_stream stream;
      memcpy(&stream, wave + streams_at + i * sizeof stream, sizeof stream);
      uint64_t mixed = (stream.source * 31 + stream.target + i) * 0x9E3779B97F4A7C15;
      if ((mixed >> 40) % one_in || status[i] != kStreamDone) continue;
      status[i] = kStreamCut;
      memset(decoded + stream.target, 0xEE, stream.target_bytes);
    }
  }
  static constexpr Kernel row(const char* name) {
    Kernel kernel = Launcher::row(name);
    kernel.launch = launch;
    return kernel;
  }
};

#define SIM_KERNEL(name) Launcher<&name>::row(#name)

inline const Kernel kernel_table[] = {
    SIM_KERNEL(wavetrain_assemble),
    SIM_KERNEL(wavetrain_copy),
    SIM_KERNEL(wavetrain_digest),
    Lz4Launcher::row("wavetrain_lz4"),
    SIM_KERNEL(simcuda_probe_add),
    SIM_KERNEL(simcuda_probe_write),
    SIM_KERNEL(train_step),
};

}  // namespace sim
