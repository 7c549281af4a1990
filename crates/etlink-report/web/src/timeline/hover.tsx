// What the pointer is on, beside it.

import { useLayoutEffect, useRef, useState } from "preact/hooks";
import { time } from "../format";
import type { Model, PathStep } from "./model";

/** The range or step of the critical path under the pointer, and where that is, px. */
export interface Hover {
  range: number;
  step: number;
  x: number;
  y: number;
}

/** Names are shown up to this. */
const LONG = 400;

interface Props {
  model: Model;
  /** Gets what says what the pointer is on: the canvas is not drawn anew for it. */
  show: { current: (hover: Hover | null) => void };
}

export function HoverCard({ model, show }: Props) {
  const [hover, setHover] = useState<Hover | null>(null);
  const card = useRef<HTMLDivElement>(null);
  show.current = setHover;
  useLayoutEffect(() => {
    const box = card.current;
    const around = box?.parentElement;
    if (!box || !around || !hover) {
      return;
    }
    // On the other side of the pointer where there is no room.
    const [width, height] = [box.offsetWidth, box.offsetHeight];
    const x = hover.x + 14 + width > around.clientWidth ? hover.x - 10 - width : hover.x + 14;
    const y = hover.y + 14 + height > around.clientHeight ? hover.y - 10 - height : hover.y + 14;
    box.style.left = `${Math.max(x, 2)}px`;
    box.style.top = `${Math.max(y, 2)}px`;
  });
  const step = hover && hover.range < 0 ? model.path[hover.step] : undefined;
  if (!hover || (hover.range < 0 && !step)) {
    return null;
  }
  return (
    <div class="hover" ref={card} aria-hidden="true">
      {step ? <OfStep step={step} /> : <OfRange model={model} range={hover.range} />}
    </div>
  );
}

function OfRange({ model, range }: { model: Model; range: number }) {
  const [name, short] = [model.name(range), model.shortName(range)];
  const track = model.tracks[model.track[range]];
  return (
    <>
      <strong>{short.slice(0, LONG)}</strong>
      {short !== name && <div class="full">{name.slice(0, LONG)}</div>}
      <div>
        {time(model.end[range] - model.start[range])}, from {time(model.start[range])}
      </div>
      <div>{[track.name, track.group].filter(Boolean).join(", ")}</div>
    </>
  );
}

function OfStep({ step }: { step: PathStep }) {
  return (
    <>
      <strong>{step.name.slice(0, LONG)}</strong>
      <div>
        critical path: {step.cause.replace("_", " ")} {time(step.duration)}, from {time(step.start)}
      </div>
      {step.delay > 0 && (
        <div>
          {time(step.delay)} late by {step.delayCause.replace("_", " ")}
        </div>
      )}
    </>
  );
}
