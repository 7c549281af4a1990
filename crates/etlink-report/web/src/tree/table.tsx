// The tree as rows that open and close.

import { useMemo, useState } from "preact/hooks";
import { count, percent, unitOf, type Unit } from "../format";
import {
  childGroups,
  openAtFirst,
  shortName,
  SMALL,
  type CallNode,
  type Metric,
  type Tree,
} from "./model";

/** Rows to open at first, about. */
const FIRST = 24;
/** Rows to show at once. */
const SHOWN = 300;
/** What a level moves a name in by, rem, and how many levels do so at most. */
const INDENT = 0.9;
const INDENTED = 16;

type TimeField = "device_ns" | "self_device_ns" | "host_ns" | "self_host_ns";

const HEADS: [TimeField, string][] = [
  ["device_ns", "device"],
  ["self_device_ns", "device, own"],
  ["host_ns", "host"],
  ["self_host_ns", "host, own"],
];

interface Props {
  tree: Tree;
  root: CallNode;
  metric: Metric;
  found: Set<CallNode>;
  searching: boolean;
  zoom: (node: CallNode) => void;
}

interface Row {
  node: CallNode;
  depth: number;
  /** So many of the node's small children are behind this row, which is not the node's own. */
  more?: number;
}

export function TreeTable({ tree, root, metric, found, searching, zoom }: Props) {
  const first = useMemo(() => openAtFirst(root, metric, FIRST), [root, metric]);
  // What the reader opened or closed; the rest is as at first.
  const [turned, setTurned] = useState<Set<CallNode>>(new Set());
  // Nodes of which small children are shown too.
  const [whole, setWhole] = useState<Set<CallNode>>(new Set());
  const [all, setAll] = useState(false);
  const [focused, setFocused] = useState(0);
  const around = useMemo(() => nodesAround(found), [found]);
  const isOpen = (node: CallNode) =>
    searching ? around.has(node) : first.has(node) !== turned.has(node);
  const isShown = (node: CallNode) => !searching || found.has(node) || around.has(node);
  const groups = (node: CallNode) => {
    const [large, small] = childGroups(node, metric, root);
    return searching || whole.has(node) || small.length < 2
      ? { shown: [...large, ...small], more: 0 }
      : { shown: large, more: small.length };
  };
  const rows = visibleRows(root, groups, isOpen, isShown);
  const shown = all ? rows : rows.slice(0, SHOWN);
  const hasDevice = tree.columns.total_device_ns > 0;
  const heads = HEADS.filter(([field]) => hasDevice || !field.includes("device"));
  const turn = (node: CallNode) => {
    const next = new Set(turned);
    if (!next.delete(node)) {
      next.add(node);
    }
    setTurned(next);
  };
  const showAll = (node: CallNode) => setWhole(new Set([...whole, node]));
  const keys = (event: KeyboardEvent) => {
    const row = shown[focused];
    const go = rowAfter(event.key, shown, focused, isOpen);
    // Enter on a button is a click of it.
    const onButton = event.target instanceof HTMLButtonElement && event.key === "Enter";
    if (!row || onButton) {
      return;
    }
    if (row.more && event.key === "Enter") {
      showAll(row.node);
    } else if (go !== undefined) {
      focusRow(event.currentTarget as HTMLElement, go);
      setFocused(go);
    } else if (!row.more && isTurnedBy(event.key, row.node, isOpen(row.node))) {
      turn(row.node);
    } else if (event.key === "Enter") {
      zoom(row.node);
    } else {
      return;
    }
    event.preventDefault();
  };
  const all_ns = Math.max(tree.all[metric], 1);
  const units = {
    device: timeUnitOf(tree.all.device_ns),
    host: timeUnitOf(tree.all.host_ns),
  };
  return (
    <div class="table" id="tree-table">
      <div class="scroll" role="region" aria-label="Call tree" tabIndex={-1}>
        <table role="treegrid" aria-label="Call tree" onKeyDown={keys}>
          <thead>
            <tr>
              <th scope="col">name</th>
              <th scope="col" class="number">
                share
              </th>
              {heads.map(([field, head]) => (
                <th key={field} scope="col" class="number">
                  {head} <span class="unit">{unitFor(field, units).name}</span>
                </th>
              ))}
              <th scope="col" class="number">
                times
              </th>
            </tr>
          </thead>
          <tbody>
            {shown.map(({ node, depth, more }, at) => (
              <tr
                key={more ? `more of ${node.place}` : node.place}
                aria-level={depth + 1}
                aria-expanded={!more && node.children.length > 0 ? isOpen(node) : undefined}
                tabIndex={at === Math.min(focused, shown.length - 1) ? 0 : -1}
                onFocus={() => setFocused(at)}
                class={!more && found.has(node) ? "found-row" : ""}
              >
                {more ? (
                  <MoreCell
                    more={more}
                    depth={depth}
                    columns={heads.length + 3}
                    show={() => showAll(node)}
                  />
                ) : (
                  <>
                    <NameCell
                      node={node}
                      depth={depth}
                      open={isOpen(node)}
                      turn={() => turn(node)}
                      zoom={() => zoom(node)}
                    />
                    <td class="number">{percent(node[metric] / all_ns)}</td>
                    {heads.map(([field]) => (
                      <TimeCell
                        key={field}
                        field={field}
                        node={node}
                        unit={unitFor(field, units)}
                      />
                    ))}
                    <td class="number" data-field="count">
                      {node.count > 0 ? count(node.count) : ""}
                    </td>
                  </>
                )}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {rows.length > SHOWN && (
        <button type="button" class="more" aria-expanded={all} onClick={() => setAll(!all)}>
          {all ? `Show ${SHOWN}` : `Show all ${count(rows.length)}`}
        </button>
      )}
    </div>
  );
}

interface NameProps {
  node: CallNode;
  depth: number;
  open: boolean;
  turn: () => void;
  zoom: () => void;
}

function NameCell({ node, depth, open, turn, zoom }: NameProps) {
  return (
    <td class="text" data-field="name" data-value={node.name}>
      <div class="tree-name" style={indentOf(depth)} title={node.name}>
        {node.children.length > 0 ? (
          <button
            type="button"
            class="turn"
            // The arrow keys of the row do the same: a table is one stop of Tab.
            tabIndex={-1}
            aria-label={`${open ? "Close" : "Open"} ${node.name}`}
            onClick={turn}
          >
            {open ? "▾" : "▸"}
          </button>
        ) : (
          <span class="turn" />
        )}
        <i class={`call-${node.kind}`} />
        <button type="button" class="link" tabIndex={-1} onClick={zoom}>
          {shortName(node)}
        </button>
      </div>
    </td>
  );
}

interface MoreProps {
  more: number;
  depth: number;
  columns: number;
  show: () => void;
}

function MoreCell({ more, depth, columns, show }: MoreProps) {
  return (
    <td colSpan={columns}>
      <div class="tree-name more" style={indentOf(depth)}>
        <span class="turn" />
        <button type="button" class="link" tabIndex={-1} onClick={show}>
          {more} more, each below {percent(SMALL, 0)}
        </button>
      </div>
    </td>
  );
}

function indentOf(depth: number): { [style: string]: string } {
  return { paddingLeft: `${INDENT * Math.min(depth, INDENTED)}rem` };
}

/** In s, all but the longest calls of a step would be 0.00…: ms is the largest unit. */
function timeUnitOf(most: number): Unit {
  return unitOf("total_ns", [Math.min(most, 999e6)]);
}

function unitFor(field: TimeField, units: { device: Unit; host: Unit }): Unit {
  return field.includes("device") ? units.device : units.host;
}

function TimeCell({ field, node, unit }: { field: TimeField; node: CallNode; unit: Unit }) {
  return (
    <td class="number" data-field={field} data-value={node[field]}>
      {unit.show(node[field])}
    </td>
  );
}

/** The open nodes and their children, each before its own. */
function visibleRows(
  root: CallNode,
  groups: (node: CallNode) => { shown: CallNode[]; more: number },
  isOpen: (node: CallNode) => boolean,
  isShown: (node: CallNode) => boolean,
): Row[] {
  const rest: Row[] = [];
  const pushChildren = (node: CallNode, depth: number) => {
    const { shown, more } = groups(node);
    // From a stack, the last comes first.
    if (more > 0) {
      rest.push({ node, depth, more });
    }
    rest.push(...shown.reverse().map((node) => ({ node, depth })));
  };
  const rows: Row[] = [];
  // What stands for all threads is no row.
  if (root.place < 0) {
    pushChildren(root, 0);
  } else {
    rest.push({ node: root, depth: 0 });
  }
  for (let row = rest.pop(); row; row = rest.pop()) {
    if (!row.more && !isShown(row.node)) {
      continue;
    }
    rows.push(row);
    if (!row.more && isOpen(row.node)) {
      pushChildren(row.node, row.depth + 1);
    }
  }
  return rows;
}

function nodesAround(found: Set<CallNode>): Set<CallNode> {
  const around = new Set<CallNode>();
  for (const node of found) {
    for (let at = node.parent; at && !around.has(at); at = at.parent) {
      around.add(at);
    }
  }
  return around;
}

/** The row that a key leads to; undefined: none. */
function rowAfter(
  key: string,
  rows: Row[],
  at: number,
  isOpen: (node: CallNode) => boolean,
): number | undefined {
  const row = rows[at];
  const last = rows.length - 1;
  switch (key) {
    case "ArrowDown":
      return Math.min(at + 1, last);
    case "ArrowUp":
      return Math.max(at - 1, 0);
    case "Home":
      return 0;
    case "End":
      return last;
    case "ArrowRight":
      return row && !row.more && isOpen(row.node) && row.node.children.length > 0
        ? at + 1
        : undefined;
    case "ArrowLeft": {
      const closed = row && (row.more || !isOpen(row.node) || row.node.children.length === 0);
      const parent = rows.findIndex(
        ({ node, more }) => !more && node === (row?.more ? row.node : row?.node.parent),
      );
      return closed && parent >= 0 ? parent : undefined;
    }
  }
  return undefined;
}

function isTurnedBy(key: string, node: CallNode, open: boolean): boolean {
  return node.children.length > 0 && (open ? key === "ArrowLeft" : key === "ArrowRight");
}

function focusRow(table: HTMLElement, at: number) {
  table.querySelectorAll<HTMLElement>("tbody tr")[at]?.focus();
}
