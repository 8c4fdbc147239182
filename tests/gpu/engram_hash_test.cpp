// docs/kernel_contracts.md, sections 4 and 6: the hashes of the engram, bit for bit against the CPU
// reference, and what they do to histories.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/gpu/support/forced_variant.hpp"
#include "tests/gpu/support/gpu.hpp"
#include "tests/gpu/support/hash_case.hpp"
#include "tests/gpu/support/late_copy.hpp"
#include "tests/gpu/support/replayed.hpp"
#include "tests/support/catch.hpp"

namespace kiln::gpu {
namespace {

using reference::EngramStep;
using reference::EngramTables;
using Values = std::vector<std::int64_t>;

constexpr HashMode kModes[] = {HashMode::kDecode, HashMode::kVerify, HashMode::kExtend,
                               HashMode::kRagged};
constexpr std::int64_t kTokens[] = {1,  2,  3,  5,  6,  7,   8,    9,    31,   32,
                                    33, 48, 64, 96, 97, 264, 1000, 1024, 4097, 9001};

TEST_CASE("engram_hash_ids agrees with the reference at every number of tokens, in every mode",
          "[hash]") {
  const HashMode mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  const bool reciprocals = GENERATE(false, true);
  const EngramTables tables = random_tables(3, 4, 8);
  StepOptions options;
  options.mode = mode;
  for (const std::int64_t t : kTokens) {
    for (const bool pdl : {true, false}) {
      CAPTURE(static_cast<int>(mode), reciprocals, t, pdl);
      REQUIRE(run_hash(tables, t, options, reciprocals, pdl) == "");
    }
  }
}

TEST_CASE("engram_hash_ids takes every order, and any number of layers and heads", "[hash]") {
  for (const std::int64_t order : {2, 3, 4, 5, 6, 7, 8}) {
    for (const std::int64_t heads : {1, 2, 3, 31, 32}) {
      for (const std::int64_t layers : {1, 2, 40}) {
        const EngramTables tables = random_tables(layers, order, heads);
        for (const std::int64_t t : {1, 50}) {
          CAPTURE(order, heads, layers, t);
          StepOptions options;
          options.mode = kModes[static_cast<std::size_t>(heads % 4)];
          REQUIRE(run_hash(tables, t, options, heads % 2 == 0) == "");
        }
      }
    }
  }
}

TEST_CASE("Index-like inputs are int32 or int64, each on its own", "[hash]") {
  const EngramTables tables = random_tables(2, 4, 3);
  for (const HashMode mode : kModes) {
    for (Widths widths = 0; widths < 256; widths += 5) {
      CAPTURE(static_cast<int>(mode), widths);
      StepOptions options;
      options.mode = mode;
      REQUIRE(run_hash(tables, 70, options, false, true, widths) == "");
    }
  }
}

TEST_CASE("Token ids of any 64 bits stay inside the map", "[hash][sanitize]") {
  const EngramTables tables = random_tables(2, 4, 3);
  EngramStep step = random_step(tables, 6, {});
  step.input_ids = {INT64_MAX, INT64_MIN, std::int64_t{1} << 40, -(std::int64_t{1} << 40),
                    4999,      5000};
  step.positions = Values(6, 100);
  for (const bool images : {false, true}) {
    if (images) {
      step.image_token_id = 77;
      step.mm_pad_shift = std::int64_t{1} << 35;
    }
    HashCall call(tables, step, kAllWide, true);
    call.poison(0xA5);
    call.launch();
    Gpu::instance().stream.synchronize();
    REQUIRE(call.difference() == "");
  }
}

TEST_CASE("Images block from where they stand, inside a run and before it; padding blocks all",
          "[hash]") {
  const HashMode mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  const EngramTables tables = random_tables(2, 5, 4);
  for (const bool images : {false, true}) {
    for (const bool pads : {false, true}) {
      for (const bool slots : {false, true}) {
        for (const std::int64_t t : {1, 9, 400}) {
          CAPTURE(static_cast<int>(mode), images, pads, slots, t);
          StepOptions options;
          options.mode = mode;
          options.images = images;
          options.pads = pads;
          options.slots = slots;
          REQUIRE(run_hash(tables, t, options, true) == "");
        }
      }
    }
  }
}

TEST_CASE("Where every id is an image's, so are the zeros of padding", "[hash]") {
  StepOptions options;
  options.mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  options.mm_pad_shift = GENERATE(0, -5);
  options.images = true;
  options.pads = true;
  const EngramTables tables = random_tables(2, 5, 4);
  for (const std::int64_t t : {1, 9, 400}) {
    CAPTURE(static_cast<int>(options.mode), options.mm_pad_shift, t);
    REQUIRE(run_hash(tables, t, options, true) == "");
  }
}

TEST_CASE("Ragged runs of any number of requests are found", "[hash]") {
  const EngramTables tables = random_tables(1, 4, 2);
  for (const std::int64_t requests : {1, 2, 7, 8, 9, 15, 16, 63, 64, 65, 511, 512, 513, 4100}) {
    for (const std::int64_t t : {1, 40, 3000}) {
      CAPTURE(requests, t);
      StepOptions options;
      options.mode = HashMode::kRagged;
      options.requests = requests;
      REQUIRE(run_hash(tables, t, options, true) == "");
    }
  }
}

TEST_CASE("engram_hash_ids is right on what the memory checkers run", "[hash][sanitize]") {
  const HashMode mode = GENERATE(from_range(std::begin(kModes), std::end(kModes)));
  const EngramTables tables = random_tables(2, 4, 3);
  StepOptions options;
  options.mode = mode;
  options.images = true;
  for (const std::int64_t t : {1, 3, 33, 129}) {
    CAPTURE(static_cast<int>(mode), t);
    REQUIRE(run_hash(tables, t, options, t % 2 == 0) == "");
  }
}

TEST_CASE("No token, or no request, is no error", "[hash][sanitize]") {
  const EngramTables tables = random_tables(2, 4, 3);
  REQUIRE(run_hash(tables, 0, {}, true) == "");
  EngramStep step = random_step(tables, 5, {});
  step.qo_indptr = Values{0};  // All five tokens are padding.
  step.req_slots = Values{};
  HashCall call(tables, step, kAllWide, true);
  call.poison(0xA5);
  call.launch();
  Gpu::instance().stream.synchronize();
  REQUIRE(call.difference() == "");
}

TEST_CASE("Every variant of the hashes gives the same ids", "[hash][sanitize]") {
  Gpu& gpu = Gpu::instance();
  const OpHandle original = gpu.engine.op("engram_hash_ids");
  const EngramTables tables = random_tables(2, 4, 5);
  std::size_t count = 0;
  for (const Variant& variant : gpu.engine.variants(original, gpu.target())) {
    if (variant.traits[kPdlTrait] == 0) {
      continue;  // Asked for below.
    }
    const Op forced = forced_variant(original.op(), variant.traits, std::to_string(count++));
    gpu.engine.register_op(forced);
    for (const std::int64_t t : {1, 33, 129}) {
      for (const bool pdl : {true, false}) {
        CAPTURE(to_string(variant), t, pdl);
        // Reciprocals are there whether the variant reads them or not.
        REQUIRE(run_hash(tables, t, {}, true, pdl, kAllWide, forced.name) == "");
      }
    }
  }
  REQUIRE(count >= 4);
}

// ---------------------------------------------------------------------------------------------
// Histories

// Live rows have distinct slots; a padding row, one of four, has the slot of a live row far away.
void alias_padding(EngramStep& step, Values& out_cache_loc) {
  Values& slots = *step.req_slots;
  const std::size_t t = slots.size();
  for (std::size_t i = 0; i < t; ++i) {
    out_cache_loc.push_back(i % 4 == 2 ? 0 : static_cast<std::int64_t>(i) + 1);
  }
  for (std::size_t i = 2; i < t; i += 4) {
    const std::size_t other = (i + t / 2) % t;
    slots[i] = slots[other % 4 == 2 ? (other + 1) % t : other];
  }
}

TEST_CASE("A decode step commits its tokens after every row was read, whoever shares a slot",
          "[hash]") {
  const Stream& stream = Gpu::instance().stream;
  const std::int64_t order = GENERATE(2, 4, 8);
  const EngramTables tables = random_tables(3, order, 8);
  for (const std::int64_t t : kTokens) {
    for (const bool reciprocals : {false, true}) {
      StepOptions options;
      options.images = t % 2 == 0;
      EngramStep step = random_step(tables, t, options, 3);
      Values loc;
      alias_padding(step, loc);
      HashCall call(tables, step, t % 3 == 0 ? 0 : kAllWide, reciprocals, loc);
      for (const bool pdl : {true, false}) {
        CAPTURE(order, t, reciprocals, pdl);
        for (int round = 0; round < 5; ++round) {
          call.poison(0xA5);
          call.launch(pdl);
          stream.synchronize();
          REQUIRE(call.difference() == "");
        }
        const Graph graph(stream, [&] { call.launch(pdl); });
        call.poison(0x5A);
        graph.launch(stream);
        stream.synchronize();
        REQUIRE(call.difference() == "");
      }
    }
  }
}

TEST_CASE("A decode step commits when a token has more ids than a CTA has threads", "[hash]") {
  const EngramTables tables = random_tables(3, 8, 32);
  for (const std::int64_t t : {1, 5, 70, 300}) {
    EngramStep step = random_step(tables, t, {}, 3);
    Values loc;
    alias_padding(step, loc);
    for (const bool reciprocals : {false, true}) {
      CAPTURE(t, reciprocals);
      HashCall call(tables, step, kAllWide, reciprocals, loc);
      call.poison(0xA5);
      call.launch();
      Gpu::instance().stream.synchronize();
      REQUIRE(call.difference() == "");
    }
  }
}

TEST_CASE("Index-like inputs of a decode step that commits are int32 or int64, each on its own",
          "[hash]") {
  const EngramTables tables = random_tables(2, 4, 3);
  for (const std::int64_t t : {5, 70}) {
    EngramStep step = random_step(tables, t, {}, 3);
    Values loc;
    alias_padding(step, loc);
    for (const Widths widths : {1U, 2U, 4U, 8U, 128U, 127U, 247U}) {
      CAPTURE(t, widths);
      HashCall call(tables, step, widths, true, loc);
      call.poison(0xA5);
      call.launch();
      Gpu::instance().stream.synchronize();
      REQUIRE(call.difference() == "");
    }
  }
}

TEST_CASE("A decode step commits on the row counts that the memory checkers run",
          "[hash][sanitize]") {
  const EngramTables tables = random_tables(2, 4, 3);
  for (const std::int64_t t : {1, 3, 33, 129}) {
    EngramStep step = random_step(tables, t, {}, 3);
    Values loc;
    alias_padding(step, loc);
    HashCall call(tables, step, kAllWide, true, loc);
    call.poison(0xA5);
    call.launch();
    Gpu::instance().stream.synchronize();
    CAPTURE(t);
    REQUIRE(call.difference() == "");
  }
}

// ---------------------------------------------------------------------------------------------
// Programmatic dependent launch

TEST_CASE("The hashes wait for their producer, and the next kernel for them", "[pdl]") {
  const bool commits = GENERATE(false, true);
  const std::int64_t t = GENERATE(1, 8, 130, 3000);
  CAPTURE(commits, t);
  const EngramTables tables = random_tables(3, 4, 8);
  EngramStep step = random_step(tables, t, {});
  Values loc;
  if (commits) {
    alias_padding(step, loc);
  }
  const HashCall call(tables, step, kAllWide, true, loc);
  const Integers wanted(step.input_ids, true);
  const Integers others(Values(step.input_ids.size(), 3), true);
  const Buffer copied(call.ids().bytes());
  eagerly_and_replayed(
      [&] {
        call.input_ids().set(Values(step.input_ids.size(), 4999));
        call.poison(0xA5);
      },
      [&] {
        late_copy(call.ids().data(), copied.data(), copied.bytes(), kDelayNs);
        late_copy(wanted.data(), call.input_ids().data(), wanted.bytes(), kDelayNs);
        call.launch();
        late_copy(others.data(), call.input_ids().data(), others.bytes(), 0);
      },
      [&] {
        REQUIRE(call.difference() == "");
        std::vector<std::uint8_t> old(copied.bytes());
        copied.download(old.data(), old.size());
        REQUIRE(std::all_of(old.begin(), old.end(), [](std::uint8_t b) { return b == 0xA5; }));
      });
}

TEST_CASE("Steps that commit one after the other each see the history of the one before", "[pdl]") {
  const std::int64_t t = GENERATE(1, 8, 130, 3000);
  CAPTURE(t);
  const EngramTables tables = random_tables(2, 4, 8);
  EngramStep step = random_step(tables, t, {});
  const HashCall call(tables, step, kAllWide, true, Values(step.input_ids.size(), 1));
  const auto hashed = [&] { return reference::engram_hash_ids(tables, step); };
  // The same step twice, on the history that the first left.
  step.history = reference::commit_decoded(4, step.history, hashed().tokens, *step.req_slots,
                                           Values(step.input_ids.size(), 1));
  HashCall want(tables, step, kAllWide, true, Values(step.input_ids.size(), 1));
  want.poison(0xA5);
  want.launch();
  Gpu::instance().stream.synchronize();
  REQUIRE(want.difference() == "");
  eagerly_and_replayed([&] { call.poison(0xA5); },
                       [&] {
                         call.launch();
                         call.launch();
                       },
                       [&] { REQUIRE(call.ids().download() == want.ids().download()); });
}

TEST_CASE("Fresh tables are read after the wait when the call says so", "[pdl]") {
  const bool reciprocals = false;  // They are worked out from the late primes.
  const EngramTables tables = random_tables(3, 4, 8);
  const EngramStep step = random_step(tables, 40, {});
  const HashCall call(tables, step, kAllWide, reciprocals);
  const Buffer primes(call.primes().bytes());
  eagerly_and_replayed(
      [&] {
        primes.fill(0x11);
        call.poison(0xA5);
      },
      [&] {
        late_copy(call.primes().data(), primes.data(), primes.bytes(), kDelayNs);
        call.launch(true, "", &primes);
      },
      [&] { REQUIRE(call.difference() == ""); });
}

}  // namespace
}  // namespace kiln::gpu
