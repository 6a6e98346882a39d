// The tool loop of the Vercel AI SDK.

import { generateText, stepCountIs, streamText, tool } from 'ai';
import { z } from 'zod';

const SYSTEM = 'You are a calculator agent. Use the tools you are given.';
const LINE = 'The quick brown fox jumps over the lazy dog, line 0042.\n';

const number = (name, otherwise) => Number(process.env[name] ?? otherwise);
const [steps, par, pad, lat] = [number('STEPS', 10), number('PAR', 1), number('PAD', 0), number('LAT', 0)];
const [runs, conc] = [number('RUNS', 1), number('CONC', 1)];
const prompt = `STEPS=${steps} PAR=${par} PAD=${pad} LAT=${lat} Call the add tool until you are told to stop.`;
const padding = LINE.repeat(Math.floor(pad / LINE.length) + 1).slice(0, pad);

let calls = 0;
const tools = {
  add: tool({
    description: 'Add two numbers',
    inputSchema: z.object({ a: z.number().int(), b: z.number().int() }),
    execute: async ({ a, b }) => {
      calls += 1;
      return `${a + b}${padding}`;
    },
  }),
};

/** A model in process: one call in each step. */
function scripted() {
  let next = 0;
  const usage = { inputTokens: { total: 10 }, outputTokens: { total: 5 } };
  const answer = (content, reason, raw) => ({
    content: [content],
    finishReason: { unified: reason, raw },
    usage,
    warnings: [],
  });
  return {
    specificationVersion: 'v3',
    provider: 'fake',
    modelId: 'mock',
    supportedUrls: {},
    async doGenerate() {
      const step = next++;
      if (step >= steps) return answer({ type: 'text', text: `DONE steps=${steps}` }, 'stop', 'stop');
      const input = JSON.stringify({ a: step, b: 0 });
      const call = { type: 'tool-call', toolCallId: `call_${step}_0`, toolName: 'add', input };
      return answer(call, 'tool-calls', 'tool_calls');
    },
  };
}

async function remote() {
  const { createOpenAICompatible } = await import('@ai-sdk/openai-compatible');
  const baseURL = process.env.BASE_URL ?? 'http://127.0.0.1:18080/v1';
  return createOpenAICompatible({ name: 'mock', baseURL, apiKey: 'sk-mock' })('mock');
}

const shared = process.env.MODE === 'fake' ? null : await remote();
const generate = process.env.STREAM === '1' ? streamText : generateText;

let left = runs;
let final = '';
async function oneAfterAnother() {
  while (left > 0) {
    left -= 1;
    const model = shared ?? scripted();
    const stopWhen = stepCountIs(steps + 10);
    const result = await generate({ model, system: SYSTEM, prompt, tools, stopWhen, maxRetries: 0 });
    final = await result.text;
  }
}
await Promise.all(Array.from({ length: Math.min(conc, runs) }, oneAfterAnother));
console.log(JSON.stringify({ final, tool_calls: calls }));
