// What is known of a selected time.

import { useMemo } from "preact/hooks";
import { count, percent, time } from "../format";
import type { Span } from "../navigation";
import type { Model } from "./model";
import { sumsOf, type NameSum } from "./spans";

/** Names that are listed. */
const LISTED = 8;

interface Props {
  model: Model;
  area: Span;
  select: (range: number) => void;
  fill: () => void;
  clear: () => void;
}

export function AreaSums({ model, area, select, fill, clear }: Props) {
  const sums = useMemo(() => sumsOf(model, area), [model, area[0], area[1]]);
  const length = area[1] - area[0];
  const share = (ns: number) => `${time(ns)}${length > 0 ? `, ${percent(ns / length)}` : ""}`;
  const ofAll = model.packed.joints !== null;
  const facts: [string, string][] = [
    ["length", time(length)],
    ["from", `${time(area[0])} after the window’s start`],
    ...sums.busy.map(([name, ns]): [string, string] => [
      ofAll ? `${name} communicates` : `${name} busy`,
      share(ns),
    ]),
    ...(ofAll ? [] : sums.classes.map(([name, ns]): [string, string] => [name, share(ns)])),
  ];
  return (
    <div class="details selected-time">
      <h3>Selected time: {time(length)}</h3>
      <p class="tools">
        <button type="button" onClick={fill}>
          Fill the width
        </button>
        <button type="button" onClick={clear}>
          Clear
        </button>
      </p>
      <dl>
        {facts.map(([what, value]) => (
          <div key={what}>
            <dt>{what}</dt>
            <dd>{value}</dd>
          </div>
        ))}
      </dl>
      <div class="two">
        <Names
          title={ofAll ? "Collectives and messages" : "Longest device rows"}
          names={sums.rows}
          select={select}
        />
        {!ofAll && (
          <Names title="Longest host ops, callees included" names={sums.ops} select={select} />
        )}
      </div>
      {sums.joined > 0 && (
        <p class="note">
          {count(sums.joined)} hatched boxes each combine several short ranges. They count from the
          first start to the last end, without a name.
        </p>
      )}
    </div>
  );
}

function Names({
  title,
  names,
  select,
}: {
  title: string;
  names: NameSum[];
  select: (range: number) => void;
}) {
  return (
    <section>
      <h4>{title}</h4>
      {names.length === 0 && <p class="note">None.</p>}
      <ul>
        {names.slice(0, LISTED).map((sum) => (
          <li key={sum.name}>
            <button
              type="button"
              class="link name"
              title={sum.name}
              onClick={() => select(sum.longest)}
            >
              {sum.short}
            </button>{" "}
            <span class="gap">
              {time(sum.ns)}
              {sum.count > 1 && ` in ${count(sum.count)}`}
            </span>
          </li>
        ))}
      </ul>
      {names.length > LISTED && <p class="note">and {count(names.length - LISTED)} more names</p>}
    </section>
  );
}
