"""The description, against the service: schemathesis makes requests from it and checks the answers."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

schemathesis = pytest.importorskip("schemathesis")
checks = pytest.importorskip("schemathesis.specs.openapi.checks")

PATHS = ["/", "/plan", "/keys", "/evaluate/{id}", "/health", "/metrics"]


@pytest.fixture(scope="module")
def operations(guarded):
    schema = schemathesis.openapi.from_url(f"{guarded.url}/openapi.json")
    return {found.ok().path: found.ok() for found in schema.get_all_operations()}


def test_all_that_is_there_is_described(operations, guarded):
    assert sorted(operations) == sorted(PATHS)
    served = {route.path for route in guarded.app.routes} - {"/openapi.json", "/seal/{name}", "/page/{name}"}
    assert served == set(PATHS)


@pytest.mark.parametrize("path", PATHS)
def test_answers_are_as_described(path, operations, guarded):
    headers = {"Authorization": f"Bearer {guarded.token}"}

    @settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck), database=None)
    @given(operations[path].as_strategy())
    def check(case):
        # a schema cannot say which bytes are ciphertexts, so what it allows may be refused
        excluded = [checks.positive_data_acceptance]
        case.call_and_validate(base_url=guarded.url, headers=headers, excluded_checks=excluded)

    check()
    without = operations[path].Case(path_parameters={"id": "0"} if "{id}" in path else {})
    status = without.call(base_url=guarded.url).status_code
    assert (status == 401) == (path in ("/keys", "/evaluate/{id}", "/metrics"))
