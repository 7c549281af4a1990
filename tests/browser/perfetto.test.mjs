// A timeline of twelve ranks in Perfetto's user interface, without network.
// `cargo dev perfetto` makes the timeline (TIMELINE) and says where the interface (INTERFACE) and the browser (BROWSER)
// are.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { gunzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const TYPES = {
  ".html": "text/html",
  ".js": "text/javascript",
  ".css": "text/css",
  ".wasm": "application/wasm",
  ".json": "application/json",
};
const TIMELINE = gunzipSync(readFileSync(process.env.TIMELINE));

let server, browser;
before(async () => {
  server = createServer((request, reply) => {
    const { pathname } = new URL(request.url, "http://localhost");
    try {
      const file = pathname === "/" ? "/index.html" : pathname;
      const body =
        file === "/timeline" ? TIMELINE : readFileSync(join(process.env.INTERFACE, file));
      reply.writeHead(200, { "content-type": TYPES[extname(file)] ?? "application/octet-stream" });
      reply.end(body);
    } catch {
      reply.writeHead(404).end();
    }
  });
  await new Promise((listening) => server.listen(0, "127.0.0.1", listening));
  browser = await chromium.launch({
    executablePath: process.env.BROWSER,
    args: ["--no-sandbox", "--disable-gpu"],
  });
});
after(async () => {
  await browser?.close();
  server?.close();
});

/** Names of the tracks from the top, as they are read: several blanks are one.
 * The last part of a title has the whole name, those before it what fits. */
async function trackNames(page) {
  const titles = page.locator(".pf-track__title");
  return titles.evaluateAll((all) =>
    all.map((title) => title.lastChild.textContent.trim().replace(/\s+/g, " ")),
  );
}

/** Opens the first group of this name, and waits until its tracks are there: the interface draws them later. */
async function expand(page, name) {
  const closed = await page.locator(".pf-track__title").count();
  const tracks = page.locator(".pf-track__header", { hasText: name });
  await tracks.first().locator(".pf-track__collapse-button").click();
  await page.waitForFunction(
    (closed) => document.querySelectorAll(".pf-track__title").length > closed,
    closed,
    { timeout: 60_000 },
  );
}

test("ranks stand in order, and in a rank the critical path, the process and the device", async () => {
  const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
  const { port } = server.address();
  const url = `http://127.0.0.1:${port}`;
  await page.goto(`${url}/#!/?url=${url}/timeline`);
  await page.locator(".pf-track__title", { hasText: /rank\s+11/ }).waitFor({ timeout: 60_000 });
  const ranks = (await trackNames(page)).filter((name) => name.startsWith("rank"));
  assert.deepEqual(
    ranks,
    Array.from({ length: 12 }, (_, rank) => `rank ${rank}`),
  );
  await expand(page, /rank\s+3/);
  await expand(page, "device 0");
  await expand(page, "python");
  const names = await trackNames(page);
  await page.screenshot({ path: process.env.PICTURE });
  const from = names.indexOf("rank 3");
  assert.deepEqual(names.slice(from + 1, names.indexOf("rank 4")), [
    "critical path",
    "python",
    "thread 1000 (python) · Python",
    "thread 1000 (python)",
    "thread 1000 (python) · events",
    "device 0",
    "queue depth",
    "running",
    "memory allocated",
    "memory reserved",
    "stream 7 · annotations",
    "stream 7",
    "other events",
  ]);
});
