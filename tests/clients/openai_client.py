"""The OpenAI SDK for Python."""

import json
import os
import sys

import openai

TEXT = "Let me look.\n\nNothing but hidden files: ädö."
URL = os.environ["URL"] + "/v1"
CLIENT = openai.OpenAI(base_url=URL, api_key=os.environ["TOKEN"], max_retries=0)
MESSAGES = [{"role": "user", "content": "What is there?"}]
PARAMETERS = {"type": "object", "properties": {"precise": {"type": "boolean"}}}
LOCATE = {"name": "locate", "description": "Returns the position.", "parameters": PARAMETERS}
WHERE = "You are at 46.9, 7.4."


def models_are_listed():
    assert [it.id for it in CLIENT.models.list()] == ["loopwright"]


def a_completion_is_whole():
    completion = CLIENT.chat.completions.create(model="loopwright", messages=MESSAGES)
    assert completion.choices[0].message.content == TEXT
    assert completion.usage.total_tokens == 118


def a_completion_is_streamed():
    stream = CLIENT.chat.completions.create(
        model="loopwright", messages=MESSAGES, stream=True, stream_options={"include_usage": True}
    )
    chunks = list(stream)
    texts = [it.choices[0].delta.content or "" for it in chunks if it.choices]
    assert "".join(texts) == TEXT
    assert chunks[-1].usage.total_tokens == 118


def a_response_is_streamed():
    with CLIENT.responses.stream(model="loopwright", input="What is there?") as stream:
        numbers = [it.sequence_number for it in stream if hasattr(it, "sequence_number")]
        final = stream.get_final_response()
    assert numbers == sorted(numbers)
    assert "\n\n".join(it.content[0].text for it in final.output) == TEXT


def a_response_continues_the_previous_one():
    first = CLIENT.responses.create(model="loopwright", input="What is there?")
    again = CLIENT.responses.create(
        model="loopwright", input="And now?", previous_response_id=first.id
    )
    assert again.previous_response_id == first.id and again.status == "completed"


def a_completion_calls_a_tool_of_the_client():
    tools = [{"type": "function", "function": LOCATE}]
    messages = [{"role": "user", "content": "Where am I?"}]
    create = CLIENT.chat.completions.create
    first = create(model="loopwright", messages=messages, tools=tools).choices[0]
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert json.loads(call.function.arguments) == {"precise": True}
    result = {"role": "tool", "tool_call_id": call.id, "content": "46.9, 7.4"}
    messages += [first.message, result]
    stream = create(model="loopwright", messages=messages, tools=tools, stream=True)
    assert "".join(it.choices[0].delta.content or "" for it in stream) == WHERE


def a_response_calls_a_tool_of_the_client():
    tools = [{"type": "function", "strict": False, **LOCATE}]
    with CLIENT.responses.stream(model="loopwright", input="Where am I?", tools=tools) as stream:
        for _ in stream:
            pass
        first = stream.get_final_response()
    (call,) = [it for it in first.output if it.type == "function_call"]
    assert json.loads(call.arguments) == {"precise": True}
    output = {"type": "function_call_output", "call_id": call.call_id, "output": "46.9, 7.4"}
    # The items of the first response stand for it.
    items = [{"role": "user", "content": "Where am I?"}, *first.output, output]
    second = CLIENT.responses.create(model="loopwright", input=items, tools=tools)
    assert second.output_text == WHERE


def errors_have_types():
    for error, create in [
        (openai.UnprocessableEntityError, lambda: CLIENT.responses.create(model="x", input="a")),
        (openai.AuthenticationError, openai.OpenAI(base_url=URL, api_key="x").models.list),
    ]:
        try:
            create()
        except error:
            continue
        raise AssertionError(f"no {error}")


cases = [
    models_are_listed,
    a_completion_is_whole,
    a_completion_is_streamed,
    a_response_is_streamed,
    a_response_continues_the_previous_one,
    a_completion_calls_a_tool_of_the_client,
    a_response_calls_a_tool_of_the_client,
    errors_have_types,
]
failed = 0
for case in cases:
    try:
        case()
    except Exception as error:  # noqa: BLE001 - each case is to be reported
        failed += 1
        print(f"FAILED openai (PyPI): {case.__name__}: {error!r}", file=sys.stderr)
print(f"openai (PyPI): {len(cases) - failed} of {len(cases)} cases passed")
sys.exit(bool(failed))
