// Kernels for the tests of the simulated driver itself. They have no PTX of their own: the tests
// write the heads of one.

// target[i] = source[i] + value.
extern "C" __global__ void simcuda_probe_add(unsigned* target, const unsigned* source,
                                             unsigned value, unsigned count) {
  unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) target[i] = source[i] + value;
}

// A byte at any place, of a block or beside one.
extern "C" __global__ void simcuda_probe_write(unsigned char* target, unsigned value) {
  if (blockIdx.x == 0 && threadIdx.x == 0) *target = (unsigned char)value;
}
