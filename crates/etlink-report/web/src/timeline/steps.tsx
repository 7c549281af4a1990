// Which step the timeline is of, and which steps the page does not have.

import { marked } from "../charts";
import type { Data } from "../data";
import { count } from "../format";
import { useNavigation } from "../navigation";

/** Names of steps that are listed. */
const LISTED = 4;

/** Steps of the ranks that have timelines, by time, each once. */
function allSteps(data: Data): string[] {
  const drawn = new Set(data.timelines.map((timeline) => timeline.label));
  const ranks = data.ranks.filter((rank) => drawn.has(rank.label));
  return [...new Set(ranks.flatMap((rank) => (rank.steps ?? []).map((step) => step.name)))];
}

export function StepChoice({ data }: { data: Data }) {
  const { links, current, go } = useNavigation();
  const shown = data.timelines[current.timeline];
  if (shown.step === null) {
    return null;
  }
  const own = links.timelinesOf(shown.joints ? "all" : shown.label);
  const at = own.indexOf(current.timeline);
  const drawn = own.map((place) => data.timelines[place].step ?? "");
  const all = allSteps(data);
  const left = all.filter((step) => !drawn.includes(step));
  // A table that was cut does not have all steps.
  const rest = data.cut
    .filter((cut) => cut.table === "steps")
    .reduce((most, cut) => Math.max(most, cut.of - cut.records), 0);
  const choose = (place: number | undefined) =>
    place !== undefined && go({ timeline: place, sight: null, selected: -1, area: null });
  return (
    <>
      {own.length > 1 && (
        <div class="tools" role="group" aria-label="Step of the timeline">
          <button
            type="button"
            disabled={at <= 0}
            onClick={() => choose(own[at - 1])}
            aria-label="Previous step"
          >
            ‹
          </button>
          <label>
            <span class="hidden">Step</span>
            <select value={at} onChange={(event) => choose(own[Number(event.currentTarget.value)])}>
              {drawn.map((step, place) => (
                <option key={step} value={place}>
                  {step}
                </option>
              ))}
            </select>
          </label>
          <button
            type="button"
            disabled={at >= own.length - 1}
            onClick={() => choose(own[at + 1])}
            aria-label="Next step"
          >
            ›
          </button>
        </div>
      )}
      {left.length > 0 && (
        <p class="note left-out">
          {marked(
            `The page has the timelines of ${count(own.length)} of ${count(all.length + rest)} steps. ${listed(left)} ${left.length > 1 ? "are" : "is"} left out: \`etlink report --step ${left[0]}\` has it and its neighbours.`,
          )}
        </p>
      )}
    </>
  );
}

function listed(steps: string[]): string {
  const some = steps.slice(0, LISTED);
  return steps.length > LISTED ? `${some.join(", ")}, …` : some.join(", ");
}
