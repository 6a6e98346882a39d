"""RQ: each request to the model and each call of a tool is a job, whose result Redis keeps and which starts the next one.

`worker` runs jobs in one process, without a fork for each, which is faster; `submit N STEPS` adds so many conversations.
"""

import os
import sys

from redis import Redis
from rq import Queue, SimpleWorker

import work

queue = Queue("fleet", connection=Redis.from_url(os.environ["REDIS"]))


def infer(messages):
    message = work.ask(messages)
    if message.get("tool_calls"):
        queue.enqueue("rq_peer.use_tool", messages + [message])
    return message


def use_tool(messages):
    result = work.call(messages[-1])
    queue.enqueue("rq_peer.infer", messages + [result])
    return result


if __name__ == "__main__":
    if sys.argv[1] == "worker":
        SimpleWorker([queue], connection=queue.connection).work(logging_level="ERROR")
    else:
        for _ in range(int(sys.argv[2])):
            queue.enqueue("rq_peer.infer", work.opening(int(sys.argv[3])))
