// Included before all else where the compiler is ziglang's.
//
// Its programs have a C++ library of their own, libtbb that of the system: an exception that
// one of them throws, the other cannot catch. So none may pass through libtbb: what a piece of
// work throws is kept, its other pieces are left out, and the caller of TBB throws it again.
// Stan calls TBB by the four names at the end, which stand for the guarded functions here.
#ifndef BDR_STAN_GUARDED_TBB_HPP
#define BDR_STAN_GUARDED_TBB_HPP

#include <tbb/parallel_for.h>
#include <tbb/parallel_reduce.h>
#include <tbb/task_arena.h>

#include <atomic>
#include <exception>
#include <mutex>
#include <optional>
#include <utility>

namespace tbb {
namespace guarded {

// The first exception of some work that is shared out.
class Thrown {
 public:
  // Call `work`, unless something was thrown already.
  template <typename Work>
  void guard(const Work& work) {
    if (any_) return;
    try {
      work();
    } catch (...) {
      std::lock_guard<std::mutex> lock(mutex_);
      if (!any_) exception_ = std::current_exception();
      any_ = true;
    }
  }

  void rethrow() const {
    if (exception_) std::rethrow_exception(exception_);
  }

 private:
  std::atomic<bool> any_{false};
  std::mutex mutex_;
  std::exception_ptr exception_;
};

// The body of a reduction: the caller's own, or one that was split off.
template <typename Body>
class Reducer {
 public:
  Reducer(Body& body, Thrown& thrown) : body_(&body), thrown_(&thrown) {}

  Reducer(Reducer& other, tbb::split split) : body_(nullptr), thrown_(other.thrown_) {
    thrown_->guard([&] { body_ = &part_.emplace(*other.body_, split); });
  }

  template <typename Range>
  void operator()(const Range& range) {
    thrown_->guard([&] { (*body_)(range); });
  }

  void join(Reducer& right) {
    thrown_->guard([&] { body_->join(*right.body_); });
  }

 private:
  std::optional<Body> part_;
  Body* body_;  // null only after something was thrown
  Thrown* thrown_;
};

}  // namespace guarded

template <typename Range, typename Body, typename... Partitioner>
void guarded_parallel_for(const Range& range, const Body& body, Partitioner&&... partitioner) {
  guarded::Thrown thrown;
  parallel_for(
      range, [&](const Range& part) { thrown.guard([&] { body(part); }); },
      std::forward<Partitioner>(partitioner)...);
  thrown.rethrow();
}

template <typename Range, typename Body, typename... Partitioner>
void guarded_parallel_reduce(const Range& range, Body& body, Partitioner&&... partitioner) {
  guarded::Thrown thrown;
  guarded::Reducer<Body> reducer(body, thrown);
  parallel_reduce(range, reducer, std::forward<Partitioner>(partitioner)...);
  thrown.rethrow();
}

template <typename Range, typename Body, typename... Partitioner>
void guarded_parallel_deterministic_reduce(const Range& range, Body& body,
                                           Partitioner&&... partitioner) {
  guarded::Thrown thrown;
  guarded::Reducer<Body> reducer(body, thrown);
  parallel_deterministic_reduce(range, reducer, std::forward<Partitioner>(partitioner)...);
  thrown.rethrow();
}

namespace this_task_arena {

template <typename Work>
void guarded_isolate(const Work& work) {
  guarded::Thrown thrown;
  isolate([&] { thrown.guard(work); });
  thrown.rethrow();
}

}  // namespace this_task_arena
}  // namespace tbb

#define parallel_for guarded_parallel_for
#define parallel_reduce guarded_parallel_reduce
#define parallel_deterministic_reduce guarded_parallel_deterministic_reduce
#define isolate guarded_isolate

#endif
