#include "cache/blob_shelf.hpp"

#include <string>

#include "tests/support/catch.hpp"

namespace kiln::cache {
namespace {

const Image kThird(std::string(BlobShelf::kMostBytes / 3, 'x'));

}  // namespace

TEST_CASE("A shelf gives a blob back as it was put") {
  BlobShelf shelf;
  CHECK_FALSE(shelf.find(0));
  const Image blob("blob");
  shelf.put(7, blob);
  REQUIRE(shelf.find(7));
  CHECK(shelf.find(7)->data() == blob.data());
  CHECK_FALSE(shelf.find(0));
}

TEST_CASE("A full shelf drops the blob that was used least recently") {
  BlobShelf shelf;
  for (const std::uint32_t number : {0U, 1U, 2U}) {
    shelf.put(number, kThird);
  }
  CHECK(shelf.find(0));
  shelf.put(3, kThird);
  CHECK(shelf.find(0));
  CHECK_FALSE(shelf.find(1));
  CHECK(shelf.find(2));
  CHECK(shelf.find(3));
}

TEST_CASE("A blob that is larger than a shelf leaves it as it is") {
  BlobShelf shelf;
  shelf.put(0, Image("small"));
  shelf.put(1, Image(std::string(BlobShelf::kMostBytes + 1, 'x')));
  CHECK(shelf.find(0));
  CHECK_FALSE(shelf.find(1));
}

TEST_CASE("A blob that is put twice takes its place once") {
  BlobShelf shelf;
  for (int i = 0; i < 4; ++i) {
    shelf.put(0, kThird);
    shelf.put(1, kThird);
  }
  CHECK(shelf.find(0));
  CHECK(shelf.find(1));
}

}  // namespace kiln::cache
