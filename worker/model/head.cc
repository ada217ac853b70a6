#include "worker/model/head.h"

#include <algorithm>

namespace coat {
namespace {

Tensor Vector(const Tensor& x, int64_t first, int64_t count) {
  return Tensor(x.as<std::byte>() + first * ElementBytes(x.dtype), x.dtype, {count});
}

}  // namespace

Head::Head(BlockShared* shared)
    : shared_(*shared),
      ops_(*shared->ops),
      x_(shared->residual),
      rstd_(shared->arena.Get("final_norm.rstd")),
      norm_(shared->arena.Get("head.norm")),
      dnorm_(shared->arena.Get("head.dnorm")),
      logits_(shared->arena.Get("head.logits")),
      nll_rows_(shared->arena.Get("head.nll")),
      nll_(shared->arena.Get("step.nll")) {}

void Head::FinalNorm(const Tensor& residual) {
  AddNormArgs args;
  args.residual = residual;
  args.branch = shared_.branch;
  args.residual_out = x_;
  args.gamma = shared_.weights->final_norm().f32;
  args.rstd = rstd_;
  args.eps = shared_.shape.norm_eps;
  ops_.AddNorm(args);
}

void Head::Chunk(int64_t first, int64_t rows, const Tensor& targets, const Tensor& inverse_count,
                 bool gradient) {
  const Tensor norm = norm_.Row(0, rows);
  const Tensor logits = logits_.Row(0, rows);
  const Tensor nll_rows = Vector(nll_rows_, 0, rows);
  NormApplyArgs apply;
  apply.x.bf16 = x_.Row(first, rows);
  apply.rstd = Vector(rstd_, first, rows);
  apply.gamma = shared_.weights->final_norm().f32;
  apply.out = norm;
  ops_.NormApply(apply);
  GemmArgs gemm;
  gemm.a = norm;
  gemm.b = shared_.weights->head();
  gemm.c = logits;
  ops_.Gemm(gemm);
  CrossEntropyArgs loss;
  loss.logits = logits;
  loss.targets = Vector(targets, first, rows);
  loss.inverse_count = inverse_count;
  if (gradient) loss.dlogits = logits;
  loss.nll = nll_rows;
  ops_.CrossEntropy(loss);
  ops_.Sum({nll_rows, nll_});
}

void Head::ChunkBackward(int64_t first, int64_t rows) {
  const Tensor dlogits = logits_.Row(0, rows);
  const Tensor dnorm = dnorm_.Row(0, rows);
  GemmArgs wgrad;
  wgrad.a = dlogits;
  wgrad.a_transposed = true;
  wgrad.b = norm_.Row(0, rows);
  wgrad.b_transposed = true;
  wgrad.c = shared_.weights->head_gradient();
  wgrad.accumulate = true;
  ops_.Gemm(wgrad);
  GemmArgs dgrad;
  dgrad.a = dlogits;
  dgrad.b = shared_.weights->head();
  dgrad.b_transposed = true;
  dgrad.c = dnorm;
  ops_.Gemm(dgrad);
  NormBackwardArgs norm;
  norm.dy = dnorm;
  norm.x.bf16 = x_.Row(first, rows);
  norm.rstd = Vector(rstd_, first, rows);
  norm.gamma = shared_.weights->final_norm().f32;
  norm.dresidual_out = shared_.dresidual.Row(first, rows);
  norm.dgamma = shared_.weights->final_norm().gradient;
  norm.amax = Vector(shared_.partials, first, rows);
  ops_.NormBackward(norm);
}

void Head::Evaluate(const Tensor& residual, const Tensor& targets, const Tensor& inverse_count) {
  FinalNorm(residual);
  for (int64_t first = 0; first < x_.rows(); first += norm_.rows()) {
    Chunk(first, std::min(norm_.rows(), x_.rows() - first), targets, inverse_count, false);
  }
}

void Head::Train(const Tensor& residual, const Tensor& targets, const Tensor& inverse_count) {
  FinalNorm(residual);
  for (int64_t first = 0; first < x_.rows(); first += norm_.rows()) {
    const int64_t rows = std::min(norm_.rows(), x_.rows() - first);
    Chunk(first, rows, targets, inverse_count, true);
    ChunkBackward(first, rows);
  }
}

}  // namespace coat
