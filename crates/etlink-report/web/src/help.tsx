// The keys.

import { useEffect, useRef } from "preact/hooks";

const KEYS: [string, string][] = [
  ["/", "search the timeline"],
  ["?", "this help"],
  ["Tab", "next control; the timeline and each table are one stop"],
  ["w, +", "timeline: zoom in"],
  ["s, -", "timeline: zoom out"],
  ["a, ←", "timeline: earlier"],
  ["d, →", "timeline: later"],
  ["0", "timeline: show all"],
  ["] and [", "timeline: next and previous range"],
  ["Enter", "timeline: zoom to the selected range; search: next match (with Shift: previous)"],
  ["n and p", "timeline: next and previous range of the same name"],
  ["m", "timeline: select the time of the selected range"],
  ["Esc", "timeline: clear the selection"],
  ["← →, + -, 0, Enter", "steps and memory: next value, zoom, show all, show in the timeline"],
  ["↑ ↓ ← →, Enter, Esc", "calls: next bar or row, zoom in, zoom out"],
  ["↑ ↓ ← →, Enter", "heat map: next cell, show in the timeline"],
  ["wheel, Shift + wheel, Alt + wheel", "timeline: zoom at the pointer, move, scroll the tracks"],
  ["drag, Shift + drag", "timeline: move, select time and see its sums"],
];

export function Help({ open, close }: { open: boolean; close: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open) {
      dialog.current?.showModal();
    } else {
      dialog.current?.close();
    }
  }, [open]);
  return (
    <dialog ref={dialog} onClose={close} aria-labelledby="help-title">
      <h2 id="help-title">Keys</h2>
      <dl class="keys">
        {KEYS.map(([keys, what]) => (
          <div key={keys}>
            <dt>
              <kbd>{keys}</kbd>
            </dt>
            <dd>{what}</dd>
          </div>
        ))}
      </dl>
      <button type="button" onClick={close}>
        Close
      </button>
    </dialog>
  );
}
