#!/usr/bin/env bash
# The sweeps of which `cargo test` runs a part, whole: cases on the simulated device, kills of runs,
# and 2,000 deaths of processes that share a loader. The deaths take 13 minutes on two quiet cores.
set -euo pipefail
cd "$(dirname "$0")/.."
export WAVETRAIN_SWEEPS=all WAVETRAIN_KILLS=${WAVETRAIN_KILLS:-2000}
cargo test --features cli --test cuda sweeps::
cargo test --features cli --test node deaths_at
