from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from knowledge_worker._bundled import load_api
from knowledge_worker.domain.document import content_hash
from knowledge_worker.domain.filters import CONDITIONS_MAX, OPERATORS, VALUES_MAX

load_api()
from knowledge_worker_api.views import View  # noqa: E402


@pytest.fixture
def document(client: TestClient) -> dict[str, Any]:
    return client.get("/openapi.json").json()


def operations(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {
        f"{method.upper()} {path}": operation
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    }


def test_every_route_is_described_with_every_status(document: dict[str, Any]) -> None:
    always = {"400", "401", "403", "500", "503"}
    assert {name: set(operation["responses"]) for name, operation in operations(document).items()} == {
        "GET /knowledge/collections": {"200"} | always,
        "POST /knowledge/collections": {"201", "409", "413"} | always,
        "GET /knowledge/collections/{name}": {"200", "404"} | always,
        "DELETE /knowledge/collections/{name}": {"204", "404", "409"} | always,
        "GET /knowledge/collections/{name}/documents": {"200", "404"} | always,
        "POST /knowledge/collections/{name}/documents/batch": {"200", "404", "409"} | always,
        "GET /knowledge/collections/{name}/documents/{id}": {"200", "304", "404"} | always,
        "PUT /knowledge/collections/{name}/documents/{id}": {"200", "202", "404", "409", "412", "413"} | always,
        "DELETE /knowledge/collections/{name}/documents/{id}": {"204", "404", "409", "412"} | always,
        "POST /knowledge/hooks/{name}": {"202", "404", "413"} | always - {"403"},
        "POST /knowledge/collections/{name}/sync": {"202", "404", "413"} | always,
        "GET /knowledge/collections/{name}/passes": {"200", "404"} | always,
        "GET /knowledge/collections/{name}/plan": {"200", "404", "502"} | always,
        "POST /knowledge/search": {"200", "404", "409", "413"} | always,
        "GET /knowledge/search": {"200", "404", "409"} | always,
        "GET /healthz": {"200"},
        "GET /readyz": {"200", "500", "503"},
        "GET /metrics": {"200", "401", "500"},
        "GET /": {"200"},
    }


def test_a_token_is_asked_for_below_the_base_only(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    secured = {
        name: operation["security"] for name, operation in operations(document).items() if "security" in operation
    }
    hook = "POST /knowledge/hooks/{name}"
    assert secured.pop(hook) == [{"hookSignature": []}]
    assert secured == {name: [{"token": []}] for name in operations(document) if " /knowledge" in name and name != hook}
    assert document["components"]["securitySchemes"]["hookSignature"]["name"] == "X-Hub-Signature-256"


def test_no_422_and_no_dangling_reference(document: dict[str, Any]) -> None:
    text = json.dumps(document)
    assert "ValidationError" not in text
    assert '"422"' not in text
    named = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    references = {part.split('"')[0] for part in text.split('"$ref": "')[1:]}
    assert references <= named


def test_the_search_body_is_described(document: dict[str, Any]) -> None:
    body = operations(document)["POST /knowledge/search"]["requestBody"]
    schema = body["content"]["application/json"]["schema"]
    assert body["required"] is True
    assert set(schema["properties"]) == {
        "query", "collections", "topK", "minScore", "mode", "filters", "perDocument", "explain",
    }  # fmt: skip
    assert schema["required"] == ["query"]
    assert schema["additionalProperties"] is False
    assert schema["properties"]["topK"]["maximum"] == 20


def test_the_conditions_of_a_search_are_described(document: dict[str, Any]) -> None:
    body = operations(document)["POST /knowledge/search"]["requestBody"]["content"]["application/json"]["schema"]
    filters = next(one for one in body["properties"]["filters"]["anyOf"] if "properties" in one)
    conditions = next(one for one in filters["properties"]["metadata"]["anyOf"] if "additionalProperties" in one)
    (operators,) = [one for one in conditions["additionalProperties"]["anyOf"] if one["type"] == "object"]
    assert tuple(operators["properties"]) == OPERATORS
    assert operators["additionalProperties"] is False
    assert operators["properties"]["in"]["maxItems"] == VALUES_MAX
    assert operators["properties"]["gte"]["type"] == ["string", "number"]
    assert conditions["maxProperties"] == CONDITIONS_MAX


def test_the_sync_body_is_described_and_may_be_left_out(document: dict[str, Any]) -> None:
    operation = operations(document)["POST /knowledge/collections/{name}/sync"]
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    assert operation["requestBody"]["required"] is False
    assert {name: value["type"] for name, value in schema["properties"].items()} == {
        "force": "boolean",
        "confirmDeletes": "boolean",
    }
    assert "required" not in schema
    assert schema["additionalProperties"] is False
    assert {one["name"] for one in operation["parameters"]} == {"name", "force", "confirmDeletes"}


def test_the_parameters_of_a_link_are_described(document: dict[str, Any]) -> None:
    parameters = operations(document)["GET /knowledge/search"]["parameters"]
    assert [one["name"] for one in parameters] == [
        "q", "collection", "collections", "topK", "minScore", "mode", "idPrefix", "source", "perDocument", "explain",
    ]  # fmt: skip


def parameters(document: dict[str, Any]) -> list[dict[str, Any]]:
    return [one for operation in operations(document).values() for one in operation.get("parameters", [])]


def test_every_number_in_a_query_string_is_described_with_its_bounds(document: dict[str, Any]) -> None:
    bounds = {
        one["name"]: (one["schema"]["minimum"], one["schema"]["maximum"])
        for one in parameters(document)
        if one["schema"].get("type") in ("integer", "number")
    }
    counts = 2**63 - 1
    assert bounds == {
        "limit": (1, 100),
        "page[limit]": (1, counts),
        "page[offset]": (0, counts),
        "topK": (1, 20),
        "perDocument": (1, 20),
        "minScore": (-1, 1),
    }


def test_the_lengths_of_texts_in_a_query_string_are_described(document: dict[str, Any]) -> None:
    schemas = {one["name"]: one["schema"] for one in operations(document)["GET /knowledge/search"]["parameters"]}
    lengths = {name: (schemas[name]["minLength"], schemas[name]["maxLength"]) for name in ("q", "idPrefix", "source")}
    assert lengths == {"q": (1, 1000), "idPrefix": (1, 255), "source": (1, 1000)}


def test_a_parameter_that_may_be_left_out_is_never_null(document: dict[str, Any]) -> None:
    assert [one["name"] for one in parameters(document) if '"null"' in json.dumps(one)] == []


def test_a_search_by_words_with_a_cosine_is_described_as_wrong(document: dict[str, Any]) -> None:
    body = operations(document)["POST /knowledge/search"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["not"]["required"] == ["mode", "minScore"]
    assert body["not"]["properties"]["mode"] == {"const": "lexical"}


def test_a_field_that_may_be_absent_is_never_null(document: dict[str, Any]) -> None:
    view = document["components"]["schemas"]["CollectionView"]
    assert view["properties"]["retryAt"] == {
        "description": "Nothing is tried before it; with an error and without it, until it is declared anew.",
        "format": "date-time",
        "title": "Retryat",
        "type": "string",
    }
    assert "retryAt" not in view["required"]
    assert "updatedAt" in view["required"]


def test_every_parameter_body_and_answer_has_an_example(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]

    def has_example(part: dict[str, Any]) -> bool:
        schema = part.get("schema", {})
        referred = schemas[schema["$ref"].rpartition("/")[2]] if "$ref" in schema else {}
        return "example" in part or bool({"examples", "default"} & {*schema, *referred})

    parts = {
        f"{name} {where} {media_type}": part
        for name, operation in operations(document).items()
        for where, holder in (("body", operation.get("requestBody", {})), *operation["responses"].items())
        for media_type, part in holder.get("content", {}).items()
    }
    parts |= {
        f"{name} {one['name']}": one
        for name, operation in operations(document).items()
        for one in operation.get("parameters", [])
    }
    assert len(parts) > 120
    assert [name for name, part in parts.items() if not has_example(part)] == []


def views() -> list[type[View]]:
    found, open_ends = list[type[View]](), [View]
    while open_ends:
        found += (below := open_ends.pop().__subclasses__())
        open_ends += below
    return found


def test_every_example_of_an_answer_is_one(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    checked = 0
    for view in views():
        for example in schemas.get(view.__name__, {}).get("examples", []):
            assert view.model_validate(example).model_dump(mode="json", by_alias=True) == example
            checked += 1
    assert checked > 12
    shown = schemas["DocumentView"]["examples"][0]
    assert shown["hash"] == content_hash(shown["content"])


def test_operations_have_plain_names(document: dict[str, Any]) -> None:
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(names) == len(set(names))
    assert {"search", "list_collections", "sync_collection"} <= set(names)
