#pragma once

/// \file
/// The driver calls that timing needs, and owners of graphs and events.

#include <memory>

#include "runtime/driver/driver.hpp"
#include "tools/bench/graph_calls.hpp"

namespace kiln::tools::bench {

/// Immutable once loaded.
class GraphApi {
 public:
  /// Finds the calls in the driver's own library. Throws Error(kDriverUnavailable) naming what it
  /// lacks.
  explicit GraphApi(std::shared_ptr<const runtime::Driver> driver);

  /// Throws Error(kDriverError) unless `result` is success.
  void check(const char* call, CUresult result) const;

#define KILN_GRAPH_MEMBER(name, version) decltype(&::name) name = nullptr;
  KILN_GRAPH_CALLS(KILN_GRAPH_MEMBER)
#undef KILN_GRAPH_MEMBER

 private:
  std::shared_ptr<const runtime::Driver> driver_;
};

/// What a capture of `record` on `stream` replays. Uploaded before its first launch: left to that,
/// the upload was seen to slow every node of every replay.
class Graph {
 public:
  template <class Record>
  Graph(const GraphApi& api, CUstream stream, const Record& record) : api_(&api) {
    api.check("cuStreamBeginCapture",
              api.cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
    try {
      record();
    } catch (...) {
      api.cuStreamEndCapture(stream, &graph_);  // So that the stream can be used again.
      destroy();
      throw;
    }
    finish(stream);
  }
  ~Graph() { destroy(); }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  void launch(CUstream stream) const {
    api_->check("cuGraphLaunch", api_->cuGraphLaunch(executable_, stream));
  }

 private:
  void finish(CUstream stream);
  void destroy() noexcept;

  const GraphApi* api_;
  CUgraph graph_ = nullptr;
  CUgraphExec executable_ = nullptr;
};

class Event {
 public:
  explicit Event(const GraphApi& api) : api_(&api) {
    api.check("cuEventCreate", api.cuEventCreate(&event_, CU_EVENT_DEFAULT));
  }
  ~Event();
  Event(Event&& other) noexcept;
  Event& operator=(Event&&) = delete;

  void record(CUstream stream) const {
    api_->check("cuEventRecord", api_->cuEventRecord(event_, stream));
  }
  void synchronize() const { api_->check("cuEventSynchronize", api_->cuEventSynchronize(event_)); }
  /// From `start` to this event; both must have completed.
  double microseconds_since(const Event& start) const;

 private:
  const GraphApi* api_;
  CUevent event_ = nullptr;  // Null when moved from.
};

}  // namespace kiln::tools::bench
