"""The interface keeps to /openapi.json, whatever is sent.

Every answer has a status and a type that the document names, and is never a 500.
"""

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.core.result import Ok
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from tests.serve.launch import RunningServer

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]


@pytest.mark.parametrize(
    "examples", [pytest.param(15, id="some"), pytest.param(400, id="many", marks=pytest.mark.slow)]
)
def test_every_operation_answers_as_it_is_described(server: RunningServer, examples: int) -> None:
    schema = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    operations = [one.ok() for one in schema.get_all_operations() if isinstance(one, Ok)]
    assert len(operations) == 11
    for operation in operations:
        try_it(operation, server.url, examples)


def try_it(operation: Any, url: str, examples: int) -> None:
    """Send values that the document allows, and others."""

    @given(data=st.data())
    @settings(
        max_examples=examples, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    def conforms(data: st.DataObject) -> None:
        mode = data.draw(st.sampled_from(list(GenerationMode)))
        case = data.draw(operation.as_strategy(generation_mode=mode))
        case.call_and_validate(base_url=url, checks=CHECKS)

    conforms()
