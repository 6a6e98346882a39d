// The OpenAI SDK for JavaScript.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { run, TEXT, TOKEN, URL } from "./cases.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: TOKEN, maxRetries: 0 });
const model = "loopwright";
const messages = [{ role: "user", content: "What is there?" }];

const parameters = { type: "object", properties: { precise: { type: "boolean" } } };
const locate = { name: "locate", description: "Returns the position.", parameters };
const tools = [{ type: "function", function: locate }];
const WHERE = "You are at 46.9, 7.4.";

await run("openai (npm)", {
  async "models are listed"() {
    const ids = [];
    for await (const it of client.models.list()) ids.push(it.id);
    assert.deepEqual(ids, [model]);
  },
  async "a completion is whole"() {
    const completion = await client.chat.completions.create({ model, messages });
    assert.equal(completion.choices[0].message.content, TEXT);
    assert.equal(completion.choices[0].finish_reason, "stop");
    assert.equal(completion.usage.total_tokens, 118);
  },
  async "a completion is streamed with its usage"() {
    const stream = client.chat.completions.stream({
      model, messages, stream_options: { include_usage: true },
    });
    const completion = await stream.finalChatCompletion();
    assert.equal(completion.choices[0].message.content, TEXT);
    assert.equal((await stream.totalUsage()).total_tokens, 118);
  },
  async "a response is whole, and the next one continues it"() {
    const first = await client.responses.create({ model, input: "What is there?" });
    assert.equal(first.output.map((it) => it.content[0].text).join("\n\n"), TEXT);
    assert.equal(first.status, "completed");
    const next = await client.responses.create({
      model, input: "And now?", previous_response_id: first.id,
    });
    assert.equal(next.previous_response_id, first.id);
  },
  async "a response is streamed"() {
    const stream = client.responses.stream({ model, input: "What is there?" });
    const types = new Set();
    let sequence = 0;
    for await (const event of stream) {
      assert.equal(event.sequence_number, sequence++);
      types.add(event.type);
    }
    const final = await stream.finalResponse();
    assert.equal(final.output.map((it) => it.content[0].text).join("\n\n"), TEXT);
    assert.equal(types.size, 9);
  },
  async "a completion calls a tool of the client, whole and streamed"() {
    for (const stream of [false, true]) {
      const create = async (messages) => {
        if (!stream) return client.chat.completions.create({ model, messages, tools });
        return client.chat.completions.stream({ model, messages, tools }).finalChatCompletion();
      };
      const asked = [{ role: "user", content: "Where am I?" }];
      const first = (await create(asked)).choices[0];
      assert.equal(first.finish_reason, "tool_calls");
      const [call] = first.message.tool_calls;
      assert.deepEqual(JSON.parse(call.function.arguments), { precise: true });
      const result = { role: "tool", tool_call_id: call.id, content: "46.9, 7.4" };
      const next = (await create([...asked, first.message, result])).choices[0];
      assert.equal(next.message.content, WHERE);
      assert.equal(next.finish_reason, "stop");
    }
  },
  async "the runner of the SDK runs a tool of the client"() {
    const run = (args) => (assert.equal(args.precise, true), "46.9, 7.4");
    const runner = client.chat.completions.runTools({
      model, messages: [{ role: "user", content: "Where am I?" }],
      tools: [{ type: "function", function: { ...locate, function: run, parse: JSON.parse } }],
    });
    assert.equal(await runner.finalContent(), WHERE);
  },
  async "a response calls a tool of the client, whole and streamed"() {
    const tools = [{ type: "function", strict: false, ...locate }];
    for (const stream of [false, true]) {
      const create = async (body) => {
        if (!stream) return client.responses.create({ model, tools, ...body });
        return client.responses.stream({ model, tools, ...body }).finalResponse();
      };
      const first = await create({ input: "Where am I?" });
      const call = first.output.find((it) => it.type === "function_call");
      assert.deepEqual(JSON.parse(call.arguments), { precise: true });
      const output = { type: "function_call_output", call_id: call.call_id, output: "46.9, 7.4" };
      const next = await create({ input: [output], previous_response_id: first.id });
      assert.equal(next.output_text, WHERE);
    }
  },
  async "a tool with the name of one of the agent is refused"() {
    const tools = [{ type: "function", function: { ...locate, name: "list_dir" } }];
    const failed = client.chat.completions.create({ model, messages, tools });
    await assert.rejects(failed, (it) => it.status === 422 && it.code === "tool_name_taken");
  },
  async "an unknown model is an error of the client's own type"() {
    const failed = client.chat.completions.create({ model: "other", messages });
    await assert.rejects(failed, (it) => it instanceof OpenAI.UnprocessableEntityError && it.code === "invalid");
  },
  async "a wrong token is an authentication error"() {
    const other = new OpenAI({ baseURL: `${URL}/v1`, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(other.models.list(), OpenAI.AuthenticationError);
  },
});
