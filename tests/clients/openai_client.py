"""The OpenAI SDK for Python."""

import os
import sys

import openai

TEXT = "Let me look.\n\nNothing but hidden files: ädö."
URL = os.environ["URL"] + "/v1"
CLIENT = openai.OpenAI(base_url=URL, api_key=os.environ["TOKEN"], max_retries=0)
MESSAGES = [{"role": "user", "content": "What is there?"}]


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
