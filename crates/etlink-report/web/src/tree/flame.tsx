// The tree as bars below bars, each as wide as its time.

import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { useWidth } from "../charts";
import { count, percent, time } from "../format";
import { flameBars, LEVELS, shortName, type Bar, type CallNode, type Metric } from "./model";
import type { Tree } from "./model";

const HIGH = 20;
/** Narrower bars have no text, px. */
const LEGIBLE = 28;
/** The width of what is said of a bar, px. */
const TIP = 340;

interface Props {
  tree: Tree;
  root: CallNode;
  metric: Metric;
  /** What a search found. */
  found: Set<CallNode>;
  searching: boolean;
  zoom: (node: CallNode) => void;
}

export function Flame({ tree, root, metric, found, searching, zoom }: Props) {
  const [place, width] = useWidth();
  const area = useRef<HTMLDivElement>(null);
  const [at, setAt] = useState<CallNode | null>(null);
  const bars = useMemo(() => flameBars(root, metric, width), [root, metric, width]);
  const levels = 1 + bars.reduce((most, bar) => Math.max(most, bar.level), 0);
  const current = bars.find((bar) => bar.node === at);
  useEffect(() => setAt(null), [root, metric]);
  const keys = (event: KeyboardEvent) => {
    const target = event.key === "Enter" ? current?.node : nodeAfter(event.key, bars, current);
    if (target === undefined) {
      return;
    }
    event.preventDefault();
    if (event.key === "Enter" || event.key === "Escape") {
      zoom(target);
    } else {
      setAt(target);
    }
  };
  return (
    <div ref={place} class="flame">
      <div
        ref={area}
        class="bars"
        tabIndex={0}
        role="application"
        aria-label={`Flame graph of ${count(tree.nodes.length)} nodes by ${metric === "host_ns" ? "host" : "device"} time. Arrows go from bar to bar, Enter zooms in, Escape out`}
        style={{ height: `${levels * HIGH}px` }}
        onKeyDown={keys}
        onPointerLeave={() => setAt(null)}
      >
        {bars.map((bar) => (
          <div
            key={bar.node.place}
            class={barClass(bar, current, searching, found)}
            data-node={bar.node.name}
            data-value={bar.node[metric]}
            style={{
              left: `${bar.left}px`,
              top: `${bar.level * HIGH}px`,
              width: `${Math.max(bar.width - 1, 1)}px`,
            }}
            onPointerEnter={() => setAt(bar.node)}
            // A click on the outermost bar leads back, as it would otherwise lead nowhere.
            onClick={() => zoom(bar.node === root ? (root.parent ?? root) : bar.node)}
          >
            {bar.width > LEGIBLE && shortName(bar.node)}
          </div>
        ))}
        <div
          class="flame-tip"
          role="status"
          hidden={!current}
          style={current ? tipPlace(current, width, levels) : {}}
        >
          {current && <Tip node={current.node} tree={tree} />}
        </div>
      </div>
      {levels === LEVELS && <p class="note">There are deeper levels: zoom in to see them.</p>}
    </div>
  );
}

function barClass(
  bar: Bar,
  current: Bar | undefined,
  searching: boolean,
  found: Set<CallNode>,
): string {
  const search = !searching ? "" : found.has(bar.node) ? "found-bar" : "dim";
  return `flame-bar call-${bar.node.kind} ${search} ${bar === current ? "current" : ""}`;
}

/** Where a key leads from a bar; undefined: nowhere. */
function nodeAfter(key: string, bars: Bar[], current: Bar | undefined): CallNode | undefined {
  const root = bars[0].node;
  if (key === "Escape") {
    return root.parent;
  }
  if (!current) {
    return key.startsWith("Arrow") ? root : undefined;
  }
  const beside = bars.filter((bar) => bar.level === current.level);
  const place = beside.indexOf(current);
  switch (key) {
    case "ArrowUp":
      return current.node === root ? undefined : current.node.parent;
    case "ArrowDown":
      return bars.find((bar) => bar.node.parent === current.node)?.node;
    case "ArrowLeft":
      return beside[place - 1]?.node;
    case "ArrowRight":
      return beside[place + 1]?.node;
  }
  return undefined;
}

/** Below the bar, or above it in the lower half, so that it hides neither the bar nor the end. */
function tipPlace(bar: Bar, width: number, levels: number): { [style: string]: string } {
  const left = `${Math.max(Math.min(bar.left, width - TIP), 0)}px`;
  return bar.level > levels / 2 && bar.level > 4
    ? { left, bottom: `${(levels - bar.level) * HIGH + 4}px` }
    : { left, top: `${(bar.level + 1) * HIGH + 4}px` };
}

const KINDS: { [kind: string]: string } = {
  device: "device rows",
  module: "module",
  python: "Python frame",
};

/** Name, both times with their own parts, how many calls. */
function Tip({ node, tree }: { node: CallNode; tree: Tree }) {
  const { total_device_ns, total_host_ns } = tree.columns;
  const share = (ns: number, whole: number) => (whole > 0 ? `, ${percent(ns / whole)}` : "");
  return (
    <>
      <strong>{node.name}</strong>
      {total_device_ns > 0 && (
        <div>
          device {time(node.device_ns)}
          {share(node.device_ns, total_device_ns)}, own {time(node.self_device_ns)}
        </div>
      )}
      <div>
        host {time(node.host_ns)}
        {share(node.host_ns, total_host_ns)}, own {time(node.self_host_ns)}
      </div>
      {node.count > 0 && (
        <div>
          {KINDS[node.kind] ?? node.kind}, {count(node.count)} times
        </div>
      )}
    </>
  );
}
