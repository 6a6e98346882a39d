// Runs cases, and says how many passed.
export const { URL, TOKEN } = process.env;
export const TEXT = "Let me look.\n\nNothing but hidden files: ädö.";

export async function run(name, cases) {
  let failed = 0;
  for (const [title, check] of Object.entries(cases)) {
    try {
      await check();
    } catch (error) {
      failed += 1;
      console.error(`FAILED ${name}: ${title}`, error);
    }
  }
  const count = Object.keys(cases).length;
  console.log(`${name}: ${count - failed} of ${count} cases passed`);
  process.exitCode = failed ? 1 : 0;
}
