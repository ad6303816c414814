"""The page about the HTTP API: what it promises, then every route from its OpenAPI document."""

from collections.abc import Iterator, Mapping
from typing import Any

from crawl_pipeline.api import guarding, routes

HEAD = """# HTTP API

{made}

```console
$ crawl serve --port 8090 --token-file tokens
```

serves what stands below under `/api/v1`, its OpenAPI document at `/api/v1/openapi.json`, and a live status page at
`/`. How to run it, and who may come in, is told in [operations.md](operations.md#http-api). An order given here is
the row of `orders` that the command of the same name gives, checked by the same rules; it holds from the next round
of its bucket on.

![The status page while the demo crawls](pictures/status.png)

```sh
CRAWL_API_TOKEN=TOKEN      # the one that `crawl serve` showed; it stands in the tokens file too
api() {{ curl --silent --header "Authorization: Bearer $CRAWL_API_TOKEN" "http://127.0.0.1:8090/api/v1/$@"; }}
api status
api host/www.example.org/pause --request POST --header "Idempotency-Key: complaint-17"
api seeds --json '{{"urls": ["https://www.example.org/"], "priority": "high"}}'
api crawl/policy --json '{{"per_host_qps": 0.3, "max_depth": 20, "per_host_daily_budget": 50000}}'
api orders?host=www.example.org
api explain --get --data-urlencode "url=https://www.example.org/"
```

**Once.** With `Idempotency-Key` a request may be repeated at will, also after a restart or to another server of the
same lake: it is one order, and its answer is the first one. The key stands in `orders.request_key` and belongs to the
token's name; with another request it is refused. All of a request is ordered or, if anything is wrong with it,
nothing.

**Refusals** are `application/problem+json` (RFC 9457) with what was expected, what was found and what to do:
{refusals}. A body has at most {bytes:,} bytes; of a longer list send parts, each with a key of its own.
"""


def page(made: str) -> str:
    """The whole page."""
    document = routes.document()
    refusals = ", ".join(f"{code} {said['description'].rstrip('.').lower()}" for code, said in routes.REFUSALS.items())
    head = HEAD.format(made=made, bytes=guarding.MOST_BYTES, refusals=refusals)
    parts = [_operation(method, path, operation, document) for path, operations in document["paths"].items()
             for method, operation in operations.items()]  # fmt: skip
    return "\n".join([head, *parts, *(_model(name, document) for name in ANSWERS)])


def _operation(method: str, path: str, operation: Mapping[str, Any], document: Mapping[str, Any]) -> str:
    rows = [_row(one["name"], one["in"], one["schema"], one.get("required", False), one.get("description"))
            for one in operation.get("parameters", []) if one["name"] != "Idempotency-Key"]  # fmt: skip
    body = operation.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema")
    rows += list(_fields(body, "body", document)) if body else []
    table = "".join(f"| {' | '.join(row)} |\n" for row in [("name", "in", "what"), ("---", "---", "---"), *rows])
    told = next((code, answer) for code, answer in operation["responses"].items() if code.startswith("2"))
    schema = told[1].get("content", {}).get("application/json", {}).get("schema")
    name = _type(schema) if schema else ""
    answer = f"[{name}](#{name.lower()})" if name else "`text/event-stream` of [Status](#status)"
    said = f"{operation['summary']}. Answer: {told[0]}, {answer}."
    return f"## {method.upper()} {path}\n\n{said}\n" + (f"\n{table}" if rows else "")


def _model(name: str, document: Mapping[str, Any]) -> str:
    schema = document["components"]["schemas"][name]
    rows = [(f"`{field}`", _type(of), of.get("description", "")) for field, of in schema["properties"].items()]
    table = "".join(f"| {' | '.join(row)} |\n" for row in [("name", "type", "what"), ("---", "---", "---"), *rows])
    return f"## {name}\n\n{schema['description']}\n\n{table}"


ANSWERS = ("Given", "Order", "Orders", "InForce", "Set", "Status", "Stall", "Explanation", "Problem", "Mistake")


def _fields(schema: Mapping[str, Any], where: str, document: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    found = _resolved(schema, document)
    for name, field in found.get("properties", {}).items():
        yield _row(name, where, field, name in found.get("required", ()) and where == "body", field.get("description"))


def _row(name: str, where: str, schema: Mapping[str, Any], required: bool, says: str | None) -> tuple[str, str, str]:
    parts = [_type(schema), "must be given" if required else "", says or schema.get("description", "")]
    return f"`{name}`", where, "; ".join(part for part in parts if part).replace("|", "\\|")


def _type(schema: Mapping[str, Any]) -> str:
    """A JSON schema in a reader's words."""
    if "$ref" in schema:
        return str(schema["$ref"]).rpartition("/")[2]
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(_type(one) for one in schema["anyOf"]))
    if "enum" in schema or "const" in schema:
        return " or ".join(f"`{str(one).lower()}`" for one in schema.get("enum", [schema.get("const")]))
    kind = str(schema.get("type", "any value"))
    if kind == "array":
        most = f", {schema['maxItems']:,} at most" if "maxItems" in schema else ""
        return f"list of {_type(schema.get('items', {}))}{most}"
    least, most = (schema.get(key) for key in ("minimum", "maximum"))
    return f"{kind}, {least:g} to {int(most):,}" if least is not None and most is not None and most < 2**32 else kind


def _resolved(schema: Mapping[str, Any], document: Mapping[str, Any]) -> Mapping[str, Any]:
    if "$ref" not in schema:
        return schema
    found: Mapping[str, Any] = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    return found
