#pragma once

/// \file
/// Random and typed integers for the cases of the engram ops.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <vector>

#include <fmt/format.h>

#include <kiln/error.hpp>

#include "reference/engram_hash.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools::cases {

/// From `least` to `most`, both included.
inline std::int64_t uniform(std::mt19937_64& generator, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(generator);
}

inline void fill_bytes(HostTensor& tensor, std::mt19937_64& generator) {
  for (std::size_t i = 0; i < tensor.data.size(); i += sizeof(std::uint64_t)) {
    const std::uint64_t random = generator();
    std::memcpy(tensor.data.data() + i, &random, std::min(sizeof(random), tensor.data.size() - i));
  }
}

/// Fills a tensor of i32 or i64 with what `draw(generator)` gives, element by element.
template <class Draw>
void fill_integers(HostTensor& tensor, std::mt19937_64& generator, const Draw& draw) {
  if (tensor.dtype == DType::kI32) {
    for (std::int32_t& value : tensor.as<std::int32_t>()) {
      value = static_cast<std::int32_t>(draw(generator));
    }
  } else {
    for (std::int64_t& value : tensor.as<std::int64_t>()) {
      value = draw(generator);
    }
  }
}

/// The values of a tensor of i32 or i64.
inline std::vector<std::int64_t> integers(const HostTensor& tensor) {
  if (tensor.dtype == DType::kI32) {
    const auto values = tensor.as<std::int32_t>();
    return {values.begin(), values.end()};
  }
  const auto values = tensor.as<std::int64_t>();
  return {values.begin(), values.end()};
}

inline constexpr std::int64_t kPadId = 2;
inline constexpr std::int64_t kImageTokenId = 128'815;
inline constexpr std::int64_t kMmPadShift = 129'200;  ///< Below some of the token ids drawn.

// Each request's own row, in an order that is not that of the rows. Of an op that writes the rows,
// no two may be one.
inline void fill_slots(HostTensor& tensor, std::mt19937_64& generator, const HostCall& call) {
  const std::int64_t rows = call.dim("rows");
  const auto slots = static_cast<std::int64_t>(tensor.elements());
  const bool written = call.tensor("history").arg->access != Access::kRead;
  if (slots > 0 && (rows < 1 || (written && slots > rows))) {
    throw Error(
        ErrorCode::kInvalidArgument,
        fmt::format("{} requests need more than {} rows of history: --dim rows=N", slots, rows));
  }
  std::int64_t next = 0;
  fill_integers(tensor, generator, [&](std::mt19937_64&) { return rows - 1 - next++ % rows; });
}

/// What the cases of both hashes have: sizes, scalars, and inputs within the contract.
inline void set_hash_inputs(OpCase& out) {
  out.rows = "t";
  out.dims = {{"rows", 1024}, {"v", 129'280}, {"l", 3}, {"n", 4}, {"h", 8}};
  out.scalars = {{"pad_id", static_cast<double>(kPadId)},
                 {"image_token_id", static_cast<double>(kImageTokenId)},
                 {"mm_pad_shift", static_cast<double>(kMmPadShift)}};
  const auto between = [](std::int64_t least, std::int64_t most) {
    return [=](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
      fill_integers(tensor, generator,
                    [=](std::mt19937_64& random) { return uniform(random, least, most); });
    };
  };
  out.fills["input_ids"] = between(0, 129'279);
  out.fills["history"] = between(0, 129'279);
  out.fills["positions"] = between(0, 4096);
  out.fills["token_map"] = between(0, 99'999);
  // Odd, and times a compressed id below 2^63.
  out.fills["multipliers"] = [](HostTensor& tensor, std::mt19937_64& generator, const HostCall&) {
    fill_integers(tensor, generator,
                  [](std::mt19937_64& random) { return uniform(random, 0, 1LL << 45) * 2 + 1; });
  };
  // Whether it is prime does not matter to a remainder.
  out.fills["primes"] = between(1'000'000, 4'000'000);
  out.fills["offsets"] = between(0, 200'000'000);
  out.fills["reciprocals"] = [](HostTensor& tensor, std::mt19937_64&, const HostCall& call) {
    const std::vector<std::int64_t> primes = integers(call.tensor("primes"));
    std::transform(primes.begin(), primes.end(), tensor.as<std::int64_t>().begin(),
                   [](std::int64_t prime) {
                     return static_cast<std::int64_t>(
                         reference::reciprocal_of(static_cast<std::uint64_t>(prime)));
                   });
  };
  out.fills["req_slots"] = fill_slots;
}

inline reference::EngramTables hash_tables(const HostCall& call) {
  return {call.dim("l"),
          call.dim("n"),
          call.dim("h"),
          integers(call.tensor("token_map")),
          integers(call.tensor("multipliers")),
          integers(call.tensor("primes")),
          integers(call.tensor("offsets")),
          static_cast<std::int64_t>(call.scalar("pad_id"))};
}

/// The inputs that both hashes have.
inline reference::EngramStep hash_step(const HostCall& call) {
  reference::EngramStep step;
  step.input_ids = integers(call.tensor("input_ids"));
  step.positions = integers(call.tensor("positions"));
  const auto history = call.tensor("history").as<std::int32_t>();
  step.history = {history.begin(), history.end()};
  if (call.has("req_slots")) {
    step.req_slots = integers(call.tensor("req_slots"));
  }
  if (call.has("image_token_id")) {
    step.image_token_id = static_cast<std::int64_t>(call.scalar("image_token_id"));
    step.mm_pad_shift = static_cast<std::int64_t>(call.scalar("mm_pad_shift"));
  }
  return step;
}

/// Bytes of a step's hashes: every input and output once, but of the map and of the histories only
/// what the tokens look up.
inline std::size_t hash_traffic(const HostCall& call) {
  const auto t = static_cast<std::size_t>(call.dim("t"));
  const auto n = static_cast<std::size_t>(call.dim("n"));
  std::size_t total = 0;
  for (const HostTensor& tensor : call.tensors()) {
    const bool looked_up = tensor.arg->name == "token_map" || tensor.arg->name == "history";
    total += looked_up ? 0 : tensor.bytes();
  }
  return total + t * (n * static_cast<std::size_t>(dtype_size(call.dtype("token_map"))) +
                      (n - 1) * sizeof(std::int32_t));
}

}  // namespace kiln::tools::cases
