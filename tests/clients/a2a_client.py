"""The A2A SDK for Python, over both bindings."""

import asyncio
import os
import uuid

import httpx
from a2a.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.types.a2a_pb2 import (
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    TaskState,
)
from a2a.utils.errors import TaskNotCancelableError, TaskNotFoundError, UnsupportedOperationError

TEXT = "Let me look.\n\nNothing but hidden files: ädö."
URL = os.environ["URL"]
TOKEN = os.environ["TOKEN"]


def asked(text="What is there?", **fields):
    message = Message(
        message_id=str(uuid.uuid4()), role=Role.ROLE_USER, parts=[Part(text=text)], **fields
    )
    return SendMessageRequest(message=message)


async def sent(client, request):
    return [it async for it in client.send_message(request)]


def task_of(events):
    """Returns the ID of the task that events are of."""
    return next(it.task for it in events if it.HasField("task"))


async def the_card_is_read(client):
    card = client._card
    assert card.name == "loopwright" and card.capabilities.streaming


async def a_message_is_answered(client):
    events = await sent(client, asked())
    task = await client.get_task(GetTaskRequest(id=task_of(events).id))
    assert task.status.state == TaskState.TASK_STATE_COMPLETED
    assert task.artifacts[-1].parts[0].text in TEXT


async def a_stream_holds_the_whole_text(client):
    events = await sent(client, asked())
    texts = {}
    for event in events:
        if event.HasField("artifact_update"):
            update = event.artifact_update
            before = texts.get(update.artifact.artifact_id, "") if update.append else ""
            texts[update.artifact.artifact_id] = before + update.artifact.parts[0].text
        elif event.HasField("task"):
            for artifact in event.task.artifacts:
                texts[artifact.artifact_id] = artifact.parts[0].text
    assert "\n\n".join(texts.values()) in (TEXT, TEXT.split("\n\n")[1]), texts


async def a_context_goes_on(client):
    first = task_of(await sent(client, asked()))
    again = task_of(await sent(client, asked("And now?", context_id=first.context_id)))
    assert again.context_id == first.context_id and again.id != first.id
    listed = await client.list_tasks(ListTasksRequest(context_id=first.context_id))
    assert {it.id for it in listed.tasks} == {first.id, again.id}


async def errors_have_types(client):
    done = task_of(await sent(client, asked()))
    for error, call in [
        (TaskNotFoundError, lambda: client.get_task(GetTaskRequest(id="unknown"))),
        (TaskNotCancelableError, lambda: client.cancel_task(CancelTaskRequest(id=done.id))),
    ]:
        try:
            await call()
        except error:
            continue
        raise AssertionError(f"no {error}")
    if not client._config.streaming:
        return
    try:
        async for _ in client.subscribe(SubscribeToTaskRequest(id=done.id)):
            pass
    except UnsupportedOperationError:
        return
    raise AssertionError("a task that is over was followed")


CASES = [
    the_card_is_read, a_message_is_answered, a_stream_holds_the_whole_text, a_context_goes_on, errors_have_types,
]


async def main():
    passed = total = 0
    for binding in ["JSONRPC", "HTTP+JSON"]:
        for streaming in [True, False]:
            http = httpx.AsyncClient(headers={"authorization": f"Bearer {TOKEN}"}, timeout=60)
            config = ClientConfig(
                httpx_client=http, streaming=streaming, supported_protocol_bindings=[binding], use_client_preference=True
            )
            client = await ClientFactory(config).create_from_url(f"{URL}/v1/agents/loopwright/a2a")
            for case in CASES:
                total += 1
                try:
                    await case(client)
                    passed += 1
                except Exception as error:
                    print(f"FAILED a2a-sdk: {case.__name__} over {binding}, streaming={streaming}: {error!r}")
            await client.close()
    print(f"a2a-sdk: {passed} of {total} cases passed")
    raise SystemExit(passed != total)


asyncio.run(main())
