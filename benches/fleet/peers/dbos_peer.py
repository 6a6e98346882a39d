"""DBOS: a conversation is a workflow, and each request to the model and each call of a tool is a step of it.

`worker` runs the workflows of a queue, one at a time; `submit N STEPS` adds so many conversations. The queue is polled every 10 ms, not every
second, which is the default.
"""

import os
import sys
import threading

from dbos import DBOS, DBOSClient
from work import ask, call, opening

DATABASE = os.environ["DATABASE"].replace("postgres://", "postgresql+psycopg://", 1)


@DBOS.step()
def infer(messages):
    return ask(messages)


@DBOS.step()
def use_tool(message):
    return call(message)


@DBOS.workflow()
def converse(steps):
    messages = opening(steps)
    while True:
        message = infer(messages)
        messages.append(message)
        if not message.get("tool_calls"):
            return message["content"]
        messages.append(use_tool(message))


if sys.argv[1] == "worker":
    config = {"name": "fleet", "system_database_url": DATABASE, "application_version": "1", "log_level": "ERROR"}
    DBOS(config=config | {"run_admin_server": False, "executor_id": str(os.getpid())})
    DBOS.launch()
    DBOS.register_queue("fleet", worker_concurrency=1, polling_interval_sec=0.01)
    threading.Event().wait()
else:
    client = DBOSClient(system_database_url=DATABASE)
    count, steps = map(int, sys.argv[2:])
    options = {"workflow_name": "converse", "queue_name": "fleet", "app_version": "1"}
    for _ in range(count):
        client.enqueue(options, steps)
    client.destroy()
