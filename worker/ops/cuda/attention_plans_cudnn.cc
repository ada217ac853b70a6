#include <cudnn_frontend.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "configs/base/error.h"
#include "configs/base/units.h"
#include "worker/ops/cuda/attention_plans.h"

namespace coat {
namespace {

namespace fe = cudnn_frontend;

using Graph = fe::graph::Graph;
using Key = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t, bool>;

enum Uid : int64_t { kQ = 1, kK, kV, kO, kLse, kDo, kDq, kDk, kDv, kLengthQ, kLengthKv };

// Up to this version of cuDNN the frontend pads a backward whose length is no multiple of 128, and
// takes the lengths from host memory that is gone when a recording is replayed. Such a backward
// gets lengths of our own, at the end of the scratch.
constexpr size_t kLastPaddingVersion = 91500;

bool IsPadded(const AttentionShape& s) {
  return s.seq % 128 != 0 && cudnnGetVersion() <= kLastPaddingVersion;
}

void CudnnCheck(cudnnStatus_t status, const char* what) {
  if (status == CUDNN_STATUS_SUCCESS) return;
  throw Error(Code::kInternal, std::string(what) + ": " + cudnnGetErrorString(status));
}

struct Plan {
  std::shared_ptr<Graph> graph;  // null: no engine
};

class CudnnPlans final : public AttentionPlans {
 public:
  explicit CudnnPlans(const CudaContext* context) : context_(context) {
    CudnnCheck(cudnnCreate(&handle_), "cudnnCreate");
    CudnnCheck(cudnnSetStream(handle_, context->stream), "cudnnSetStream");
  }
  ~CudnnPlans() override { cudnnDestroy(handle_); }
  CudnnPlans(const CudnnPlans&) = delete;
  CudnnPlans& operator=(const CudnnPlans&) = delete;

  bool Forward(const AttentionArgs& args) override {
    const AttentionShape& s = args.shape;
    Plan& plan = Find(&forward_, s, false, [&](Graph* graph) { BuildForward(graph, s); });
    if (plan.graph == nullptr) return false;
    auto* qkv = args.qkv.as<uint16_t>();
    Execute(plan, {{kQ, qkv},
                   {kK, qkv + s.heads * s.head_size},
                   {kV, qkv + (s.heads + s.kv_heads) * s.head_size},
                   {kO, args.o.data},
                   {kLse, args.lse.data}});
    return true;
  }

  bool Backward(const AttentionBackwardArgs& args) override {
    const AttentionShape& s = args.shape;
    Plan& plan = Find(&backward_, s, args.deterministic,
                      [&](Graph* graph) { BuildBackward(graph, s, args.deterministic); });
    if (plan.graph == nullptr) return false;
    auto* qkv = args.qkv.as<uint16_t>();
    auto* dqkv = args.dqkv.as<uint16_t>();
    const int64_t key = s.heads * s.head_size;
    const int64_t value = (s.heads + s.kv_heads) * s.head_size;
    Pointers pointers{{kQ, qkv},         {kK, qkv + key},       {kV, qkv + value},
                      {kO, args.o.data}, {kLse, args.lse.data}, {kDo, args.dout.data},
                      {kDq, dqkv},       {kDk, dqkv + key},     {kDv, dqkv + value}};
    if (IsPadded(s)) {
      int32_t* lengths = Lengths(s);
      FillInts(lengths, s.batch, static_cast<int32_t>(s.seq), context_->stream);
      pointers[kLengthQ] = pointers[kLengthKv] = lengths;
    }
    Execute(plan, std::move(pointers));
    return true;
  }

 private:
  using Pointers = std::unordered_map<int64_t, void*>;

  template <typename Build>
  Plan& Find(std::map<Key, Plan>* plans, const AttentionShape& s, bool deterministic,
             const Build& build) {
    const Key key{s.batch, s.seq, s.heads, s.kv_heads, s.head_size, deterministic};
    const auto it = plans->find(key);
    if (it != plans->end()) return it->second;
    Plan plan;
    auto graph = std::make_shared<Graph>();
    graph->set_io_data_type(fe::DataType_t::BFLOAT16)
        .set_intermediate_data_type(fe::DataType_t::FLOAT)
        .set_compute_data_type(fe::DataType_t::FLOAT);
    build(graph.get());
    if (Compile(graph.get(), EngineBytes(s))) plan.graph = graph;
    return plans->emplace(key, plan).first->second;
  }

  // Engines whose workspace exceeds what the memory plan gave are never taken.
  bool Compile(Graph* graph, int64_t limit) const {
    if (graph->validate().is_bad()) return false;
    if (graph->build_operation_graph(handle_).is_bad()) return false;
    if (graph->create_execution_plans({fe::HeurMode_t::A}).is_bad()) return false;
    graph->deselect_workspace_greater_than(limit);
    if (graph->check_support().is_bad()) return false;
    if (graph->build_plans().is_bad()) return false;
    int64_t bytes = 0;
    return graph->get_workspace_size(bytes).is_good() && bytes <= limit;
  }

  // What of the scratch an engine may take.
  int64_t EngineBytes(const AttentionShape& s) const {
    return std::max<int64_t>(0, context_->scratch_bytes / 256 * 256 - RoundUp(s.batch * 4, 256));
  }
  int32_t* Lengths(const AttentionShape& s) const {
    return reinterpret_cast<int32_t*>(context_->scratch + EngineBytes(s));
  }

  void Execute(const Plan& plan, Pointers pointers) const {
    auto status = plan.graph->execute(handle_, pointers, context_->scratch);
    if (status.is_bad()) throw Error(Code::kInternal, "attention: " + status.get_message());
  }

  using TensorPtr = std::shared_ptr<fe::graph::Tensor_attributes>;

  // (batch, heads, seq, head_size) inside rows of `width` elements.
  static TensorPtr Rows(Graph* graph, Uid uid, const AttentionShape& s, int64_t heads,
                        int64_t width) {
    return graph->tensor(fe::graph::Tensor_attributes()
                             .set_uid(uid)
                             .set_dim({s.batch, heads, s.seq, s.head_size})
                             .set_stride({s.seq * width, s.head_size, width, 1}));
  }
  static void SetRows(const TensorPtr& x, Uid uid, const AttentionShape& s, int64_t heads,
                      int64_t width) {
    x->set_output(true)
        .set_uid(uid)
        .set_dim({s.batch, heads, s.seq, s.head_size})
        .set_stride({s.seq * width, s.head_size, width, 1});
  }

  static TensorPtr LengthsOf(Graph* graph, Uid uid, const AttentionShape& s) {
    return graph->tensor(fe::graph::Tensor_attributes()
                             .set_uid(uid)
                             .set_dim({s.batch, 1, 1, 1})
                             .set_stride({1, 1, 1, 1})
                             .set_data_type(fe::DataType_t::INT32));
  }

  static float Scale(const AttentionShape& s) {
    return 1.0f / std::sqrt(static_cast<float>(s.head_size));
  }

  static void BuildForward(Graph* graph, const AttentionShape& s) {
    const int64_t width = s.qkv_width();
    const TensorPtr q = Rows(graph, kQ, s, s.heads, width);
    const TensorPtr k = Rows(graph, kK, s, s.kv_heads, width);
    const TensorPtr v = Rows(graph, kV, s, s.kv_heads, width);
    auto options = fe::graph::SDPA_attributes()
                       .set_name("attention")
                       .set_generate_stats(true)
                       .set_causal_mask(true)
                       .set_attn_scale(Scale(s));
    auto [o, lse] = graph->sdpa(q, k, v, options);
    SetRows(o, kO, s, s.heads, s.heads * s.head_size);
    lse->set_output(true).set_uid(kLse).set_data_type(fe::DataType_t::FLOAT);
  }

  static void BuildBackward(Graph* graph, const AttentionShape& s, bool deterministic) {
    const int64_t width = s.qkv_width();
    const int64_t out_width = s.heads * s.head_size;
    const TensorPtr q = Rows(graph, kQ, s, s.heads, width);
    const TensorPtr k = Rows(graph, kK, s, s.kv_heads, width);
    const TensorPtr v = Rows(graph, kV, s, s.kv_heads, width);
    const TensorPtr o = Rows(graph, kO, s, s.heads, out_width);
    const TensorPtr grad = Rows(graph, kDo, s, s.heads, out_width);
    const TensorPtr lse = graph->tensor(fe::graph::Tensor_attributes()
                                            .set_uid(kLse)
                                            .set_dim({s.batch, s.heads, s.seq, 1})
                                            .set_stride({s.heads * s.seq, s.seq, 1, 1})
                                            .set_data_type(fe::DataType_t::FLOAT));
    auto options = fe::graph::SDPA_backward_attributes()
                       .set_name("attention_backward")
                       .set_causal_mask(true)
                       .set_deterministic_algorithm(deterministic)
                       .set_attn_scale(Scale(s));
    if (IsPadded(s)) {
      options.set_padding_mask(true)
          .set_seq_len_q(LengthsOf(graph, kLengthQ, s))
          .set_seq_len_kv(LengthsOf(graph, kLengthKv, s));
    }
    auto [dq, dk, dv] = graph->sdpa_backward(q, k, v, o, grad, lse, options);
    SetRows(dq, kDq, s, s.heads, width);
    SetRows(dk, kDk, s, s.kv_heads, width);
    SetRows(dv, kDv, s, s.kv_heads, width);
  }

  const CudaContext* context_;
  cudnnHandle_t handle_ = nullptr;
  std::map<Key, Plan> forward_, backward_;
};

}  // namespace

std::unique_ptr<AttentionPlans> CreateAttentionPlans(const CudaContext* context) {
  return std::make_unique<CudnnPlans>(context);
}

}  // namespace coat
