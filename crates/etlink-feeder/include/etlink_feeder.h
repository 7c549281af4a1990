/* Feeds a simulator with the nodes of a Chakra graph. Made of src/c_api.rs by cbindgen: `cargo dev feeder --write`.

   A function that fails says so by what it returns; etlink_feeder_error says why. A feeder belongs to one thread at a time.
   Pointers are null or what these functions gave; texts end with 0. examples/issue.c shows how it is used. */

#ifndef ETLINK_FEEDER_H
#define ETLINK_FEEDER_H

#include <stdbool.h>
#include <stdint.h>

/*
 Nodes are issued in the order of Chakra's own feeder where GCC built it.
 */
#define ETLINK_ORDER_STOCK 0

/*
 The node with the lowest id is issued first, as ASTRA-sim does it.
 */
#define ETLINK_ORDER_BY_ID 1

/*
 Feeds nodes of a graph. Made by `etlink_feeder_open`, freed by `etlink_feeder_close`, and not
 used afterwards.
 */
typedef struct EtlinkFeeder EtlinkFeeder;

/*
 A node of a graph. Made by `etlink_feeder_node`, freed by `etlink_node_free`; it outlives its
 feeder.
 */
typedef struct EtlinkNode EtlinkNode;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/*
 Opens a `.et` file and reads its graph. `order` is one of `ETLINK_ORDER_…`.

 Always gives a feeder; where that failed, `etlink_feeder_error` gives a text, and there are no
 nodes. `path` is a text that ends with 0.
 */
EtlinkFeeder *etlink_feeder_open(const char *path, uint32_t order);

/*
 The same with a graph of any size in `memory_bytes` of memory: what is known of it lies in a file
 without a name in `folder`, which is gone when the feeder is closed or the program ends. It takes
 some 50 bytes a node and 12 a dependency. Nodes are issued in the same order.

 Beside `memory_bytes` the feeder takes about one MB and the largest node. Once the file cannot be
 read or written, as the disk is full, each call fails and `etlink_feeder_error` says why.
 */
EtlinkFeeder *etlink_feeder_open_with_scratch(const char *path,
                                              uint32_t order,
                                              const char *folder,
                                              uint64_t memory_bytes);

/*
 Frees a feeder. Null is nothing to free.
 */
void etlink_feeder_close(EtlinkFeeder *feeder);

/*
 Why the last call that does something failed, in English; empty if it did not. Good until the
 next call.
 */
const char *etlink_feeder_error(const EtlinkFeeder *feeder);

/*
 How many nodes the graph has.
 */
uint64_t etlink_feeder_nodes(const EtlinkFeeder *feeder);

/*
 How many nodes may be issued now.
 */
uint64_t etlink_feeder_ready(const EtlinkFeeder *feeder);

/*
 How many nodes were issued and have not ended.
 */
uint64_t etlink_feeder_issued(const EtlinkFeeder *feeder);

/*
 How many nodes have ended.
 */
uint64_t etlink_feeder_ended(const EtlinkFeeder *feeder);

/*
 Issues the node that comes first and puts its id at `id`. 1: it did; 0: none may be issued now;
 -1: an error, or `id` is null.
 */
int32_t etlink_feeder_issue_next(EtlinkFeeder *feeder, uint64_t *id);

/*
 Issues a node. False: it may not be issued now.
 */
bool etlink_feeder_issue(EtlinkFeeder *feeder, uint64_t id);

/*
 Takes a node back that was issued: it may be issued again. False: it was not issued.
 */
bool etlink_feeder_push_back(EtlinkFeeder *feeder, uint64_t id);

/*
 A node that was issued has ended: those that waited for it alone may be issued. False: it was not
 issued.
 */
bool etlink_feeder_end(EtlinkFeeder *feeder, uint64_t id);

/*
 All of a node, to be freed by `etlink_node_free`. Null: there is none of this id, or the file
 cannot be read.
 */
EtlinkNode *etlink_feeder_node(EtlinkFeeder *feeder, uint64_t id);

/*
 Frees a node. Null is nothing to free.
 */
void etlink_node_free(EtlinkNode *node);

/*
 The id of a node; of null 0.
 */
uint64_t etlink_node_id(const EtlinkNode *node);

/*
 The type of a node, a `NodeType` of Chakra's schema; of null 0.
 */
int32_t etlink_node_type(const EtlinkNode *node);

/*
 How long a node takes, us; of null 0.
 */
uint64_t etlink_node_duration_micros(const EtlinkNode *node);

/*
 The name of a node, UTF-8. Good until the node is freed; a 0 in it is left out.
 */
const char *etlink_node_name(const EtlinkNode *node);

/*
 Puts the whole number of an attribute, such as `comm_size`, at `value`; true and false are 1 and
 0. False: the node has no such attribute, or it is no whole number of 64 bits.
 */
bool etlink_node_int(const EtlinkNode *node, const char *name, int64_t *value);

/*
 Puts the number of an attribute at `value`, whole or not. False: the node has no such attribute,
 or it is no number.
 */
bool etlink_node_double(const EtlinkNode *node, const char *name, double *value);

/*
 The text of an attribute, such as `pg_name`; null if the node has none. Good until the next call
 with this node.
 */
const char *etlink_node_text(EtlinkNode *node, const char *name);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* ETLINK_FEEDER_H */
