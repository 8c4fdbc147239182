#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <kiln/engine.hpp>

#include "cache/explain.hpp"
#include "runtime/engine_impl.hpp"
#include "tools/commands.hpp"
#include "tools/console.hpp"
#include "tools/paths.hpp"
#include "trait_registry/target.hpp"

namespace kiln::tools {
namespace {

struct WhyArgs {
  std::string op;
  std::vector<std::string> archs;
  std::vector<std::string> traits;  // "NAME=VALUE"
  std::string cache;
  bool json = false;
};

/// One variant and what its lookup came to.
struct Answer {
  std::string name;
  std::string key;
  std::string hit;  // The entry's place; empty for a miss.
  std::optional<cache::Nearest> nearest;
};

// Without --arch: what the first device of this machine would run.
std::vector<Target> own_targets(Engine& engine) {
  const auto driver = engine.impl().driver();
  const auto list = driver && !(*driver)->devices().empty()
                        ? registry::targets_for_device((*driver)->devices()[0].capability)
                        : std::vector<Target>();
  if (list.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "there is no GPU here to ask for its architecture; name one with --arch.");
  }
  return {list.front()};
}

bool is_wanted(const Variant& variant, const std::vector<std::string>& traits) {
  const std::string name = to_string(variant) + " ";
  return std::all_of(traits.begin(), traits.end(), [&](const std::string& trait) {
    return name.find(" " + trait + " ") != std::string::npos;
  });
}

class Inquiry {
 public:
  explicit Inquiry(Engine& engine)
      : store_(engine.impl().store()),
        toolchain_(engine.impl().provider().source().toolchain()),
        explainer_(store_) {
    if (toolchain_) {
      key_ = runtime::toolchain_key(*toolchain_);
    }
  }

  // A lookup like any other: what it finds bad it moves aside.
  Answer ask(const Variant& variant) {
    const auto candidate = value_or_throw(runtime::Candidate::of(variant));
    const cache::ToolchainKey* toolchain = key_ ? &*key_ : nullptr;
    Answer answer{to_string(variant), candidate.source.digest.hex(), {}, {}};
    if (const auto hit = store_.lookup({{&candidate.source, 1}, toolchain, std::nullopt})) {
      answer.hit = hit->path;
    } else {
      answer.nearest = explainer_.nearest(candidate.source, candidate.unit.label, toolchain);
    }
    return answer;
  }

  std::string toolchain() const {
    return toolchain_ ? fmt::format("NVRTC {} ({})", toolchain_->version(), toolchain_->nvrtc_path)
                      : "entries of any NVRTC will do: " + toolchain_.error().message;
  }

 private:
  cache::Store& store_;
  const Result<runtime::Toolchain>& toolchain_;
  std::optional<cache::ToolchainKey> key_;
  cache::Explainer explainer_;
};

Json to_json(const Answer& answer) {
  Json out = {{"kernel", answer.name}, {"key", answer.key}, {"hit", !answer.hit.empty()}};
  if (!answer.hit.empty()) {
    out["path"] = answer.hit;
    return out;
  }
  out["nearest"] = nullptr;
  if (answer.nearest) {
    Json differences = Json::array();
    for (const cache::KeyDifference& difference : answer.nearest->differences) {
      differences.push_back({{"field", difference.field},
                             {"asked", difference.asked},
                             {"stored", difference.stored}});
    }
    out["nearest"] = {{"path", answer.nearest->entry.path},
                      {"label", answer.nearest->entry.label},
                      {"problem", answer.nearest->entry.problem},
                      {"differences", std::move(differences)}};
  }
  return out;
}

void print(const Answer& answer) {
  if (!answer.hit.empty()) {
    print_out("hit   {}\n      {}\n", answer.name, answer.hit);
    return;
  }
  print_out("miss  {}\n", answer.name);
  if (!answer.nearest) {
    print_out("      nothing like it is stored\n");
    return;
  }
  const cache::Nearest& nearest = *answer.nearest;
  print_out("      nearest: {}\n", nearest.entry.path);
  if (!nearest.entry.ok) {
    print_out("      it is bad: {}\n", nearest.entry.problem);
  } else if (nearest.differences.empty()) {
    print_out(
        "      its key is the same, but it may not be served here: it was rejected before, or "
        "its toolchain is not accepted\n");
  }
  for (const cache::KeyDifference& difference : nearest.differences) {
    print_out("      {}: asked {}, stored {}\n", difference.field, difference.asked,
              difference.stored);
  }
}

int why(const WhyArgs& args, const std::vector<Target>& asked) {
  require_named_cache(args.cache);
  Engine engine(engine_options(args.cache));
  const OpHandle op = engine.op(args.op);
  Inquiry inquiry(engine);
  std::vector<Answer> answers;
  for (const Target& target : asked.empty() ? own_targets(engine) : asked) {
    for (const Variant& variant : engine.variants(op, target)) {
      if (is_wanted(variant, args.traits)) {
        answers.push_back(inquiry.ask(variant));
      }
    }
  }
  if (answers.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("no variant of {} has {}.", args.op, fmt::join(args.traits, " and ")));
  }
  const std::string root = engine.impl().store().root_description();
  if (args.json) {
    Json list = Json::array();
    for (const Answer& answer : answers) {
      list.push_back(to_json(answer));
    }
    print_json({{"root", root}, {"toolchain", inquiry.toolchain()}, {"kernels", std::move(list)}});
    return kSuccess;
  }
  print_out("cache {}\n{}\n", root, inquiry.toolchain());
  std::for_each(answers.begin(), answers.end(), print);
  return kSuccess;
}

}  // namespace

void add_cache_why(CLI::App& cache, Action& action) {
  const auto args = std::make_shared<WhyArgs>();
  CLI::App* command = cache.add_subcommand(
      "why",
      "Say for each variant of an op whether it is a hit and, if not, how the nearest entry "
      "differs.");
  command->add_option("op", args->op, "The op's name.")->required()->type_name("OP");
  command
      ->add_option("--arch", args->archs, "Architectures (default: the one of this machine's GPU).")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->type_name("A[,A...]");
  command->add_option("--trait", args->traits, "Only variants with this value; may be repeated.")
      ->allow_extra_args(false)
      ->type_name("NAME=VALUE");
  add_cache_option(*command, args->cache);
  command->add_flag("--json", args->json, "Print one JSON object.");
  command->callback([&action, args] {
    action = [args, targets = parse_archs(args->archs)] { return why(*args, targets); };
  });
}

}  // namespace kiln::tools
