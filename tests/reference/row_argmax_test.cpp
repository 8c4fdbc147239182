#include "reference/row_argmax.hpp"

#include <limits>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::reference {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

std::int64_t of(const std::vector<float>& row) {
  const auto n = static_cast<std::int64_t>(row.size());
  return row_argmax(row.data(), n, 1, n)[0];
}

TEST_CASE("The largest element wins, and of equals the first") {
  CHECK(of({3}) == 0);
  CHECK(of({-1, 2, 5, 4}) == 2);
  CHECK(of({-1, 5, 2, 5}) == 1);
  CHECK(of({-0.0F, 0.0F}) == 0);
  CHECK(of({-1, 0.0F, -0.0F}) == 1);
  CHECK(of({-kInf, 1, kInf, kInf}) == 2);
  CHECK(of({1e-45F, 0, 3e-45F}) == 2);
}

TEST_CASE("A row of -inf gives 0, and the first NaN wins over everything") {
  CHECK(of({-kInf, -kInf, -kInf}) == 0);
  CHECK(of({-kInf, -kInf, std::numeric_limits<float>::lowest()}) == 2);
  CHECK(of({kNan, 1}) == 0);
  CHECK(of({1, kInf, kNan, 7, -kNan}) == 2);
  CHECK(of({-kInf, -kNan}) == 1);
}

TEST_CASE("Each row of a strided matrix has its own index") {
  const std::vector<float> x = {1, 2, 9, 4, 3, 9, 0, 1, 9};
  CHECK(row_argmax(x.data(), 3, 3, 2) == std::vector<std::int64_t>{1, 0, 1});
  CHECK(row_argmax(x.data(), 3, 0, 2).empty());
}

}  // namespace
}  // namespace kiln::reference
