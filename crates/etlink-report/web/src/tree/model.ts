// The tree of what called what: nodes from columns, what a search finds, where flames are drawn.

import type { CallTreeColumns, PageTrees } from "../data";

export type Metric = "device_ns" | "host_ns";

export interface CallNode {
  place: number;
  /** The node around it; undefined of a root. */
  parent?: CallNode;
  children: CallNode[];
  depth: number;
  /** `thread`, `step`, `module`, … */
  kind: string;
  name: string;
  count: number;
  host_ns: number;
  self_host_ns: number;
  device_ns: number;
  self_device_ns: number;
}

export interface Tree {
  nodes: CallNode[];
  /** What stands for all threads: a node that is none of `nodes`. */
  all: CallNode;
  columns: CallTreeColumns;
}

/** Nodes stand before their children, so that depths say what is around each. */
export function treeOf(trees: PageTrees, columns: CallTreeColumns): Tree {
  const all: CallNode = {
    place: -1,
    children: [],
    depth: -1,
    kind: "all",
    name: "all threads",
    count: 0,
    host_ns: columns.total_host_ns,
    self_host_ns: 0,
    device_ns: columns.total_device_ns,
    self_device_ns: 0,
  };
  const open = [all];
  const nodes = columns.depth.map((depth, place): CallNode => {
    open.length = depth + 1;
    const parent = open[depth];
    const node: CallNode = {
      place,
      parent,
      children: [],
      depth,
      kind: trees.kinds[columns.kind[place]],
      name: trees.names[columns.name[place]],
      count: columns.count[place],
      host_ns: columns.host_ns[place],
      self_host_ns: columns.self_host_ns[place],
      device_ns: columns.device_ns[place],
      self_device_ns: columns.self_device_ns[place],
    };
    parent.children.push(node);
    open.push(node);
    return node;
  });
  return { nodes, all, columns };
}

/** The children, that with most time first. */
export function sortedChildren(node: CallNode, metric: Metric): CallNode[] {
  return [...node.children].sort((a, b) => b[metric] - a[metric] || b.host_ns - a.host_ns);
}

/** A child with a smaller part of the shown time than this is behind "more". */
export const SMALL = 0.01;

/** The children that have a part of either time of what is shown, and those that have next to none. */
export function childGroups(
  node: CallNode,
  metric: Metric,
  shown: CallNode,
): [CallNode[], CallNode[]] {
  const has = (part: number, whole: number) => part > 0 && part >= SMALL * whole;
  const isLarge = (child: CallNode) =>
    has(child.device_ns, shown.device_ns) || has(child.host_ns, shown.host_ns);
  const children = sortedChildren(node, metric);
  return [children.filter(isLarge), children.filter((child) => !isLarge(child))];
}

/** From the outermost to the node itself. */
export function pathTo(node: CallNode): CallNode[] {
  const path = [node];
  for (let around = node.parent; around; around = around.parent) {
    path.unshift(around);
  }
  return path;
}

/** Nodes whose names have the text, in any case of letters; none without text. */
export function searchNodes(tree: Tree, text: string): Set<CallNode> {
  const wanted = text.trim().toLowerCase();
  return new Set(
    wanted === "" ? [] : tree.nodes.filter(({ name }) => name.toLowerCase().includes(wanted)),
  );
}

/** What autograd calls a node of the backward pass (`torch/csrc/autograd/engine.cpp`). */
const BACKWARD = "autograd::engine::evaluate_function: ";

/** What a bar has room for: a frame's function and file without folders, a module's class. */
export function shortName(node: CallNode): string {
  if (node.kind === "module") {
    return node.name.replace("nn.Module: ", "");
  }
  if (node.name.startsWith(BACKWARD)) {
    return node.name.replace(BACKWARD, "evaluate: ");
  }
  const frame = node.kind === "python" && /^(?:.*\/)?([^/]+\(\d+\)): (.*)$/.exec(node.name);
  return frame ? `${frame[2]} · ${frame[1]}` : node.name;
}

export interface Bar {
  node: CallNode;
  /** Rows below the root's. */
  level: number;
  left: number;
  width: number;
}

/** Levels that are drawn at once: what is deeper is seen by zooming in. */
export const LEVELS = 40;
/** Narrower bars are not drawn, px. */
const NARROWEST = 1.5;

/** The bars of a node and what is in it, over so many px. A node before what is in it. */
export function flameBars(root: CallNode, metric: Metric, width: number): Bar[] {
  const bars: Bar[] = [{ node: root, level: 0, left: 0, width }];
  for (let at = 0; at < bars.length; at++) {
    const bar = bars[at];
    if (bar.level + 1 >= LEVELS) {
      continue;
    }
    const children = sortedChildren(bar.node, metric);
    const sum = children.reduce((sum, child) => sum + Math.max(child[metric], 0), 0);
    // ranges that end on another thread may take longer than what they began in
    const whole = Math.max(bar.node[metric], sum, 1);
    let left = bar.left;
    for (const child of children) {
      const wide = (bar.width * Math.max(child[metric], 0)) / whole;
      if (wide < NARROWEST) {
        break;
      }
      bars.push({ node: child, level: bar.level + 1, left, width: wide });
      left += wide;
    }
  }
  return bars;
}

/** Nodes to open at first: always that with most time, until there are so many rows. */
export function openAtFirst(root: CallNode, metric: Metric, rows: number): Set<CallNode> {
  const open = new Set([root]);
  const large = (node: CallNode) => childGroups(node, metric, root)[0];
  const closed = large(root);
  let shown = 1 + closed.length;
  while (closed.length > 0) {
    const times = closed.map((node) => node[metric]);
    const [most] = closed.splice(times.indexOf(Math.max(...times)), 1);
    const children = large(most);
    if (children.length === 0) {
      continue;
    }
    shown += children.length;
    if (shown > rows) {
      break;
    }
    open.add(most);
    closed.push(...children);
  }
  return open;
}
