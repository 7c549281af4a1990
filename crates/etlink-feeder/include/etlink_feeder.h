/* Feeds a simulator with the nodes of a Chakra graph. Generated from src/c_api.rs by cbindgen: `cargo dev feeder --write`.

   A function reports failure by its return value; etlink_feeder_error returns the reason. Use a feeder from one thread at a
   time. Pointers are null or come from these functions; strings end with a 0 byte. See examples/issue.c. */

#ifndef ETLINK_FEEDER_H
#define ETLINK_FEEDER_H

#include <stdbool.h>
#include <stdint.h>

/*
 Issues nodes in the order of Chakra's own feeder, as built by GCC.
 */
#define ETLINK_ORDER_STOCK 0

/*
 Issues the node with the lowest id first, as ASTRA-sim does.
 */
#define ETLINK_ORDER_BY_ID 1

/*
 A feeder of a graph's nodes. Created by `etlink_feeder_open`, freed by `etlink_feeder_close`.
 */
typedef struct EtlinkFeeder EtlinkFeeder;

/*
 A node of a graph. Created by `etlink_feeder_node`, freed by `etlink_node_free`; it may outlive
 its feeder.
 */
typedef struct EtlinkNode EtlinkNode;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a `.et` file and reads its graph. `order` is one of `ETLINK_ORDER_…`.

 Always returns a feeder. On failure it has no nodes, and `etlink_feeder_error` returns the
 reason.
 */
EtlinkFeeder *etlink_feeder_open(const char *path, uint32_t order);

/*
 Like `etlink_feeder_open`, but a graph of any size needs only `memory_bytes` of memory. Its index
 is in an unnamed file in `folder`, with about 50 bytes per node and 12 per dependency. The file
 disappears when the feeder is closed or the program ends. The issue order is the same.

 In addition to `memory_bytes` the feeder needs about 1 MB and the largest node. Once the file
 cannot be read or written, for example on a full disk, each call fails, and `etlink_feeder_error`
 returns the reason.
 */
EtlinkFeeder *etlink_feeder_open_with_scratch(const char *path,
                                              uint32_t order,
                                              const char *folder,
                                              uint64_t memory_bytes);

/*
 Frees a feeder. Ignores null.
 */
void etlink_feeder_close(EtlinkFeeder *feeder);

/*
 Returns the reason why the last call failed, in English; empty if it succeeded. Calls that only
 count nodes keep it. Valid until the next call.
 */
const char *etlink_feeder_error(const EtlinkFeeder *feeder);

/*
 Returns the number of nodes of the graph.
 */
uint64_t etlink_feeder_nodes(const EtlinkFeeder *feeder);

/*
 Returns the number of nodes that can be issued now.
 */
uint64_t etlink_feeder_ready(const EtlinkFeeder *feeder);

/*
 Returns the number of nodes that were issued and have not ended.
 */
uint64_t etlink_feeder_issued(const EtlinkFeeder *feeder);

/*
 Returns the number of nodes that have ended.
 */
uint64_t etlink_feeder_ended(const EtlinkFeeder *feeder);

/*
 Issues the next node and writes its id to `id`. Returns 1 if it did, 0 if no node can be issued
 now, and -1 on an error or if `id` is null.
 */
int32_t etlink_feeder_issue_next(EtlinkFeeder *feeder, uint64_t *id);

/*
 Issues a node. Returns false if it cannot be issued now.
 */
bool etlink_feeder_issue(EtlinkFeeder *feeder, uint64_t id);

/*
 Takes back an issued node, which can then be issued again. Returns false if it was not issued.
 */
bool etlink_feeder_push_back(EtlinkFeeder *feeder, uint64_t id);

/*
 Marks an issued node as ended, so that nodes that wait only for it can be issued. Returns false if
 it was not issued.
 */
bool etlink_feeder_end(EtlinkFeeder *feeder, uint64_t id);

/*
 Returns a node with all its data, to be freed by `etlink_node_free`. Returns null if there is no
 such id, or if the file cannot be read.
 */
EtlinkNode *etlink_feeder_node(EtlinkFeeder *feeder, uint64_t id);

/*
 Frees a node. Ignores null.
 */
void etlink_node_free(EtlinkNode *node);

/*
 Returns the id of a node; 0 for null.
 */
uint64_t etlink_node_id(const EtlinkNode *node);

/*
 Returns the type of a node, a `NodeType` of Chakra's schema; 0 for null.
 */
int32_t etlink_node_type(const EtlinkNode *node);

/*
 Returns the duration of a node in us; 0 for null.
 */
uint64_t etlink_node_duration_micros(const EtlinkNode *node);

/*
 Returns the name of a node in UTF-8, without any 0 bytes. Valid until the node is freed.
 */
const char *etlink_node_name(const EtlinkNode *node);

/*
 Writes the integer value of an attribute, such as `comm_size`, to `value`; true is 1, false is 0.
 Returns false if the node has no such attribute, or if it is not an integer of 64 bits.
 */
bool etlink_node_int(const EtlinkNode *node, const char *name, int64_t *value);

/*
 Writes the value of an attribute, an integer or a float, to `value`. Returns false if the node has
 no such attribute, or if it is not a number.
 */
bool etlink_node_double(const EtlinkNode *node, const char *name, double *value);

/*
 Returns the text of an attribute, such as `pg_name`; null if the node has none. Valid until the
 next call of this function with this node.
 */
const char *etlink_node_text(EtlinkNode *node, const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ETLINK_FEEDER_H */
