// Issues all nodes of a graph by Chakra's own feeder, as crates/etlink-feeder/examples/issue.c does by ours:
//
//     stock_feeder FILE NODES
//
// Up to NODES nodes are under way at once; the one that was issued first ends first. Prints the ids in the order of issue, and on
// the standard error how long reading took, and the peak of memory. NODES 0: reads the graph alone. Compiled by
// `cargo dev feeder --chakra DIR` with Chakra's src/feeder_v3.
#include <sys/resource.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>

#include "et_feeder.h"

int main(int count, char** words) {
  if (count != 3) return 2;
  const auto begun = std::chrono::steady_clock::now();
  Chakra::FeederV3::ETFeeder feeder(words[1]);
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begun;
  rusage used;
  getrusage(RUSAGE_SELF, &used);
  std::fprintf(stderr, "read %.3f s, peak %ld kB\n", seconds.count(), used.ru_maxrss);
  const auto limit = static_cast<std::size_t>(std::atoi(words[2]));
  std::deque<uint64_t> under_way;
  for (;;) {
    while (under_way.size() < limit && feeder.hasNodesToIssue()) {
      under_way.push_back(feeder.getNextIssuableNode()->id());
      std::printf("%llu\n", static_cast<unsigned long long>(under_way.back()));
    }
    if (under_way.empty()) return 0;
    feeder.freeChildrenNodes(under_way.front());
    under_way.pop_front();
  }
}
