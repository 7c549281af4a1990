// Bytes of all-to-alls from each rank to each: a matrix per group, coloured by bytes.

import type { PairBytes } from "./data";
import { bytes, count } from "./format";

/** How strong the colours of 0 and of the most bytes are, in percent: figures stay readable. */
const [LEAST, MOST] = [5, 55];

export function Pairs({ pairs }: { pairs: PairBytes[] }) {
  const groups = new Map<number, PairBytes[]>();
  for (const pair of pairs) {
    groups.set(pair.group, [...(groups.get(pair.group) ?? []), pair]);
  }
  return (
    <>
      {[...groups].map(([group, of]) => (
        <Matrix key={group} pairs={of} />
      ))}
    </>
  );
}

function Matrix({ pairs }: { pairs: PairBytes[] }) {
  const ranks = [...new Set(pairs.map((pair) => pair.from))];
  const most = Math.max(...pairs.map((pair) => pair.bytes), 1);
  const uneven = Math.max(...pairs.map((pair) => pair.received_to_mean));
  const colour = (pair: PairBytes) => {
    const share = LEAST + (MOST - LEAST) * (pair.bytes / most);
    return `color-mix(in srgb, var(--heat) ${share.toFixed(0)}%, var(--card))`;
  };
  return (
    <>
      <h3>All-to-alls between ranks</h3>
      <div class="pairs">
        <table>
          <caption>
            Bytes of {count(pairs[0].count)} all-to-all{pairs[0].count === 1 ? "" : "s"} of group{" "}
            {pairs[0].group}, from the rank of a row to that of a column; the rank that receives
            most receives {uneven.toFixed(2)} times the mean
          </caption>
          <thead>
            <tr>
              <th scope="col">from / to</th>
              {ranks.map((rank) => (
                <th key={rank} scope="col">
                  rank {rank}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {ranks.map((from) => (
              <tr key={from}>
                <th scope="row">rank {from}</th>
                {pairs
                  .filter((pair) => pair.from === from)
                  .map((pair) => (
                    <td key={pair.to} style={{ background: colour(pair) }}>
                      {bytes(pair.bytes)}
                    </td>
                  ))}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
