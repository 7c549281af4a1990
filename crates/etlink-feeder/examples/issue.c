/* Issues all nodes of a graph, as a simulator does: issue.c FILE NODES

   Up to NODES nodes are under way at once; the one that was issued first ends first. Prints the ids in the order of issue, and
   at the end how long all nodes take by themselves.

   cc -I crates/etlink-feeder/include crates/etlink-feeder/examples/issue.c target/release/libetlink_feeder.a \
     -lpthread -ldl -lm -o issue */

#include "etlink_feeder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
  if (count != 3 || atoi(words[2]) < 1) {
    fprintf(stderr, "issue FILE NODES\n");
    return 2;
  }
  EtlinkFeeder *feeder = etlink_feeder_open(words[1], ETLINK_ORDER_STOCK);
  if (*etlink_feeder_error(feeder)) {
    fprintf(stderr, "%s\n", etlink_feeder_error(feeder));
    etlink_feeder_close(feeder);
    return 1;
  }
  size_t limit = (size_t)atoi(words[2]);
  uint64_t *under_way = malloc(limit * sizeof *under_way);
  size_t first = 0, going = 0;
  uint64_t id = 0, micros = 0;
  for (;;) {
    while (going < limit && etlink_feeder_issue_next(feeder, &id) == 1) {
      EtlinkNode *node = etlink_feeder_node(feeder, id);
      if (!node) {
        fprintf(stderr, "%s\n", etlink_feeder_error(feeder));
        return 1;
      }
      micros += etlink_node_duration_micros(node);
      etlink_node_free(node);
      under_way[(first + going++) % limit] = id;
      printf("%" PRIu64 "\n", id);
    }
    if (!going)
      break;
    etlink_feeder_end(feeder, under_way[first]);
    first = (first + 1) % limit;
    going--;
  }
  fprintf(stderr, "%" PRIu64 " of %" PRIu64 " nodes, %" PRIu64 " us\n", etlink_feeder_ended(feeder), etlink_feeder_nodes(feeder), micros);
  free(under_way);
  etlink_feeder_close(feeder);
  return 0;
}
