// The head of the page: one sentence, a bar of where the time goes, tiles, and the findings.

import { marked, Stacked, type Bar } from "./charts";
import type { Data, FindingLink } from "./data";
import { diagnosticText, percent } from "./format";
import { useNavigation } from "./navigation";
import { devices, IDLE, PARTS, pathBars, PATH_CAUSES } from "./sections";

/** Bars of single ranks; the section on device time has all. */
const RANKS = 8;

/** The parts of busy device time. */
const TIMES = PARTS.slice(0, 4);

const CAUSES = [...[...TIMES, ...IDLE].map(([name]) => name), "idle"];

function timeBar(
  label: string,
  time: Data["total"]["breakdown"][number],
  idle: Data["total"]["idle"][number] | undefined,
): Bar {
  const busy = TIMES.map(([name, field]) => ({ name, ns: time[field] as number }));
  // the causes of a device are also of its rows that are no work
  const causes = idle
    ? IDLE.map(([name, field]) => ({ name, ns: idle[field] as number }))
    : [{ name: "idle", ns: time.idle_ns + time.exposed_other_ns }];
  return { label, parts: [...busy, ...causes] };
}

/** Where the time of all devices goes, and below it where that of each device goes. */
function TimeBars({ data }: { data: Data }) {
  const total = data.total.breakdown[0];
  if (!total) {
    const bars = pathBars(data).slice(0, RANKS);
    return bars.length > 0 ? (
      <div class="times">
        <Stacked bars={bars} names={PATH_CAUSES} label="Critical path by cause" whole="" />
      </div>
    ) : null;
  }
  const each = data.ranks.flatMap((rank) =>
    devices(rank, true).map(({ label, time }) => {
      const idle = rank.idle.find((of) => of.device === time.device && of.stream === null);
      return timeBar(label, time, idle);
    }),
  );
  const all = timeBar(each.length > 1 ? "mean" : "device", total, data.total.idle[0]);
  return (
    <div class="times">
      <Stacked
        bars={[all]}
        names={CAUSES}
        idle={IDLE.map(([name]) => name)}
        label="Where device time goes"
        whole=""
        lengths={false}
      />
      {each.length > 1 && (
        <Stacked
          bars={each.slice(0, RANKS)}
          names={[]}
          label={`Where the time of ${Math.min(each.length, RANKS)} devices goes`}
          whole=""
          lengths={false}
          thin
        />
      )}
    </div>
  );
}

/** A finding with a bar of its gain, and the way to where it shows most. */
function Finding({ finding }: { finding: FindingLink }) {
  const navigation = useNavigation();
  const { title, evidence, remedy, rank, begin_ns: begin, end_ns: end } = finding;
  return (
    <li>
      <p class="title">{marked(title)}</p>
      <div
        class="gain"
        role="img"
        aria-label={`Gain: ${percent(finding.gain_share)} of the time`}
        title={`${percent(finding.gain_share)} of the time`}
      >
        <i style={{ width: `${Math.min(finding.gain_share, 1) * 100}%` }} />
      </div>
      <p>
        {marked(evidence)}{" "}
        {begin !== null && end !== null && (
          <button
            type="button"
            class="link"
            onClick={() => navigation.follow({ kind: "time", rank, begin, end })}
          >
            Show where
          </button>
        )}
      </p>
      <p class="remedy">→ {marked(remedy)}</p>
    </li>
  );
}

export function Head({ data }: { data: Data }) {
  // remarks on all findings, such as their gain together
  const remarks = data.findings.filter((finding) => finding.cause === "");
  const causes = data.findings.filter((finding) => finding.cause !== "");
  return (
    <section class="summary" aria-label="Summary">
      <p class="sentence">{data.sentence}</p>
      <TimeBars data={data} />
      <div class="cards">
        {data.cards.map((card) => (
          <div class="card" key={card.name}>
            <div class="what">{card.name}</div>
            <div class="figure">{card.value}</div>
            <div class="note">{marked(card.note)}</div>
          </div>
        ))}
      </div>
      {data.findings.length > 0 && (
        <div class="findings" id="findings">
          <h2>Largest possible gains</h2>
          <ol>
            {causes.map((finding) => (
              <Finding key={finding.title} finding={finding} />
            ))}
          </ol>
          {remarks.flatMap(({ title }) =>
            title.split("\n").map((line) => (
              <p class="of-all" key={line}>
                {marked(line)}
              </p>
            )),
          )}
        </div>
      )}
      {data.diagnostics.length > 0 && (
        <ul class="notes">
          {data.diagnostics.map(diagnosticText).map((text) => (
            <li key={text}>{text}</li>
          ))}
        </ul>
      )}
    </section>
  );
}
