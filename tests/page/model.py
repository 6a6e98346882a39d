"""A model for the page under test. Prints its port.

A message with "write" makes it call `write_file`; one with "slow" makes it answer word by word; one with a number of steps makes it
list directories in all of them but the last; others are answered at once.
"""

import http.server
import json
import re
import time

MARKDOWN = "Here is **Markdown** with `code`:\n\n```rust\nfn main() {}\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        try:
            self.answer()
        except (BrokenPipeError, ConnectionResetError):
            pass  # The run was cancelled, or the server was killed.

    def answer(self):
        length = int(self.headers["content-length"])
        messages = json.loads(self.rfile.read(length))["messages"]
        last = messages[-1]
        asked = json.dumps(last["content"])
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        reason, pause = "stop", 0
        begin = max(number for number, it in enumerate(messages) if it["role"] == "user")
        steps = re.search(r"(\d+) steps", json.dumps(messages[begin]["content"]))
        done = sum(it["role"] == "tool" for it in messages[begin:])
        if steps and done + 1 < int(steps[1]):
            call = {"name": "list_dir", "arguments": json.dumps({"offset": done})}
            call = {"index": 0, "id": f"call_{done}", "type": "function", "function": call}
            deltas, reason = [{"content": f"Part {done + 1}."}, {"tool_calls": [call]}], "tool_calls"
        elif last["role"] == "tool" and steps:
            deltas = [{"content": f"All {done + 1} steps are done."}]
        elif last["role"] == "tool":
            deltas = [{"content": "The file is written."}]
        elif "write" in asked:
            arguments = json.dumps({"path": "notes.md", "content": "one\ntwo\n"})
            call = {"name": "write_file", "arguments": arguments}
            call = {"index": 0, "id": "call_1", "type": "function", "function": call}
            deltas, reason = [{"content": "I write it down."}, {"tool_calls": [call]}], "tool_calls"
        elif "slow" in asked:
            deltas, pause = [{"content": f"word{it} "} for it in range(60)], 0.1
        else:
            deltas = [{"content": MARKDOWN}]
        for delta in deltas:
            self.chunk([{"index": 0, "delta": delta, "finish_reason": None}])
            time.sleep(pause)
        prompt = 125 if steps else 1250
        usage = {"prompt_tokens": prompt, "completion_tokens": 90, "total_tokens": prompt + 90}
        self.chunk([{"index": 0, "delta": {}, "finish_reason": reason}], usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, choices, usage=None):
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test"}
        chunk.update({"choices": choices, "usage": usage})
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
server.daemon_threads = True
print(server.server_address[1], flush=True)
server.serve_forever()
