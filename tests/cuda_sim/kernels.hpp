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
#include "../../kernels/zstd.cu"
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

// A kernel's own launch, and refusals that no stream of a well-formed store makes. From `kFirst` on
// its parameters are streams_at, stream_count, decoded, decoded_bytes, status.
template <auto kernel, int kFirst>
struct DecodeLauncher : Launcher<kernel> {
  static void launch(dim3 grid, dim3 block, size_t shared, void** parameters,
                     simt::Schedule schedule) {
    Launcher<kernel>::launch(grid, block, shared, parameters, schedule);
    unsigned one_in = refused_one_in;
    if (!one_in) return;
    const auto* wave = *static_cast<const uint8_t**>(parameters[0]);
    auto streams_at = *static_cast<uint64_t*>(parameters[kFirst]);
    auto count = *static_cast<uint32_t*>(parameters[kFirst + 1]);
    auto* decoded = *static_cast<uint8_t**>(parameters[kFirst + 2]);
    auto* status = *static_cast<uint32_t**>(parameters[kFirst + 4]);
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
    Kernel row = Launcher<kernel>::row(name);
    row.launch = launch;
    return row;
  }
};

#define SIM_KERNEL(name) Launcher<&name>::row(#name)

inline const Kernel kernel_table[] = {
    SIM_KERNEL(wavetrain_assemble),
    SIM_KERNEL(wavetrain_copy),
    SIM_KERNEL(wavetrain_digest),
    DecodeLauncher<&wavetrain_lz4, 2>::row("wavetrain_lz4"),
    SIM_KERNEL(wavetrain_zstd_literals),
    SIM_KERNEL(wavetrain_zstd_sequences),
    DecodeLauncher<&wavetrain_zstd_frames, 6>::row("wavetrain_zstd_frames"),
    SIM_KERNEL(simcuda_probe_add),
    SIM_KERNEL(simcuda_probe_write),
    SIM_KERNEL(train_step),
};

}  // namespace sim
