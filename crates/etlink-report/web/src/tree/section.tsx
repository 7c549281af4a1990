// What called what, with both times: a flame graph and a table of one tree.

import type { ComponentChildren } from "preact";
import { useMemo, useState } from "preact/hooks";
import { Note, Say } from "../charts";
import type { CallTreeColumns, Data, PageTrees } from "../data";
import { count } from "../format";
import { RankChoice } from "../sections";
import { Flame } from "./flame";
import { pathTo, searchNodes, treeOf, type CallNode, type Metric } from "./model";
import { TreeTable } from "./table";
import "./tree.css";

/** Steps of a path that are shown at once: the first, and the last of a longer one. */
const STEPS = 6;

export function TreeSection({ data, trees }: { data: Data; trees: PageTrees }) {
  const [rank, setRank] = useState(
    Math.max(
      trees.ranks.findIndex((of) => of.length > 0),
      0,
    ),
  );
  const [withFrames, setWithFrames] = useState(false);
  const ofRank = trees.ranks[rank] ?? [];
  const columns = ofRank.find((tree) => tree.with_frames === withFrames) ?? ofRank[0];
  const choices = (
    <>
      {data.ranks.length > 1 && <RankChoice data={data} rank={rank} choose={setRank} all={false} />}
      {ofRank.length > 1 && (
        <label class="check">
          <input
            type="checkbox"
            checked={withFrames}
            onChange={(event) => setWithFrames(event.currentTarget.checked)}
          />
          Python frames
        </label>
      )}
    </>
  );
  return (
    <>
      <Say>
        A bar is all calls of one name below one caller, as wide as their time. Device time is the
        time of the rows that they launched. Host times of concurrent threads are added up.
      </Say>
      {columns ? (
        <TreeViews
          key={`${rank} ${columns.with_frames}`}
          trees={trees}
          columns={columns}
          choices={choices}
        />
      ) : (
        <>
          <div class="tools">{choices}</div>
          <Note
            text={`The page has no tree of rank ${data.ranks[rank].label}: \`etlink top --tree\` may.`}
          />
        </>
      )}
    </>
  );
}

function TreeViews({
  trees,
  columns,
  choices,
}: {
  trees: PageTrees;
  columns: CallTreeColumns;
  choices: ComponentChildren;
}) {
  const tree = useMemo(() => treeOf(trees, columns), [trees, columns]);
  const hasDevice = columns.total_device_ns > 0;
  const [metric, setMetric] = useState<Metric>(hasDevice ? "device_ns" : "host_ns");
  const [root, setRoot] = useState<CallNode>(tree.all);
  const [text, setText] = useState("");
  const found = useMemo(() => searchNodes(tree, text), [tree, text]);
  const searching = text.trim() !== "";
  const views = { tree, root, metric, found, searching, zoom: setRoot };
  const metrics: [Metric, string][] = [
    ["device_ns", "device time"],
    ["host_ns", "host time"],
  ];
  return (
    <>
      <div class="tools">
        {choices}
        {hasDevice && (
          <div class="choice" role="group" aria-label="Width of bars">
            {metrics.map(([of, name]) => (
              <button
                key={of}
                type="button"
                aria-pressed={of === metric}
                onClick={() => setMetric(of)}
              >
                {name}
              </button>
            ))}
          </div>
        )}
        <label class="filter">
          <span class="hidden">Search the call tree</span>
          <input
            type="search"
            placeholder="Search calls"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <span class="found" role="status">
          {searching ? `${count(found.size)} of ${count(tree.nodes.length)} nodes` : ""}
        </span>
      </div>
      <Path root={root} zoom={setRoot} />
      <Flame {...views} />
      <Legend tree={columns} trees={trees} />
      <TreeTable {...views} />
      {columns.nodes > tree.nodes.length && <Note text={cutText(columns)} />}
    </>
  );
}

/** The way back from where the graph is zoomed to. */
function Path({ root, zoom }: { root: CallNode; zoom: (node: CallNode) => void }) {
  const path = pathTo(root);
  const hidden = Math.max(path.length - STEPS, 0);
  const steps = path.filter((_, at) => at === 0 || at > hidden);
  return (
    <nav class="tree-path" aria-label="Where the graph is">
      {steps.map((node, at) => (
        <span key={node.place}>
          {at > 0 && " › "}
          {at === 1 && hidden > 0 && "… › "}
          {node === root ? (
            <span aria-current="location">{node.name}</span>
          ) : (
            <button type="button" class="link" onClick={() => zoom(node)}>
              {node.name}
            </button>
          )}
        </span>
      ))}
    </nav>
  );
}

const LEGEND: [string, string][] = [
  ["thread", "thread"],
  ["step", "step"],
  ["annotation", "annotation"],
  ["module", "module"],
  ["python", "Python frame"],
  ["op", "op"],
];

function Legend({ tree, trees }: { tree: CallTreeColumns; trees: PageTrees }) {
  const kinds = new Set(tree.kind.map((kind) => trees.kinds[kind]));
  return (
    <div class="legend">
      {LEGEND.filter(([kind]) => kinds.has(kind)).map(([kind, name]) => (
        <span key={kind}>
          <i class={`call-${kind}`} /> {name}
        </span>
      ))}
    </div>
  );
}

function cutText(columns: CallTreeColumns): string {
  const share = (columns.cut_share * 100).toPrecision(2);
  const command = `etlink top --tree${columns.with_frames ? " --python" : ""} --json`;
  return (
    `These are the ${count(columns.depth.length)} of ${count(columns.nodes)} nodes that take ` +
    `most. No other node has more than ${share} % of the device’s time or the host’s. ` +
    `All: \`${command}\`.`
  );
}
