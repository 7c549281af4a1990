// commgloo: a c10d backend for CPU tensors that forwards every call to gloo and, before it does,
// records what ProcessGroupNCCL records: one `record_param_comms` range per collective with its name,
// message sizes, split sizes, data type and group, and one named "wait" per Work::wait().
//
// The range is written by PyTorch's own macro (ParamCommsUtils.hpp), so both trace files look as they do
// with NCCL; only the collective itself is gloo's. Conventions copied from ProcessGroupNCCL.cpp: the names
// ("_allgather_base" for all_gather_into_tensor), sequence numbers counted apart for point-to-point calls,
// the peer in place of the rank for send and recv, and the group size 1 and ranks -1 of "wait".

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ParamCommsUtils.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>

#include <tuple>
#include <utility>
#include <vector>

namespace {

using c10d::Backend;
using c10d::Work;
using Tensors = std::vector<at::Tensor>;
using Splits = std::vector<int64_t>;
using Sequence = std::tuple<int64_t, bool>;           // number, is point-to-point
using GroupName = std::tuple<std::string, std::string>; // name, description

// PyTorch 2.15 also records whether the caller asked for an asynchronous collective; 2.4 does not know.
#ifdef RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP
#define RECORD_COLLECTIVE(in, out, rank, name, n_in, n_out, dtype, in_splits, out_splits, is_async) \
  const Sequence sequence{++collectives_, false};                                                   \
  RECORD_PARAM_COMMS_DATA_WITH_ASYNC_OP(                                                            \
      sequence, group_name(), in, out, rank, name, n_in, n_out, dtype, in_splits, out_splits,       \
      first_rank_, rank_stride_, getSize(), is_async)
#define IS_ASYNC(options) (options).asyncOp
#else
#define RECORD_COLLECTIVE(in, out, rank, name, n_in, n_out, dtype, in_splits, out_splits, is_async) \
  const Sequence sequence{++collectives_, false};                                                   \
  RECORD_PARAM_COMMS_DATA(                                                                          \
      sequence, group_name(), in, out, rank, name, n_in, n_out, dtype, in_splits, out_splits,       \
      first_rank_, rank_stride_, getSize())
#define IS_ASYNC(options) true
#endif

#define RECORD_POINT_TO_POINT(tensors, peer, name)                                           \
  const Sequence sequence{++point_to_points_, true};                                         \
  RECORD_PARAM_COMMS_DATA(                                                                   \
      sequence, group_name(), tensors, tensors, peer, name, (tensors)[0].numel(),            \
      (tensors)[0].numel(), (tensors)[0].scalar_type(), Splits(), Splits(), first_rank_,     \
      rank_stride_, getSize())

// Gloo's work, with a "wait" range around waiting for it.
class RecordedWork : public Work {
 public:
  RecordedWork(c10::intrusive_ptr<Work> inner, int rank, Sequence sequence, GroupName group)
      : Work(rank), inner_(std::move(inner)), sequence_(sequence), group_(std::move(group)) {}

  bool isCompleted() override { return inner_->isCompleted(); }
  bool isSuccess() const override { return inner_->isSuccess(); }
  std::exception_ptr exception() const override { return inner_->exception(); }
  int sourceRank() const override { return inner_->sourceRank(); }
  Tensors result() override { return inner_->result(); }
  void synchronize() override { inner_->synchronize(); }
  void abort() override { inner_->abort(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override { return inner_->getFuture(); }

  bool wait(std::chrono::milliseconds timeout) override {
    RECORD_PARAM_COMMS(
        sequence_, group_, rank_, "wait", 0, 0, at::kByte, Splits(), Splits(), -1, -1, 1);
    return inner_->wait(timeout);
  }

 private:
  c10::intrusive_ptr<Work> inner_;
  Sequence sequence_;
  GroupName group_;
};

class CommGloo : public Backend {
 public:
  CommGloo(c10::intrusive_ptr<Backend> gloo, int rank, int size, std::string name, const Splits& ranks)
      : Backend(rank, size), gloo_(std::move(gloo)), name_(std::move(name)) {
    if (!ranks.empty()) {
      first_rank_ = static_cast<int>(ranks.front());
      rank_stride_ = stride(ranks);
    }
  }

  const std::string getBackendName() const override { return "commgloo"; }
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return collectives_; }

  c10::intrusive_ptr<Work> broadcast(Tensors& data, const c10d::BroadcastOptions& o) override {
    const int root = static_cast<int>(o.rootRank * data.size() + o.rootTensor);
    RECORD_COLLECTIVE(
        data, data, root, "broadcast", data[0].numel(), data[0].numel(), data[0].scalar_type(),
        Splits(), Splits(), IS_ASYNC(o));
    return recorded(gloo_->broadcast(data, o), sequence);
  }

  c10::intrusive_ptr<Work> allreduce(Tensors& data, const c10d::AllreduceOptions& o) override {
    RECORD_COLLECTIVE(
        data, data, rank_, "allreduce", data[0].numel(), data[0].numel(), data[0].scalar_type(),
        Splits(), Splits(), IS_ASYNC(o));
    return recorded(gloo_->allreduce(data, o), sequence);
  }

  c10::intrusive_ptr<Work> allgather(
      std::vector<Tensors>& out, Tensors& in, const c10d::AllgatherOptions& o) override {
    RECORD_COLLECTIVE(
        in, out, rank_, "all_gather", in[0].numel(), in[0].numel() * getSize(),
        in[0].scalar_type(), Splits(), Splits(), IS_ASYNC(o));
    return recorded(gloo_->allgather(out, in, o), sequence);
  }

  c10::intrusive_ptr<Work> _allgather_base(
      at::Tensor& out, at::Tensor& in, const c10d::AllgatherOptions& o) override {
    RECORD_COLLECTIVE(
        in, out, rank_, "_allgather_base", in.numel(), out.numel(), in.scalar_type(), Splits(),
        Splits(), IS_ASYNC(o));
    return recorded(gloo_->_allgather_base(out, in, o), sequence);
  }

  c10::intrusive_ptr<Work> _reduce_scatter_base(
      at::Tensor& out, at::Tensor& in, const c10d::ReduceScatterOptions& o) override {
    RECORD_COLLECTIVE(
        in, out, rank_, "_reduce_scatter_base", in.numel(), out.numel(), out.scalar_type(),
        Splits(), Splits(), IS_ASYNC(o));
    return recorded(gloo_->_reduce_scatter_base(out, in, o), sequence);
  }

  c10::intrusive_ptr<Work> alltoall_base(
      at::Tensor& out, at::Tensor& in, Splits& out_splits, Splits& in_splits,
      const c10d::AllToAllOptions& o) override {
    const char* name = out_splits.empty() && in_splits.empty() ? "all_to_all" : "all_to_allv";
    RECORD_COLLECTIVE(
        in, out, rank_, name, in.numel(), out.numel(), in.scalar_type(), in_splits, out_splits,
        IS_ASYNC(o));
    return recorded(gloo_->alltoall_base(out, in, out_splits, in_splits, o), sequence);
  }

  c10::intrusive_ptr<Work> send(Tensors& data, int peer, int tag) override {
    RECORD_POINT_TO_POINT(data, peer, "send");
    return recorded(gloo_->send(data, peer, tag), sequence);
  }

  c10::intrusive_ptr<Work> recv(Tensors& data, int peer, int tag) override {
    RECORD_POINT_TO_POINT(data, peer, "recv");
    return recorded(gloo_->recv(data, peer, tag), sequence);
  }

  c10::intrusive_ptr<Work> barrier(const c10d::BarrierOptions& o) override {
    const Sequence sequence{++collectives_, false};
    RECORD_PARAM_COMMS(
        sequence, group_name(), rank_, "barrier", 0, 0, at::kByte, Splits(), Splits(), first_rank_,
        rank_stride_, getSize());
    return recorded(gloo_->barrier(o), sequence);
  }

 private:
  // The distance between neighbours; 0 for a single rank, -1 when the ranks are not evenly spaced.
  static int stride(const Splits& ranks) {
    if (ranks.size() == 1) {
      return 0;
    }
    const int64_t first = ranks[1] - ranks[0];
    for (size_t i = 1; i < ranks.size(); ++i) {
      if (ranks[i] - ranks[i - 1] != first) {
        return -1;
      }
    }
    return static_cast<int>(first);
  }

  // torch.distributed sets the description after the backend was made, so it is read at every call.
  GroupName group_name() const {
    return {name_, pg_desc_.empty() ? "undefined" : pg_desc_};
  }

  c10::intrusive_ptr<Work> recorded(c10::intrusive_ptr<Work> work, Sequence sequence) {
    return c10::make_intrusive<RecordedWork>(std::move(work), rank_, sequence, group_name());
  }

  c10::intrusive_ptr<Backend> gloo_;
  std::string name_;
  int first_rank_ = 0;
  int rank_stride_ = 1;
  int64_t collectives_ = 0;
  int64_t point_to_points_ = 0;
};

c10::intrusive_ptr<Backend> create(
    Backend* gloo, int rank, int size, std::string name, const Splits& ranks) {
  return c10::make_intrusive<CommGloo>(
      c10::intrusive_ptr<Backend>::unsafe_reclaim_from_nonowning(gloo), rank, size, std::move(name), ranks);
}

} // namespace

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("create", &create);
}
