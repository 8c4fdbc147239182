#include "trait_registry/check.hpp"

#include <climits>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/trait_registry/sample_op.hpp"
#include "trait_registry/registry.hpp"

namespace kiln::registry {
namespace {

// Addresses on a device: compared, never followed.
void* at(std::uintptr_t address) {
  return reinterpret_cast<void*>(address);
}

constexpr std::uintptr_t kX = 0x10000;
constexpr std::uintptr_t kTable = 0x200000;
constexpr std::uintptr_t kMask = 0x300000;
constexpr std::uintptr_t kOut = 0x400000;

// A call of the sample op: x [m, k], table [k], mask [m]?, eps, out [m, 4].
struct Call {
  Tensor x{at(kX), DType::kBF16, {8, 16}};
  Tensor table{at(kTable), DType::kF32, {16}};
  Tensor mask{at(kMask), DType::kU8, {8}};
  Arg eps = 1e-6;
  Tensor out{at(kOut), DType::kF32, {8, 4}};
  std::vector<Arg> args() const { return {x, table, mask, eps, out}; }
};

class Checker {
 public:
  explicit Checker(Op op = test::sample_op()) : bound_(**registry_.add(std::move(op))) {}

  Status status(const std::vector<Arg>& args, bool exact = false) {
    problem_ = Problem(bound_.names);
    problem_.set_target({9, 0, TargetSuffix::kArch});
    problem_.set_pdl(true);
    return check_call(bound_, args, exact, problem_, device_);
  }
  // The message after "sample: ", or "" for success.
  std::string error(const std::vector<Arg>& args, bool exact = false) {
    const Status result = status(args, exact);
    if (result) {
      return "";
    }
    CHECK(result.error().code == ErrorCode::kInvalidArgument);
    const std::string prefix = bound_.op.name + ": ";
    REQUIRE(result.error().message.substr(0, prefix.size()) == prefix);
    return result.error().message.substr(prefix.size());
  }
  std::string error(const Call& call, bool exact = false) { return error(call.args(), exact); }
  const Problem& problem() const { return problem_; }
  int device() const { return device_; }

 private:
  Registry registry_;
  const BoundOp& bound_;
  Problem problem_{bound_.names};
  int device_ = -2;
};

TEST_CASE("A valid call sets the problem's symbols, dtypes and presence, and the device") {
  Checker checker;
  Call call;
  REQUIRE(checker.error(call).empty());
  CHECK(checker.problem().dim("m") == 8);
  CHECK(checker.problem().dim("k") == 16);
  CHECK(checker.problem().dtype("x") == DType::kBF16);
  CHECK(checker.problem().present("mask"));
  CHECK(checker.problem().target().compute_capability() == 90);
  CHECK(checker.problem().pdl());
  CHECK(checker.device() == 0);
}

TEST_CASE("An absent optional argument is absent from the problem, even one used before") {
  Checker checker;
  const Call call;
  REQUIRE(checker.error(call).empty());
  std::vector<Arg> args = call.args();
  args[2] = Arg();
  REQUIRE(checker.error(args).empty());
  CHECK_FALSE(checker.problem().present("mask"));
}

TEST_CASE("A problem that is used again keeps nothing of the call before") {
  Registry registry;
  const BoundOp& bound = **registry.add(test::sample_op());
  Problem problem(bound.names);
  problem.set_pdl(true);
  int device = -1;
  const Call call;
  std::vector<Arg> args = call.args();
  REQUIRE(check_call(bound, args, false, problem, device));
  args[2] = Arg();
  REQUIRE(check_call(bound, args, false, problem, device));
  CHECK_FALSE(problem.present("mask"));
  CHECK(problem.pdl());
}

TEST_CASE("A wrong number of arguments is an error that lists them") {
  Checker checker;
  const Call call;
  std::vector<Arg> args = call.args();
  args.pop_back();
  CHECK(checker.error(args) == "expected 5 arguments (x, table, mask, eps, out), found 4");
  CHECK(checker.error(std::vector<Arg>{}) ==
        "expected 5 arguments (x, table, mask, eps, out), found 0");
}

TEST_CASE("An argument of the wrong kind is an error") {
  Checker checker;
  const Call call;
  std::vector<Arg> args = call.args();
  args[0] = Arg();
  CHECK(checker.error(args) == "argument \"x\": expected a tensor, found none");
  args[0] = 3;
  CHECK(checker.error(args) == "argument \"x\": expected a tensor, found a scalar");
  args = call.args();
  args[3] = Arg();
  CHECK(checker.error(args) == "argument \"eps\": expected a scalar, found none");
  args[3] = call.x;
  CHECK(checker.error(args) == "argument \"eps\": expected a scalar, found a tensor");
}

TEST_CASE("A wrong dtype is an error that names what is allowed and what came") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX), DType::kU8, {8, 16});
  CHECK(checker.error(call) == "argument \"x\": expected dtype bf16 or f32, found u8");
  call = Call();
  DLTensor half = call.x.dlpack();
  half.dtype = {kDLFloat, 16, 1};
  std::vector<Arg> args = call.args();
  args[0] = half;
  CHECK(checker.error(args) ==
        "argument \"x\": expected dtype bf16 or f32, found DLPack type code 2 with 16 bits and 1 "
        "lanes");
}

TEST_CASE("A wrong shape is an error that shows the symbols and what came") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8});
  CHECK(checker.error(call) == "argument \"x\": expected shape [m, k], found [8]");
  for (const int rank : {INT_MAX, -1}) {
    DLTensor nonsense = call.x.dlpack();
    nonsense.ndim = rank;
    std::vector<Arg> args = call.args();
    args[0] = Arg(nonsense);
    CHECK(checker.error(args) ==
          "argument \"x\": expected shape [m, k], found rank " + std::to_string(rank));
  }
  call = Call();
  call.out = Tensor(at(kOut), DType::kF32, {8, 5});
  CHECK(checker.error(call) == "argument \"out\": expected shape [m, 4], found [8, 5]");
  call.out = Tensor(at(kOut), DType::kF32, {7, 4});
  CHECK(checker.error(call) ==
        "argument \"out\": expected shape [m, 4] with m = 8 as in argument \"x\", found [7, 4]");
  call = Call();
  call.x = Tensor(at(kX), DType::kBF16, {-1, 16});
  CHECK(checker.error(call) == "argument \"x\": expected shape [m, k], found [-1, 16]");
}

TEST_CASE("A derived extent is compared once the symbols are known, wherever they come from") {
  Op op = test::sample_op();
  op.args[0].shape[1] = Dim::derived("2*k", [](const Problem& p) { return 2 * p.dim("k"); });
  Checker checker(op);  // k now comes from table alone, which follows x.
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8, 32});
  CHECK(checker.error(call).empty());
  CHECK(checker.problem().dim("k") == 16);
  call.x = Tensor(at(kX), DType::kBF16, {8, 16});
  CHECK(checker.error(call) ==
        "argument \"x\": expected shape [m, 2*k] with 2*k = 32, found [8, 16]");
}

TEST_CASE("A leading symbol is the product of any number of axes") {
  Op op = test::sample_op();
  op.args[4].shape[0] = Dim::leading("m");
  Checker checker(op);
  Call call;
  CHECK(checker.error(call).empty());
  call.out = Tensor(at(kOut), DType::kF32, {2, 1, 4, 4});
  CHECK(checker.error(call).empty());
  call.out = Tensor(at(kOut), DType::kF32, {2, 2, 4});
  CHECK(checker.error(call) ==
        "argument \"out\": expected shape [m..., 4] with m = 8 as in argument \"x\", found [2, 2, "
        "4]");
  call.out = Tensor(at(kOut), DType::kF32, {4});
  call.x = Tensor(at(kX), DType::kBF16, {1, 16});
  call.mask = Tensor(at(kMask), DType::kU8, {1});
  CHECK(checker.error(call).empty());  // No axis: one.
  call.out = Tensor(at(kOut), DType::kF32, {});
  CHECK(checker.error(call) == "argument \"out\": expected shape [m..., 4], found []");
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  call.out = Tensor(at(kOut), DType::kF32, {kHuge, kHuge, 4});
  CHECK(checker.error(call).find("expected shape [m..., 4], found") != std::string::npos);
}

TEST_CASE("A tensor without a shape is an error") {
  Checker checker;
  const Call call;
  DLTensor shapeless = call.x.dlpack();
  shapeless.shape = nullptr;
  std::vector<Arg> args = call.args();
  args[0] = shapeless;
  CHECK(checker.error(args) == "argument \"x\": expected a shape, found null");
}

TEST_CASE("A tensor that is not on a CUDA device, or on another one, is an error") {
  Checker checker;
  Call call;
  DLTensor host = call.x.dlpack();
  host.device = {kDLCPU, 0};
  std::vector<Arg> args = call.args();
  args[0] = host;
  CHECK(checker.error(args) == "argument \"x\": expected a tensor on a CUDA device, found cpu");
  call.out = Tensor(at(kOut), DType::kF32, {8, 4}, 1);
  CHECK(checker.error(call) == "argument \"out\": expected cuda:0 as argument \"x\", found cuda:1");
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, 3);
  call.table = Tensor(at(kTable), DType::kF32, {16}, 3);
  call.mask = Tensor(at(kMask), DType::kU8, {8}, 3);
  call.out = Tensor(at(kOut), DType::kF32, {8, 4}, 3);
  CHECK(checker.error(call).empty());
  CHECK(checker.device() == 3);
}

TEST_CASE("Pinned host memory is taken where the argument allows it, and nowhere else") {
  Op op = test::sample_op();
  op.args[1].host_memory = true;
  Checker checker(op);
  const Call call;
  DLTensor pinned = call.table.dlpack();
  pinned.device = {kDLCUDAHost, 0};
  std::vector<Arg> args = call.args();
  args[1] = pinned;
  CHECK(checker.error(args).empty());
  CHECK(checker.device() == 0);
  pinned.device = {kDLCPU, 0};
  CHECK(checker.error(args) ==
        "argument \"table\": expected a tensor on a CUDA device or in pinned host memory, found "
        "cpu");
  DLTensor x = call.x.dlpack();
  x.device = {kDLCUDAHost, 0};
  args = call.args();
  args[0] = x;
  CHECK(checker.error(args) ==
        "argument \"x\": expected a tensor on a CUDA device, found pinned host memory");
}

TEST_CASE("A null pointer is an error unless the tensor has no element") {
  Checker checker;
  Call call;
  call.x = Tensor(nullptr, DType::kBF16, {8, 16});
  CHECK(checker.error(call) == "argument \"x\": expected a device pointer, found null");
  call.x = Tensor(nullptr, DType::kBF16, {0, 16});
  call.mask = Tensor(nullptr, DType::kU8, {0});
  call.out = Tensor(nullptr, DType::kF32, {0, 4});
  CHECK(checker.error(call).empty());
  CHECK(checker.problem().dim("m") == 0);
}

TEST_CASE("Strides that the layout does not allow are errors") {
  Checker checker;
  Call call;
  call.out = Tensor(at(kOut), DType::kF32, {8, 4}, {8, 1});
  CHECK(checker.error(call) ==
        "argument \"out\": expected a contiguous tensor, found strides [8, 1] for shape [8, 4]");
  call = Call();
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {64, 2});
  CHECK(
      checker.error(call) ==
      "argument \"x\": expected an innermost stride of 1, found strides [64, 2] for shape [8, 16]");
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {-16, 1});
  CHECK(checker.error(call) ==
        "argument \"x\": expected strides that are not negative, found strides [-16, 1] for shape "
        "[8, 16]");
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {4096, 1});
  CHECK(checker.error(call).empty());
}

TEST_CASE("Rows that share elements are read as any others, and never written") {
  const bool in_place = GENERATE(false, true);
  Op op = test::sample_op();
  op.args[0].access = in_place ? Access::kReadWrite : Access::kRead;
  Checker checker(std::move(op));
  Call call;
  for (const std::int64_t stride : {0, 8}) {
    CAPTURE(stride);
    call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {stride, 1});
    CHECK(checker.error(call, true) ==
          (in_place ? "argument \"x\": expected rows that do not overlap, found strides [" +
                          std::to_string(stride) + ", 1] for shape [8, 16]"
                    : ""));
  }
}

TEST_CASE("One row that is read as several still shares no byte with what is written") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {0, 1});  // 32 bytes.
  call.out = Tensor(at(kX + 16), DType::kF32, {8, 4});
  CHECK(checker.error(call, false).find("shares bytes with argument \"x\" at [0x10000, 0x10020)") !=
        std::string::npos);
  CHECK_FALSE(checker.error(call, true).empty());
  call.out = Tensor(at(kX + 32), DType::kF32, {8, 4});  // Right behind it.
  CHECK(checker.error(call, false).empty());
  CHECK(checker.error(call, true).empty());
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {8, 1});  // 144 bytes, each but a few twice.
  CHECK_FALSE(checker.error(call, true).empty());
  call.out = Tensor(at(kX + 144), DType::kF32, {8, 4});
  CHECK(checker.error(call, true).empty());
}

TEST_CASE("Absent strides mean contiguous, and the stride of an axis with one index is ignored") {
  Checker checker;
  Call call;
  DLTensor packed = call.out.dlpack();
  packed.strides = nullptr;
  std::vector<Arg> args = call.args();
  args[4] = packed;
  CHECK(checker.error(args).empty());
  call.x = Tensor(at(kX), DType::kBF16, {1, 16}, {-7, 1});
  call.mask = Tensor(at(kMask), DType::kU8, {1}, {12345});
  call.out = Tensor(at(kOut), DType::kF32, {1, 4}, {3, 1});
  CHECK(checker.error(call).empty());
}

TEST_CASE("A misaligned base pointer is an error, the byte offset included") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX + 8), DType::kBF16, {8, 16});
  CHECK(checker.error(call) ==
        "argument \"x\": expected an address aligned to 16 bytes, found 0x10008");
  call = Call();
  DLTensor offset = call.x.dlpack();
  offset.byte_offset = 2;
  std::vector<Arg> args = call.args();
  args[0] = offset;
  CHECK(checker.error(args) ==
        "argument \"x\": expected an address aligned to 16 bytes, found 0x10002");
  call = Call();
  call.mask = Tensor(at(kMask + 1), DType::kU8, {8});  // Natural alignment is enough for it.
  CHECK(checker.error(call).empty());
}

TEST_CASE("A row that starts off the alignment is an error") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {20, 1});
  CHECK(checker.error(call) ==
        "argument \"x\": expected each row to start on a 16-byte boundary, found a stride of 20 "
        "elements "
        "(40 bytes) along axis 0");
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {24, 1});
  CHECK(checker.error(call).empty());
  // Contiguous rows too.
  call.x = Tensor(at(kX), DType::kBF16, {8, 15});
  call.table = Tensor(at(kTable), DType::kF32, {15});
  CHECK(checker.error(call).find("found a stride of 15 elements (30 bytes)") != std::string::npos);
}

TEST_CASE("An alignment below the type's own is raised to it") {
  Op op = test::sample_op();
  op.args[1].alignment = 1;
  Checker checker(std::move(op));
  Call call;
  call.table = Tensor(at(kTable + 2), DType::kF32, {16});
  CHECK(checker.error(call) ==
        "argument \"table\": expected an address aligned to 4 bytes, found 0x200002");
}

TEST_CASE("An extent or stride that a kernel takes as 32 bits must fit them") {
  Op op = test::sample_op();
  op.kernels[0].params[1] = Param::stride("x", 0, ScalarType::kI32);
  Checker checker(std::move(op));
  const std::int64_t large = std::int64_t{1} << 31;
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {large, 16});
  CHECK(
      checker.error(call) ==
      "argument \"x\": expected m of at most 2147483647, since a kernel takes it as 32 bits, found "
      "2147483648");
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {large, 1});
  CHECK(checker.error(call) ==
        "argument \"x\": expected a stride of at most 2147483647 along axis 0, since a kernel "
        "takes it as "
        "32 bits, found 2147483648");
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {large - 8, 1});
  call.out = Tensor(at(std::uintptr_t{1} << 50), DType::kF32, {8, 4});
  CHECK(checker.error(call).empty());
}

TEST_CASE("A tensor larger than an address space is an error, not an overflow") {
  Checker checker;
  const std::int64_t huge = std::numeric_limits<std::int64_t>::max();
  Call call;
  call.table = Tensor(at(kTable), DType::kF32, {huge});
  call.x = Tensor(at(kX), DType::kBF16, {8, huge});
  CHECK(checker.error(call).find("argument \"x\": expected ") == 0);
  call = Call();
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {huge - 15, 1});
  CHECK(checker.error(call).find("argument \"x\": expected a tensor that fits in memory") == 0);
}

TEST_CASE("A scalar must be of its type and within it") {
  Op op = test::sample_op();
  const auto with_scalar = [&](ScalarType type) {
    op.args[3].scalar = type;
    return Checker(op);
  };
  const auto call_with = [](Arg scalar) {
    static const Call call;
    std::vector<Arg> args = call.args();
    args[3] = scalar;
    return args;
  };
  const std::int64_t large = std::int64_t{1} << 31;
  CHECK(with_scalar(ScalarType::kI32).error(call_with(large)) ==
        "argument \"eps\": expected an integer of 32 bits, found 2147483648");
  CHECK(with_scalar(ScalarType::kI32).error(call_with(-large)).empty());
  CHECK(with_scalar(ScalarType::kI64).error(call_with(large)).empty());
  CHECK(with_scalar(ScalarType::kI64).error(call_with(0.5)) ==
        "argument \"eps\": expected an integer, found the real number 0.5");
  CHECK(with_scalar(ScalarType::kBool).error(call_with(2)) ==
        "argument \"eps\": expected 0 or 1, found 2");
  CHECK(with_scalar(ScalarType::kBool).error(call_with(1)).empty());
  CHECK(with_scalar(ScalarType::kF32).error(call_with(1e39)) ==
        "argument \"eps\": expected a number within f32, found 1e+39");
  CHECK(with_scalar(ScalarType::kF32).error(call_with(1)).empty());
  CHECK(with_scalar(ScalarType::kF32)
            .error(call_with(std::numeric_limits<double>::infinity()))
            .empty());
}

TEST_CASE("Contiguous tensors that intersect are refused when one is written") {
  Checker checker;
  Call call;
  call.out = Tensor(at(kTable + 48), DType::kF32, {8, 4});
  CHECK(checker.error(call) ==
        "argument \"out\": expected memory of its own, since it is written, found [0x200030, "
        "0x2000b0), "
        "which shares bytes with argument \"table\" at [0x200000, 0x200040)");
  call.out = Tensor(at(kTable + 64), DType::kF32, {8, 4});  // Right behind it.
  CHECK(checker.error(call).empty());
  call.out = Tensor(at(kTable - 128), DType::kF32, {8, 4});  // Right before it.
  CHECK(checker.error(call).empty());
  call.out = Tensor(at(kX), DType::kF32, {8, 4});  // The input itself.
  CHECK(checker.error(call).find("shares bytes with argument \"x\"") != std::string::npos);
}

TEST_CASE("Two inputs may share memory") {
  Checker checker;
  Call call;
  call.table = Tensor(at(kX), DType::kF32, {16});
  CHECK(checker.error(call, true).empty());
}

TEST_CASE("Strided views that share bytes are refused in the checking mode only") {
  Checker checker;
  Call call;
  // x has 32 bytes in every 256; out is 128 bytes that begin in the gap and reach the next row.
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {128, 1});
  call.out = Tensor(at(kX + 144), DType::kF32, {8, 4});
  CHECK(checker.error(call, false).empty());
  CHECK(checker.error(call, true)
            .find("argument \"out\": expected memory of its own, since it is written, found "
                  "[0x10090, 0x10110), "
                  "which shares bytes with argument \"x\" at [0x10000, 0x10720)") == 0);
}

TEST_CASE("Strided views that interleave without sharing a byte are allowed in every mode") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {128, 1});
  call.out = Tensor(at(kX + 32), DType::kF32, {8, 4});
  CHECK(checker.error(call, false).empty());
  CHECK(checker.error(call, true).empty());
  call.out = Tensor(at(kX + 128), DType::kF32, {8, 4});  // To the next row's first byte.
  CHECK(checker.error(call, true).empty());
}

TEST_CASE("Two views of one buffer, both strided, are told apart exactly") {
  Op op = test::sample_op();
  op.args[4].layout = Layout::kRowStrided;
  op.args[4].alignment = 4;
  Checker checker(std::move(op));
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {64, 1});       // Bytes 0..31 of each 128.
  call.out = Tensor(at(kX + 32), DType::kF32, {8, 4}, {32, 1});  // Bytes 32..47 of each 128.
  CHECK(checker.error(call, true).empty());
  call.out = Tensor(at(kX + 28), DType::kF32, {8, 4}, {32, 1});  // Bytes 28..43.
  CHECK_FALSE(checker.error(call, true).empty());
  CHECK(checker.error(call, false).empty());
  call.out = Tensor(at(kX + 32), DType::kF32, {8, 4}, {36, 1});  // Drifts into a row of x.
  CHECK_FALSE(checker.error(call, true).empty());
}

TEST_CASE("A strided view whose rows leave no gap counts as contiguous") {
  Checker checker;
  Call call;
  call.x = Tensor(at(kX), DType::kBF16, {8, 16}, {16, 1});
  call.out = Tensor(at(kX + 16), DType::kF32, {8, 4});
  CHECK_FALSE(checker.error(call, false).empty());
}

TEST_CASE("An argument written in place is one argument and may not meet another") {
  Op op = test::sample_op();
  op.args[0].access = Access::kReadWrite;
  Checker checker(std::move(op));
  Call call;
  CHECK(checker.error(call, true).empty());
  call.table = Tensor(at(kX), DType::kF32, {16});
  CHECK(checker.error(call).find("argument \"x\": expected memory of its own") == 0);
}

TEST_CASE("The op's own contract is asked last, with the problem filled in") {
  Op op = test::sample_op();
  op.contract = [](const Problem& problem) {
    return problem.dim("k") % 16 == 0 ? std::string() : "k must be a multiple of 16, found 24";
  };
  op.policy = [](const Problem& problem) {
    return problem.dim("m") <= 4 ? std::string() : std::string("m is above MAX_M = 4");
  };
  Checker checker(op);
  Call call;
  CHECK(checker.error(call).empty());  // The policy does not count for a launch.
  call.x = Tensor(at(kX), DType::kBF16, {8, 24});
  call.table = Tensor(at(kTable), DType::kF32, {24});
  CHECK(checker.error(call) == "k must be a multiple of 16, found 24");
}

TEST_CASE("Conditions on scalars see their values, and the problem which of them are there") {
  Op op = test::sample_op();
  ArgSpec block;
  block.name = "block";
  block.optional = true;
  op.args.push_back(block);
  op.kernels[0].params.push_back(Param::scalar("block"));
  op.scalar_contract = [](const Problem& problem, const Scalars& scalars) {
    return problem.present("block") && scalars.integer("block") < 1
               ? "block must be at least 1, found " + std::to_string(scalars.integer("block"))
               : std::string();
  };
  Checker checker(op);
  const Call call;
  std::vector<Arg> args = call.args();
  args.emplace_back();
  CHECK(checker.error(args).empty());
  CHECK_FALSE(checker.problem().present("block"));
  args.back() = Arg(1);
  CHECK(checker.error(args).empty());
  CHECK(checker.problem().present("block"));
  args.back() = Arg(0);
  CHECK(checker.error(args) == "block must be at least 1, found 0");
}

TEST_CASE("The policy is asked separately") {
  Registry registry;
  Op op = test::sample_op();
  const BoundOp& without = **registry.add(op);
  op.name = "with_policy";
  op.policy = [](const Problem& problem) {
    return problem.dim("m") <= 4 ? std::string() : std::string("m is above MAX_M = 4");
  };
  const BoundOp& with = **registry.add(op);
  Problem problem(with.names);
  problem.set_dim(0, 4);
  CHECK(policy_reason(with, problem).empty());
  problem.set_dim(0, 5);
  CHECK(policy_reason(with, problem) == "m is above MAX_M = 4");
  CHECK(policy_reason(without, problem).empty());
}

TEST_CASE("A call like one that passed passes again exactly when its whole check says so") {
  Op op = test::sample_op();
  op.args[3].scalar = ScalarType::kI32;
  op.scalar_contract = [](const Problem& problem, const Scalars& scalars) {
    return scalars.integer("eps") == problem.dim("m") ? "eps is m" : "";
  };
  Registry registry;
  const BoundOp& bound = **registry.add(std::move(op));
  Problem problem(bound.names);
  int device = -1;
  Recheck recheck;
  Call call;
  call.eps = 1;
  REQUIRE(check_call(bound, call.args(), false, problem, device, &recheck));
  int passed = 0;
  int failed = 0;
  // Null, misaligned, at the edges of the others, over them, and apart.
  for (const std::uintptr_t x : {kX, std::uintptr_t{0}, kX + 2, kOut - 256, kOut + 128, kOut}) {
    for (const std::uintptr_t out : {kOut, std::uintptr_t{0}, kTable, kTable + 64, kMask - 128}) {
      for (const std::int64_t eps : {std::int64_t{1}, std::int64_t{8}, std::int64_t{1} << 40}) {
        const Tensor moved(at(x), DType::kBF16, {8, 16});
        const Tensor written(at(out), DType::kF32, {8, 4});
        const std::vector<Arg> args{moved, call.table, call.mask, eps, written};
        const bool good = check_call(bound, args, false, problem, device).has_value();
        CAPTURE(x, out, eps);
        CHECK(passes(bound, recheck, args) == good);
        (good ? passed : failed) += 1;
      }
    }
  }
  CHECK(passed > 0);
  CHECK(failed > 0);
}

TEST_CASE("What has no element is as free again as it was") {
  Registry registry;
  const BoundOp& bound = **registry.add(test::sample_op());
  Problem problem(bound.names);
  int device = -1;
  Recheck recheck;
  const Tensor x(nullptr, DType::kBF16, {0, 16});
  const Tensor table(at(kTable), DType::kF32, {16});
  const Tensor mask(nullptr, DType::kU8, {0});
  const Tensor out(nullptr, DType::kF32, {0, 4});
  const std::vector<Arg> args{x, table, mask, 1e-6, out};
  REQUIRE(check_call(bound, args, false, problem, device, &recheck));
  CHECK(passes(bound, recheck, args));
  CHECK(recheck.memory.size() == 1);
}

}  // namespace
}  // namespace kiln::registry
