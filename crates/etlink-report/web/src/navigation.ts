// Where the reader is: a section, and what the timeline shows. The URL's hash says it, so that back, reload and a link that is passed on lead to the same.

import { createContext } from "preact";
import { useContext, useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Data } from "./data";
import { Links, type Target } from "./links";

/** From, to; ns from the start of a timeline's window. */
export type Span = [number, number];

export interface Place {
  /** Id of the section; empty: the top. */
  section: string;
  /** Among the page's timelines. */
  timeline: number;
  /** What is in sight; null: all. */
  sight: Span | null;
  /** The selected range; -1: none. */
  selected: number;
  /** The selected time. */
  area: Span | null;
}

export interface Navigation {
  /** Where the reader is now; the timeline changes it as it moves. */
  readonly current: Place;
  /** Counts the jumps: after one the timeline shows `current` anew. */
  readonly visit: number;
  /** What to know of the last jump. */
  readonly message: string;
  readonly links: Links;
  /** Goes elsewhere, as a new entry of the history. */
  go: (change: Partial<Place>, message?: string) => void;
  /** Goes to what a target says, or says why it cannot be shown. */
  follow: (target: Target) => void;
  /** Keeps where the timeline has moved to; as a new entry, or in the present one. */
  keep: (change: Partial<Place>, isEntry?: boolean) => void;
}

export const NavigationContext = createContext<Navigation | null>(null);

export function useNavigation(): Navigation {
  const navigation = useContext(NavigationContext);
  if (!navigation) {
    throw new Error("a part of the page stands outside of it");
  }
  return navigation;
}

const START: Place = { section: "", timeline: 0, sight: null, selected: -1, area: null };
/** Browsers refuse more than some hundred changes of the URL in half a minute, ms. */
const PAUSE = 250;

function spanText(span: Span): string {
  return span.map((time) => Math.round(time * 100) / 100).join("_");
}

function spanOf(text: string | null): Span | null {
  const [from, to] = (text ?? "").split("_").map(Number);
  return Number.isFinite(from) && Number.isFinite(to) && to >= from ? [from, to] : null;
}

export function hashOf(place: Place, data: Data): string {
  const parts = new URLSearchParams();
  const timeline = data.timelines[place.timeline];
  const isStart = place.timeline === 0 && !place.sight && place.selected < 0 && !place.area;
  if (timeline && !isStart) {
    parts.set("rank", timeline.joints ? "all" : timeline.label);
    if (timeline.step !== null) {
      parts.set("step", timeline.step);
    }
    if (place.sight) {
      parts.set("sight", spanText(place.sight));
    }
    if (place.selected >= 0) {
      parts.set("range", String(place.selected));
    }
    if (place.area) {
      parts.set("time", spanText(place.area));
    }
  }
  const said = parts.toString();
  return said ? `#${place.section}?${said}` : `#${place.section}`;
}

/** What a hash says; what the page does not have is left out. */
export function placeOf(hash: string, data: Data): Place {
  const [section, said] = hash.replace(/^#/, "").split("?");
  const place = { ...START, section };
  const parts = new URLSearchParams(said ?? "");
  const [rank, step] = [parts.get("rank"), parts.get("step")];
  const timeline = data.timelines.findIndex(
    (one) => (one.joints ? "all" : one.label) === rank && (step ?? null) === one.step,
  );
  if (timeline < 0) {
    return place;
  }
  const selected = Number.parseInt(parts.get("range") ?? "-1", 10);
  const count = data.timelines[timeline].start.length;
  return {
    ...place,
    timeline,
    sight: spanOf(parts.get("sight")),
    selected: selected >= 0 && selected < count ? selected : -1,
    area: spanOf(parts.get("time")),
  };
}

export function scrollToSection(section: string) {
  if (section) {
    document.getElementById(section)?.scrollIntoView();
  } else {
    window.scrollTo(0, 0);
  }
}

/** The section at the top of the window; the one that the hash has as long as it can be seen. */
function sectionInSight(section: string): string {
  const top = (element: Element | null) => element?.getBoundingClientRect().top ?? Infinity;
  const [now, half] = [document.getElementById(section), window.innerHeight / 2];
  if (now && top(now) < half && now.getBoundingClientRect().bottom > half / 2) {
    return section;
  }
  const all = [...document.querySelectorAll("main > section[id]")];
  return all.filter((element) => top(element) < half / 2).at(-1)?.id ?? "";
}

/** Follows the URL, and writes it. */
export function useHash(data: Data): Navigation {
  const links = useMemo(() => new Links(data), [data]);
  const first = useMemo(() => placeOf(location.hash, data), [data]);
  const current = useRef(first);
  const timer = useRef(0);
  /** Whether it is the reader who scrolls: what a jump scrolls past is not what it is to. */
  const isScrolling = useRef(false);
  const [state, setState] = useState({ visit: 0, message: "" });
  const write = (isEntry: boolean) => {
    window.clearTimeout(timer.current);
    const hash = hashOf(current.current, data);
    // An entry with a state is the page's own: the browser scrolls back to where it was left.
    if (isEntry) {
      history.pushState({ own: true }, "", hash);
    } else {
      history.replaceState({ own: true }, "", hash);
    }
  };
  const later = () => {
    window.clearTimeout(timer.current);
    timer.current = window.setTimeout(() => write(false), PAUSE);
  };
  const go = (change: Partial<Place>, message = "") => {
    write(false);
    isScrolling.current = false;
    current.current = { ...current.current, ...change };
    write(true);
    setState(({ visit }) => ({ visit: visit + 1, message }));
    if (change.section !== undefined) {
      scrollToSection(change.section);
    }
  };
  useEffect(() => {
    if (first.section) {
      scrollToSection(first.section);
    }
    const back = (event: PopStateEvent) => {
      window.clearTimeout(timer.current);
      current.current = placeOf(location.hash, data);
      setState(({ visit }) => ({ visit: visit + 1, message: "" }));
      const { section } = current.current;
      isScrolling.current = false;
      // By then the browser has scrolled to where it left the entry, which may not be the section.
      window.setTimeout(() => {
        if (section && (!event.state || sectionInSight(section) !== section)) {
          scrollToSection(section);
        }
      }, PAUSE);
    };
    const scrolled = () => {
      if (!isScrolling.current) {
        return;
      }
      const section = sectionInSight(current.current.section);
      if (section !== current.current.section) {
        current.current = { ...current.current, section };
        later();
      }
    };
    const byHand = (event: Event) => {
      // A button that is clicked may lead elsewhere, but scrolls nothing: then a jump that is not over yet would count as
      // the reader's. Who drags the scroll bar hits the document itself.
      const isClick =
        event instanceof PointerEvent &&
        event.button === 0 &&
        event.target !== document.documentElement;
      isScrolling.current ||= !isClick;
    };
    const hands = ["wheel", "touchmove", "keydown", "pointerdown"];
    hands.forEach((hand) => window.addEventListener(hand, byHand, { passive: true }));
    window.addEventListener("popstate", back);
    window.addEventListener("scroll", scrolled, { passive: true });
    return () => {
      hands.forEach((hand) => window.removeEventListener(hand, byHand));
      window.removeEventListener("popstate", back);
      window.removeEventListener("scroll", scrolled);
    };
  }, [data]);
  return {
    get current() {
      return current.current;
    },
    ...state,
    links,
    go,
    follow: (target) => {
      const { change, message } = links.find(target, current.current.timeline);
      go({ section: "timeline", ...change }, message);
    },
    keep: (change, isEntry = false) => {
      const before = hashOf(current.current, data);
      if (isEntry) {
        write(false);
      }
      current.current = { ...current.current, ...change };
      if (hashOf(current.current, data) === before) {
        return;
      }
      if (isEntry) {
        write(true);
      } else {
        later();
      }
    },
  };
}
