#include "server/metrics/metrics_page.h"

#include <prometheus/collectable.h>
#include <prometheus/exposer.h>

#include <exception>
#include <utility>
#include <vector>

#include "server/metrics/families.h"

namespace coat {
namespace {

// Renders afresh at each scrape: prometheus-cpp's own families never forget a series.
class ViewCollectable final : public prometheus::Collectable {
 public:
  using Render = std::vector<prometheus::MetricFamily> (*)(const ServerView&);
  ViewCollectable(std::function<ServerView()> view, Render render)
      : view_(std::move(view)), render_(render) {}
  std::vector<prometheus::MetricFamily> Collect() const override { return render_(view_()); }

 private:
  std::function<ServerView()> view_;
  Render render_;
};

}  // namespace

struct MetricsPage::Impl {
  std::shared_ptr<ViewCollectable> fleet;
  std::shared_ptr<ViewCollectable> jobs;
  std::unique_ptr<prometheus::Exposer> exposer;
};

MetricsPage::MetricsPage(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsPage::~MetricsPage() = default;

int MetricsPage::port() const { return impl_->exposer->GetListeningPorts().front(); }

Result<std::unique_ptr<MetricsPage>> MetricsPage::Start(const std::string& address,
                                                        std::function<ServerView()> view) {
  auto impl = std::make_unique<Impl>();
  impl->fleet = std::make_shared<ViewCollectable>(view, &FleetFamilies);
  impl->jobs = std::make_shared<ViewCollectable>(std::move(view), &JobFamilies);
  try {
    impl->exposer = std::make_unique<prometheus::Exposer>(address);
  } catch (const std::exception& error) {
    return Status(Code::kUnavailable, "metrics_listen: " + address + " cannot be bound (" +
                                          error.what() + "); is the port taken?");
  }
  impl->exposer->RegisterCollectable(impl->fleet, "/metrics");
  impl->exposer->RegisterCollectable(impl->jobs, "/metrics/jobs");
  return std::unique_ptr<MetricsPage>(new MetricsPage(std::move(impl)));
}

}  // namespace coat
