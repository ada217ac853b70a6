#include "worker/bench/element_ops.h"

#include <functional>
#include <random>
#include <set>

#include "worker/bench/buffers.h"
#include "worker/model/model.h"
#include "worker/model/rotary.h"
#include "worker/model/shape.h"
#include "worker/ops/check_args.h"
#include "worker/ops/workspace.h"

namespace coat {
namespace {

int64_t BytesOf(std::initializer_list<Tensor> tensors) {
  int64_t bytes = 0;
  for (const Tensor& x : tensors) bytes += x.numel() * ElementBytes(x.dtype);
  return bytes;
}

// The tensors of one block, the embedding and the loss, under the names used below.
class ElementProblem {
 public:
  using Row = std::function<void(const char* name, int64_t bytes, const std::function<void()>&)>;

  ElementProblem(const ModelShape& shape, const std::string& device, Ops* ops)
      : s_(shape), ops_(*ops) {
    Declare();
    b_.Build(device, WorkspaceBytes(ops_.device(), s_.workspace()), ops);
    FillIds();
    // Groups, scales and statistics of the values, as a forward leaves them.
    ops_.AddNorm(Norm(xq_, V("amax")));
    ops_.GateUpQuantize({G("gate_up"), guq_, V("amax")});
    const float scale = 1.0f / 64;
    ops_.ToDevice(&scale, V("scale"));
    ops_.Synchronize();
  }

  void Measure(const Row& row) {
    row("copy", BytesOf({G("gate_up"), G("dgate_up")}),
        [&] { ops_.Copy(G("gate_up"), G("dgate_up")); });
    row("zero", BytesOf({G("dgate_up")}), [&] { ops_.Zero(G("dgate_up")); });
    MeasureEmbedding(row);
    MeasureNorms(row);
    MeasureQuantizers(row);
    MeasureSwiglu(row);
    MeasureLoss(row);
  }

 private:
  Tensor G(const char* name) const { return b_.Get(name); }
  Tensor V(const char* name) const { return b_.Vector(name); }

  void Declare() {
    const int64_t n = s_.tokens(), d = s_.hidden, f = s_.intermediate;
    for (const char* x : {"x", "branch", "dy", "sum"}) b_.Add(x, DType::kBF16, n, d);
    b_.Add("x_codes", DType::kE4M3, n, d);
    b_.Add("x_scales", DType::kBF16, n, GroupsPerRow(d, 1));
    b_.Add("norm_codes", DType::kE4M3, n, d);
    b_.Add("norm_codes_t", DType::kE4M3, d, n);
    b_.Add("gate_up", DType::kBF16, n, 2 * f);
    b_.Add("dgate_up", DType::kBF16, n, 2 * f);
    b_.Add("gate_up_codes", DType::kE4M3, n, 2 * f);
    b_.Add("gate_up_scales", DType::kBF16, n, GroupsPerRow(2 * f, 2));
    b_.Add("product", DType::kBF16, n, f);
    b_.Add("product_codes", DType::kE4M3, n, f);
    b_.Add("product_codes_t", DType::kE4M3, f, n);
    b_.Add("gradient_codes", DType::kE5M2, n, 2 * f);
    b_.Add("gradient_codes_t", DType::kE5M2, 2 * f, n);
    b_.Add("weight", DType::kF32, 2 * f, d);
    b_.Add("weight_copy", DType::kBF16, 2 * f, d);
    b_.Add("weight_codes", DType::kE4M3, 2 * f, d);
    b_.Add("weight_codes_t", DType::kE4M3, d, 2 * f);
    b_.Add("qkv", DType::kBF16, n, s_.qkv_width());
    b_.Add("cos", DType::kF32, s_.seq, s_.head_size / 2);
    b_.Add("sin", DType::kF32, s_.seq, s_.head_size / 2);
    b_.Add("table", DType::kF32, s_.vocab, d);
    b_.Add("dtable", DType::kF32, s_.vocab, d);
    for (const char* ids : {"tokens", "order", "targets"}) b_.Add(ids, DType::kI32, 1, n);
    b_.Add("logits", DType::kBF16, s_.loss_rows, s_.vocab);
    b_.Add("dlogits", DType::kBF16, s_.loss_rows, s_.vocab);
    b_.Add("nll", DType::kF32, 1, s_.loss_rows);
    for (const char* v : {"gamma", "dgamma"}) b_.Add(v, DType::kF32, 1, d);
    for (const char* v : {"rstd", "amax"}) b_.Add(v, DType::kF32, 1, n);
    for (const char* v : {"scale", "new_scale", "total"}) b_.Add(v, DType::kF32, 1, 1);
    b_.Add("counters", DType::kF32, 1, 6);
    b_.Add("nonfinite", DType::kI32, 1, 1);
  }

  void FillIds() {
    std::mt19937_64 random(1);
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < s_.tokens(); ++i) {
      ids.push_back(static_cast<int32_t>(random() % static_cast<uint64_t>(s_.vocab)));
    }
    distinct_ = static_cast<int64_t>(std::set<int32_t>(ids.begin(), ids.end()).size());
    const std::vector<int32_t> order = TokenOrder(ids);
    const RotaryTables tables = MakeRotaryTables(s_.seq, s_.head_size, s_.rope_theta);
    ops_.ToDevice(ids.data(), V("tokens"));
    ops_.ToDevice(ids.data(), V("targets"));
    ops_.ToDevice(order.data(), V("order"));
    ops_.ToDevice(tables.cos.data(), G("cos"));
    ops_.ToDevice(tables.sin.data(), G("sin"));
    ops_.Synchronize();
    xq_ = {G("x_codes"), V("x_scales"), 1};
    guq_ = {G("gate_up_codes"), V("gate_up_scales"), 2};
  }

  AddNormArgs Norm(const GroupQuantized& q8, const Tensor& amax) const {
    AddNormArgs args;
    args.residual = G("x");
    args.branch = G("branch");
    args.residual_out = G("sum");
    args.q8 = q8;
    args.gamma = V("gamma");
    args.rstd = V("rstd");
    args.amax = amax;
    return args;
  }

  void MeasureEmbedding(const Row& row) {
    row("embedding", s_.tokens() * s_.hidden * 4 + BytesOf({V("tokens"), G("x")}), [&] {
      ops_.Embedding({V("tokens"), G("table"), G("sum")});
    });
    row("embedding_backward",
        distinct_ * s_.hidden * 8 + BytesOf({V("tokens"), V("order"), G("dy")}), [&] {
          ops_.EmbeddingBackward({V("tokens"), V("order"), G("dy"), G("dtable")});
        });
  }

  void MeasureNorms(const Row& row) {
    const int64_t q8 = BytesOf({xq_.codes, xq_.scales});
    const int64_t sum = BytesOf({G("x"), G("branch"), G("sum"), V("gamma"), V("rstd")});
    row("add_norm bf16", sum, [&] { ops_.AddNorm(Norm({}, {})); });
    row("add_norm q8", sum + q8 + BytesOf({V("amax")}),
        [&] { ops_.AddNorm(Norm(xq_, V("amax"))); });
    const Activation bf16{G("x"), {}}, groups{{}, xq_};
    const int64_t codes = BytesOf({G("norm_codes")}), vectors = BytesOf({V("gamma"), V("rstd")});
    row("norm_apply bf16", BytesOf({G("x"), G("sum")}) + vectors, [&] {
      ops_.NormApply({bf16, V("rstd"), V("gamma"), {}, G("sum"), {}});
    });
    row("norm_apply q8 codes", q8 + codes + vectors, [&] {
      ops_.NormApply({groups, V("rstd"), V("gamma"), V("scale"), G("norm_codes"), {}});
    });
    row("norm_apply q8 transposed", q8 + codes + vectors, [&] {
      ops_.NormApply({groups, V("rstd"), V("gamma"), V("scale"), {}, G("norm_codes_t")});
    });
    const auto backward = [&](const Activation& x) {
      NormBackwardArgs args;
      args.dy = G("dy");
      args.x = x;
      args.rstd = V("rstd");
      args.gamma = V("gamma");
      args.dresidual = G("branch");
      args.dresidual_out = G("sum");
      args.dgamma = V("dgamma");
      ops_.NormBackward(args);
    };
    const int64_t gradients = BytesOf({G("dy"), G("branch"), G("sum"), V("dgamma")}) + vectors;
    row("norm_backward bf16", gradients + BytesOf({G("x")}), [&] { backward(bf16); });
    row("norm_backward q8", gradients + q8, [&] { backward(groups); });
  }

  void MeasureQuantizers(const Row& row) {
    row("amax", BytesOf({G("x"), V("amax")}), [&] { ops_.Amax({G("x"), V("amax")}); });
    row("amax_to_scale", BytesOf({V("amax"), V("new_scale")}), [&] {
      ops_.AmaxToScale({V("amax"), DType::kE4M3, V("new_scale"), V("nonfinite")});
    });
    row("quantize e4m3", BytesOf({G("x"), G("norm_codes")}), [&] {
      ops_.Quantize({G("x"), V("scale"), G("norm_codes"), {}});
    });
    row("quantize e5m2 both", BytesOf({G("gate_up"), G("gradient_codes"), G("gradient_codes_t")}),
        [&] {
          ops_.Quantize({G("gate_up"), V("scale"), G("gradient_codes"), G("gradient_codes_t")});
        });
    row("quantize weight", BytesOf({G("weight"), G("weight_codes")}), [&] {
      ops_.Quantize({G("weight"), V("scale"), G("weight_codes"), {}});
    });
    row("quantize weight transposed", BytesOf({G("weight"), G("weight_codes_t")}), [&] {
      ops_.Quantize({G("weight"), V("scale"), {}, G("weight_codes_t")});
    });
    row("transpose", BytesOf({G("product_codes"), G("product_codes_t")}), [&] {
      ops_.Transpose({G("product_codes"), G("product_codes_t")});
    });
    row("cast", BytesOf({G("weight"), G("weight_copy")}), [&] {
      ops_.Cast({G("weight"), G("weight_copy")});
    });
    row("measure groups", BytesOf({G("x")}), [&] {
      ops_.Measure({G("x"), {}, DType::kE4M3, 1, V("counters")});
    });
    // v is neither read nor written without amax.
    const int64_t qk = s_.tokens() * (s_.heads + s_.kv_heads) * s_.head_size * 2;
    row("rope", 2 * qk + BytesOf({G("cos"), G("sin")}), [&] {
      ops_.Rope({s_.attention(), G("qkv"), G("cos"), G("sin"), false, {}});
    });
    row("rope backward amax", qk + BytesOf({G("qkv"), G("cos"), G("sin"), V("amax")}), [&] {
      ops_.Rope({s_.attention(), G("qkv"), G("cos"), G("sin"), true, V("amax")});
    });
  }

  void MeasureSwiglu(const Row& row) {
    const Activation bf16{G("gate_up"), {}}, groups{{}, guq_};
    const int64_t q8 = BytesOf({guq_.codes, guq_.scales});
    const int64_t wide = BytesOf({G("gate_up")}), codes = BytesOf({G("product_codes")});
    row("gate_up_quantize", wide + q8 + BytesOf({V("amax")}), [&] {
      ops_.GateUpQuantize({G("gate_up"), guq_, V("amax")});
    });
    row("swiglu bf16", wide + BytesOf({G("product")}), [&] {
      ops_.Swiglu({bf16, {}, G("product"), {}});
    });
    row("swiglu q8 codes", q8 + codes, [&] {
      ops_.Swiglu({groups, V("scale"), G("product_codes"), {}});
    });
    row("swiglu q8 transposed", q8 + codes, [&] {
      ops_.Swiglu({groups, V("scale"), {}, G("product_codes_t")});
    });
    row("swiglu_backward bf16", 2 * wide + BytesOf({G("product")}), [&] {
      ops_.SwigluBackward({bf16, G("product"), G("dgate_up"), {}});
    });
    row("swiglu_backward q8", q8 + wide + BytesOf({G("product"), V("amax")}), [&] {
      ops_.SwigluBackward({groups, G("product"), G("dgate_up"), V("amax")});
    });
  }

  void MeasureLoss(const Row& row) {
    const Tensor targets(V("targets").data, DType::kI32, {s_.loss_rows});
    row("cross_entropy", BytesOf({G("logits"), G("dlogits"), targets, V("nll")}), [&, targets] {
      ops_.CrossEntropy({G("logits"), targets, V("scale"), G("dlogits"), V("nll")});
    });
    row("sum", BytesOf({V("nll")}), [&] { ops_.Sum({V("nll"), V("total")}); });
  }

  const ModelShape s_;
  Ops& ops_;
  Buffers b_;
  GroupQuantized xq_, guq_;
  int64_t distinct_ = 0;  // token ids in the batch
};

}  // namespace

void RunElementOps(const ElementOptions& options, Report* report) {
  const std::unique_ptr<Ops> ops = CreateOps(options.device.name, options.device.threads);
  for (const std::string& model : options.models) {
    BenchShape shape = options.shape;
    shape.preset = model;
    ElementProblem problem(ResolveShape(CompleteJob(BenchTokenJob(shape, 1))), options.device.name,
                           ops.get());
    double copy_rate = 0;
    problem.Measure([&](const char* name, int64_t bytes, const std::function<void()>& call) {
      const double seconds = SecondsPerCall(options.timing, ops.get(), call);
      const double rate = static_cast<double>(bytes) / seconds;
      if (copy_rate == 0) copy_rate = rate;
      report->Add({{"model", model},
                   {"operator", name},
                   {"ms", seconds * 1e3},
                   {"bytes", bytes},
                   {"gb_per_second", rate * 1e-9},
                   {"copy_share", rate / copy_rate}});
    });
  }
  report->PrintTable({"model", "operator", "ms", "bytes", "gb_per_second", "copy_share"});
}

}  // namespace coat
