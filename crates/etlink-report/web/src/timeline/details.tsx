// What is known of one range: times, facts, what it waited for and what waited for it.

import type { Data } from "../data";
import { count, time } from "../format";
import { isLost, Meeting, type Jump } from "./meeting";
import type { Dep, Model } from "./model";
import { unionLength } from "./spans";

/** Reasons to wait that are listed at most. */
const LISTED = 12;

const REASONS: { [kind: string]: string } = {
  launch: "launched by",
  stream_order: "followed, on its stream",
  event_wait: "waited for an event after",
  host_wait: "the host blocked for",
  handoff: "got its work from",
  tensor: "reads a tensor of",
  collective: "could not begin before",
};

const EFFECTS: { [kind: string]: string } = {
  launch: "launched",
  stream_order: "was followed on its stream by",
  event_wait: "an event after it was awaited by",
  host_wait: "held up the host in",
  handoff: "gave work to",
  tensor: "wrote a tensor for",
  collective: "held up",
};

interface Props {
  model: Model;
  data: Data;
  range: number;
  occurrences: Occurrences;
  select: (range: number) => void;
  jump: Jump;
}

/** Ranges of the same name in all timelines of the rank. */
interface Occurrences {
  /** Which of them this is, by time. */
  place: number;
  count: number;
  again: (by: number) => void;
}

/** The same in a sentence, for screen readers. */
export function spoken(model: Model, range: number): string {
  const track = model.tracks[model.track[range]];
  const length = time(model.end[range] - model.start[range]);
  return `${model.name(range)}, ${model.kind(range)}, ${length}, at ${time(model.start[range])}, ${track.name}`;
}

function started(model: Model, data: Data, range: number): string {
  if (model.packed.common_ns === null) {
    return `${time(model.start[range])} after the window’s start`;
  }
  const rank = model.rankOf(range);
  const by = isLost(data, rank)
    ? `the clock of rank ${rank}; its offset is unknown`
    : "the common clock";
  return `${time(model.start[range] + model.offset)} by ${by}`;
}

export function Details({ model, data, range, occurrences, select, jump }: Props) {
  const { packed } = model;
  const track = model.tracks[model.track[range]];
  const several = packed.count[range] > 1;
  const step = model.onPath[range] >= 0 ? model.path[model.onPath[range]] : undefined;
  const facts: [string, string][] = [
    ["kind", model.kind(range)],
    ["start", started(model, data, range)],
    [several ? "from first to last" : "duration", time(model.end[range] - model.start[range])],
    ["on", [track.name, track.group].filter(Boolean).join(", ")],
  ];
  if (packed.own[range] > 0) {
    facts.push(["self time", time(packed.own[range])]);
  }
  if (packed.owner[range] > 0 && model.op[range] < 0) {
    facts.push(["of the op", packed.strings[packed.owner[range]]]);
  }
  if (packed.correlation[range] >= 0) {
    facts.push(["correlation", String(packed.correlation[range])]);
  }
  for (const line of packed.strings[packed.about[range]].split("\n").filter(Boolean)) {
    const colon = line.indexOf(": ");
    facts.push([line.slice(0, colon), line.slice(colon + 2)]);
  }
  if (step) {
    facts.push([
      "critical path",
      `on it: ${step.cause.replace("_", " ")}${step.delay > 0 ? `, ${time(step.delay)} late by ${step.delayCause}` : ""}`,
    ]);
  }
  const nothing = (which: string) =>
    packed.joints
      ? `No other rank that is known here; see rank ${model.rankOf(range)}’s own timeline.`
      : `Only what its thread did ${which}.`;
  return (
    <div class="details">
      <h3 class="name" title={model.name(range)}>
        {model.name(range)}
      </h3>
      {occurrences.count > 1 && <Again {...occurrences} />}
      <dl>
        {facts.map(([what, value]) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      {model.op[range] >= 0 && (
        <p class="of-op">
          <span class="why">of the op</span>{" "}
          <button type="button" class="link name" onClick={() => select(model.op[range])}>
            {model.name(model.op[range])}
          </button>
        </p>
      )}
      <DeviceRows model={model} range={range} select={select} />
      {model.met(range) && <Meeting model={model} data={data} range={range} jump={jump} />}
      <div class="two">
        <Deps
          title="Waited for"
          none={nothing("before")}
          model={model}
          deps={model.waitedFor(range)}
          other={(dep) => dep.from}
          reasons={REASONS}
          select={select}
        />
        <Deps
          title="What waited for it"
          none={nothing("next")}
          model={model}
          deps={model.waiters(range)}
          other={(dep) => dep.to}
          reasons={EFFECTS}
          select={select}
        />
      </div>
    </div>
  );
}

/** To the next and previous of the same name. */
function Again({ place, count: all, again }: Occurrences) {
  return (
    <p class="tools again">
      <button
        type="button"
        disabled={place <= 0}
        onClick={() => again(-1)}
        aria-label="Previous of this name"
      >
        ‹ p
      </button>
      <button
        type="button"
        disabled={place >= all - 1}
        onClick={() => again(1)}
        aria-label="Next of this name"
      >
        n ›
      </button>
      <span class="found" role="status">
        {count(place + 1)} of {count(all)} of this name in this page
      </span>
    </p>
  );
}

/** What an op, an annotation or a call launched. */
function DeviceRows({
  model,
  range,
  select,
}: {
  model: Model;
  range: number;
  select: (range: number) => void;
}) {
  const rows = model.rowsOf(range);
  if (rows.length === 0 || model.kind(range) === "call") {
    return null;
  }
  const length = (row: number) => model.end[row] - model.start[row];
  const spans = rows.map((row): [number, number] => [model.start[row], model.end[row]]);
  const longest = [...rows].sort((a, b) => length(b) - length(a)).slice(0, LISTED);
  return (
    <section class="rows">
      <h4>
        Its device rows: {count(rows.length)}, busy for {time(unionLength(spans))}
      </h4>
      <ul>
        {longest.map((row) => (
          <li key={row}>
            <button
              type="button"
              class="link name"
              title={model.name(row)}
              onClick={() => select(row)}
            >
              {model.shortName(row)}
            </button>{" "}
            <span class="gap">
              {time(length(row))}, on {model.tracks[model.track[row]].name}
            </span>
          </li>
        ))}
      </ul>
      {rows.length > LISTED && (
        <p class="note">These are the longest; {count(rows.length - LISTED)} more are outlined.</p>
      )}
    </section>
  );
}

interface DepsProps {
  title: string;
  /** What to say where there is none. */
  none: string;
  model: Model;
  deps: Dep[];
  other: (dep: Dep) => number;
  reasons: { [kind: string]: string };
  select: (range: number) => void;
}

function Deps({ title, none, model, deps, other, reasons, select }: DepsProps) {
  return (
    <section>
      <h4>{title}</h4>
      {deps.length === 0 && <p class="note">{none}</p>}
      <ul>
        {deps.slice(0, LISTED).map((dep, at) => (
          <li key={at}>
            <span class="why">{reasons[dep.kind] ?? dep.kind}</span>{" "}
            {other(dep) >= 0 ? (
              <button type="button" class="link name" onClick={() => select(other(dep))}>
                {model.name(other(dep))}
              </button>
            ) : (
              <span class="name">{dep.outside} (not drawn)</span>
            )}{" "}
            {model.packed.joints && other(dep) >= 0 && `on rank ${model.rankOf(other(dep))} `}
            <span class="gap">
              {dep.kind === "collective"
                ? `arrived at ${time(dep.at + model.offset)}, after a wait of ${time(dep.at - model.start[dep.to])}`
                : dep.kind === "launch"
                  ? `${time(dep.gap)} after the call began`
                  : `${time(Math.max(dep.gap, 0))} after its end`}
              {dep.decided ? " · decided the start" : ""}
              {dep.inferred ? " · inferred" : ""}
            </span>
          </li>
        ))}
      </ul>
      {deps.length > LISTED && <p class="note">and {deps.length - LISTED} more</p>}
    </section>
  );
}
