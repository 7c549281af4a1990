// Unpacks the values and shows them.

import { render } from "preact";
import { App } from "./app";
import { unpack, type Data, type PageTrees, type Timeline } from "./data";
import "./style.css";

async function start(page: HTMLElement) {
  const timelines = [...document.querySelectorAll("script.timeline")].map((script) =>
    unpack<Timeline>(script.textContent ?? ""),
  );
  const data = await unpack<Data>(document.getElementById("data")?.textContent ?? "");
  data.timelines = await Promise.all(timelines);
  const trees = document.getElementById("trees");
  data.trees = trees && (await unpack<PageTrees>(trees.textContent ?? ""));
  page.replaceChildren();
  render(<App data={data} />, page);
}

const page = document.getElementById("page");
if (page) {
  start(page).catch((error: unknown) => {
    page.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}. It needs a browser of 2023 or later.`;
  });
}
