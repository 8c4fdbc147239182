#include "reference/engram_hash.hpp"

#include <algorithm>
#include <cassert>
#include <cstddef>

namespace kiln::reference {
namespace {

__extension__ using Wide = unsigned __int128;

std::size_t at(std::int64_t index) {
  return static_cast<std::size_t>(index);
}

struct Owner {
  std::int64_t request = 0;
  std::int64_t offset = 0;
  bool padding = false;
};

Owner ragged_owner(const std::vector<std::int64_t>& qo_indptr, std::int64_t t) {
  for (std::size_t r = 0; r + 1 < qo_indptr.size(); ++r) {
    if (qo_indptr[r] <= t && t < qo_indptr[r + 1]) {
      return {static_cast<std::int64_t>(r), t - qo_indptr[r], false};
    }
  }
  return {0, 0, true};
}

Owner owner_of(const EngramStep& step, std::int64_t t) {
  if (step.num_real && t >= *step.num_real) {
    return {0, 0, true};
  }
  if (step.qo_indptr) {
    return ragged_owner(*step.qo_indptr, t);
  }
  if (step.row) {
    const std::int64_t request = (*step.row)[at(t)];
    return {request, t - (*step.starts)[at(request)], false};
  }
  const std::int64_t block = step.block.value_or(1);
  return {t / block, t % block, false};
}

// The token `shift` places before t, as it was given.
std::int64_t predecessor(const EngramTables& tables, const EngramStep& step, std::int64_t t,
                         const Owner& owner, std::int64_t shift) {
  if (owner.padding) {
    return 0;
  }
  if (shift <= owner.offset) {
    return step.input_ids[at(t - shift)];
  }
  const std::int64_t row = step.req_slots ? (*step.req_slots)[at(owner.request)] : owner.request;
  const std::int64_t place = tables.order - 2 - (shift - owner.offset - 1);
  return step.history[at(row * (tables.order - 1) + place)];
}

std::int64_t compress(const EngramTables& tables, std::int64_t token) {
  const auto last = static_cast<std::int64_t>(tables.token_map.size()) - 1;
  return tables.token_map[at(std::clamp<std::int64_t>(token, 0, last))];
}

void hash_layer(const EngramTables& tables, const std::vector<std::int64_t>& compressed,
                std::int64_t layer, std::vector<std::int64_t>& ids) {
  const auto product = [&](std::int64_t shift) {
    return compressed[at(shift)] * tables.multipliers[at(layer * tables.order + shift)];
  };
  std::int64_t hash = product(0);
  for (std::int64_t oldest = 1; oldest < tables.order; ++oldest) {
    hash ^= product(oldest);
    for (std::int64_t head = 0; head < tables.heads; ++head) {
      const std::int64_t column = (layer * (tables.order - 1) + oldest - 1) * tables.heads + head;
      ids.push_back(hash % tables.primes[at(column)] + tables.offsets[at(column)]);
    }
  }
}

}  // namespace

std::uint64_t reciprocal_of(std::uint64_t p) noexcept {
  assert(p >= 1 && p < std::uint64_t{1} << 63U);
  return ~std::uint64_t{0} / p;
}

std::uint64_t remainder(std::uint64_t h, std::uint64_t p, std::uint64_t reciprocal) noexcept {
  const auto quotient = static_cast<std::uint64_t>(Wide{h} * reciprocal >> 64U);
  const std::uint64_t rest = h - quotient * p;
  return rest < p ? rest : rest - p;
}

EngramHashes engram_hash_ids(const EngramTables& tables, const EngramStep& step) {
  EngramHashes out;
  for (std::int64_t t = 0; t < static_cast<std::int64_t>(step.input_ids.size()); ++t) {
    const Owner owner = owner_of(step, t);
    std::vector<std::int64_t> compressed;
    bool blocked = false;
    for (std::int64_t shift = 0; shift < tables.order; ++shift) {
      std::int64_t token = predecessor(tables, step, t, owner, shift);
      const bool images = step.image_token_id.has_value();
      if (images && token >= step.mm_pad_shift) {
        token = *step.image_token_id;
      }
      blocked = blocked || owner.padding || step.positions[at(t)] < shift ||
                (images && token == *step.image_token_id);
      out.tokens.push_back(static_cast<std::int32_t>(token));
      compressed.push_back(blocked ? tables.pad_id : compress(tables, token));
    }
    for (std::int64_t layer = 0; layer < tables.layers; ++layer) {
      hash_layer(tables, compressed, layer, out.ids);
    }
  }
  return out;
}

std::vector<std::int32_t> commit_decoded(std::int64_t order, std::vector<std::int32_t> history,
                                         const std::vector<std::int32_t>& tokens,
                                         const std::vector<std::int64_t>& req_slots,
                                         const std::vector<std::int64_t>& out_cache_loc) {
  for (std::size_t t = 0; t < req_slots.size(); ++t) {
    if (out_cache_loc[t] == 0) {
      continue;
    }
    for (std::int64_t place = 0; place < order - 1; ++place) {
      history[at(req_slots[t] * (order - 1) + place)] =
          tokens[at(static_cast<std::int64_t>(t) * order + order - 2 - place)];
    }
  }
  return history;
}

std::vector<std::int32_t> engram_commit_history(std::int64_t length,
                                                std::vector<std::int32_t> history,
                                                const std::vector<std::int64_t>& verify_ids,
                                                const std::vector<std::int64_t>& req_slots,
                                                const std::vector<std::int64_t>& commit_lens) {
  const std::size_t requests = req_slots.size();
  const std::int64_t width =
      requests == 0 ? 0 : static_cast<std::int64_t>(verify_ids.size() / requests);
  for (std::size_t r = 0; r < requests; ++r) {
    const auto row = history.begin() + req_slots[r] * length;
    std::vector<std::int32_t> all(row, row + length);
    const std::int64_t accepted = std::clamp<std::int64_t>(commit_lens[r], 0, width);
    for (std::int64_t i = 0; i < accepted; ++i) {
      all.push_back(
          static_cast<std::int32_t>(verify_ids[at(static_cast<std::int64_t>(r) * width + i)]));
    }
    std::copy(all.end() - length, all.end(), row);
  }
  return history;
}

}  // namespace kiln::reference
