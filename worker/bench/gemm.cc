#include "worker/bench/gemm.h"

#include "worker/bench/buffers.h"
#include "worker/model/shape.h"
#include "worker/ops/workspace.h"

namespace coat {
namespace {

// One product c(m, n) = a(m, k) b(n, k)^T.
struct Product {
  std::string weight, role;
  DType a = DType::kBF16, b = DType::kBF16, c = DType::kBF16;
  int64_t m = 0, n = 0, k = 0;
  bool a_transposed = false, b_transposed = false, accumulate = false, fast = false;
};

// FP8 operands are stored along k, BF16 ones as the model stores them.
std::vector<Product> ProductsOf(const std::string& weight, int64_t tokens, LinearShape linear,
                                bool fp8) {
  const DType code = fp8 ? DType::kE4M3 : DType::kBF16;
  const DType gradient = fp8 ? DType::kE5M2 : DType::kBF16;
  std::vector<Product> products;
  Product forward{weight, "forward", code, code, DType::kBF16, tokens, linear.out, linear.in};
  products.push_back(forward);
  if (fp8) {
    forward.role = "forward_fast";
    forward.fast = true;
    products.push_back(forward);
  }
  Product dgrad{weight, "dgrad", gradient, code, DType::kBF16, tokens, linear.in, linear.out};
  dgrad.b_transposed = !fp8;
  products.push_back(dgrad);
  for (const DType sum : {DType::kF32, DType::kBF16}) {
    Product wgrad{weight, "wgrad", gradient, code, sum, linear.out, linear.in, tokens};
    wgrad.a_transposed = wgrad.b_transposed = !fp8;
    wgrad.accumulate = true;
    products.push_back(wgrad);
  }
  return products;
}

double Seconds(const GemmOptions& options, const Product& p, int64_t workspace_bytes, Ops* ops) {
  Buffers buffers;
  buffers.Add("a", p.a, p.a_transposed ? p.k : p.m, p.a_transposed ? p.m : p.k);
  buffers.Add("b", p.b, p.b_transposed ? p.k : p.n, p.b_transposed ? p.n : p.k);
  buffers.Add("c", p.c, p.m, p.n);
  buffers.Add("a_scale", DType::kF32, 1, 1);
  buffers.Add("b_scale", DType::kF32, 1, 1);
  buffers.Build(options.device.name, workspace_bytes, ops);
  GemmArgs args;
  args.a = buffers.Get("a");
  args.b = buffers.Get("b");
  args.c = buffers.Get("c");
  if (p.a != DType::kBF16) {
    args.a_scale = buffers.Vector("a_scale");
    args.b_scale = buffers.Vector("b_scale");
  }
  args.a_transposed = p.a_transposed;
  args.b_transposed = p.b_transposed;
  args.accumulate = p.accumulate;
  args.fast_accumulation = p.fast;
  return SecondsPerCall(options.timing, ops, [&] { ops->Gemm(args); });
}

}  // namespace

void RunGemm(const GemmOptions& options, Report* report) {
  const std::unique_ptr<Ops> ops = CreateOps(options.device.name, options.device.threads);
  for (const std::string& model : options.models) {
    BenchShape shape = options.shape;
    shape.preset = model;
    const ModelShape dims = ResolveShape(CompleteJob(BenchTokenJob(shape, 1)));
    const int64_t scratch_bytes = WorkspaceBytes(ops->device(), dims.workspace());
    std::vector<Product> products;
    for (const bool fp8 : {true, false}) {
      for (const Linear linear : kAllLinears) {
        for (Product& p : ProductsOf(LinearName(linear), dims.tokens(), ShapeOf(dims, linear), fp8))
          products.push_back(std::move(p));
      }
    }
    for (Product& p : ProductsOf("head", dims.loss_rows, {dims.vocab, dims.hidden}, false)) {
      products.push_back(std::move(p));
    }
    for (const Product& p : products) {
      const double seconds = Seconds(options, p, scratch_bytes, ops.get());
      const double flops =
          2 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
      report->Add({{"model", model},
                   {"weight", p.weight},
                   {"role", p.role},
                   {"operands", std::string(DTypeName(p.a)) + "x" + DTypeName(p.b)},
                   {"output", DTypeName(p.c)},
                   {"m", p.m},
                   {"n", p.n},
                   {"k", p.k},
                   {"ms", seconds * 1e3},
                   {"tflops", flops / seconds * 1e-12}});
    }
  }
  report->PrintTable(
      {"model", "weight", "role", "operands", "output", "m", "n", "k", "ms", "tflops"});
}

}  // namespace coat
