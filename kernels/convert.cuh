// One element into one of another type: src/assemble/convert.rs, bit for bit. Integer code where
// the hardware would give its own NaN; arithmetic only where it is exact, or rounds once to nearest
// even, which is what the hardware's conversions do.
#pragma once
#include "common.cuh"

__device__ __forceinline__ float float_from_bits(uint32_t bits) { return __uint_as_float(bits); }
__device__ __forceinline__ uint32_t bits_from_float(float value) { return __float_as_uint(value); }

// Exact. A subnormal half is a normal float: its 10 bits in a float of exponent -14, less that
// exponent's leading one.
__device__ __forceinline__ uint32_t f32_from_f16(uint32_t half) {
  constexpr uint32_t kLeadingOne = (127 - 14) << 23;
  uint32_t sign = (half & 0x8000) << 16;
  uint32_t magnitude = (half & 0x7FFF) << 13;
  uint32_t finite = magnitude + ((127 - 15) << 23);
  if (magnitude < 1u << 23) {
    float subnormal = float_from_bits(magnitude + kLeadingOne) - float_from_bits(kLeadingOne);
    finite = bits_from_float(subnormal);
  }
  uint32_t infinite = magnitude == 0x1Fu << 23 ? 0x7F800000 : 0x7FC00000;
  return sign | (magnitude < 0x1Fu << 23 ? finite : infinite);
}

// Exact.
__device__ __forceinline__ uint32_t f32_from_bf16(uint32_t brain) {
  uint32_t bits = brain << 16;
  bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;
  return is_nan ? (bits & 0x80000000) | 0x7FC00000 : bits;
}

// One rounding to nearest even, by adding just under half of the last place that stays, and one
// more where that place is odd.
__device__ __forceinline__ uint32_t bf16_from_f32(uint32_t bits) {
  uint32_t rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16;
  uint32_t quiet = (bits >> 16 & 0x8000) | 0x7FC0;
  return (bits & 0x7FFFFFFF) > 0x7F800000 ? quiet : rounded;
}

// One rounding to nearest even. Normal results round as in bf16_from_f32; subnormal ones by adding
// 0.5, whose last place is that of a subnormal half.
__device__ __forceinline__ uint32_t f16_from_f32(uint32_t bits) {
  constexpr uint32_t kNormalMin = (127 - 14) << 23;
  constexpr uint32_t kInfiniteMin = 0x477FF000;
  uint32_t magnitude = bits & 0x7FFFFFFF;
  uint32_t half = (magnitude - ((127 - 15) << 23) + 0xFFF + (magnitude >> 13 & 1)) >> 13;
  if (magnitude < kNormalMin) {
    half = bits_from_float(float_from_bits(magnitude) + 0.5f) - 0x3F000000;
  }
  if (magnitude >= kInfiniteMin) half = magnitude > 0x7F800000 ? 0x7E00 : 0x7C00;
  return (bits >> 16 & 0x8000) | (half & 0xFFFF);
}

// One rounding to nearest even.
__device__ __forceinline__ uint32_t f32_from_f64(uint64_t bits) {
  double value = __longlong_as_double(static_cast<long long>(bits));
  bool is_nan = (bits & 0x7FFFFFFFFFFFFFFF) > 0x7FF0000000000000;
  uint32_t quiet = (static_cast<uint32_t>(bits >> 32) & 0x80000000) | 0x7FC00000;
  return is_nan ? quiet : bits_from_float(static_cast<float>(value));
}

// One rounding to nearest even, as f16_from_f32 at twice the width: by way of a float it would be
// two.
__device__ __forceinline__ uint32_t f16_from_f64(uint64_t bits) {
  constexpr uint64_t kNormalMin = (1023ull - 14) << 52;
  constexpr uint64_t kInfiniteMin = 0x40EFFE0000000000;
  // Its last place is 2^-24, that of a subnormal half.
  constexpr uint64_t kAligned = (1023ull + 28) << 52;
  uint64_t magnitude = bits & 0x7FFFFFFFFFFFFFFF;
  uint64_t odd = magnitude >> 42 & 1;
  uint64_t half = (magnitude - ((1023ull - 15) << 52) + ((1ull << 41) - 1) + odd) >> 42;
  if (magnitude < kNormalMin) {
    double sum = __longlong_as_double(static_cast<long long>(magnitude)) +
                 __longlong_as_double(static_cast<long long>(kAligned));
    half = static_cast<uint64_t>(__double_as_longlong(sum)) - kAligned;
  }
  if (magnitude >= kInfiniteMin) half = magnitude > 0x7FF0000000000000 ? 0x7E00 : 0x7C00;
  return (static_cast<uint32_t>(bits >> 48) & 0x8000) | (static_cast<uint32_t>(half) & 0xFFFF);
}

// The number that the low 8 * bytes bits are, in two's complement.
__device__ __forceinline__ int64_t extended(uint64_t bits, uint32_t bytes) {
  uint32_t shift = 64 - 8 * bytes;
  return static_cast<int64_t>(bits << shift) >> shift;
}

__device__ __forceinline__ bool is_unsigned(uint8_t dtype) {
  return dtype == kU8 || dtype == kU16 || dtype == kU32 || dtype == kU64 || dtype == kBool;
}

__device__ __forceinline__ bool is_signed(uint8_t dtype) {
  return dtype == kI8 || dtype == kI16 || dtype == kI32 || dtype == kI64;
}

// The float of type `target` that an integer rounds to. A binary16 is infinite from 65,520 on, so a
// clamped integer rounds as the whole one would, and it is exact in a float on the way.
__device__ __forceinline__ uint64_t float_from_integer(uint64_t bits, bool has_sign, uint32_t bytes,
                                                       uint8_t target) {
  constexpr int64_t kInfinite = 65520;
  int64_t number = has_sign ? extended(bits, bytes) : static_cast<int64_t>(bits);
  if (target == kF16) {
    if (has_sign ? number > kInfinite : bits > kInfinite) number = kInfinite;
    if (has_sign && number < -kInfinite) number = -kInfinite;
    return f16_from_f32(bits_from_float(static_cast<float>(static_cast<int32_t>(number))));
  }
  if (target == kF64) {
    double value = has_sign ? static_cast<double>(number) : static_cast<double>(bits);
    return static_cast<uint64_t>(__double_as_longlong(value));
  }
  float value = has_sign ? static_cast<float>(number) : static_cast<float>(bits);
  uint32_t single = bits_from_float(value);
  return target == kF32 ? single : bf16_from_f32(single);
}

// The binary32 that a float of up to 32 bits is.
__device__ __forceinline__ uint32_t single_from_float(uint32_t bits, uint8_t source) {
  return source == kF16 ? f32_from_f16(bits) : source == kBf16 ? f32_from_bf16(bits) : bits;
}

// The whole part of a float's magnitude, clamped to 64 bits; of NaN 0. The sign is left.
__device__ __forceinline__ uint64_t whole_magnitude(uint64_t bits, uint8_t source) {
  if (source == kF64) {
    double value = __longlong_as_double(static_cast<long long>(bits & 0x7FFFFFFFFFFFFFFF));
    if (value >= 18446744073709551616.0) return ~uint64_t{0};
    return value == value ? static_cast<uint64_t>(value) : 0;
  }
  uint32_t single = single_from_float(static_cast<uint32_t>(bits), source);
  float value = float_from_bits(single & 0x7FFFFFFF);
  if (value >= 18446744073709551616.0f) return ~uint64_t{0};
  return value == value ? static_cast<uint64_t>(value) : 0;
}

// The integer of type `target` that is nearest to a number's whole part: clamped to its limits,
// which changes nothing where all numbers of the source are within them.
__device__ __forceinline__ uint64_t integer_from(uint64_t bits, uint8_t source,
                                                 uint32_t source_bytes, uint8_t target) {
  bool has_sign = is_signed(target);
  uint32_t target_bits = target == kU8 || target == kI8     ? 8
                         : target == kU16 || target == kI16 ? 16
                         : target == kU32 || target == kI32 ? 32
                                                            : 64;
  uint64_t most = ~uint64_t{0} >> (64 - target_bits + (has_sign ? 1 : 0));
  uint64_t magnitude = bits;
  bool is_negative = false;
  if (is_signed(source)) {
    int64_t number = extended(bits, source_bytes);
    is_negative = number < 0;
    magnitude = is_negative ? 0 - static_cast<uint64_t>(number) : static_cast<uint64_t>(number);
  } else if (!is_unsigned(source)) {
    is_negative = (bits >> (8 * source_bytes - 1) & 1) != 0;
    magnitude = whole_magnitude(bits, source);
  }
  if (!is_negative) return magnitude < most ? magnitude : most;
  if (!has_sign) return 0;
  return 0 - (magnitude < most + 1 ? magnitude : most + 1);
}

// An element of any type as one of any that it has a cast to: the tables of src/assemble/cast.rs.
__device__ __forceinline__ uint64_t converted(uint64_t bits, uint8_t source, uint32_t source_bytes,
                                              uint8_t target) {
  if (source == kBool) bits = bits != 0;
  if (is_unsigned(target) || is_signed(target)) {
    return integer_from(bits, source, source_bytes, target);
  }
  if (is_unsigned(source) || is_signed(source)) {
    return float_from_integer(bits, is_signed(source), source_bytes, target);
  }
  if (source == kF64 && target == kF16) return f16_from_f64(bits);
  uint32_t low = static_cast<uint32_t>(bits);
  uint32_t single = source == kF64 ? f32_from_f64(bits) : single_from_float(low, source);
  return target == kF32 ? single : target == kBf16 ? bf16_from_f32(single) : f16_from_f32(single);
}
