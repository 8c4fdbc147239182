#include "cache/image.hpp"

#include <string>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"

namespace kiln::cache {

TEST_CASE("An image has the digest of its bytes, with whatever follows them") {
  std::string bytes;
  for (const std::size_t size : {0U, 1U, 16U, 200U, 240U, 241U, 1000U, 5000U}) {
    bytes.resize(size, static_cast<char>(size));
    const Image image(bytes);
    CAPTURE(size);
    for (const std::string& rest : {std::string(), std::string("x"), std::string(3000, 'y')}) {
      CHECK(image.digest_with(rest) == digest(bytes + rest));
    }
    CHECK(image.digest() == digest(bytes));
  }
}

TEST_CASE("Copies of an image share its bytes, and images are equal when their bytes are") {
  const Image image("bytes");
  const std::vector<Image> copies(2, image);
  CHECK(copies[1].data() == image.data());
  CHECK(copies[1] == image);
  CHECK(Image("bytes") == image);
  CHECK_FALSE(Image("other") == image);
  CHECK(Image() == Image(""));
  CHECK(Image().empty());
}

TEST_CASE("Threads may ask an image for its digest at the same time") {
  const Image image(std::string(100'000, 'x'));
  std::vector<Digest> digests(8);
  {
    std::vector<std::jthread> threads;
    for (Digest& mine : digests) {
      threads.emplace_back([&] { mine = image.digest(); });
    }
  }
  for (const Digest& made : digests) {
    CHECK(made == digest(image.bytes()));
  }
}

}  // namespace kiln::cache
