#include "runtime/trace.hpp"

#include <cmath>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/cache/child.hpp"
#include "tests/runtime/engine/machine.hpp"

namespace kiln::test {
namespace {

using runtime::Trace;
using runtime::TraceArgs;
using runtime::TraceSpan;
using Json = nlohmann::json;

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The events, after closing the bracket as a viewer does.
Json events(const std::string& path) {
  std::string text = content(path);
  REQUIRE(text.ends_with(",\n"));
  text.replace(text.size() - 2, 2, "]");
  return Json::parse(text);
}

std::vector<Json> complete_events(const std::string& path) {
  std::vector<Json> found;
  for (const Json& event : events(path)) {
    if (event["ph"] == "X") {
      found.push_back(event);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("An event has its times, its thread and its arguments") {
  const TempDir dir;
  LogLines log;
  Trace trace(dir.str("t.json"), Logger(log.sink()));
  REQUIRE(trace.on());
  const auto start = Trace::Clock::now();
  trace.complete("compile \"x\"\n", "compile", start,
                 TraceArgs()
                     .add("op", "caf\xc3\xa9")
                     .add("bad", "\xff")
                     .add("bytes", std::size_t{7})
                     .add("hit", true)
                     .add("seconds", 0.5)
                     .add("nan", std::nan(""))
                     .add("minus", -1));
  const auto end = Trace::Clock::now();
  const auto found = complete_events(dir.str("t.json"));
  REQUIRE(found.size() == 1);
  const Json& event = found[0];
  CHECK(event["name"] == "compile \"x\"\n");
  CHECK(event["cat"] == "compile");
  CHECK(event["pid"] == getpid());
  CHECK(event["tid"] == gettid());
  CHECK(event["args"] == Json({{"op", "caf\xc3\xa9"},
                               {"bad", "\xef\xbf\xbd"},
                               {"bytes", 7},
                               {"hit", true},
                               {"seconds", 0.5},
                               {"nan", nullptr},
                               {"minus", -1}}));
  const auto microseconds = [](Trace::Clock::duration duration) {
    return std::chrono::duration<double, std::micro>(duration).count();
  };
  constexpr double kRounding = 0.01;
  CHECK(std::abs(event["ts"].get<double>() - microseconds(start.time_since_epoch())) < kRounding);
  CHECK(event["dur"] >= 0);
  CHECK(event["dur"].get<double>() <= microseconds(end - start) + kRounding);
  CHECK(log.lines().empty());
}

TEST_CASE("The file begins with the process's name and needs only its bracket closed") {
  const TempDir dir;
  LogLines log;
  const Trace trace(dir.str("t.json"), Logger(log.sink()));
  const Json all = events(dir.str("t.json"));
  REQUIRE(all.size() == 1);
  CHECK(all[0]["name"] == "process_name");
  CHECK(all[0]["ph"] == "M");
  CHECK(all[0]["args"]["name"] == program_invocation_short_name);
}

TEST_CASE("A span is an event from its construction to its destruction") {
  const TempDir dir;
  LogLines log;
  Trace trace(dir.str("t.json"), Logger(log.sink()));
  {
    TraceSpan outer(trace, "outer", "cache");
    CHECK(outer.on());
    const TraceSpan inner(trace, "inner", "cache");
    outer.arg("hits", 3).arg("key", "abc");
  }
  const auto found = complete_events(dir.str("t.json"));
  REQUIRE(found.size() == 2);
  CHECK(found[0]["name"] == "inner");
  CHECK(found[1]["name"] == "outer");
  CHECK(found[1]["args"] == Json({{"hits", 3}, {"key", "abc"}}));
  CHECK(found[1]["ts"] <= found[0]["ts"]);
  CHECK(found[1]["dur"] >= found[0]["dur"]);
}

TEST_CASE("Off, nothing is written") {
  const TempDir dir;
  LogLines log;
  Trace trace("", Logger(log.sink()));
  CHECK_FALSE(trace.on());
  TraceSpan span(trace, "span", "cache");
  span.arg("key", 1);
  CHECK_FALSE(span.on());
  trace.complete("event", "cache", Trace::Clock::now());
  CHECK(std::filesystem::is_empty(dir.path()));
  CHECK(log.lines().empty());
}

TEST_CASE("Processes and threads write whole lines into one file") {
  const TempDir dir;
  constexpr int kProcesses = 4;
  constexpr int kThreads = 2;
  constexpr int kEach = 200;
  const int failures = cache::test::failures_of_children(kProcesses, [&](int) -> std::string {
    LogLines log;
    Trace trace(dir.str("t.json"), Logger(log.sink()));
    {
      std::vector<std::jthread> threads;
      for (int thread = 0; thread < kThreads; ++thread) {
        threads.emplace_back([&] {
          for (int i = 0; i < kEach; ++i) {
            trace.complete(std::string(100, 'x'), "cache", Trace::Clock::now(),
                           TraceArgs().add("i", i));
          }
        });
      }
    }
    return trace.on() ? "" : "off";
  });
  CHECK(failures == 0);
  CHECK(content(dir.str("t.json")).find('[') == 0);
  const auto found = complete_events(dir.str("t.json"));
  CHECK(found.size() == kProcesses * kThreads * kEach);
  std::set<int> processes;
  std::set<int> threads;
  for (const Json& event : found) {
    processes.insert(event["pid"].get<int>());
    threads.insert(event["tid"].get<int>());
  }
  CHECK(processes.size() == kProcesses);
  CHECK(threads.size() == kProcesses * kThreads);
}

TEST_CASE("A second engine adds to the trace of the first") {
  const TempDir dir;
  LogLines log;
  for (int i = 0; i < 2; ++i) {
    Trace trace(dir.str("t.json"), Logger(log.sink()));
    trace.complete("event", "cache", Trace::Clock::now());
  }
  CHECK(complete_events(dir.str("t.json")).size() == 2);
}

TEST_CASE("The process id may be a part of the trace's name") {
  const TempDir dir;
  LogLines log;
  const Trace trace(dir.str("%p.json"), Logger(log.sink()));
  CHECK(events(dir.str(std::to_string(getpid()) + ".json")).size() == 1);
}

TEST_CASE("A file that cannot be written, or is something else, is one warning and off") {
  const TempDir dir;
  std::ofstream(dir.str("thesis")) << "chapter one\n";
  REQUIRE(mkfifo(dir.str("pipe").c_str(), 0600) == 0);
  const std::string name = GENERATE("absent/t.json", "thesis", "pipe", ".");
  LogLines log;
  Trace trace(dir.str(name), Logger(log.sink()));
  CHECK_FALSE(trace.on());
  trace.complete("event", "cache", Trace::Clock::now());
  REQUIRE(log.lines().size() == 1);
  CHECK(log.lines()[0].find("trace: no events are written to " + dir.str(name)) == 0);
  CHECK(content(dir.str("thesis")) == "chapter one\n");
}

TEST_CASE("A disk that takes no more turns the trace off, with one warning") {
  const TempDir dir;
  const std::string problem = cache::test::in_child([&]() -> std::string {
    LogLines log;
    Trace trace(dir.str("t.json"), Logger(log.sink()));
    signal(SIGXFSZ, SIG_IGN);
    const rlimit small = {1000, 1000};
    setrlimit(RLIMIT_FSIZE, &small);
    for (int i = 0; i < 100; ++i) {
      trace.complete("event", "cache", Trace::Clock::now());
    }
    return !trace.on() && log.lines().size() == 1 ? "" : "not off after one warning";
  });
  CHECK(problem == "");
  CHECK(std::filesystem::file_size(dir.str("t.json")) <= 1000);
}

}  // namespace kiln::test
