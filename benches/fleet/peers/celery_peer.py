"""Celery: each request to the model and each call of a tool is a task, whose result PostgreSQL keeps and which starts the next one.

`worker` runs tasks, one at a time; `submit N STEPS` adds so many conversations. A task is acknowledged after it has ended, so that it is not lost
with its worker.
"""

import os
import sys

from celery import Celery
from work import ask, call, opening

app = Celery("fleet", broker=os.environ["REDIS"], backend=os.environ["DATABASE"].replace("postgres://", "db+postgresql+psycopg2://", 1))
app.conf.update(task_acks_late=True, task_reject_on_worker_lost=True, worker_prefetch_multiplier=1, broker_connection_retry_on_startup=True)
app.conf.update(database_create_tables_at_setup=True)


@app.task(name="infer")
def infer(messages):
    message = ask(messages)
    if message.get("tool_calls"):
        use_tool.delay(messages + [message])
    return message


@app.task(name="use_tool")
def use_tool(messages):
    result = call(messages[-1])
    infer.delay(messages + [result])
    return result


if sys.argv[1] == "worker":
    app.worker_main(["worker", "--pool=solo", "--loglevel=ERROR", "--without-gossip", "--without-mingle", f"--hostname=w{os.getpid()}@h"])
else:
    for _ in range(int(sys.argv[2])):
        infer.delay(opening(int(sys.argv[3])))
