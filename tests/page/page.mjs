// Uses the page of `loopwright serve` in Chromium: node page.mjs PROGRAM MODEL_PORT FOLDER PICTURES
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { gzipSync } from "node:zlib";
import { chromium } from "playwright-core";

const [program, modelPort, folder, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
mkdirSync(pictures, { recursive: true });
let cases = 0;
const done = (name) => { cases += 1; console.log(`ok   ${name}`); };

async function serve(listen) {
  const args = ["serve", "--listen", listen, "--output-format", "json", "-C", `${folder}/project`, "--permission-mode", "ask", "--max-steps", "2000",
    "-m", "openai-compatible/test", "--base-url", `http://127.0.0.1:${modelPort}/v1`];
  const env = { PATH: process.env.PATH, HOME: `${folder}/home`, OPENAI_COMPATIBLE_API_KEY: "none" };
  const child = spawn(program, args, { env, stdio: ["ignore", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout });
  const [line] = await new Promise((resolve, reject) => {
    lines.once("line", (line) => resolve([line]));
    child.once("exit", (code) => reject(new Error(`the server ended with ${code}`)));
  });
  return { child, ...JSON.parse(line) };
}

let server = await serve("127.0.0.1:0");
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--disable-gpu"],
});

async function accessible(page, name) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => axe.run());
  assert.deepEqual(violations.map((it) => `${it.id}: ${it.nodes.map((node) => node.html).join(" ")}`), [], name);
}

async function picture(page, name) {
  await accessible(page, name);
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    await accessible(page, `${name} in ${colorScheme}`);
    await page.screenshot({ path: `${pictures}/page-${name}-${colorScheme}.png`, fullPage: true });
  }
  await page.emulateMedia({ colorScheme: "light" });
}

try {
  const context = await browser.newContext({ viewport: { width: 900, height: 700 } });
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  page.on("console", (message) => { if (message.type() === "error") errors.push(message.text()); });

  await page.goto(server.url);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await accessible(page, "sign-in");
  await page.goto(server.page);
  await page.getByRole("heading", { name: "Sessions" }).waitFor();
  const again = await browser.newContext();
  const refused = await (await again.newPage()).goto(server.page);
  assert.equal(refused.status(), 401);
  await again.close();
  done("the address signs in once");

  await page.getByLabel("New session").fill("Show me Markdown");
  await page.getByRole("button", { name: "Start" }).click();
  await page.locator("#conversation table").waitFor();
  await page.getByRole("status").getByText("Done").waitFor();
  const first = page.url();
  done("a session is started and its answer shown as Markdown");

  await page.getByLabel("Message").fill("slow please");
  await page.keyboard.press("Control+Enter");
  await page.locator("#live").getByText("word3 ").waitFor();
  await page.getByRole("status").getByText("Working").waitFor();
  done("text is watched while it is written, and the keyboard sends");

  await page.reload();
  await page.locator("#live").getByText("word0 word1").waitFor();
  await page.locator("#conversation").getByText("word59").waitFor();
  assert.equal(await page.locator("#live").textContent(), "");
  assert.equal((await page.locator("#conversation").textContent()).split("word30").length, 2);
  done("a page that is loaded in the middle shows the text from its beginning, once");

  const other = await context.newPage();
  await other.goto(first);
  await page.getByLabel("Message").fill("Please write notes");
  await page.getByRole("button", { name: "Send" }).click();
  for (const tab of [page, other]) await tab.locator(".ask").getByText("write_file").first().waitFor();
  done("two tabs show the call that waits");

  await picture(page, "approval");
  await page.getByText("Edit the arguments").click();
  await page.getByLabel("content").fill("one\nthree\n");
  await page.getByRole("button", { name: "Approve" }).click();
  await page.getByText("The file is written.").waitFor();
  await other.getByText("The file is written.").waitFor();
  assert.equal(readFileSync(`${folder}/project/notes.md`, "utf8"), "one\nthree\n");
  assert.equal(await other.locator(".ask").count(), 0);
  await other.locator("details.call").getByText("edited", { exact: true }).waitFor();
  done("a call is approved with an edit, and the other tab shows it");

  await page.getByRole("status").getByText("Done").waitFor();
  await picture(page, "session");
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.getByRole("heading", { name: "Run 3" }).waitFor();
  await picture(page, "timeline");
  await page.getByRole("link", { name: "Step 3", exact: true }).click();
  await page.getByRole("heading", { name: "What followed" }).waitFor();
  await accessible(page, "step");
  await page.getByRole("link", { name: "Agent", exact: true }).click();
  await page.getByRole("heading", { name: "Tools" }).waitFor();
  await accessible(page, "agent");
  done("the timeline, a step and the agent are shown");

  await page.goto(`${first}/timeline`);
  await page.locator("#step-1").getByRole("button", { name: "Fork after this step" }).click();
  await page.getByText("Fork of").waitFor();
  const fork = page.url();
  assert.notEqual(fork, first);
  assert.equal(await page.locator("#conversation").getByText("word30").count(), 0);
  await page.getByRole("link", { name: "Compare" }).click();
  await page.getByText("turns are the same").waitFor();
  await accessible(page, "compare");
  await page.goto(first);
  await page.getByRole("button", { name: "Undo the last turn" }).click();
  await page.waitForLoadState();
  assert.equal(await page.locator("#conversation").getByText("The file is written.").count(), 0);
  done("a session is forked, compared and rewound");

  await page.getByLabel("Message").fill("slow again");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("#live").getByText("word3 ").waitFor();
  const listen = new URL(server.url).host;
  server.child.kill("SIGKILL");
  await new Promise((resolve) => server.child.once("exit", resolve));
  await page.waitForTimeout(500);
  server = await serve(listen);
  await page.locator("#conversation").getByText("word59").last().waitFor({ timeout: 60_000 });
  await page.getByRole("status").getByText("Done").waitFor();
  done("the server is killed and started again: the page goes on, and the run ends");

  await page.getByLabel("Message").fill("slow, to be cancelled");
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("#live").getByText("word1 ").waitFor();
  await page.getByRole("button", { name: "Cancel now" }).click();
  await page.getByRole("status").getByText("Stopped").waitFor();
  await page.getByRole("button", { name: "Continue" }).waitFor();
  done("a run is cancelled");

  await page.getByRole("link", { name: "Sessions" }).click();
  await page.getByRole("searchbox").fill("markdown");
  await page.getByRole("button", { name: "Search" }).click();
  await page.waitForLoadState();
  assert.equal(await page.locator(".list li").count(), 2);
  await picture(page, "sessions");
  await page.setViewportSize({ width: 360, height: 700 });
  for (const path of ["/", new URL(first).pathname, `${new URL(first).pathname}/timeline`]) {
    await page.goto(server.url + path);
    const { scroll, width } = await page.evaluate(() => ({ scroll: document.documentElement.scrollWidth, width: innerWidth }));
    assert.ok(scroll <= width, `${path} is ${scroll} wide on a screen of ${width}`);
    await accessible(page, `${path} on a phone`);
  }
  await page.goto(first);
  await page.screenshot({ path: `${pictures}/page-phone.png` });
  done("sessions are found, and pages fit on a phone");

  const plain = await browser.newContext({ javaScriptEnabled: false, storageState: await context.storageState() });
  const text = await plain.newPage();
  await text.goto(first);
  await text.locator("#conversation table").waitFor();
  await text.getByLabel("Message").fill("Without scripts");
  await text.getByRole("button", { name: "Send" }).click();
  await text.getByText("Without scripts").first().waitFor();
  await plain.close();
  done("pages are read and messages sent without scripts");

  // A page that loads without content: each of its files, as a proxy that compresses sends it.
  const files = [];
  const empty = await context.newPage();
  empty.on("response", (response) => files.push(response.body()));
  await empty.goto(`${server.url}/?q=nothing-has-this-title`, { waitUntil: "networkidle" });
  const bytes = (await Promise.all(files)).reduce((sum, it) => sum + gzipSync(it).length, 0);
  await empty.close();
  const api = async (method, path, body) => {
    const headers = { Authorization: `Bearer ${server.token}`, "Content-Type": "application/json" };
    const response = await fetch(server.url + path, { method, headers, body: body && JSON.stringify(body) });
    assert.ok(response.ok, `${method} ${path}: ${response.status}`);
    return response.json();
  };
  const { id } = await api("POST", "/v1/sessions", {});
  await api("POST", `/v1/sessions/${id}/messages`, { text: "Please work for 1000 steps" });
  for (;;) {
    const { run_status: status, steps } = await api("GET", `/v1/sessions/${id}`);
    if (status === "completed" && steps === 1000) break;
    assert.ok(["pending", "in_progress"].includes(status), `the long run is ${status} after ${steps} steps`);
    await page.waitForTimeout(2000);
  }
  const long = `${server.url}/sessions/${id}`;
  const paints = {};
  for (const [name, path] of [["conversation", ""], ["timeline", "/timeline"]]) {
    paints[name] = [];
    for (let number = 0; number < 5; number += 1) {
      // Nothing is cached in a context of its own.
      const fresh = await browser.newContext({ storageState: await context.storageState() });
      const tab = await fresh.newPage();
      await tab.goto(long + path);
      const paint = () => performance.getEntriesByName("first-contentful-paint")[0]?.startTime;
      await tab.waitForFunction(paint);
      paints[name].push(Math.round(await tab.evaluate(paint)));
      if (number === 0) await accessible(tab, `${name} of a session with 1,000 steps`);
      await fresh.close();
    }
    paints[name].sort((a, b) => a - b);
  }
  const told = Object.entries(paints).map(([name, it]) => `${name} ${it[2]} ms (${it[0]} to ${it[4]})`).join(", ");
  console.log(`     first paint of a session with 1,000 steps: ${told}; a page without content: ${bytes} bytes compressed`);
  assert.ok(Object.values(paints).every((it) => it[4] < 1000), "the first paint takes a second or more");
  assert.ok(files.length >= 3 && bytes <= 30 * 1024, "a page without content has more than 30 KiB");
  done("a session with 1,000 steps is painted within a second, and a page without content has at most 30 KiB");

  await page.goto(`${server.url}/`);
  await page.keyboard.press("Tab");
  assert.equal(await page.evaluate(() => document.activeElement.textContent), "Skip to content");
  await page.getByRole("button", { name: "Sign out" }).click();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await page.goto(first);
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  done("signing out ends it");

  // The connection breaks when the server is killed, and the first address is refused by another browser.
  const unexpected = errors.filter((it) => !/ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED|ERR_EMPTY_RESPONSE|ERR_CONNECTION_RESET|Failed to fetch/.test(it));
  assert.deepEqual(unexpected, []);
  done("no page has an error");
  console.log(`${cases} cases, none failed`);
} finally {
  await browser.close();
  server.child.kill("SIGKILL");
}
