#include <algorithm>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fnmatch.h>

#include <kiln/engine.hpp>

#include "tools/bench/measure.hpp"
#include "tools/bench/peer_table.hpp"
#include "tools/bench/plot.hpp"
#include "tools/bench/report.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/op_case.hpp"

namespace kiln::tools {
namespace {

struct BenchArgs {
  std::vector<std::string> ops;
  std::string peers;
  std::string plot;
  std::string save;
  double bandwidth = bench::Settings{}.terabytes_per_second;
  std::string pdl = "on";
  bool json = false;
};

bool matches(const std::string& glob, const std::string& name) {
  return fnmatch(glob.c_str(), name.c_str(), 0) == 0;
}

// The cases of the ops that some glob matches; all of them without globs.
std::vector<OpCase> chosen_cases(const Engine& engine, const std::vector<std::string>& globs) {
  const std::vector<std::string> names = engine.op_names();
  for (const std::string& glob : globs) {
    if (std::none_of(names.begin(), names.end(),
                     [&](const std::string& name) { return matches(glob, name); })) {
      throw Error(ErrorCode::kUnknownOp,
                  fmt::format("no op matches '{}'; 'kiln ops' lists them", glob));
    }
  }
  std::vector<OpCase> cases;
  for (const std::string& name : names) {
    if (globs.empty() || std::any_of(globs.begin(), globs.end(), [&](const std::string& glob) {
          return matches(glob, name);
        })) {
      cases.push_back(find_case(name));
    }
  }
  return cases;
}

// Before anything is measured, so that a bad path costs no time; what the file holds stays until
// there is something to put in its place.
void require_writable(const std::string& path) {
  if (!path.empty() && !std::ofstream(path, std::ios::app)) {
    throw Error(ErrorCode::kIo, fmt::format("{} cannot be written", path));
  }
}

void write(const std::string& path, const std::string& text) {
  if (!path.empty() && !(std::ofstream(path, std::ios::binary) << text).flush()) {
    throw Error(ErrorCode::kIo, fmt::format("{} could not be written completely", path));
  }
}

// A run and its results.
class Run {
 public:
  explicit Run(const BenchArgs& args) : args_(args) {
    if (!args.peers.empty()) {
      peers_ = bench::PeerTable::read(args.peers);
    }
  }

  void measure(Engine& engine, const std::vector<OpCase>& cases) {
    bench::Bench bench(engine, {.pdl = pdl(), .terabytes_per_second = args_.bandwidth});
    device_ = bench.device();
    calibration_ = bench::make_calibration(bench.empty_nodes(), peers_);
    print_heading();
    for (const OpCase& op_case : cases) {
      for (const TimedShape& shape : op_case.shapes) {
        rows_.push_back(bench::make_row(bench.measure(op_case, shape), peers_, pdl()));
        print(bench::row_line(rows_.back(), peers_.has_value()));
      }
    }
  }

  Json json() const {
    Json rows = Json::array();
    for (const bench::Row& row : rows_) {
      rows.push_back(to_json(row));
    }
    return {{"device", device_},
            {"pdl", pdl()},
            {"bandwidth_tb_s", args_.bandwidth},
            {"empty_node", to_json(calibration_)},
            {"rows", rows}};
  }
  std::string svg() const {
    return bench::plot_svg(rows_, fmt::format("kiln bench on {}, PDL {}", device_, args_.pdl));
  }
  std::size_t failed() const {
    return static_cast<std::size_t>(std::count_if(
        rows_.begin(), rows_.end(), [](const bench::Row& row) { return !row.timed(); }));
  }
  const std::vector<bench::Row>& rows() const { return rows_; }

 private:
  bool pdl() const { return args_.pdl == "on"; }

  void print(const std::string& text) const {
    if (!args_.json) {
      print_out(text);
      finish_output();  // A row is shown when it is there; main asks again at the end.
    }
  }
  void print_heading() const {
    print(bench::calibration_line(calibration_) + "\n");
    print(fmt::format("{}, PDL {}; floor: bytes over {:g} TB/s, or 0.5 us\n\n", device_, args_.pdl,
                      args_.bandwidth));
    print(bench::header_lines(peers_.has_value()));
  }

  const BenchArgs& args_;
  std::optional<bench::PeerTable> peers_;
  std::string device_;
  bench::Calibration calibration_;
  std::vector<bench::Row> rows_;
};

int run_bench(const BenchArgs& args) {
  Engine engine(engine_options());
  const std::vector<OpCase> cases = chosen_cases(engine, args.ops);
  Run run(args);
  require_writable(args.save);
  require_writable(args.plot);
  run.measure(engine, cases);
  if (args.json) {
    print_json(run.json());
  }
  write(args.save, run.json().dump(2) + "\n");
  write(args.plot, run.svg());
  if (run.failed() > 0) {
    complain(fmt::format("{} of {} could not be timed.", run.failed(),
                         count(run.rows().size(), "row", "rows")));
    return kFailure;
  }
  return kSuccess;
}

}  // namespace

void add_bench(CLI::App& app, Action& action) {
  const auto args = std::make_shared<BenchArgs>();
  CLI::App* command = app.add_subcommand(
      "bench", "Time ops on the GPU at the shapes of the peer table: device, host, floor.");
  command->add_option("op", args->ops, "Only ops whose name matches (default: all).")
      ->delimiter(',')
      ->type_name("GLOB[,GLOB...]");
  command->add_option("--peers", args->peers, "Compare with the tables of docs/peer_h200.md.")
      ->type_name("FILE.md");
  command->add_option("--plot", args->plot, "Draw the times.")->type_name("FILE.svg");
  command->add_option("--save", args->save, "Write what --json prints to a file as well.")
      ->type_name("FILE.json");
  command->add_option("--bandwidth", args->bandwidth, "TB/s of the floor (default 4.3).")
      ->check(CLI::Range(0.001, 1000.0))
      ->type_name("TB/s");
  command->add_option("--pdl", args->pdl, "Programmatic dependent launch (default on).")
      ->check(CLI::IsMember({"on", "off"}))
      ->type_name("on|off");
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args] { action = [args] { return run_bench(*args); }; });
}

}  // namespace kiln::tools
