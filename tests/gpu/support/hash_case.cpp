#include "tests/gpu/support/hash_case.hpp"

#include <algorithm>
#include <cstring>
#include <random>

#include "tests/gpu/support/gpu.hpp"

namespace kiln::gpu {
namespace {

using Values = std::vector<std::int64_t>;

constexpr std::int64_t kVocabulary = 5000;

template <class Draw>
Values draw(std::int64_t count, const Draw& one) {
  Values values(static_cast<std::size_t>(count));
  std::generate(values.begin(), values.end(), one);
  return values;
}

// Ends of `count` runs over t tokens, from 0, many of them empty.
Values run_starts(std::int64_t count, std::int64_t t, std::mt19937_64& generator) {
  Values ends = draw(count, [&] {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(t + 1));
  });
  for (std::size_t i = 1; i < ends.size(); i += 3) {
    ends[i] = ends[i - 1];
  }
  std::sort(ends.begin(), ends.end());
  return ends;
}

void set_mode(reference::EngramStep& step, std::int64_t t, const StepOptions& options,
              std::mt19937_64& generator, std::int64_t& requests) {
  switch (options.mode) {
    case HashMode::kDecode:
      requests = t;
      return;
    case HashMode::kVerify:
      step.block = 3;
      requests = (t + 2) / 3;
      return;
    case HashMode::kRagged: {
      Values indptr = run_starts(requests, t - t / 5, generator);
      indptr.insert(indptr.begin(), 0);
      step.qo_indptr = indptr;
      return;
    }
    case HashMode::kExtend: {
      Values starts = run_starts(requests - 1, t, generator);
      starts.insert(starts.begin(), 0);
      Values row;
      for (std::int64_t i = 0; i < t; ++i) {
        // The last request that starts here or before it.
        row.push_back(std::upper_bound(starts.begin(), starts.end(), i) - starts.begin() - 1);
      }
      step.starts = starts;
      step.row = row;
      return;
    }
  }
}

std::unique_ptr<Buffer> upload(const Values& values) {
  auto buffer = std::make_unique<Buffer>(values.size() * 8);
  buffer->upload(values.data(), values.size() * 8);
  return buffer;
}

Values reciprocals_of(const Values& primes) {
  Values out;
  for (const std::int64_t prime : primes) {
    out.push_back(
        static_cast<std::int64_t>(reference::reciprocal_of(static_cast<std::uint64_t>(prime))));
  }
  return out;
}

template <class T>
std::string compare(const char* what, const GuardedBuffer& got, const std::vector<T>& want) {
  if (!got.canaries_intact()) {
    return std::string("a canary beside ") + what + " was overwritten";
  }
  const std::vector<std::uint8_t> bytes = got.download();
  if (bytes.size() != want.size() * sizeof(T)) {
    return std::string(what) + " has another size";
  }
  for (std::size_t i = 0; i < want.size(); ++i) {
    T mine{};
    std::memcpy(&mine, bytes.data() + i * sizeof(T), sizeof(T));
    if (mine != want[i]) {
      return std::string(what) + ", element " + std::to_string(i) + ": got " +
             std::to_string(mine) + ", want " + std::to_string(want[i]);
    }
  }
  return "";
}

void upload_into(const GuardedBuffer& buffer, const std::vector<std::int32_t>& values) {
  if (!values.empty()) {
    KILN_CU(cuMemcpyHtoD, reinterpret_cast<CUdeviceptr>(buffer.data()), values.data(),
            values.size() * sizeof(std::int32_t));
    KILN_CU(cuCtxSynchronize);
  }
}

}  // namespace

reference::EngramTables random_tables(std::int64_t layers, std::int64_t order, std::int64_t heads,
                                      std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const std::int64_t columns = layers * (order - 1) * heads;
  reference::EngramTables tables;
  tables.layers = layers;
  tables.order = order;
  tables.heads = heads;
  tables.token_map =
      draw(kVocabulary, [&] { return static_cast<std::int64_t>(generator() >> 44U); });
  // Odd, and times a compressed id of 20 bits below 2^63.
  tables.multipliers =
      draw(layers * order, [&] { return static_cast<std::int64_t>(generator() >> 21U | 1U); });
  // Of all sizes from 1 bit to 63.
  tables.primes = draw(columns, [&] {
    return static_cast<std::int64_t>(generator() >> (1 + generator() % 63)) | 1;
  });
  tables.offsets = draw(columns, [&] { return static_cast<std::int64_t>(generator() >> 34U); });
  tables.pad_id = 12'345;
  return tables;
}

reference::EngramStep random_step(const reference::EngramTables& tables, std::int64_t t,
                                  const StepOptions& options, std::uint64_t seed) {
  std::mt19937_64 generator(seed);
  const auto below = [&](std::int64_t limit) {
    return static_cast<std::int64_t>(generator() % static_cast<std::uint64_t>(limit));
  };
  const auto token = [&] {
    // One of 16 is outside the map.
    const std::int64_t inside = below(kVocabulary);
    return generator() % 16 != 0  ? inside
           : generator() % 2 == 0 ? -1 - below(100)
                                  : kVocabulary + below(1 << 30);
  };
  reference::EngramStep step;
  step.input_ids = draw(t, token);
  step.positions = draw(t, [&] { return generator() % 3 == 0 ? below(8) : below(100'000); });
  std::int64_t requests = options.requests != 0 ? options.requests : t / 4 + 1;
  set_mode(step, t, options, generator, requests);
  const std::int64_t rows = requests + 17;
  const Values history = draw(rows * (tables.order - 1), token);
  step.history.assign(history.begin(), history.end());
  if (options.slots) {
    Values slots = draw(rows, [next = std::int64_t{0}]() mutable { return next++; });
    std::shuffle(slots.begin(), slots.end(), generator);
    slots.resize(static_cast<std::size_t>(requests));
    step.req_slots = slots;
  }
  if (options.images) {
    step.image_token_id = 77;
    step.mm_pad_shift = options.mm_pad_shift;
  }
  if (options.pads) {
    step.num_real = t - t / 3;
  }
  return step;
}

HashCall::HashCall(const reference::EngramTables& tables, const reference::EngramStep& step,
                   Widths widths, bool reciprocals, Values out_cache_loc)
    : tables_(tables),
      step_(step),
      loc_values_(std::move(out_cache_loc)),
      input_ids_(step.input_ids, (widths & 1U) != 0),
      positions_(step.positions, (widths & 2U) != 0),
      token_map_(tables.token_map, (widths & 4U) != 0),
      history_(step.history.size() * sizeof(std::int32_t)),
      multipliers_(std::move(*upload(tables.multipliers))),
      primes_(std::move(*upload(tables.primes))),
      offsets_(std::move(*upload(tables.offsets))),
      reciprocals_(std::move(*upload(reciprocals_of(tables.primes)))),
      slots_(step.req_slots.value_or(Values{}), (widths & 8U) != 0),
      row_(step.row.value_or(Values{}), (widths & 16U) != 0),
      starts_(step.starts.value_or(Values{}), (widths & 32U) != 0),
      indptr_(step.qo_indptr.value_or(Values{}), (widths & 64U) != 0),
      loc_(loc_values_, (widths & 128U) != 0),
      ids_(step.input_ids.size() * tables.primes.size() * 8),
      tokens_(step.input_ids.size() * static_cast<std::size_t>(tables.order) * 4),
      has_reciprocals_(reciprocals) {
  upload_into(history_, step_.history);
}

void HashCall::set_step(const reference::EngramStep& step) {
  step_ = step;
  input_ids_.set(step.input_ids);
  positions_.set(step.positions);
  slots_.set(step.req_slots.value_or(Values{}));
  row_.set(step.row.value_or(Values{}));
  starts_.set(step.starts.value_or(Values{}));
  indptr_.set(step.qo_indptr.value_or(Values{}));
  upload_into(history_, step_.history);
}

void HashCall::poison(std::uint8_t byte) const {
  ids_.poison(byte);
  tokens_.poison(byte);
  upload_into(history_, step_.history);
}

std::string HashCall::name() const {
  return loc_values_.empty() ? "engram_hash_ids" : "engram_hash_ids_and_commit";
}

std::vector<Arg> HashCall::args(const Buffer* primes) const {
  const auto t = static_cast<std::int64_t>(step_.input_ids.size());
  const std::int64_t l = tables_.layers;
  const std::int64_t n = tables_.order;
  const std::int64_t h = tables_.heads;
  const auto rows = static_cast<std::int64_t>(step_.history.size()) / (n - 1);
  tensors_.clear();
  tensors_.reserve(32);  // Arguments point to them.
  std::vector<Arg> args;
  const auto add = [&](const Tensor& tensor) { args.emplace_back(tensors_.emplace_back(tensor)); };
  const auto add_if = [&](bool given, const Tensor& tensor) {
    given ? add(tensor) : static_cast<void>(args.emplace_back());
  };
  const auto add_scalar = [&](const std::optional<std::int64_t>& value) {
    args.push_back(value ? Arg(*value) : Arg());
  };
  const auto count = [](const reference::Integers& values) {
    return values ? static_cast<std::int64_t>(values->size()) : 0;
  };
  add(input_ids_.tensor({t}));
  add(positions_.tensor({t}));
  add(Tensor(history_.data(), DType::kI32, {rows, n - 1}));
  add(token_map_.tensor({static_cast<std::int64_t>(tables_.token_map.size())}));
  add(Tensor(multipliers_.data(), DType::kI64, {l, n}));
  add(Tensor((primes != nullptr ? *primes : primes_).data(), DType::kI64, {l, n - 1, h}));
  add(Tensor(offsets_.data(), DType::kI64, {l, (n - 1) * h}));
  args.emplace_back(tables_.pad_id);
  if (loc_values_.empty()) {
    add_scalar(step_.num_real);
    add_if(step_.req_slots.has_value(), slots_.tensor({count(step_.req_slots)}));
    add_scalar(step_.block);
    add_if(step_.row.has_value(), row_.tensor({t}));
    add_if(step_.starts.has_value(), starts_.tensor({count(step_.starts)}));
    add_if(step_.qo_indptr.has_value(), indptr_.tensor({count(step_.qo_indptr)}));
  } else {
    add(slots_.tensor({t}));
    add(loc_.tensor({t}));
  }
  add_scalar(step_.image_token_id);
  add_scalar(step_.image_token_id ? std::optional(step_.mm_pad_shift) : std::nullopt);
  add_if(has_reciprocals_, Tensor(reciprocals_.data(), DType::kI64, {l, n - 1, h}));
  add(Tensor(ids_.data(), DType::kI64, {t, l, (n - 1) * h}));
  add(Tensor(tokens_.data(), DType::kI32, {t, n}));
  return args;
}

void HashCall::launch(bool pdl, const std::string& op, const Buffer* primes) const {
  Gpu& gpu = Gpu::instance();
  LaunchOptions options;
  options.pdl = pdl;
  options.constants_ready = primes == nullptr;
  gpu.engine.launch(gpu.engine.op(op.empty() ? name() : op), args(primes), gpu.stream.get(),
                    options);
}

std::string HashCall::difference() const {
  const reference::EngramHashes want = reference::engram_hash_ids(tables_, step_);
  std::string problem = compare("ids", ids_, want.ids);
  if (problem.empty()) {
    problem = compare("tokens", tokens_, want.tokens);
  }
  if (!problem.empty()) {
    return problem;
  }
  return compare("history", history_,
                 loc_values_.empty()
                     ? step_.history
                     : reference::commit_decoded(tables_.order, step_.history, want.tokens,
                                                 *step_.req_slots, loc_values_));
}

std::string run_hash(const reference::EngramTables& tables, std::int64_t t,
                     const StepOptions& options, bool reciprocals, bool pdl, Widths widths,
                     const std::string& op) {
  const Stream& stream = Gpu::instance().stream;
  HashCall call(tables, random_step(tables, t, options, 1), widths, reciprocals);
  call.poison(0xA5);
  call.launch(pdl, op);
  stream.synchronize();
  std::string problem = call.difference();
  if (!problem.empty() || t == 0) {
    return problem;
  }
  const Graph graph(stream, [&] { call.launch(pdl, op); });
  call.set_step(random_step(tables, t, options, 2));
  call.poison(0x5A);
  graph.launch(stream);
  stream.synchronize();
  problem = call.difference();
  return problem.empty() ? "" : "replayed: " + problem;
}

}  // namespace kiln::gpu
