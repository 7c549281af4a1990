// From a row of a table, a finding or a chart to its place in a timeline of the page.

import type { CollectiveSkew, Data, ReportRank } from "./data";
import { time } from "./format";
import type { Place, Span } from "./navigation";
import { Model } from "./timeline/model";

/** What to show. Times are ns since the origin of the rank's trace. */
export type Target =
  | { kind: "time"; rank: string; begin: number; end: number; name?: string }
  | { kind: "kernel"; rank: string | null; name: string; longest: number }
  | { kind: "collective"; collective: CollectiveSkew; rank?: number };

interface Found {
  change: Partial<Place>;
  message: string;
}

/** A range of a timeline. */
export interface Occurrence {
  timeline: number;
  range: number;
}

/** Times of a link may be off by this: a time of a year has 256 ns in a float. */
const NEAR = 512;

export class Links {
  private readonly data: Data;
  private readonly models = new Map<number, Model>();
  private readonly shortNames = new Map<string, string>();

  constructor(data: Data) {
    this.data = data;
    for (const kernel of [...data.total.kernels, ...data.ranks.flatMap((rank) => rank.kernels)]) {
      this.shortNames.set(kernel.name, kernel.short_name);
    }
  }

  /** The timeline at a place, unpacked when it is first asked for. */
  model(timeline: number): Model {
    const known = this.models.get(timeline);
    if (known) {
      return known;
    }
    const packed = this.data.timelines[timeline];
    const ofAll = this.data.timelines[this.timelineOf("all", packed.step)];
    const model = new Model(packed, this.data, ofAll?.joints ?? [], this.shortNames);
    this.models.set(timeline, model);
    return model;
  }

  /** The place of a rank's timeline of a step; -1: the page does not have it. */
  timelineOf(rank: string, step: string | null): number {
    return this.data.timelines.findIndex(
      (one) => one.step === step && (one.joints ? "all" : one.label) === rank,
    );
  }

  /** Places of the timelines that a rank has, by time. */
  timelinesOf(rank: string): number[] {
    const { timelines } = this.data;
    const places = timelines.map((_, place) => place);
    const own = places.filter(
      (place) => (timelines[place].joints ? "all" : timelines[place].label) === rank,
    );
    if (rank === "all") {
      // All ranks together have no time of their own: their steps stand as those of a rank do.
      const one = timelines.find((timeline) => !timeline.joints)?.label;
      const order = one === undefined ? [] : this.timelinesOf(one);
      const steps = order.map((place) => timelines[place].step);
      return own.sort(
        (a, b) => steps.indexOf(timelines[a].step) - steps.indexOf(timelines[b].step),
      );
    }
    return own.sort((a, b) => timelines[a].origin_ns - timelines[b].origin_ns);
  }

  /** Ranges of a name in all timelines of a rank, or of all ranks, by time; each once. */
  occurrences(rank: string | null, name: string, onStream: boolean): Occurrence[] {
    const labels = rank === null ? this.data.ranks.map((of) => of.label) : [rank];
    const seen = new Set<string>();
    return labels
      .flatMap((label) => this.timelinesOf(label))
      .flatMap((timeline) => {
        const model = this.model(timeline);
        return model
          .named(name)
          .filter((range) => model.tracks[model.track[range]].stream === onStream)
          .filter((range) => {
            // What reaches into the next step's window is drawn in both.
            const begin = model.packed.origin_ns + model.start[range];
            const key = `${model.packed.label} ${model.tracks[model.track[range]].name} ${begin}`;
            return !seen.has(key) && seen.add(key);
          })
          .map((range) => ({ timeline, range }));
      });
  }

  /** Where a target is; `now`: the timeline that is shown. */
  find(target: Target, now: number): Found {
    switch (target.kind) {
      case "kernel":
        return this.findKernel(target.rank, target.name, target.longest);
      case "collective":
        return this.findCollective(target.collective, target.rank ?? target.collective.last);
      case "time":
        return this.findTime(target, now);
    }
  }

  /** A range, with what is around it. */
  show({ timeline, range }: Occurrence): Partial<Place> {
    const model = this.model(timeline);
    const span: Span = [model.start[range], model.end[range]];
    return { timeline, selected: range, area: null, sight: around(model, span) };
  }

  private findKernel(rank: string | null, name: string, longest: number): Found {
    const all = this.occurrences(rank, name, true);
    const length = ({ timeline, range }: Occurrence) =>
      this.model(timeline).end[range] - this.model(timeline).start[range];
    const most = all.reduce((most, one) => Math.max(most, length(one)), 0);
    const first = all.find((one) => length(one) === most);
    if (!first) {
      return {
        change: {},
        message:
          "No timeline of this page draws this kernel by itself: it runs in other steps or ranks, or is drawn together with short neighbours. Use `--step` and `--timelines` of `etlink report` to choose others.",
      };
    }
    const message =
      most < longest
        ? `This is the longest in the timelines of this page. The longest overall takes ${time(longest)}.`
        : "";
    return { change: this.show(first), message };
  }

  private findCollective(wanted: CollectiveSkew, rank: number): Found {
    for (const timeline of this.timelinesOf("all")) {
      const model = this.model(timeline);
      const joint = (model.packed.joints ?? []).findIndex(
        (one) =>
          one.kind === wanted.kind &&
          one.ranks === wanted.ranks &&
          one.group === wanted.group &&
          one.number === wanted.number,
      );
      const range = joint < 0 ? -1 : model.sideOf(joint, `rank ${rank}`);
      if (range >= 0) {
        return { change: this.show({ timeline, range }), message: "" };
      }
    }
    const what = `${wanted.kind.replaceAll("_", " ")} ${wanted.number}`;
    const message = wanted.step
      ? `${what} of ${wanted.step} is not in this page: \`etlink report --step ${wanted.step}\` has it.`
      : `${what} is outside the steps of this page.`;
    return { change: {}, message };
  }

  private findTime(target: Target & { kind: "time" }, now: number): Found {
    const { rank, begin, end } = target;
    const own = this.timelinesOf(rank);
    const local = (timeline: number): Span => {
      const { origin_ns } = this.data.timelines[timeline];
      return [begin - origin_ns, end - origin_ns];
    };
    const isIn = (timeline: number, until: number) => {
      const [from, to] = local(timeline);
      return from < until && to >= 0 && (to > 0 || from >= 0);
    };
    const window = (timeline: number) => this.data.timelines[timeline].window_ns;
    const step = (timeline: number) =>
      local(timeline)[0] > -NEAR &&
      isIn(timeline, this.data.timelines[timeline].step_ns ?? window(timeline));
    // A window reaches into the next step: the step in which it begins comes first.
    const place =
      own.find(step) ?? [now, ...own].find((one) => own.includes(one) && isIn(one, window(one)));
    if (place === undefined) {
      return { change: {}, message: this.whyNot(rank, begin) };
    }
    const model = this.model(place);
    const span = local(place);
    const named = target.name === undefined ? -1 : rangeAt(model, target.name, span);
    if (named >= 0) {
      return { change: this.show({ timeline: place, range: named }), message: "" };
    }
    const change = { timeline: place, selected: -1, area: span, sight: around(model, span) };
    return { change, message: "" };
  }

  private whyNot(label: string, begin: number): string {
    const rank = this.data.ranks.find((of) => of.label === label);
    if (this.timelinesOf(label).length === 0) {
      return `Threads and streams of rank ${label} are not in this page: \`etlink report --timelines ${label}\` has them.`;
    }
    const step = rank && stepAt(rank, begin);
    return step
      ? `The timeline of ${step} is not in this page: \`etlink report --step ${step}\` has it.`
      : "This is outside the timelines of this page.";
  }
}

/** The step that a rank is in at a time. */
function stepAt(rank: ReportRank, at: number): string | undefined {
  return rank.steps.find((step) => step.start_ns <= at && at < step.start_ns + step.duration_ns)
    ?.name;
}

/** The range of a name that begins with a span, else the innermost that has all of it; -1: none. */
function rangeAt(model: Model, name: string, [begin, end]: Span): number {
  const all = model.named(name);
  const away = (range: number) => Math.abs(model.start[range] - begin);
  const exact = all.filter((range) => away(range) <= NEAR).sort((a, b) => away(a) - away(b));
  // A step of the critical path is a piece of an op, between what the op calls.
  const length = (range: number) => model.end[range] - model.start[range];
  const around = all
    .filter((range) => model.start[range] - NEAR <= begin && end <= model.end[range] + NEAR)
    .sort((a, b) => length(a) - length(b));
  return exact[0] ?? around[0] ?? -1;
}

/** A span with twice its length on either side; null: that is all there is. */
export function around(model: Model, [from, to]: Span): Span | null {
  const whole = model.packed.window_ns;
  // An instant is seen with a hundredth of the window around it.
  const length = Math.max(to - from, to > from ? 100 : whole / 200);
  return length * 5 > whole ? null : [from - 2 * length, to + 2 * length];
}
