// The OpenAI SDK for JavaScript.
import assert from "node:assert/strict";
import OpenAI from "openai";
import { run, TEXT, TOKEN, URL } from "./cases.mjs";

const client = new OpenAI({ baseURL: `${URL}/v1`, apiKey: TOKEN, maxRetries: 0 });
const model = "loopwright";
const messages = [{ role: "user", content: "What is there?" }];

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
  async "an unknown model is an error of the client's own type"() {
    const failed = client.chat.completions.create({ model: "other", messages });
    await assert.rejects(failed, (it) => it instanceof OpenAI.UnprocessableEntityError && it.code === "invalid");
  },
  async "a wrong token is an authentication error"() {
    const other = new OpenAI({ baseURL: `${URL}/v1`, apiKey: "wrong", maxRetries: 0 });
    await assert.rejects(other.models.list(), OpenAI.AuthenticationError);
  },
});
