// A collective or message of several ranks: who came last, by how much, how sure that is, and the way to the other ranks' sides of it.

import type { RankClock, Data, Timeline } from "../data";
import { marked } from "../charts";
import { bytes, count, time } from "../format";
import type { Model } from "./model";

/** Goes to a rank's side of a collective: where all ranks are, or in the rank's own timeline. */
export type Jump = (rank: number, joint: number, all: boolean) => void;

interface Props {
  model: Model;
  data: Data;
  range: number;
  jump: Jump;
}

export function Meeting({ model, data, range, jump }: Props) {
  const met = model.met(range);
  if (!met) {
    return null;
  }
  const joint = model.joint[range];
  const rank = model.rankOf(range);
  const after =
    rank === met.last ? met.skew_ns : Math.max(model.start[range] + model.offset - met.start_ns, 0);
  const off = uncertainty(data, met.first, met.last);
  const own = data.timelines.some(
    (timeline) =>
      timeline.rank === met.last &&
      timeline.step === model.packed.step &&
      timeline.met.joint.includes(joint),
  );
  const here = model.packed.joints !== null;
  return (
    <section class="meeting">
      <h4>Matched collective</h4>
      <p>
        {met.kind.replaceAll("_", " ")} {met.number}, {met.ranks}
        {met.bytes ? `, ${bytes(met.bytes)}` : ""}:{" "}
        <strong>
          rank {met.last} arrived last, {time(met.skew_ns)} after the first
        </strong>{" "}
        (rank {met.first})
        {met.alone_ns !== met.skew_ns && `, ${time(met.alone_ns)} after the one before it`}.
        {rank !== met.last &&
          ` Rank ${rank} arrived ${after === 0 ? "first" : `${time(after)} after the first`} and waited ${time(Math.max(met.skew_ns - after, 0))}.`}
        {off === null
          ? " The offset between the two clocks is unknown."
          : met.skew_ns <= off
            ? ` The two clocks may be off by up to ${time(off)}, so the last rank is uncertain.`
            : ""}
      </p>
      <p class="tools">
        {rank !== met.last && here && (
          <button type="button" onClick={() => jump(met.last, joint, true)}>
            Rank {met.last}, the last
          </button>
        )}
        {rank !== met.first && here && (
          <button type="button" onClick={() => jump(met.first, joint, true)}>
            Rank {met.first}, the first
          </button>
        )}
        {own && (here || rank !== met.last) && (
          <button type="button" onClick={() => jump(met.last, joint, false)}>
            What rank {met.last} did
          </button>
        )}
        {!here && (
          <button type="button" onClick={() => jump(rank, joint, true)}>
            All ranks
          </button>
        )}
      </p>
      {!own && (
        <p class="note">
          Threads and streams of rank {met.last} are not in this page:{" "}
          {marked(`\`etlink report --timelines ${met.last}\``)} has them.
        </p>
      )}
    </section>
  );
}

function clockOf(data: Data, rank: number): RankClock | undefined {
  return data.met?.clocks.find((clock) => clock.rank === rank);
}

/** Nothing tells how a rank’s clock lies to the first’s. */
export function isLost(data: Data, rank: number): boolean {
  const clock = clockOf(data, rank);
  return clock !== undefined && clock.uncertainty_ns === null && !clock.by_machine;
}

/** How far off the difference of two ranks' times is at most, ns; null: that is not known. */
function uncertainty(data: Data, one: number, other: number): number | null {
  const known = [one, other]
    .map((rank) => clockOf(data, rank))
    .map((clock) => (clock?.by_machine ? 0 : (clock?.uncertainty_ns ?? null)));
  return known.some((ns) => ns === null)
    ? null
    : known.reduce<number>((sum, ns) => sum + (ns ?? 0), 0);
}

/** Which clock a timeline is by, and how sure that is. */
export function clockNote(data: Data, packed: Timeline): string {
  const clocks = data.met?.clocks ?? [];
  const first = `Times are by the clock of rank ${clocks[0]?.rank}, from the first start on any rank`;
  if (!packed.joints) {
    const clock = clockOf(data, packed.rank ?? -1);
    return clock && clock !== clocks[0] ? `${first}; ${one(clock)}.` : `${first}.`;
  }
  const rest = clocks.slice(1);
  const lost = rest.filter((clock) => clock.uncertainty_ns === null && !clock.by_machine);
  const bad = rest.filter((clock) => clock.contradicted);
  const worst = rest
    .filter((clock) => clock.uncertainty_ns !== null && !clock.contradicted)
    .sort((a, b) => (b.uncertainty_ns ?? 0) - (a.uncertainty_ns ?? 0))[0];
  const parts = [
    worst &&
      `the offsets of the others, derived from collectives, are at most ${time(worst.uncertainty_ns ?? 0)} off (rank ${worst.rank})`,
    bad.length > 0 && `collectives contradict any offset of ${list(bad)}`,
    lost.length > 0 && `the offset of ${list(lost)} is unknown: times are as recorded`,
  ];
  return `${[first, ...parts.filter(Boolean)].join("; ")}.`;
}

function one(clock: RankClock): string {
  const name = `rank ${clock.rank}’s clock`;
  const offset = clock.offset_ns;
  const ahead =
    offset === 0
      ? `${name} is the same`
      : `${name} is ${time(Math.abs(offset))} ${offset < 0 ? "ahead" : "behind"}`;
  if (clock.by_machine) {
    return `${ahead}, from the clock of its machine`;
  }
  if (clock.uncertainty_ns === null) {
    return `the offset of ${name} is unknown: its times are as recorded`;
  }
  return clock.contradicted
    ? `collectives contradict any offset of ${name}`
    : `${ahead}, ± ${time(clock.uncertainty_ns)} (from ${count(clock.support)} collectives)`;
}

function list(clocks: RankClock[]): string {
  const some = clocks.slice(0, 8).map((clock) => clock.rank);
  return `rank${clocks.length > 1 ? "s" : ""} ${some.join(", ")}${clocks.length > 8 ? ", …" : ""}`;
}
