#include <algorithm>
#include <csignal>
#include <exception>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <fcntl.h>
#include <unistd.h>

#include <kiln/error.hpp>
#include <kiln/version.hpp>

#include "tools/commands.hpp"
#include "tools/console.hpp"

namespace kiln::tools {
namespace {

constexpr const char* kDescription =
    "Kiln compiles CUDA kernels at run time and keeps them in a cache.\n"
    "This command lists ops, prebuilds their kernels, and looks after the cache.";
constexpr const char* kFooter =
    "Exit codes: 0 success, 1 failure at run time, 2 wrong usage; 130 or 143 when a signal stopped "
    "it.\n"
    "Environment: KILN_CACHE_DIR names the cache directory, KILN_CACHE_LAYERS read-only "
    "directories\n"
    "and packs, KILN_TRUSTED_KEYS the keys that packs must be signed with, KILN_NVRTC the NVRTC\n"
    "library, KILN_JIT (allow, warn, forbid) what happens to a kernel that is in no cache.";

// CLI11's help holds the subcommand that was asked about; its own exit codes (100 and up) are not
// ours.
int finish_parse(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
    app.exit(error);
    return finish_output() ? kSuccess : kFailure;
  }
  complain(fmt::format("{}. 'kiln --help' and 'kiln COMMAND --help' say what is accepted.",
                       error.what()));
  return kUsage;
}

// What CLI11 parses: the words, the last first. "--option=" is an option whose value is empty, as
// with an unset shell variable; CLI11 would take the next word for the value.
std::vector<std::string> words_of(int argc, char** argv) {
  std::vector<std::string> words;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    std::string word = argv[i];
    options = options && word != "--";
    const bool empty = options && word.starts_with("--") && word.find('=') == word.size() - 1;
    if (empty) {
      word.pop_back();
    }
    words.push_back(std::move(word));
    if (empty) {
      words.emplace_back();
    }
  }
  std::reverse(words.begin(), words.end());
  return words;
}

bool asks_for_json(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return std::any_of(chosen.begin(), chosen.end(), [](const CLI::App* command) {
    const CLI::Option* json = command->get_option_no_throw("--json");
    return (json != nullptr && json->count() > 0) || asks_for_json(*command);
  });
}

// Who reads JSON gets JSON, also when there is nothing to tell but an error.
int run_action(const CLI::App& app, const Action& action) {
  try {
    return action();
  } catch (const std::exception& error) {
    if (asks_for_json(app)) {
      print_json({{"error", in_words_of_the_command(error.what())}});
    }
    complain(error.what());
    return kFailure;
  }
}

int run_command(int argc, char** argv) {
  CLI::App app(kDescription, "kiln");
  app.footer(kFooter);
  app.set_version_flag("--version", "kiln " KILN_VERSION);
  app.require_subcommand(1);

  Action action;
  add_ops(app, action);
  add_prebuild(app, action);
  add_manifest(app, action);
  add_run(app, action);
  add_bench(app, action);
  add_cache(app, action);
  add_pack(app, action);
  add_doctor(app, action);
  for (CLI::App* command : app.get_subcommands({})) {
    command->footer(kFooter);
  }
  try {
    app.parse(words_of(argc, argv));
  } catch (const CLI::ParseError& error) {
    return finish_parse(app, error);
  }
  const int code = run_action(app, action);
  if (!finish_output()) {
    complain("the output could not be written completely.");
    return kFailure;
  }
  return code;
}

}  // namespace
}  // namespace kiln::tools

namespace {

// A file that is opened must not come to lie where messages go.
void fill_standard_streams() {
  int descriptor = ::open("/dev/null", O_RDWR);
  while (descriptor >= 0 && descriptor <= STDERR_FILENO) {
    descriptor = ::dup(descriptor);
  }
  if (descriptor >= 0) {
    ::close(descriptor);
  }
}

}  // namespace

int main(int argc, char** argv) {
  fill_standard_streams();
  std::signal(SIGXFSZ, SIG_IGN);  // A limit on files is then an error of the write.
  try {
    return kiln::tools::run_command(argc, argv);
  } catch (const std::exception& error) {
    kiln::tools::complain(error.what());
    return kiln::tools::kFailure;
  }
}
