// The Llama family in plain FP64, one loop a formula: what the model must be the derivative of.
#pragma once

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "worker/model/shape.h"

namespace coat {

class ReferenceModel {
 public:
  using Values = std::vector<double>;

  explicit ReferenceModel(const ModelShape& shape) : s_(shape) {}

  std::map<std::string, Values> weights;

  // Sum of nll over valid targets.
  double Nll(const std::vector<int32_t>& tokens, const std::vector<int32_t>& targets) const {
    Values x = Embed(tokens);
    for (int64_t i = 0; i < s_.layers; ++i) {
      const std::string layer = "layers." + std::to_string(i) + ".";
      const Values attended =
          Attention(MatMul(Norm(x, at(layer + "attention_norm")), at(layer + "qkv"), s_.hidden));
      Add(&x, MatMul(attended, at(layer + "output"), s_.q_width()));
      const Values gated =
          MatMul(Norm(x, at(layer + "mlp_norm")), at(layer + "gate_up"), s_.hidden);
      Add(&x, MatMul(Swiglu(gated), at(layer + "down"), s_.intermediate));
    }
    const Values logits =
        MatMul(Norm(x, at("final_norm")), at(s_.tied ? "embedding" : "head"), s_.hidden);
    double nll = 0;
    for (size_t n = 0; n < targets.size(); ++n) {
      if (targets[n] < 0) continue;
      const double* row = &logits[n * static_cast<size_t>(s_.vocab)];
      const double top = *std::max_element(row, row + s_.vocab);
      double sum = 0;
      for (int64_t v = 0; v < s_.vocab; ++v) sum += std::exp(row[v] - top);
      nll += top + std::log(sum) - row[targets[n]];
    }
    return nll;
  }

 private:
  const Values& at(const std::string& name) const { return weights.at(name); }

  Values Embed(const std::vector<int32_t>& tokens) const {
    Values x;
    for (const int32_t token : tokens) {
      const auto row = at("embedding").begin() + token * s_.hidden;
      x.insert(x.end(), row, row + s_.hidden);
    }
    return x;
  }

  static void Add(Values* x, const Values& y) {
    for (size_t i = 0; i < x->size(); ++i) (*x)[i] += y[i];
  }

  Values Norm(const Values& x, const Values& gain) const {
    const auto d = static_cast<size_t>(s_.hidden);
    Values y(x.size());
    for (size_t row = 0; row < x.size(); row += d) {
      double sum = 0;
      for (size_t i = 0; i < d; ++i) sum += x[row + i] * x[row + i];
      const double rstd = 1 / std::sqrt(sum / static_cast<double>(d) + s_.norm_eps);
      for (size_t i = 0; i < d; ++i) y[row + i] = x[row + i] * rstd * gain[i];
    }
    return y;
  }

  // y = x w^T, w stored (out, in).
  static Values MatMul(const Values& x, const Values& w, int64_t in_width) {
    const auto in = static_cast<size_t>(in_width);
    Values y;
    for (size_t row = 0; row < x.size(); row += in) {
      for (size_t out = 0; out < w.size(); out += in) {
        double sum = 0;
        for (size_t i = 0; i < in; ++i) sum += x[row + i] * w[out + i];
        y.push_back(sum);
      }
    }
    return y;
  }

  void Rotate(double* head, int64_t position) const {
    const int64_t half = s_.head_size / 2;
    for (int64_t i = 0; i < half; ++i) {
      const double angle = static_cast<double>(position) *
                           std::pow(s_.rope_theta, -2.0 * static_cast<double>(i) /
                                                       static_cast<double>(s_.head_size));
      const double a = head[i], b = head[i + half];
      head[i] = a * std::cos(angle) - b * std::sin(angle);
      head[i + half] = b * std::cos(angle) + a * std::sin(angle);
    }
  }

  Values Attention(Values qkv) const {
    const int64_t width = s_.qkv_width();
    Values out(static_cast<size_t>(s_.tokens() * s_.q_width()), 0.0);
    for (int64_t n = 0; n < s_.tokens(); ++n) {
      for (int64_t h = 0; h < s_.heads + s_.kv_heads; ++h) {
        Rotate(&qkv[static_cast<size_t>(n * width + h * s_.head_size)], n % s_.seq);
      }
    }
    for (int64_t n = 0; n < s_.tokens(); ++n) {
      const int64_t start = n - n % s_.seq;
      for (int64_t h = 0; h < s_.heads; ++h) {
        const int64_t group = h / (s_.heads / s_.kv_heads);
        const double* q = &qkv[static_cast<size_t>(n * width + h * s_.head_size)];
        const auto row = [&](int64_t m, int64_t first) {
          return &qkv[static_cast<size_t>(m * width + first + group * s_.head_size)];
        };
        Values score;
        for (int64_t m = start; m <= n; ++m) {
          const double* k = row(m, s_.q_width());
          double sum = 0;
          for (int64_t i = 0; i < s_.head_size; ++i) sum += q[i] * k[i];
          score.push_back(std::exp(sum / std::sqrt(static_cast<double>(s_.head_size))));
        }
        double total = 0;
        for (const double value : score) total += value;
        for (int64_t m = start; m <= n; ++m) {
          const double* v = row(m, s_.q_width() + s_.kv_heads * s_.head_size);
          const double weight = score[static_cast<size_t>(m - start)] / total;
          for (int64_t i = 0; i < s_.head_size; ++i) {
            out[static_cast<size_t>(n * s_.q_width() + h * s_.head_size + i)] += weight * v[i];
          }
        }
      }
    }
    return out;
  }

  Values Swiglu(const Values& gate_up) const {
    const auto f = static_cast<size_t>(s_.intermediate);
    Values y;
    for (size_t row = 0; row < gate_up.size(); row += 2 * f) {
      for (size_t i = 0; i < f; ++i) {
        const double gate = gate_up[row + i];
        y.push_back(gate / (1 + std::exp(-gate)) * gate_up[row + f + i]);
      }
    }
    return y;
  }

  ModelShape s_;
};

}  // namespace coat
