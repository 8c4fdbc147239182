#include "c_api/sized.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::c_api {
namespace {

// One struct as three versions of a library have it.
struct First {
  std::size_t struct_size;
  int a;
  int b;
};
struct Second {
  std::size_t struct_size;
  int a;
  int b;
  int c;
  int d;
};

template <class T, class Caller>
T read(const Caller& caller) {
  return read_sized(reinterpret_cast<const T*>(&caller), "options");
}

}  // namespace

TEST_CASE("An older caller's struct is read as if it ended in zeros") {
  const First older{sizeof(First), 1, 2};
  const auto read_back = read<Second>(older);
  CHECK(read_back.a == 1);
  CHECK(read_back.b == 2);
  CHECK(read_back.c == 0);
  CHECK(read_back.d == 0);
}

TEST_CASE("A newer caller's struct is taken while it uses nothing new, and refused when it does") {
  Second newer{sizeof(Second), 1, 2, 0, 0};
  CHECK(read<First>(newer).b == 2);
  newer.d = 1;
  CHECK_THROWS_AS(read<First>(newer), Error);
}

TEST_CASE("No struct at all is one of zeros, and one without a size is refused") {
  CHECK(read_sized<First>(nullptr, "options").a == 0);
  for (const std::size_t size : {std::size_t{0}, std::size_t{7}, sizeof(std::size_t) + 4,
                                 std::size_t{1} << 20, SIZE_MAX, SIZE_MAX - 7}) {
    CAPTURE(size);
    const First unset{size, 1, 2};
    CHECK_THROWS_AS(read<First>(unset), Error);
    std::vector<First> room(2, unset);
    CHECK_THROWS_AS(write_sized(First{0, 3, 4}, &room[0], "report"), Error);
    CHECK(room[0].a == 1);
  }
}

TEST_CASE("An output is written as far as the caller has room, and not further") {
  // Two, so that GCC does not see a write past the one, which struct_size keeps from being.
  std::vector<Second> rooms(2, {sizeof(First), 9, 9, 9, 9});
  Second& room = rooms[0];
  write_sized(Second{0, 1, 2, 3, 4}, &room, "report");
  CHECK(room.struct_size == sizeof(First));
  CHECK(room.a == 1);
  CHECK(room.b == 2);
  CHECK(room.c == 9);
  CHECK(room.d == 9);

  Second newer{sizeof(Second), 9, 9, 9, 9};
  write_sized(First{0, 1, 2}, reinterpret_cast<First*>(&newer), "report");
  CHECK(newer.struct_size == sizeof(Second));
  CHECK(newer.b == 2);
  CHECK(newer.c == 0);
  CHECK(newer.d == 0);
}

}  // namespace kiln::c_api
