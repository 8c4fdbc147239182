#include "runtime/work_list.hpp"

#include <map>
#include <set>

#include "runtime/share_work.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/tiny_op.hpp"
#include "trait_registry/variant.hpp"

namespace kiln::runtime {
namespace {

std::vector<Variant> everything(const registry::Registry& registry) {
  std::vector<Variant> all;
  for (const char* target : {"sm_90a", "sm_100a", "sm_120a"}) {
    for (const registry::BoundOp* bound : registry.all()) {
      for (const Variant& variant : registry::enumerate(*bound, parse_target(target))) {
        all.push_back(variant);
      }
    }
  }
  return all;
}

// A kernel that two ops have goes by either's name.
std::multiset<std::string> keys(const WorkList& list) {
  std::multiset<std::string> keys;
  for (const WorkItem& item : list.items) {
    for (const Candidate& member : item.members) {
      keys.insert(member.source.digest.hex());
    }
  }
  return keys;
}

double cost(const WorkList& list) {
  double sum = 0;
  for (const WorkItem& item : list.items) {
    sum += item.cost;
  }
  return sum;
}

}  // namespace

TEST_CASE("Groups are of one source, evenly filled, and hold every variant once") {
  registry::Registry registry;
  const registry::BoundOp& tiny = *value_or_throw(registry.add(test::tiny_op(20)));
  const auto groups = registry::compile_groups(tiny, parse_target("sm_90a"));
  REQUIRE(groups.size() == 3);
  CHECK(groups[0].size() == 6);
  CHECK(groups[1].size() == 7);
  CHECK(groups[2].size() == 7);
  for (const registry::BoundOp* bound : registry.all()) {
    std::set<std::string> seen;
    for (const auto& group : registry::compile_groups(*bound, parse_target("sm_90a"))) {
      CHECK(group.size() <= registry::kMaxGroup);
      const auto first = value_or_throw(registry::compile_unit(group.front()));
      for (const Variant& variant : group) {
        CHECK(same_program(first, value_or_throw(registry::compile_unit(variant))));
        CHECK(seen.insert(to_string(variant)).second);
      }
    }
    CHECK(seen.size() == registry::enumerate(*bound, parse_target("sm_90a")).size());
  }
}

TEST_CASE("A group is one piece of work only if all of it is wanted") {
  registry::Registry registry;
  const registry::BoundOp& tiny = *value_or_throw(registry.add(test::tiny_op(8)));
  std::vector<Variant> wanted = registry::enumerate(tiny, parse_target("sm_90a"));
  CHECK(WorkList::of(registry, wanted).items.size() == 1);
  wanted.push_back(wanted.front());  // Twice is once.
  CHECK(WorkList::of(registry, wanted).kernels() == 8);
  wanted.erase(wanted.begin() + 3);
  const WorkList part = WorkList::of(registry, wanted);
  CHECK(part.items.size() == 7);
  CHECK(part.kernels() == 7);
}

TEST_CASE("Shards are disjoint, complete, about equal, and do not depend on the order of asking") {
  const registry::Registry registry;
  std::vector<Variant> wanted = everything(registry);
  const WorkList whole = WorkList::of(registry, wanted);
  for (const int count : {2, 3, 8}) {
    std::multiset<std::string> together;
    for (int index = 0; index < count; ++index) {
      std::reverse(wanted.begin(), wanted.end());
      WorkList part = WorkList::of(registry, wanted);
      part.keep({index, count});
      CHECK(cost(part) < 1.25 * cost(whole) / count);
      CHECK(cost(part) > 0.75 * cost(whole) / count);
      together.merge(keys(part));
    }
    CHECK(together == keys(whole));
  }
}

TEST_CASE("Shared work is done once each, stops when told, and throws what was thrown first") {
  std::vector<std::atomic<int>> done(100);
  share_work(done.size(), 4, {}, [&](std::size_t i) { ++done[i]; });
  for (const std::atomic<int>& each : done) {
    CHECK(each == 1);
  }
  std::stop_source stop;
  std::atomic<int> begun{0};
  share_work(100, 1, stop.get_token(), [&](std::size_t) {
    if (++begun == 3) {
      stop.request_stop();
    }
  });
  CHECK(begun == 3);
  CHECK_THROWS_AS(share_work(100, 4, {}, [](std::size_t) { throw std::runtime_error("stop"); }),
                  std::runtime_error);
}

}  // namespace kiln::runtime
