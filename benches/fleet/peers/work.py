"""The work of a conversation, which is the same for all peers: a request to the model, and a call of the tool."""

import http.client
import json
import os
import threading

TOOL = {
    "type": "function",
    "function": {
        "name": "Read",
        "description": "Reads a file.",
        "parameters": {"type": "object", "properties": {"file_path": {"type": "string"}}, "required": ["file_path"]},
    },
}
local = threading.local()


def opening(steps):
    """The first messages of a conversation of so many steps."""
    system = {"role": "system", "content": "Use the tools that you are given."}
    return [system, {"role": "user", "content": f"STEPS={steps} Read the note."}]


def ask(messages):
    """Sends a conversation to the model, and returns its message. The connection stays open."""
    if not hasattr(local, "connection"):
        local.connection = http.client.HTTPConnection(os.environ["MODEL"])
    body = json.dumps({"model": "script", "messages": messages, "tools": [TOOL]})
    local.connection.request("POST", "/v1/chat/completions", body, {"content-type": "application/json"})
    return json.loads(local.connection.getresponse().read())["choices"][0]["message"]


def call(message):
    """Runs the tool that the model called, and returns the message with its result."""
    called = message["tool_calls"][0]
    path = json.loads(called["function"]["arguments"])["file_path"]
    with open(path) as file:
        return {"role": "tool", "tool_call_id": called["id"], "content": file.read()}
