"""Checks what agents wrote against the JSON schema of the protocol.

`validate.py SCHEMA LOG …`: fails if a message does not fit, or has a field that the schema does not have.
"""
import json
import sys
from collections import Counter

from jsonschema import Draft202012Validator

with open(sys.argv[1], encoding="utf-8") as file:
    SCHEMA = json.load(file)
DEFS = SCHEMA["$defs"]
METHODS = {}
for name, definition in DEFS.items():
    if "x-method" in definition:
        kind = "response" if name.endswith("Response") else "request"
        METHODS[definition["x-method"], kind] = name


def fields(schema, seen=()):
    """Returns the names of all fields that a schema has, in whatever alternative."""
    names = set(schema.get("properties", {}))
    reference = schema.get("$ref")
    if reference and reference not in seen:
        names |= fields(DEFS[reference.rsplit("/", 1)[1]], (*seen, reference))
    for key in ("allOf", "anyOf", "oneOf"):
        for part in schema.get(key, []):
            names |= fields(part, seen)
    return names


def check(name, value):
    validator = Draft202012Validator({"$ref": f"#/$defs/{name}", "$defs": DEFS})
    problems = [f"{name}: {error.message[:300]}" for error in validator.iter_errors(value)]
    unknown = set(value) - fields(DEFS[name])
    problems += [f"{name}: unknown field {field}" for field in unknown]
    if name == "SessionNotification":
        kind = value["update"]["sessionUpdate"]
        matching = [it for it in DEFS["SessionUpdate"]["oneOf"] if it["properties"]["sessionUpdate"]["const"] == kind]
        known = set().union(*(fields(it) for it in matching))
        problems += [f"{kind}: unknown field {field}" for field in set(value["update"]) - known]
    return problems


def main():
    counts, problems = Counter(), []
    for path in sys.argv[2:]:
        asked = {}
        with open(path, encoding="utf-8") as log:
            for line in log:
                message = json.loads(line[1:])
                method, is_agent = message.get("method"), line[0] == "<"
                if not is_agent:
                    if method == "initialize":
                        asked = {}
                    if method and "id" in message:
                        asked[message["id"]] = method
                    continue
                if set(message) - {"jsonrpc", "id", "method", "params", "result", "error"}:
                    problems.append(f"unknown fields in {line[:200]}")
                if method:
                    name = METHODS[method, "request"]
                    found = check(name, message["params"])
                elif "error" in message:
                    name, found = "Error", check("Error", message["error"])
                else:
                    name = METHODS[asked[message["id"]], "response"]
                    found = check(name, message["result"])
                counts[name] += 1
                problems += [f"{path}: {problem}" for problem in found]
    for name, count in sorted(counts.items()):
        print(f"  {count:5} {name}")
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{sum(counts.values())} messages, {len(problems)} problems")
    sys.exit(1 if problems or not counts else 0)


main()
