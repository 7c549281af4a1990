// A simulation of the run, beside what was measured.

import { Note, Say } from "./charts";
import type { SimulatedPart, SimulatedTrack } from "./data";
import { Table, type Column } from "./table";

const RANKS: Column[] = [
  { field: "rank" },
  { field: "simulated_ns" },
  { field: "measured_ns" },
  { field: "change_share", head: "change" },
  { field: "communication_ns", head: "communicates" },
  { field: "measured_communication_ns", head: "measured communication" },
  { field: "exposed_ns", head: "exposed" },
];

const KINDS: Column[] = [
  { field: "kind" },
  { field: "count", head: "times" },
  { field: "simulated_ns" },
  { field: "measured_ns" },
  { field: "change_share", head: "change" },
  { field: "last_done_ns", head: "until the last ends" },
  { field: "simulated_wait_ns", head: "simulated waits" },
  { field: "measured_wait_ns", head: "measured waits" },
];

const COMMUNICATIONS: Column[] = [
  { field: "kind" },
  { field: "between" },
  { field: "number" },
  { field: "bytes" },
  { field: "simulated_ns" },
  { field: "measured_ns" },
  { field: "longer_ns", head: "longer by" },
];

/** Of the drawing, in its own units. */
const WIDTH = 1000;

/** The ranks on one time axis, each measured and below it simulated. */
function Strips({ tracks }: { tracks: SimulatedTrack[] }) {
  const end = tracks.reduce((most, track) => Math.max(most, track.end_ns), 1);
  const place = (ns: number) => (ns / end) * WIDTH;
  return (
    <div
      class="strips"
      id="simulated-strips"
      role="group"
      aria-label="Ranks, measured and simulated"
    >
      {tracks.map((track) => {
        const label = `rank ${track.rank}, ${track.simulated ? "simulated" : "measured"}`;
        return (
          <div class="strip" key={label}>
            <span class="label">{label}</span>
            <svg
              viewBox={`0 0 ${WIDTH} 10`}
              preserveAspectRatio="none"
              role="img"
              aria-label={label}
            >
              <rect class="run" x={0} y={4} width={place(track.end_ns)} height={2} />
              {track.spans.map((span, at) => (
                <rect
                  class="span"
                  key={at}
                  x={place(span.start_ns)}
                  y={0}
                  width={Math.max(place(span.duration_ns), 0.5)}
                  height={10}
                >
                  <title>{`${span.name}: ${(span.duration_ns / 1e6).toFixed(3)} ms`}</title>
                </rect>
              ))}
            </svg>
          </div>
        );
      })}
    </div>
  );
}

export function SimulatedSection({ simulated }: { simulated: SimulatedPart }) {
  const { tracks, cut, not_drawn: short } = simulated;
  return (
    <>
      {simulated.sentences.map((sentence) => (
        <Say key={sentence}>{sentence}</Say>
      ))}
      <Note
        text={
          `Log: ${simulated.log}. Bars are communications, from a rank's arrival to its end.` +
          (short > 0 ? ` The ${short} shortest are not drawn.` : "")
        }
      />
      <Strips tracks={tracks} />
      <Table
        id="simulated-ranks"
        caption="Ranks"
        records={simulated.ranks.map((row) => ({ ...row }))}
        columns={RANKS}
        rows={8}
        filter={false}
      />
      {simulated.kinds.length > 0 && (
        <Table
          id="simulated-kinds"
          caption="Transfers by kind"
          records={simulated.kinds.map((row) => ({ ...row }))}
          columns={KINDS}
          filter={false}
          note="A transfer lasts from the last rank's arrival to its end; on host threads, to the first end."
        />
      )}
      {simulated.communications.length > 0 && (
        <Table
          id="simulated-communications"
          caption="Transfers that differ most"
          records={simulated.communications.map((row) => ({ ...row }))}
          columns={COMMUNICATIONS}
          rows={8}
          note={
            cut > 0
              ? `${cut} more with smaller differences: see etlink simulated --json.`
              : undefined
          }
        />
      )}
    </>
  );
}
