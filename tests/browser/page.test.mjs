// The report as a reader has it: opened from disk in a headless browser.
// `cargo dev browser` makes the pages (PAGES) and says which browser to use (BROWSER).
//
// Each link and gesture of the page, and the group of tests below that holds it:
//
// links to the timeline   rows of kernels, steps, gaps, findings, path, collectives; bars of steps;
//                         cells of the heat map; the peak of memory; next and previous of a name
// the timeline            search, keys, buttons, click, drag, wheel, Shift and drag, tooltip, fold,
//                         rank and step, arrows and critical path, op to kernel and back
// all ranks by one clock  from a collective to its first and last rank, and back; latest first
// what called what        bars, rows, path and search of the tree, by pointer and keys
// charts                  cursor, drag, double click and button of steps and memory
// tables, the numbers     sort, filter, all rows, which table, which rank
// the hash of the URL     reload, back, forward, a link given away
// the page                sections, skip link, theme, help, Tab

import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const PAGES = process.env.PAGES;
const SHOTS = join(PAGES, "shots");
const QUIET = [
  "--no-sandbox",
  "--disable-gpu",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
];

let browser;
before(async () => {
  mkdirSync(SHOTS, { recursive: true });
  browser = await chromium.launch({ executablePath: process.env.BROWSER, args: QUIET });
});
after(() => browser?.close());

/** What another command says of the same traces. */
function said(name, command) {
  return JSON.parse(readFileSync(join(PAGES, `${name}.${command}.json`), "utf8")).runs[0];
}

/** Opens a page; whatever it complains about or asks the network for ends up in `trouble`. */
async function open(name, { width = 1280, theme = "light" } = {}) {
  const context = await browser.newContext({
    viewport: { width, height: 900 },
    colorScheme: theme,
  });
  const page = await context.newPage();
  const trouble = [];
  const file = pathToFileURL(join(PAGES, `${name}.html`)).href;
  page.on(
    "console",
    (message) => ["error", "warning"].includes(message.type()) && trouble.push(message.text()),
  );
  page.on("pageerror", (error) => trouble.push(String(error)));
  page.on(
    "request",
    (request) =>
      request.url() !== file && !request.url().startsWith("data:") && trouble.push(request.url()),
  );
  await page.goto(file);
  await page.waitForSelector("main h2");
  return { page, trouble };
}

/** The values behind a column's cells, as they came. */
function column(page, table, field) {
  return page
    .locator(`#${table} td[data-field="${field}"]`)
    .evaluateAll((cells) => cells.map((cell) => cell.dataset.value));
}

/** Opens a page and the timeline of a rank. */
async function openRank(name, rank) {
  const opened = await open(name);
  await opened.page
    .locator("#timeline")
    .getByRole("button", { name: `rank ${rank}`, exact: true })
    .click();
  await opened.page.locator(".head", { hasText: "stream" }).first().waitFor();
  return opened;
}

/** Brings the timeline into sight, and waits until the wheel is its own. */
async function timelineInSight(page) {
  await page.locator(".over").scrollIntoViewIfNeeded();
  await page.waitForTimeout(400);
}

/** A point on the first lane of a track, at a share of the width. */
async function inTrack(page, name, share) {
  const box = await page.locator(".over").boundingBox();
  const head = await page.locator(".head", { hasText: name }).boundingBox();
  return [box.x + box.width * share, head.y + head.height + 6];
}

const details = (page) => page.locator(".details h3").innerText();

/** What is drawn, to see whether it changes. */
async function picture(page) {
  const drawn = await page.locator(".tracks canvas").evaluate(async (canvas) => {
    const frame = () => new Promise(requestAnimationFrame);
    await frame();
    await frame();
    return canvas.toDataURL();
  });
  return createHash("sha256").update(drawn).digest("hex");
}

/** Asks until the answer is as `wanted`: a page draws, and runs its effects, when its browser lets it. */
async function until(ask, wanted, message) {
  const deadline = Date.now() + 10_000;
  for (;;) {
    const answer = await ask();
    if (wanted(answer)) {
      return answer;
    }
    assert.ok(Date.now() < deadline, `${message}: still ${answer}`);
    await new Promise((again) => setTimeout(again, 20));
  }
}

/** What is drawn once nothing is left to draw. */
async function settled(page) {
  let last;
  const [drawn] = await until(
    async () => [last, (last = await picture(page))],
    ([before, now]) => before === now,
    "never done",
  );
  return drawn;
}

const changes = (page, before, message) =>
  until(
    () => picture(page),
    (now) => now !== before,
    message,
  );
const becomes = (page, wanted, message) =>
  until(
    () => picture(page),
    (now) => now === wanted,
    message,
  );

describe("every page", () => {
  for (const name of ["devices", "recorded", "hostile", "many", "written"]) {
    for (const theme of ["light", "dark"]) {
      for (const width of [1280, 400]) {
        test(`${name}, ${theme}, ${width} px: loads from disk, quietly, and fits`, async () => {
          const { page, trouble } = await open(name, { width, theme });
          await page.screenshot({
            path: join(SHOTS, `${name}-${theme}-${width}.png`),
            fullPage: true,
            // to hide carets is done with a style sheet, which the policy refuses
            caret: "initial",
          });
          assert.deepEqual(trouble, []);
          assert.equal(
            await page.evaluate(() => document.documentElement.scrollWidth),
            width,
            "the body does not scroll sideways",
          );
          assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), theme);
          await page.context().close();
        });
      }
    }
  }
});

describe("colours", () => {
  for (const theme of ["light", "dark"]) {
    test(`parts of one bar differ, ${theme}`, async () => {
      const { page } = await open("devices", { theme });
      for (const legend of await page.locator(".stacked .legend").all()) {
        const colours = await legend
          .locator("i")
          .evaluateAll((marks) => marks.map((mark) => getComputedStyle(mark).backgroundColor));
        assert.equal(new Set(colours).size, colours.length, colours.join());
      }
    });
  }
});

describe("figures and tables", () => {
  test("no card is wider than its place, however long its words are", async () => {
    for (const width of [1280, 400]) {
      const { page } = await open("devices", { width });
      const wide = await page.locator(".card").evaluateAll((cards) =>
        cards
          .filter((card) => {
            card.querySelector(".figure").textContent = "between rows";
            return card.scrollWidth > card.clientWidth;
          })
          .map((card) => card.textContent),
      );
      assert.deepEqual(wide, [], `${width} px`);
    }
  });

  test("on a small screen the columns that say most come first, and the table scrolls", async () => {
    const { page } = await open("devices", { width: 400 });
    for (const table of ["kernels-table", "skew-table", "late-table"]) {
      const seen = await page.locator(`#${table}`).evaluate((table) => {
        const box = table.querySelector(".scroll");
        const right = box.getBoundingClientRect().right;
        const cells = [...table.querySelector("tbody tr").cells];
        return {
          scrolls: box.scrollWidth > box.clientWidth,
          fields: cells
            .filter((cell) => cell.getBoundingClientRect().right <= right + 1)
            .map((cell) => cell.dataset.field),
        };
      });
      const wanted = {
        "kernels-table": ["name", "sum_ns"],
        "skew-table": ["kind", "skew_ns", "last"],
        "late-table": ["rank", "caused_ns"],
      }[table];
      assert.deepEqual(seen.fields.slice(0, wanted.length), wanted, table);
      assert.ok(seen.scrolls, `${table} has more`);
    }
  });

  test("a note that is true of several ranks is said once", async () => {
    const { page } = await open("recorded");
    const notes = await page.locator("#link .notes li").allInnerTexts();
    assert.equal(notes.length, 1);
    assert.match(notes[0], /^All ranks: the device trace has no device rows/);
  });
});

describe("two runs", () => {
  test("what changed stands first, with the figures of diff --json", async () => {
    const { page, trouble } = await open("compared");
    const diff = JSON.parse(readFileSync(join(PAGES, "compared.diff.json"), "utf8"));
    assert.equal(await page.locator("main > section[id] h2").first().innerText(), "What changed");
    assert.match(await page.locator("#compared").innerText(), /mean step 31.448 ms -> 27.617 ms/);
    const costs = await column(page, "compared-table", "cost_ns");
    assert.ok(costs.length > 3);
    assert.equal(Number(costs[0]), diff.changes[0].cost_ns);
    assert.equal((await column(page, "compared-table", "name"))[0], diff.changes[0].name);
    const [before, after] = diff.changes[0].times_ns;
    const [change] = await column(page, "compared-table", "change_share");
    assert.equal(Number(change), (after - before) / before);
    assert.deepEqual(trouble, []);
    for (const width of [1280, 400]) {
      const { page } = await open("compared", { width });
      await page.screenshot({ path: join(SHOTS, `compared-${width}.png`) });
    }
  });

  test("each table of what changed can be chosen", async () => {
    const { page } = await open("compared");
    const choice = page.getByRole("group", { name: "What changed", exact: true });
    const tables = await choice.getByRole("button").all();
    assert.ok(tables.length > 1);
    for (const table of tables) {
      await table.click();
      assert.equal(await table.getAttribute("aria-pressed"), "true");
      await page.locator("#compared-table tbody tr").first().waitFor();
    }
  });

  test("a page of one run has nothing to compare with", async () => {
    const { page } = await open("devices");
    assert.equal(await page.locator("#compared").count(), 0);
  });

  test("a kernel has its short name, and the full one as a tooltip", async () => {
    const { page } = await open("devices");
    const { total } = said("devices", "analyze");
    const kernels = new Map(total.kernels.map((kernel) => [kernel.name, kernel]));
    const cells = await page
      .locator('#kernels-table td[data-field="name"]')
      .evaluateAll((cells) =>
        cells.map((cell) => [
          cell.dataset.value,
          cell.innerText.trim(),
          cell.querySelector("span")?.title ?? "",
        ]),
      );
    for (const [name, shown, title] of cells) {
      const { short_name } = kernels.get(name);
      assert.equal(shown, short_name);
      assert.ok(short_name === name || title === name, `${name}: ${title}`);
    }
  });
});

describe("simulated beside measured", () => {
  test("ranks, kinds and transfers are those of etlink simulated --json", async () => {
    const { page, trouble } = await open("simulated");
    const said = JSON.parse(readFileSync(join(PAGES, "simulated.compared.json"), "utf8"));
    for (const [table, field, values] of [
      ["simulated-ranks", "simulated_ns", said.ranks.map((rank) => rank.simulated_ns)],
      ["simulated-ranks", "measured_ns", said.ranks.map((rank) => rank.measured_ns)],
      ["simulated-kinds", "kind", said.kinds.map((kind) => kind.kind)],
      ["simulated-kinds", "change_share", said.kinds.map((kind) => kind.change)],
      ["simulated-kinds", "last_done_ns", said.kinds.map((kind) => kind.last_done_ns)],
    ]) {
      assert.deepEqual(await column(page, table, field), values.map(String));
    }
    const [longer] = await column(page, "simulated-communications", "longer_ns");
    assert.equal(Number(longer), said.communications[0].longer_ns);
    assert.deepEqual(trouble, []);
  });

  test("each rank is drawn as measured and below it as simulated", async () => {
    const { page } = await open("simulated");
    const labels = await page.locator("#simulated-strips .label").allInnerTexts();
    const ranks = [0, 1, 2, 3];
    assert.deepEqual(
      labels,
      ranks.flatMap((rank) => [`rank ${rank}, measured`, `rank ${rank}, simulated`]),
    );
    // Each rank of this run gathers twice in each of two steps, and so on.
    for (const strip of await page.locator("#simulated-strips svg").all()) {
      assert.ok((await strip.locator(".span").count()) >= 12);
      const [strips, bar] = [await strip.boundingBox(), await strip.locator(".run").boundingBox()];
      assert.ok(bar.width > 0.9 * strips.width, `${bar.width} of ${strips.width}`);
    }
    assert.match(
      await page.locator("#simulated-strips .span title").first().textContent(),
      /^all_gather, ranks 0, 1: \d/,
    );
    for (const width of [1280, 400]) {
      const { page } = await open("simulated", { width });
      await page.locator("#simulated").screenshot({ path: join(SHOTS, `simulated-${width}.png`) });
    }
  });

  test("a page without a simulation has no such section", async () => {
    const { page } = await open("devices");
    assert.equal(await page.locator("#simulated").count(), 0);
  });
});

describe("the numbers", () => {
  test("device time, kernels and steps are those of analyze --json", async () => {
    const { page } = await open("devices");
    const { ranks, total } = said("devices", "analyze");
    await page.getByText("Table of device time").click();
    for (const field of [
      "window_ns",
      "computation_ns",
      "exposed_communication_ns",
      "idle_ns",
      "overlap_ns",
      "overlap_share",
    ]) {
      assert.deepEqual(
        await column(page, "breakdown-table", field),
        ranks.flatMap((rank) => rank.breakdown).map((time) => String(time[field])),
        field,
      );
    }
    assert.ok(total.kernels.length >= 4);
    for (const field of [
      "name",
      "class",
      "label",
      "count",
      "sum_ns",
      "share",
      "mean_ns",
      "min_ns",
      "max_ns",
    ]) {
      assert.deepEqual(
        await column(page, "kernels-table", field),
        total.kernels.map((kernel) => String(kernel[field])),
        field,
      );
    }
    await page.locator("#steps [role=application]").focus();
    for (const [at, { name }] of ranks[0].steps.entries()) {
      await page.keyboard.press("ArrowRight");
      const tip = page.locator("#steps .tip", { hasText: name });
      assert.deepEqual(
        await tip
          .locator("[data-value]")
          .evaluateAll((times) => times.map((time) => Number(time.dataset.value))),
        ranks.map((rank) => rank.steps[at].duration_ns),
      );
    }
    const idle = await page
      .locator("#breakdown [data-part=idle]")
      .evaluateAll((parts) => parts.map((part) => Number(part.dataset.value)));
    assert.deepEqual(
      idle,
      ranks.flatMap((rank) => rank.breakdown).map((time) => time.idle_ns),
    );
  });

  test("every other table of analyze --json is there, rank by rank", async () => {
    const { page } = await open("devices");
    const { ranks } = said("devices", "analyze");
    await page.locator("#tables select").selectOption({ label: "rank 1" });
    const tables = Object.entries(ranks[1]).filter(
      ([name, value]) =>
        Array.isArray(value) &&
        value.length > 0 &&
        !["breakdown", "kernels", "steps", "memory_timeline"].includes(name),
    );
    assert.ok(tables.length >= 3);
    const titles = { coverage: "SM coverage", queues: "queue depth", work: "roofline" };
    for (const [name, records] of tables) {
      await page
        .locator("#tables")
        // a column of a table may have the name of another table
        .getByRole("group", { name: "Table", exact: true })
        .getByRole("button", { name: titles[name] ?? name.replaceAll("_", " "), exact: true })
        .click();
      for (const field of Object.keys(records[0])) {
        assert.deepEqual(
          await column(page, "more-table", field),
          records
            .slice(0, 12)
            .map((record) => (record[field] === null ? "" : String(record[field]))),
          `${name}.${field}`,
        );
      }
    }
  });

  test("skew is that of ranks --json", async () => {
    const { page } = await open("recorded");
    const { ranks, collectives } = said("recorded", "ranks");
    ranks.sort((a, b) => b.caused_ns - a.caused_ns);
    for (const field of [
      "rank",
      "collectives",
      "last",
      "caused_ns",
      "began_late_ns",
      "waited_ns",
    ]) {
      assert.deepEqual(
        await column(page, "late-table", field),
        ranks.map((rank) => String(rank[field])),
        field,
      );
    }
    await page.locator("#skew-table .more").click();
    const skews = collectives.map((skew) => skew.skew_ns).sort((a, b) => b - a);
    assert.deepEqual(await column(page, "skew-table", "skew_ns"), skews.map(String));
  });
});

describe("tables", () => {
  test("sort by any column, up and down", async () => {
    const { page } = await open("devices");
    const head = page.locator("#kernels-table th", { hasText: "mean" });
    await head.locator("button").click();
    const falling = (await column(page, "kernels-table", "mean_ns")).map(Number);
    assert.deepEqual(
      falling,
      [...falling].sort((a, b) => b - a),
    );
    assert.equal(await head.getAttribute("aria-sort"), "descending");
    await head.locator("button").press("Enter");
    assert.deepEqual(
      (await column(page, "kernels-table", "mean_ns")).map(Number),
      [...falling].reverse(),
    );
    assert.equal(await head.getAttribute("aria-sort"), "ascending");
  });

  test("times of a kernel have one unit, in which the least is not lost", async () => {
    const { page } = await open("devices");
    const heads = page.locator("#kernels-table th", { hasText: /^(mean|min|max|std\. dev\.)/ });
    assert.deepEqual(
      await heads
        .locator(".unit")
        .evaluateAll((units) => units.map((unit) => unit.textContent.trim())),
      ["µs", "µs", "µs", "µs"],
    );
    const least = page.locator("#kernels-table td[data-field=min_ns]");
    for (const [shown, ns] of await least.evaluateAll((cells) =>
      cells.map((cell) => [cell.textContent, cell.dataset.value]),
    )) {
      assert.equal(Math.round(Number(shown.replaceAll(",", "")) * 1e3), Number(ns));
    }
  });

  test("filter by text and by class", async () => {
    const { page } = await open("devices");
    await page.locator("#kernels-table input").fill("ELEMENTWISE");
    assert.deepEqual(await column(page, "kernels-table", "label"), ["elementwise"]);
    await page.locator("#kernels-table input").fill("there is no such kernel");
    assert.deepEqual(await column(page, "kernels-table", "label"), []);
    await page.locator("#kernels-table input").fill("");
    await page.locator("#kernels").getByRole("button", { name: "communication" }).click();
    assert.deepEqual(
      new Set(await column(page, "kernels-table", "class")),
      new Set(["communication"]),
    );
    await page.locator("#kernels select").selectOption({ label: "rank 0" });
    const [rank] = said("devices", "analyze").ranks;
    assert.deepEqual(
      await column(page, "kernels-table", "count"),
      rank.kernels
        .filter((kernel) => kernel.class === "communication")
        .map((kernel) => String(kernel.count)),
    );
  });
});

describe("the timeline", () => {
  test("search selects, and what was waited for can be followed to its launch", async () => {
    const { page } = await openRank("devices", 0);
    await page.keyboard.press("/");
    await page.keyboard.type("ncclDevKernel");
    assert.equal(await page.locator("#timeline .found").first().innerText(), "1 found");
    await page.keyboard.press("Enter");
    assert.match(await details(page), /^ncclDevKernel_AllReduce/);
    const facts = await page.locator(".details dl").innerText();
    assert.match(facts, /communication/);
    assert.match(facts, /stream 20/);
    const launch = page.locator(".details li", { hasText: "launched by" });
    assert.match(
      await launch.innerText(),
      /cudaLaunchKernelExC.*40\.00 µs after the call began.*decided the start/s,
    );
    await launch.locator("button").click();
    assert.equal(await details(page), "cudaLaunchKernelExC");
    assert.match(await page.locator(".details").innerText(), /launched\s+ncclDevKernel/);
  });

  test("keys zoom, move, select and let go", async () => {
    const { page } = await openRank("devices", 0);
    await page.locator(".over").focus();
    const all = await settled(page);
    for (const [there, back] of [
      ["w", "s"],
      ["+", "-"],
    ]) {
      await page.keyboard.press(there);
      await changes(page, all, `${there} changes what is seen`);
      await page.keyboard.press("0");
      await becomes(page, all, "0 shows all");
      await page.keyboard.press(back);
      await page.keyboard.press("0");
      await becomes(page, all, `0 shows all after ${back}`);
    }
    await page.keyboard.press("w");
    const near = await changes(page, all, "w zooms");
    await page.keyboard.press("d");
    await changes(page, near, "d moves");
    await page.keyboard.press("ArrowLeft");
    await becomes(page, near, "left again");
    await page.keyboard.press("]");
    const first = await details(page);
    await page.keyboard.press("Enter");
    await page.keyboard.press("Escape");
    await page.locator(".details").waitFor({ state: "detached" });
    assert.match(first, /ProfilerStep#\d/);
  });

  test("buttons do what keys do, and what is drawn can be left out", async () => {
    const { page } = await openRank("devices", 0);
    const timeline = page.locator("#timeline");
    const before = await settled(page);
    await timeline.getByRole("button", { name: "Zoom in" }).click();
    const near = await changes(page, before, "+ zooms in");
    await timeline.getByRole("button", { name: "Zoom out" }).click();
    await changes(page, near, "- zooms out");
    await timeline.getByRole("button", { name: "All", exact: true }).click();
    await becomes(page, before, "all of it again");
    await page.fill("#search", "aten::");
    for (const [button, place] of [
      ["Next match", "1 of"],
      ["Next match", "2 of"],
      ["Previous match", "1 of"],
    ]) {
      await timeline.getByRole("button", { name: button }).click();
      await timeline.locator(".found", { hasText: place }).first().waitFor();
    }
    for (const what of ["arrows", "critical path"]) {
      const drawn = await settled(page);
      const box = timeline.getByLabel(what, { exact: true });
      const was = await box.isChecked();
      await box.setChecked(!was);
      await changes(page, drawn, `${what} turned`);
      await box.setChecked(was);
      await becomes(page, drawn, `${what} turned back`);
    }
  });

  test("a click selects, a drag moves, the wheel zooms at the pointer", async () => {
    const { page } = await openRank("devices", 0);
    await timelineInSight(page);
    await page.mouse.click(...(await inTrack(page, "stream 7", 0.18)));
    assert.equal(await details(page), "sm80_gemm_f16");
    const before = await settled(page);
    const scrolled = await page.evaluate(() => scrollY);
    await page.mouse.move(...(await inTrack(page, "stream 7", 0.18)));
    await page.mouse.wheel(0, -100);
    const near = await changes(page, before, "the wheel zooms");
    assert.equal(await page.evaluate(() => scrollY), scrolled, "and does not scroll the page");
    await page.mouse.click(...(await inTrack(page, "stream 7", 0.18)));
    assert.equal(await details(page), "sm80_gemm_f16", "what the pointer is on stays there");
    await page.mouse.down();
    await page.mouse.move(...(await inTrack(page, "stream 7", 0.4)), { steps: 4 });
    await page.mouse.up();
    await changes(page, near, "a drag moves");
    assert.equal(await details(page), "sm80_gemm_f16", "a drag does not select");
  });

  test("a wheel that scrolls the page goes on when the timeline comes under it", async () => {
    const { page } = await openRank("devices", 0);
    await timelineInSight(page);
    const before = await settled(page);
    const [x, y] = await inTrack(page, "stream 7", 0.5);
    await page.mouse.move(x, y);
    await page.evaluate(() => window.scrollBy(0, 30));
    await page.evaluate(() => new Promise((next) => requestAnimationFrame(next)));
    const scrolled = await page.evaluate(() => scrollY);
    await page.mouse.wheel(0, -20);
    await page.waitForFunction((from) => scrollY < from, scrolled);
    assert.equal(await settled(page), before);
  });

  test("a tooltip has the short and the full name, begin, duration and stream", async () => {
    const { page } = await openRank("devices", 0);
    await timelineInSight(page);
    await page.mouse.move(...(await inTrack(page, "stream 7", 0.36)));
    const tip = page.locator(".hover");
    await tip.waitFor();
    assert.deepEqual((await tip.innerText()).split("\n"), [
      "vectorized_elementwise_kernel",
      "void at::native::vectorized_elementwise_kernel<4>()",
      "60.00 µs, from 150.0 µs",
      "stream 7, device 0 (Drawn Device)",
    ]);
    await page.mouse.move(5, 5);
    await tip.waitFor({ state: "detached" });
  });

  test("a drag with Shift, or in the mode for it, selects time and shows its sums", async () => {
    const { page } = await openRank("devices", 0);
    await timelineInSight(page);
    // From the middle of the gemm to behind the copy: the window is 500 us long.
    const drag = async () => {
      await page.mouse.move(...(await inTrack(page, "stream 7", 0.18)));
      await page.mouse.down();
      await page.mouse.move(...(await inTrack(page, "stream 7", 0.8)), { steps: 5 });
      await page.mouse.up();
    };
    await page.keyboard.down("Shift");
    await drag();
    await page.keyboard.up("Shift");
    const area = page.locator(".selected-time");
    await area.waitFor();
    const [from, to] = (await page.evaluate(() => location.hash))
      .match(/time=(\d+)_(\d+)/)
      .slice(1)
      .map(Number);
    assert.ok(from > 80_000 && from < 100_000 && to > 390_000 && to < 410_000, `${from} ${to}`);
    const fact = async (what) =>
      area
        .locator("dl > div")
        .filter({ has: page.locator("dt", { hasText: new RegExp(`^${what}$`) }) })
        .locator("dd")
        .innerText();
    // gemm until 140, elementwise 150 to 210, all_reduce 160 to 330, copy 340 to 370
    const busy = 140_000 - from + 180_000 + 30_000;
    const microseconds = async (what) => Number((await fact(what)).match(/^[\d.]+/)[0]) * 1e3;
    const about = async (what, ns) =>
      assert.ok(Math.abs((await microseconds(what)) - ns) <= 100, `${what}: ${await fact(what)}`);
    await about("length", to - from);
    await about("device 0 \\(Drawn Device\\) busy", busy);
    await about("computation", 140_000 - from + 60_000);
    await about("communication", 170_000);
    await about("memory", 30_000);
    const names = await area.locator("section").first().locator("button").allInnerTexts();
    assert.equal(names[0], "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    assert.deepEqual(names.slice(1), [
      "vectorized_elementwise_kernel",
      "sm80_gemm_f16",
      "Memcpy DtoH (Device -> Pageable)",
    ]);
    const ops = await area.locator("section").nth(1).locator("button").allInnerTexts();
    assert.deepEqual(ops, ["aten::copy_", "nccl:all_reduce", "aten::relu"]);
    const drawn = await settled(page);
    await area.getByRole("button", { name: "Fill the width" }).click();
    await changes(page, drawn, "the selected time fills the width");
    await page.locator("#timeline").getByRole("button", { name: "All", exact: true }).click();
    await becomes(page, drawn, "all of it again");
    await area.getByRole("button", { name: "Clear" }).click();
    await area.waitFor({ state: "detached" });
    await page.getByRole("button", { name: "Select time" }).click();
    await timelineInSight(page);
    await drag();
    await area.waitFor();
    await area.getByRole("button", { name: "aten::relu" }).click();
    assert.equal(await details(page), "aten::relu");
    await page.locator(".over").press("m");
    await page.getByText("Selected time: 40.00 µs").waitFor();
  });

  test("an op shows its kernels, a kernel its op and its launch", async () => {
    const { page } = await openRank("devices", 0);
    await page.locator("#search").fill("aten::relu");
    await page.locator("#search").press("Enter");
    const rows = page.locator(".details .rows");
    assert.match(await rows.innerText(), /Its device rows: 1, busy for 60\.00 µs/);
    const before = await settled(page);
    await rows.getByRole("button", { name: "vectorized_elementwise_kernel" }).click();
    await page.locator(".details h3", { hasText: "vectorized_elementwise" }).waitFor();
    await changes(page, before, "another range is selected");
    assert.match(await page.locator(".details .two").innerText(), /launched by\s+cudaLaunchKernel/);
    await page.locator(".of-op").getByRole("button", { name: "aten::relu" }).click();
    assert.equal(await details(page), "aten::relu");
    // A step has the rows of all that it calls.
    await page.locator("#search").fill("ProfilerStep");
    await page.locator("#search").press("Enter");
    await page.getByText("Its device rows: 4").waitFor();
  });

  test("tracks fold, ranks change, the other step is that of the longest", async () => {
    const { page } = await openRank("devices", 0);
    const head = page.locator(".head", { hasText: "stream 7" });
    const before = await settled(page);
    await head.press("Enter");
    assert.equal(await head.getAttribute("aria-expanded"), "false");
    await changes(page, before, "a folded track is not drawn");
    assert.match(
      await page.locator("#timeline .note").first().innerText(),
      /^ProfilerStep#3 took 500\.0 µs/,
      "the median of three",
    );
    await page.locator("#timeline").getByRole("button", { name: "rank 1" }).click();
    await page.getByText("rank 1’s clock").waitFor();
    assert.equal(await page.locator(".head", { hasText: "stream 20" }).count(), 1);
  });
});

describe("several steps", () => {
  const chooser = (page) => page.getByRole("group", { name: "Step of the timeline" });

  test("can be chosen one by one, for each rank and for all", async () => {
    const { page } = await openRank("devices", 0);
    const note = page.locator("#timeline .timeline > .note").first();
    await chooser(page).getByRole("button", { name: "Previous step" }).click();
    await note.filter({ hasText: "ProfilerStep#2 took 900.0 µs" }).waitFor();
    await chooser(page).getByRole("combobox").selectOption("ProfilerStep#1");
    await note.filter({ hasText: "ProfilerStep#1 took 450.0 µs" }).waitFor();
    assert.ok(await chooser(page).getByRole("button", { name: "Previous step" }).isDisabled());
    await page.locator("#timeline").getByRole("button", { name: "rank 1", exact: true }).click();
    await page.getByText("rank 1’s clock").waitFor();
    await note.filter({ hasText: "ProfilerStep#1 took 450.0 µs" }).waitFor();
    await page.locator("#timeline").getByRole("button", { name: "all ranks" }).click();
    await note.filter({ hasText: "ProfilerStep#1 of all ranks" }).waitFor();
    await chooser(page).getByRole("button", { name: "Next step" }).click();
    await note.filter({ hasText: "ProfilerStep#2 of all ranks" }).waitFor();
    assert.equal(await page.locator("#timeline .left-out").count(), 0, "all are there");
  });

  test("that are left out are named, with the command that has them", async () => {
    const { page } = await open("many");
    assert.match(
      await page.locator("#timeline .left-out").innerText(),
      /^The page has the timelines of 100 of 1,200 steps\. ProfilerStep#0, ProfilerStep#1, .*, … are left out: etlink report --step ProfilerStep#0 has it/,
    );
    await page.getByText("Table of the steps").click();
    await page.locator("#steps-table button.row").first().click();
    assert.match(
      await page.locator("#timeline .went").innerText(),
      /^The timeline of ProfilerStep#0 is not in this page: etlink report --step ProfilerStep#0 has it\.$/,
    );
  });
});

describe("links to the timeline", () => {
  const note = (page) => page.locator("#timeline .timeline > .note").first();
  const rankShown = (page) =>
    page.locator("#timeline [aria-label='Rank of the timeline'] [aria-pressed=true]").innerText();
  const inSight = (page) =>
    page.waitForFunction(() => {
      const { top } = document.getElementById("timeline").getBoundingClientRect();
      return top > -50 && top < 300;
    });

  test("a kernel: its longest occurrence, then the next and previous, by buttons and keys", async () => {
    const { page } = await open("devices");
    await page.locator("#kernels select").selectOption({ label: "rank 1" });
    await page.locator("#kernels-table button.row", { hasText: "ncclDevKernel" }).click();
    await inSight(page);
    assert.match(await details(page), /^ncclDevKernel_AllReduce/);
    assert.equal(await rankShown(page), "rank 1");
    const place = page.locator(".again .found");
    assert.equal(await place.innerText(), "1 of 3 of this name in this page");
    await page.getByRole("button", { name: "Next of this name" }).click();
    await place.filter({ hasText: "2 of 3" }).waitFor();
    await note(page).filter({ hasText: "ProfilerStep#2" }).waitFor();
    await page.keyboard.press("n");
    await place.filter({ hasText: "3 of 3" }).waitFor();
    await note(page).filter({ hasText: "ProfilerStep#3" }).waitFor();
    assert.ok(await page.getByRole("button", { name: "Next of this name" }).isDisabled());
    await page.keyboard.press("p");
    await place.filter({ hasText: "2 of 3" }).waitFor();
  });

  test("a step, by its bar and by its row", async () => {
    const { page } = await open("devices");
    await page.locator("#steps [role=application]").focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("ArrowRight");
    await page.locator("#steps .tip").getByRole("button", { name: "rank 1" }).click();
    await inSight(page);
    assert.equal(await rankShown(page), "rank 1");
    assert.equal(await details(page), "ProfilerStep#2");
    await page.getByText("Table of the steps").click();
    await page.locator("#steps-table button.row", { hasText: "ProfilerStep#1" }).first().click();
    await page.locator(".details h3", { hasText: "ProfilerStep#1" }).waitFor();
    assert.equal(await rankShown(page), "rank 0");
  });

  test("a gap: the time in which the device stood idle", async () => {
    const { page } = await open("devices");
    await page
      .locator("#tables")
      .getByRole("group", { name: "Table", exact: true })
      .getByRole("button", { name: "gaps", exact: true })
      .click();
    await page.locator("#more-table button.row").first().click();
    await inSight(page);
    await page.getByText("Selected time: 570.0 µs").waitFor();
    assert.equal(await rankShown(page), "rank 0");
    await note(page).filter({ hasText: "ProfilerStep#2" }).waitFor();
    assert.equal(await page.locator(".selected-time dd").nth(2).innerText(), "0 ns, 0.0 %");
  });

  test("a finding: where it shows most", async () => {
    const { page } = await open("launches");
    await page.locator("#findings").getByRole("button", { name: "Show where" }).first().click();
    await inSight(page);
    await page.locator("#timeline .selected-time, #timeline .details").first().waitFor();
  });

  test("a finding of a folder: the rank on which it lasts longest, at that time", async () => {
    const { page } = await open("recorded");
    const { findings } = said("recorded", "findings");
    const placed = findings.filter(({ figures }) => figures.rank !== undefined);
    assert.ok(new Set(placed.map(({ figures }) => figures.rank)).size > 1, "more than one rank");
    const { ranks } = said("recorded", "analyze");
    for (const { title, figures } of placed) {
      const item = page.locator("#findings li", { hasText: title.replaceAll("`", "") });
      await item.getByRole("button", { name: "Show where" }).click();
      await inSight(page);
      assert.equal(await rankShown(page), `rank ${figures.rank}`);
      await page.waitForFunction(
        (rank) => location.hash.startsWith(`#timeline?rank=${rank}&`),
        figures.rank,
      );
      const hash = new URLSearchParams((await page.evaluate(() => location.hash)).split("?")[1]);
      const { steps } = ranks.find(({ rank }) => rank === figures.rank);
      const { start_ns } = steps.find(({ name }) => name === hash.get("step"));
      const [begin, end] = hash.get("time").split("_").map(Number);
      assert.ok(Math.abs(start_ns + begin - figures.start_ns) < 1000, `${title}: ${begin}`);
      // Without `sight` the whole step is shown.
      const [from, to] = (hash.get("sight") ?? "-Infinity_Infinity").split("_").map(Number);
      assert.ok(from <= begin && end <= to, `${title}: in sight`);
      await page.goto(page.url().split("#")[0]);
    }
  });

  test("a step of the critical path", async () => {
    const { page } = await open("devices");
    await page.getByText("Longest steps of the path").click();
    const row = page.locator("#path-table button.row", { hasText: "aten::mm" }).first();
    await row.click();
    await inSight(page);
    assert.equal(await details(page), "aten::mm");
    assert.match(await page.locator(".details dl").innerText(), /critical path\s+on it: host/);
  });

  test("a collective of the ranks, by its row and by its cell", async () => {
    const { page } = await open("devices");
    await page
      .locator("#skew-table tr", { hasText: "ProfilerStep#2" })
      .locator("button.row")
      .click();
    await inSight(page);
    assert.equal(await rankShown(page), "all ranks");
    assert.equal(await details(page), "all_reduce 2");
    assert.match(await page.locator(".details dl").innerText(), /rank 1/, "the side of the last");
    const cells = page.locator(".heat canvas");
    await cells.focus();
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press("ArrowUp");
    await page.keyboard.press("Enter");
    await page.locator(".details h3", { hasText: "all_reduce 1" }).waitFor();
    assert.match(await page.locator(".details dl").innerText(), /rank 0/);
  });

  test("the peak of memory", async () => {
    const { page } = await open("devices");
    await page.locator("#memory select").selectOption({ label: "rank 1" });
    await page.getByRole("button", { name: "Show the peak in the timeline" }).click();
    await inSight(page);
    assert.equal(await rankShown(page), "rank 1");
    await page.getByText("Selected time: 0 ns").waitFor();
    assert.match(
      await page.locator(".selected-time dl").innerText(),
      /72\.00 µs after the window’s start/,
    );
  });
});

describe("the hash of the URL", () => {
  test("holds section, rank, step, what is in sight and selected: reload and back restore it", async () => {
    const { page } = await openRank("devices", 0);
    await page.locator("#kernels-table button.row", { hasText: "vectorized" }).click();
    await page.locator(".details h3", { hasText: "vectorized" }).waitFor();
    const linked = await page.evaluate(() => location.hash);
    await page.locator(".over").press("w");
    // The URL follows a moment later, since browsers limit how often it may change.
    await page.waitForFunction((before) => location.hash !== before, linked);
    const hash = await page.evaluate(() => location.hash);
    assert.match(hash, /^#timeline\?rank=0&step=ProfilerStep%231&sight=-?[\d.]+_[\d.]+&range=\d+$/);
    const drawn = await settled(page);
    await page.reload();
    await page.locator(".details h3", { hasText: "vectorized" }).waitFor();
    await becomes(page, drawn, "the same after a reload");
    const other = await page.context().newPage();
    await other.goto(page.url());
    await other.locator(".details h3", { hasText: "vectorized" }).waitFor();
    await becomes(other, drawn, "the same for who gets the link");
    await other.waitForFunction(
      () => document.getElementById("timeline").getBoundingClientRect().top < innerHeight,
    );
    await page.locator("#kernels-table button.row", { hasText: "Memcpy" }).click();
    await page.locator(".details h3", { hasText: "Memcpy" }).waitFor();
    // else it would go back from where the URL does not yet tell
    await page.waitForFunction((before) => location.hash !== before, hash);
    await page.goBack();
    await page.locator(".details h3", { hasText: "vectorized" }).waitFor();
    await becomes(page, drawn, "the same after going back");
    await page.goForward();
    await page.locator(".details h3", { hasText: "Memcpy" }).waitFor();
  });

  test("of a page that has not what it names is left aside", async () => {
    const { page, trouble } = await open("devices");
    const url = page.url().split("#")[0];
    for (const hash of ["#timeline?rank=9&range=3", "#nowhere?range=99999999&time=b_a", "#?%"]) {
      await page.goto(`${url}${hash}`);
      await page.reload();
      await page.waitForSelector("main h2");
      assert.equal(await page.locator(".details").count(), 0, hash);
    }
    assert.deepEqual(
      trouble.filter((text) => !text.startsWith("file:")),
      [],
    );
  });

  test("follows the sections, and the timeline stays where it was", async () => {
    const { page } = await openRank("devices", 1);
    await page.locator("nav").getByText("Memory").click();
    await page.waitForFunction(() => location.hash.startsWith("#memory?rank=1"));
    await page.locator("nav").getByText("Steps").click();
    await page.waitForFunction(() => location.hash.startsWith("#steps?rank=1"));
    await page.goBack();
    await page.waitForFunction(() => location.hash.startsWith("#memory?rank=1"));
  });
});

describe("all ranks by one clock", () => {
  const pressed = (page) =>
    page.locator("#timeline [aria-label='Rank of the timeline'] [aria-pressed=true]").innerText();

  test("who came last, by how much, and the way there and back", async () => {
    const { page } = await open("devices");
    assert.equal(await pressed(page), "all ranks");
    assert.match(
      await page.locator("#timeline .note").first().innerText(),
      /^ProfilerStep#3 of all ranks.*Times are by the clock of rank 0.*at most .* off \(rank 1\)\.$/s,
    );
    assert.deepEqual(
      await page
        .locator(".head")
        .evaluateAll((heads) => heads.map((head) => head.textContent.match(/rank \d+/)[0])),
      ["rank 0", "rank 1"],
    );
    const [skew] = said("devices", "ranks").collectives.filter(
      (skew) => skew.step === "ProfilerStep#3",
    );
    assert.deepEqual([skew.last, skew.skew_ns], [1, 30_000]);
    await page.locator("#search").fill("all_reduce");
    await page.locator("#search").press("Enter");
    assert.match(await details(page), /^all_reduce 3$/);
    const meeting = page.locator(".meeting");
    assert.match(
      await meeting.innerText(),
      /rank 1 arrived last, 30\.00 µs after the first \(rank 0\)\. Rank 0 arrived first and waited 30\.00 µs\./,
    );
    await meeting.getByRole("button", { name: "What rank 1 did" }).click();
    await until(
      () => pressed(page),
      (now) => now === "rank 1",
      "its timeline is shown",
    );
    await page.locator(".details h3", { hasText: "ncclDevKernel_AllReduce" }).waitFor();
    assert.match(await page.locator(".details dl").innerText(), /190\.0 µs by the common clock/);
    await meeting.getByRole("button", { name: "All ranks" }).click();
    await until(
      () => pressed(page),
      (now) => now === "all ranks",
      "and back",
    );
    await page.locator(".details dl", { hasText: "rank 1" }).waitFor();
    await meeting.getByRole("button", { name: "Rank 0, the first" }).click();
    await page.locator(".details dl", { hasText: "rank 0" }).waitFor();
    assert.match(
      await page.locator(".details .two").innerText(),
      /could not begin before\s+all_reduce 3\s+on rank 1 arrived at 190\.0 µs, after a wait of 30\.00 µs/,
    );
    await meeting.getByRole("button", { name: "Rank 1, the last" }).click();
    await page.locator(".details dl", { hasText: "rank 1" }).waitFor();
    const [before, after] = await page.locator(".details .two section").allInnerTexts();
    assert.match(before, /see rank 1’s own timeline/);
    assert.match(after, /held up\s+all_reduce 3\s+on rank 0\s+arrived at/);
  });

  test("what is in sight, and what is selected, stay from rank to rank", async () => {
    const { page } = await openRank("devices", 0);
    await page.locator("#search").fill("ncclDevKernel");
    await page.locator("#search").press("Enter");
    await page.locator(".over").press("Enter");
    await page.locator("#timeline").getByRole("button", { name: "rank 1", exact: true }).click();
    await page.locator(".details dl", { hasText: "190.0 µs by the common clock" }).waitFor();
  });

  test("the rank that the others waited for can come first", async () => {
    const { page } = await open("devices");
    await page.getByLabel("latest ranks first").check();
    const heads = () =>
      page
        .locator(".head")
        .evaluateAll((heads) => heads.map((head) => head.textContent.match(/rank \d+/)[0]).join());
    await until(heads, (now) => now === "rank 1,rank 0", "rank 1 is late");
  });
});

describe("what called what", () => {
  /** The nodes of a rank by `top --tree --json`. */
  const nodesOf = (name, command, rank) =>
    JSON.parse(readFileSync(join(PAGES, `${name}.${command}.json`), "utf8")).tables[rank].tree
      .nodes;
  const bars = (page) =>
    page
      .locator(".flame-bar")
      .evaluateAll((bars) => bars.map((bar) => [bar.dataset.node, bar.dataset.value].join()));
  const names = (page) => column(page, "tree-table", "name");
  const path = (page) => page.locator(".tree-path").innerText();
  const field = (nodes, field) => nodes.map((node) => String(node[field]));

  test("bars and rows are the nodes of top --tree, of the rank that is chosen", async () => {
    const { page } = await open("devices");
    for (const rank of [0, 1]) {
      await page.locator("#calls select").selectOption({ label: `rank ${rank}` });
      for (const command of ["tree", "frames"]) {
        await page.getByLabel("Python frames").setChecked(command === "frames");
        const nodes = nodesOf("devices", command, rank);
        assert.equal(nodes.length, command === "tree" ? 7 : 8);
        const total = nodes.find((node) => node.parent === null).device_ns;
        const wanted = [`all threads,${total}`, ...nodes.map((n) => `${n.name},${n.device_ns}`)];
        assert.deepEqual((await bars(page)).sort(), wanted.sort());
        assert.deepEqual(await names(page), field(nodes, "name"));
        for (const time of ["device_ns", "self_device_ns", "host_ns", "self_host_ns"]) {
          assert.deepEqual(await column(page, "tree-table", time), field(nodes, time), time);
        }
      }
    }
    await page.getByRole("button", { name: "host time" }).click();
    const [root] = nodesOf("devices", "frames", 1);
    assert.equal((await bars(page))[0], `all threads,${root.host_ns}`);
  });

  test("a bar is as wide as its share, and says both times", async () => {
    const { page } = await open("devices");
    const bar = (name) => page.locator(`.flame-bar[data-node="${name}"]`);
    const wide = async (name) => (await bar(name).boundingBox()).width;
    const nodes = nodesOf("devices", "tree", 0);
    const time = (name) => nodes.find((node) => node.name === name).device_ns;
    const [step, reduce] = [await wide("step"), await wide("nccl:all_reduce")];
    const share = time("nccl:all_reduce") / time("step");
    assert.ok(Math.abs(reduce / step - share) < 0.01, `${reduce} of ${step} px, not ${share}`);
    await bar("aten::mm").hover();
    const tip = page.locator(".flame-tip");
    await tip.waitFor();
    assert.match(await tip.innerText(), /aten::mm\s+device 300\.0 µs, [\d.]+ %, own 300\.0 µs/);
    assert.match(await tip.innerText(), /host 150\.0 µs, [\d.]+ %, own [\d.]+ µs\s+op, 3 times/);
  });

  test("a click zooms in, the outermost bar and the path zoom out", async () => {
    const { page } = await open("devices");
    const bar = (name) => page.locator(`.flame-bar[data-node="${name}"]`);
    await bar("nn.Module: Model").click();
    await until(
      () => path(page),
      (now) => now.endsWith("step › nn.Module: Model"),
      "the path",
    );
    assert.equal(await bar("step").count(), 0);
    assert.deepEqual(await names(page), ["nn.Module: Model", "aten::mm", "aten::relu"]);
    await bar("nn.Module: Model").click();
    await bar("step").waitFor();
    await page.locator(".tree-path").getByRole("button", { name: "all threads" }).click();
    await bar("all threads").waitFor();
    // what is zoomed to is a link in the table too
    await page.locator("#tree-table").getByRole("button", { name: "step", exact: true }).click();
    await until(
      () => path(page),
      (now) => now.endsWith("› step"),
      "the row leads there",
    );
  });

  test("arrows, Enter and Escape do the same", async () => {
    const { page } = await open("devices");
    await page.locator(".flame .bars").focus();
    const tip = page.locator(".flame-tip strong");
    const press = async (key, name) => {
      await page.keyboard.press(key);
      await until(
        () => tip.innerText(),
        (now) => now === name,
        key,
      );
    };
    await press("ArrowDown", "all threads");
    await press("ArrowDown", (await names(page))[0]);
    await press("ArrowDown", "step");
    await press("ArrowDown", "nccl:all_reduce");
    await press("ArrowRight", "nn.Module: Model");
    await press("ArrowDown", "aten::mm");
    await press("ArrowUp", "nn.Module: Model");
    await press("ArrowLeft", "nccl:all_reduce");
    await press("ArrowRight", "nn.Module: Model");
    await page.keyboard.press("Enter");
    await until(
      () => path(page),
      (now) => now.endsWith("nn.Module: Model"),
      "Enter zooms in",
    );
    await page.keyboard.press("Escape");
    await until(
      () => path(page),
      (now) => now.endsWith("step"),
      "Escape zooms out",
    );
  });

  test("rows open and close, with keys too", async () => {
    const { page } = await open("devices");
    const all = await names(page);
    await page.getByRole("button", { name: "Close nn.Module: Model" }).click();
    assert.deepEqual(
      await names(page),
      all.filter((name) => !["aten::mm", "aten::relu"].includes(name)),
    );
    await page.locator("#tree-table tr", { hasText: "Model" }).focus();
    await page.keyboard.press("ArrowRight");
    await until(
      () => names(page),
      (now) => now.length === all.length,
      "right opens",
    );
    await page.keyboard.press("ArrowRight");
    const focused = () =>
      page.evaluate(() => document.activeElement.querySelector("td")?.dataset.value);
    assert.equal(await focused(), "aten::mm");
    await page.keyboard.press("ArrowLeft");
    assert.equal(await focused(), "nn.Module: Model");
    await page.keyboard.press("ArrowLeft");
    await until(
      () => names(page),
      (now) => now.length === all.length - 2,
      "left closes",
    );
    await page.keyboard.press("Enter");
    await until(
      () => path(page),
      (now) => now.endsWith("nn.Module: Model"),
      "Enter shows its bars",
    );
  });

  test("a search marks bars, and opens the rows that it finds", async () => {
    const { page } = await open("devices");
    await page.getByRole("button", { name: "Close nn.Module: Model" }).click();
    await page.locator("#calls input[type=search]").fill("RELU");
    assert.equal(await page.locator("#calls .found").innerText(), "1 of 7 nodes");
    assert.deepEqual(
      await page
        .locator(".flame-bar.found-bar")
        .evaluateAll((bars) => bars.map((bar) => bar.dataset.node)),
      ["aten::relu"],
    );
    assert.deepEqual((await names(page)).slice(1), ["step", "nn.Module: Model", "aten::relu"]);
    await page.locator("#calls input[type=search]").fill("");
    assert.equal(await page.locator(".flame-bar.dim").count(), 0);
  });

  test("a page without frames has no choice of them, a written graph no tree", async () => {
    const { page } = await open("recorded");
    assert.equal(await page.getByLabel("Python frames").count(), 0);
    assert.ok(await page.getByRole("button", { name: "host time" }).isHidden());
    const written = await open("written");
    assert.equal(await written.page.locator("#calls").count(), 0);
  });
});

describe("memory", () => {
  test("charts have the points of analyze, of the rank that is chosen", async () => {
    const { page } = await open("devices");
    const { ranks } = said("devices", "analyze");
    for (const rank of [0, 1]) {
      await page.locator("#memory select").selectOption({ label: `rank ${rank}` });
      const [memory] = ranks[rank].memory;
      const points = said("devices", "memory").ranks[rank].memory_timeline;
      const size = (bytes) => `${(bytes / 1e6).toFixed(bytes >= 1e7 ? 2 : 3)} MB`;
      await page
        .locator(".memory h3", { hasText: `cuda 0 at most ${size(memory.peak_bytes)} allocated` })
        .waitFor();
      assert.match(
        await page.locator(".memory h3").innerText(),
        new RegExp(
          `at most ${size(memory.peak_reserved_bytes)} reserved; ${size(memory.end_bytes)} at the end`,
        ),
      );
      const tip = page.locator("#memory .tip");
      const seen = [];
      await page.locator(".memory [role=application]").focus();
      for (const { time_ns } of points) {
        await page.keyboard.press("ArrowRight");
        await until(
          () => tip.getAttribute("data-time"),
          (now) => now === String(time_ns),
          "the next point",
        );
        seen.push(
          await tip.evaluate((tip) => [tip.dataset.allocated, tip.dataset.reserved].map(Number)),
        );
      }
      assert.deepEqual(
        seen,
        points.map((point) => [point.allocated_bytes, point.reserved_bytes]),
      );
    }
  });
});

describe("charts", () => {
  /** Where on a chart's area a share of its width is. */
  const across = async (page, section) => {
    const area = page.locator(`${section} .u-over`);
    await area.scrollIntoViewIfNeeded();
    const box = await area.boundingBox();
    return (share) => [box.x + box.width * share, box.y + box.height / 2];
  };
  const drag = async (page, from, to) => {
    await page.mouse.move(...from);
    await page.mouse.down();
    await page.mouse.move(...to, { steps: 4 });
    await page.mouse.up();
  };

  test("the cursor says the values, of memory the last before it", async () => {
    const { page } = await open("devices");
    const place = await across(page, "#steps");
    await page.mouse.move(...place(0.5));
    await page
      .locator("#steps .tip", {
        hasText: "ProfilerStep#2: rank 0 900.0 µs, rank 1 900.0 µs",
      })
      .waitFor();
    const memory = await across(page, "#memory");
    await page.mouse.move(...memory(0.999));
    const [last] = said("devices", "memory").ranks[0].memory_timeline.slice(-1);
    await until(
      () => page.locator("#memory .tip").getAttribute("data-time"),
      (now) => now === String(last.time_ns),
      "the last allocation lasts",
    );
  });

  for (const section of ["#steps", "#memory"]) {
    test(`a drag zooms ${section}, a button and two clicks show all again`, async () => {
      const { page } = await open("devices");
      const back = page.locator(section).getByRole("button", { name: "Show all" });
      // The button takes a place above the chart, so that this is asked anew each time.
      const place = async (share) => (await across(page, section))(share);
      assert.equal(await back.count(), 0);
      await drag(page, await place(0.4), await place(0.6));
      await back.click();
      await back.waitFor({ state: "detached" });
      await drag(page, await place(0.4), await place(0.6));
      await back.waitFor();
      await page.mouse.dblclick(...(await place(0.5)));
      await back.waitFor({ state: "detached" });
      await page.locator(`${section} [role=application]`).focus();
      await page.keyboard.press("+");
      await back.waitFor();
      await page.keyboard.press("0");
      await back.waitFor({ state: "detached" });
    });
  }

  test("a chart has the colours of the theme", async () => {
    const { page } = await open("devices");
    const drawn = () =>
      page.locator("#steps canvas").evaluate((canvas) => canvas.toDataURL().length);
    const light = await drawn();
    await page.getByRole("button", { name: "Switch to dark colours" }).click();
    await until(drawn, (now) => now !== light, "other colours");
  });
});

describe("what is left out", () => {
  test("is said of every table that is cut, and how to get it", async () => {
    const { page } = await open("many");
    assert.match(
      await page.locator("#kernels .note").innerText(),
      /^These are the 1,000 of 1,200 that take most\. All: etlink analyze --csv --table kernels\.$/,
    );
    assert.match(
      await page.locator("#steps .cut").innerText(),
      /^These are the first 1,000 of 1,200\. All: etlink analyze --csv --table steps\.$/,
    );
    assert.match(
      await page.locator("#memory .tip").innerText(),
      /The line has [\d,]+ of 9,600 points, .* All: etlink analyze --csv --table memory_timeline\.$/,
    );
    await page.setViewportSize({ width: 400, height: 800 });
    const lines = await page
      .locator("#memory .tip .whole")
      .evaluateAll((words) => words.map((word) => word.getClientRects().length));
    assert.deepEqual(lines, [1, 1, 1, 1, 1], "no word of a command breaks");
    assert.equal(await page.locator("#kernels-table .more").innerText(), "Show all 1,000");
    const [memory] = said("many", "analyze").ranks[0].memory;
    assert.equal(memory.peak_bytes, 9_600 * 1_024);
    assert.match(await page.locator(".memory h3").innerText(), /at most 9\.830 MB allocated/);
  });

  test("of a written graph what it does not have, and the rest is there", async () => {
    const { page } = await open("written");
    assert.match(await page.locator(".notes").innerText(), /not reported: steps, linking/);
    assert.deepEqual(await page.locator("main h2").allInnerTexts(), [
      "Where device time goes",
      "What is on the critical path",
      "Stragglers: who waits for whom",
      "Kernels",
      "Timeline",
      "More tables",
      "How accurate the graph is",
    ]);
    const { ranks, total } = said("written", "analyze");
    assert.deepEqual(
      await column(page, "kernels-table", "sum_ns"),
      total.kernels.map((kernel) => String(kernel.sum_ns)),
    );
    assert.equal(
      total.kernels.reduce((sum, kernel) => sum + kernel.sum_ns, 0),
      said("devices", "analyze").total.kernels.reduce((sum, kernel) => sum + kernel.sum_ns, 0),
    );
    await page.getByText("Table of device time").click();
    assert.deepEqual(
      await column(page, "breakdown-table", "idle_ns"),
      ranks.flatMap((rank) => rank.breakdown).map((time) => String(time.idle_ns)),
    );
    await page.locator("#timeline").getByRole("button", { name: "rank 0", exact: true }).click();
    await page.locator("#search").fill("gemm");
    await page.locator("#search").press("Enter");
    await page.locator(".details h3", { hasText: "sm80_gemm_f16" }).waitFor();
    assert.match(await page.locator(".details .two").innerText(), /launched by/);
  });
});

describe("the page", () => {
  test("theme follows the button and is kept", async () => {
    const { page } = await open("recorded");
    const background = () => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await background();
    await page.getByRole("button", { name: "Switch to dark colours" }).click();
    await until(background, (now) => now !== light, "the theme is the other");
    await page.reload();
    await page.waitForSelector("main h2");
    assert.equal(await page.evaluate(() => document.documentElement.dataset.theme), "dark");
  });

  test("the first link skips what is above the report", async () => {
    const { page } = await open("recorded");
    await page.keyboard.press("Tab");
    await page.keyboard.press("Enter");
    await until(
      () => page.evaluate(() => document.activeElement.id),
      (now) => now === "main",
      "the report has the focus",
    );
  });

  test("? helps, Escape closes; everything can be reached with Tab, visibly", async () => {
    const { page } = await open("recorded");
    await page.keyboard.press("?");
    await page.locator("dialog").waitFor({ state: "visible" });
    await page.keyboard.press("Escape");
    await page.locator("dialog").waitFor({ state: "hidden" });
    const seen = new Set();
    for (let presses = 0; presses < 200 && !seen.has("#over"); presses++) {
      await page.keyboard.press("Tab");
      const focus = await page.evaluate(() => {
        const { outlineStyle } = getComputedStyle(document.activeElement);
        const { id, className, textContent } = document.activeElement;
        return {
          name: className === "over" ? "#over" : id || textContent.slice(0, 30),
          visible: outlineStyle !== "none",
        };
      });
      seen.add(focus.name);
      assert.ok(focus.visible, `the focus on ${focus.name} cannot be seen`);
    }
    for (const wanted of ["Skip to the report", "Steps", "?", "search", "#over"]) {
      assert.ok(seen.has(wanted), `${wanted} is not reached with Tab: ${[...seen].join(" | ")}`);
    }
  });

  for (const theme of ["light", "dark"]) {
    test(`text can be read, ${theme}: contrast of 4.5 or more`, async () => {
      const { page } = await open("devices", { theme });
      await page.evaluate(() =>
        document.querySelectorAll("details").forEach((details) => (details.open = true)),
      );
      assert.deepEqual(await page.evaluate(lowContrast), []);
    });
  }

  test("an injected script, handler or style does nothing", async () => {
    const whole = readFileSync(join(PAGES, "recorded.html"), "utf8");
    const injected = [
      "<script>window.hurt = 1</script>",
      '<img src="data:,x" onerror="window.hurt = 2">',
      "<style>body { display: none }</style>",
      '<p id="styled" style="position: fixed">styled</p>',
    ];
    const body = whole.lastIndexOf("</body>");
    const changed = `${whole.slice(0, body)}${injected.join("\n")}${whole.slice(body)}`;
    writeFileSync(join(PAGES, "injected.html"), changed);
    const { page, trouble } = await open("injected");
    // a handler runs after its image failed
    await page.waitForFunction(() => document.querySelector("body > img").complete);
    await page.waitForTimeout(200);
    assert.equal(await page.evaluate(() => window.hurt), undefined);
    const seen = await page.evaluate(() => ({
      body: getComputedStyle(document.body).display,
      styled: getComputedStyle(document.getElementById("styled")).position,
    }));
    assert.deepEqual(seen, { body: "block", styled: "static" });
    const refused = trouble.filter((text) => text.includes("Content Security Policy"));
    assert.equal(refused.length, injected.length, trouble.join("\n"));
  });

  test("names cannot break out", async () => {
    const { page, trouble } = await open("hostile");
    assert.equal(await page.evaluate(() => window.hurt), undefined);
    assert.equal(await page.locator("main img, main script, main b").count(), 0);
    const names = await column(page, "kernels-table", "name");
    const calls = await column(page, "tree-table", "name");
    assert.ok(calls.includes("</script><script>window.hurt = 1</script>"));
    assert.ok(names.includes("</script><script>window.hurt = 1</script>"));
    assert.ok(
      names.some(
        (name) =>
          name.startsWith("long_<kernel>") &&
          name.endsWith("… (10245 characters)") &&
          name.length < 1_100,
      ),
    );
    assert.match(await page.title(), /^hostile <b>&amp;\.json/);
    await page.locator("#search").fill("</SCRIPT>");
    await page.locator("#search").press("Enter");
    assert.equal(await details(page), "</script><script>window.hurt = 1</script>");
    assert.deepEqual(trouble, []);
  });
});

/** Texts whose contrast with what is behind them is less than 4.5. Runs in the page. */
function lowContrast() {
  const parse = (colour) => (colour.match(/[\d.]+/g) ?? []).map(Number);
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map((part) =>
      part / 255 <= 0.03928 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4,
    );
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length === 3 || colour[3] === 1) {
        return colour;
      }
    }
    return [255, 255, 255];
  };
  const low = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some(
      (node) => node.nodeType === Node.TEXT_NODE && node.textContent.trim(),
    );
    const { color, fill, visibility } = getComputedStyle(element);
    if (
      own &&
      visibility === "visible" &&
      element.getClientRects().length > 0 &&
      !element.matches("script, :disabled, .hidden, .hidden *")
    ) {
      const text = element instanceof SVGElement ? fill : color;
      const [a, b] = [light(parse(text)), light(behind(element))].sort((x, y) => y - x);
      if ((a + 0.05) / (b + 0.05) < 4.5) {
        low.push(
          `${element.className} ${element.textContent.slice(0, 30)}: ${((a + 0.05) / (b + 0.05)).toFixed(2)}`,
        );
      }
    }
  }
  return low;
}
