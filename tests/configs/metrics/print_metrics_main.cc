// Prints deploy/prometheus/METRICS.md.
#include <cstdio>

#include "configs/metrics/catalog_page.h"

int main() {
  std::fputs(coat::PrintMetrics().c_str(), stdout);
  return 0;
}
