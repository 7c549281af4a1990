/* Issues all nodes of a graph, as a simulator does: issue.c FILE NODES [FOLDER MIB]

   Up to NODES nodes run at once; the one that was issued first ends first. Prints the ids in issue order, and at the end the sum
   of all durations. With FOLDER, the graph's index is in a scratch file there, with MIB MiB of it in memory.

   cc -I crates/etlink-feeder/include crates/etlink-feeder/examples/issue.c target/release/libetlink_feeder.a \
     -lpthread -ldl -lm -o issue */

#include "etlink_feeder.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

int main(int count, char **words) {
  if ((count != 3 && count != 5) || atoi(words[2]) < 1) {
    fprintf(stderr, "issue FILE NODES [FOLDER MIB]\n");
    return 2;
  }
  EtlinkFeeder *feeder =
      count == 3 ? etlink_feeder_open(words[1], ETLINK_ORDER_STOCK)
                 : etlink_feeder_open_with_scratch(words[1], ETLINK_ORDER_STOCK, words[3], strtoull(words[4], NULL, 10) << 20);
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
    int issued = 0;
    while (going < limit && (issued = etlink_feeder_issue_next(feeder, &id)) == 1) {
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
    if (!going && !issued)
      break;
    if (issued < 0 || !etlink_feeder_end(feeder, under_way[first])) {
      fprintf(stderr, "%s\n", etlink_feeder_error(feeder));
      return 1;
    }
    first = (first + 1) % limit;
    going--;
  }
  fprintf(stderr, "%" PRIu64 " of %" PRIu64 " nodes, %" PRIu64 " us\n", etlink_feeder_ended(feeder), etlink_feeder_nodes(feeder), micros);
  free(under_way);
  etlink_feeder_close(feeder);
  return 0;
}
