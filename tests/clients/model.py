"""A model for the server under test: calls the tool `locate` if it has it, `write_file` if it is asked to write, else `list_dir`,
and then answers. Prints its port."""

import http.server
import json


class Handler(http.server.BaseHTTPRequestHandler):
    def log_message(self, *args):
        pass

    def do_POST(self):
        length = int(self.headers["content-length"])
        request = json.loads(self.rfile.read(length))
        messages = request["messages"]
        tools = [it["function"]["name"] for it in request.get("tools", [])]
        if "fail" in json.dumps(messages[-1]["content"]):
            self.send_response(400)
            self.send_header("content-type", "application/json")
            self.end_headers()
            self.wfile.write(b'{"error": {"message": "refused", "type": "invalid_request_error"}}')
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.end_headers()
        if messages[-1]["role"] == "tool":
            texts = ["Nothing ", "but ", "hidden files: ädö."]
            if "locate" in tools:
                texts = ["You are at ", messages[-1]["content"], "."]
            deltas = [{"content": it} for it in texts]
            reason = "stop"
        else:
            call = {"name": "list_dir", "arguments": "{}"}
            if "locate" in tools:
                call = {"name": "locate", "arguments": '{"precise": true}'}
            elif "write" in json.dumps(messages[-1]["content"]):
                call = {"name": "write_file", "arguments": json.dumps({"path": "notes.md", "content": "one\n"})}
            call = {"index": 0, "id": "call_1", "type": "function", "function": call}
            deltas = [{"content": "Let me look."}, {"tool_calls": [call]}]
            reason = "tool_calls"
        for delta in deltas:
            self.chunk([{"index": 0, "delta": delta, "finish_reason": None}])
        usage = {"prompt_tokens": 50, "completion_tokens": 9, "total_tokens": 59}
        self.chunk([{"index": 0, "delta": {}, "finish_reason": reason}], usage)
        self.wfile.write(b"data: [DONE]\n\n")

    def chunk(self, choices, usage=None):
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 0, "model": "test"}
        chunk.update({"choices": choices, "usage": usage})
        self.wfile.write(f"data: {json.dumps(chunk)}\n\n".encode())
        self.wfile.flush()


server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
