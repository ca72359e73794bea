// The kernel of examples/train_cuda.cpp, which has it as PTX: what a training step stands for.

// Adds the values, whole numbers from 0 on, to *sum, and drives a weight of each thread through
// `rounds` dependent steps for each of its values.
extern "C" __global__ void train_step(const float* values, unsigned long long count,
                                      unsigned rounds, float* weights,
                                      unsigned long long* sum) {
  unsigned thread = blockIdx.x * blockDim.x + threadIdx.x;
  float weight = weights[thread];
  unsigned long long part = 0;
  for (unsigned long long i = thread; i < count; i += gridDim.x * blockDim.x) {
    float value = values[i];
    part += (unsigned long long)value;
    for (unsigned round = 0; round < rounds; round++) weight = weight * 0.5f + value;
  }
  weights[thread] = weight;
  atomicAdd(sum, part);
}
