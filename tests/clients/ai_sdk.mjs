// The AI SDK, which checks every part of the stream.
import assert from "node:assert/strict";
import { DefaultChatTransport, readUIMessageStream } from "ai";
import { run, TEXT, TOKEN, URL } from "./cases.mjs";

const transport = new DefaultChatTransport({
  api: `${URL}/v1/agents/loopwright/ui-messages`,
  headers: { Authorization: `Bearer ${TOKEN}` },
});

const send = async (chatId, text) => {
  const message = { id: crypto.randomUUID(), role: "user", parts: [{ type: "text", text }] };
  const stream = await transport.sendMessages({
    chatId, messages: [message], trigger: "submit-message", abortSignal: undefined,
  });
  let last;
  for await (const it of readUIMessageStream({ stream, terminateOnError: true })) last = it;
  return last;
};

await run("ai (npm)", {
  async "a run becomes a message"() {
    const { parts } = await send("one", "What is there?");
    const texts = parts.filter((it) => it.type === "text").map((it) => it.text);
    assert.equal(texts.join("\n\n"), TEXT);
    const tool = parts.find((it) => it.type === "dynamic-tool");
    assert.equal(tool.state, "output-available", JSON.stringify(parts));
  },
  async "a chat continues"() {
    await send("two", "What is there?");
    const { parts } = await send("two", "And now?");
    assert.ok(parts.some((it) => it.type === "text"));
  },
  async "a run that fails is an error"() {
    await assert.rejects(send("three", "Please fail."));
  },
});
