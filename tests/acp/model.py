"""A provider of chat completions that does what the last message of the user asks for.

| the message begins with | the model |
|---|---|
| `write PATH TEXT` | calls `write_file`, and says "done" when it has the result |
| `read PATH` | calls `read_file` |
| `edit PATH OLD NEW` | calls `edit_file` |
| `call TOOL` | calls a tool without arguments, after a search for it if the request does not contain it |
| `run COMMAND` | calls `bash` |
| `think TEXT` | reasons, and says TEXT |
| `hang` | never answers |
| `fail` | answers with an error |
| anything else | repeats it |

Prints its address and serves until it is ended.
"""
import json
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


def text_of(content):
    if isinstance(content, str):
        return content
    return "".join(part.get("text", "[" + part["type"] + "]") for part in content or [])


def call(name, arguments):
    function = {"name": name, "arguments": json.dumps(arguments)}
    # The ID repeats, as it does with some providers.
    return {"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]}


def next_call(tool, messages, tools):
    """Returns the next call on the way to `tool`, or None if it was called."""
    calls = [it["function"]["name"] for message in messages for it in message.get("tool_calls") or []]
    if tool in calls:
        return None
    if tool not in tools and "mcp_search" in tools and "mcp_search" not in calls:
        return call("mcp_search", {"query": tool.rpartition("__")[2]})
    return call(tool, {})


def answer(messages, tools):
    """Returns the pieces of an answer, and why it ends."""
    asked = max(i for i, it in enumerate(messages) if it["role"] == "user")
    word, _, rest = text_of(messages[asked]["content"]).partition(" ")
    wanted = next_call(rest, messages[asked:], tools) if word == "call" else None
    if wanted:
        return [wanted], "tool_calls"
    if messages[-1]["role"] == "tool":
        return [{"content": "do"}, {"content": "ne"}], "stop"
    said = text_of(messages[-1]["content"])
    if word == "write":
        path, _, text = rest.partition(" ")
        return [{"content": "Writing. "}, call("write_file", {"path": path, "content": text})], "tool_calls"
    if word == "edit":
        path, old, new = rest.split(" ")
        return [call("edit_file", {"path": path, "old_string": old, "new_string": new})], "tool_calls"
    if word == "read":
        return [call("read_file", {"path": rest})], "tool_calls"
    if word == "run":
        return [call("bash", {"command": rest})], "tool_calls"
    if word == "think":
        return [{"reasoning_content": "Let me "}, {"reasoning_content": "see."}, {"content": rest}], "stop"
    half = len(said) // 2
    return [{"content": said[:half]}, {"content": said[half:]}], "stop"


class Handler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        pass

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        messages = [it for it in body["messages"] if it["role"] != "system"]
        said = text_of(messages[-1]["content"])
        if said.startswith("fail"):
            error = json.dumps({"error": {"message": "no such key", "type": "error"}}).encode()
            self.send_response(401)
            self.send_header("content-length", str(len(error)))
            self.end_headers()
            self.wfile.write(error)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("connection", "close")
        self.end_headers()
        self.wfile.flush()
        if said.startswith("hang"):
            threading.Event().wait(300)
            return
        tools = [it["function"]["name"] for it in body.get("tools") or []]
        pieces, reason = answer(messages, tools)
        for piece in pieces:
            self.piece(piece, None)
        self.piece({}, reason)
        self.wfile.write(b"data: [DONE]\n\n")

    def piece(self, delta, reason):
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test", "choices": [choice]}
        if reason:
            chunk["usage"] = {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60}
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(f"http://127.0.0.1:{server.server_port}/v1", flush=True)
try:
    server.serve_forever()
except KeyboardInterrupt:
    sys.exit(0)
