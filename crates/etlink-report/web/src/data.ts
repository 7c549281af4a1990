// What the page is about: the values that the crate packed, of the types that it gives them.

import type { PageData, PageTrees, Timeline } from "./data.types";

export type * from "./data.types";

export type Value = string | number | boolean | null;
export type Record_ = { [field: string]: Value };

/** The page's values, its timelines, which are packed one by one, and what called what. */
export type Data = PageData & { timelines: Timeline[]; trees: PageTrees | null };

/** Unpacks base64 and gzip. */
export async function unpack<T>(packed: string): Promise<T> {
  const bytes = Uint8Array.from(atob(packed), (letter) => letter.charCodeAt(0));
  const plain = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return JSON.parse(await new Response(plain).text()) as T;
}
