// Unpacks the values and shows them.

import { render } from "preact";
import { App } from "./app";
import { unpack } from "./data";
import "./style.css";

async function start(page: HTMLElement) {
  const packed = document.getElementById("data")?.textContent ?? "";
  const data = await unpack(packed);
  page.replaceChildren();
  render(<App data={data} />, page);
}

const page = document.getElementById("page");
if (page) {
  start(page).catch((error: unknown) => {
    page.textContent = `This page cannot be shown: ${error instanceof Error ? error.message : String(error)}. It needs a browser of 2023 or later.`;
  });
}
