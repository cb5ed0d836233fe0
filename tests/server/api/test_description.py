"""The description and the server say the same, whatever is sent."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

pytest.importorskip("schemathesis", reason="the extra dev is not installed")

import schemathesis
from schemathesis import GenerationMode, checks

if TYPE_CHECKING:
    from conftest import Api
    from schemathesis import Case

checks.load_all_checks()
CHECKS = checks.CHECKS.get_by_names(
    [
        "not_a_server_error",
        "status_code_conformance",
        "content_type_conformance",
        "response_headers_conformance",
        "response_schema_conformance",
        "negative_data_rejection",
        "missing_required_header",
        "unsupported_method",
        "allow_header_conformance",
        "ignored_auth",
    ]
)
"""Not that all that fits a form is taken: a repository need not exist, and one job at a time is enough."""

NAMES = [
    *("scout", "gate", "route", "fix", "jobs", "job", "call_off", "events", "budget", "models", "chat"),
    *("openapi", "health"),
]


def _send(name: str, api: Api) -> None:
    """Requests that fit the description of one operation, and as many that do not."""
    operation = schemathesis.openapi.from_dict(api.client.get("/openapi.json").json()).find_operation_by_id(name)
    headers = {"Authorization": api.client.headers["authorization"]}
    known = api.client.post("/v1/route", json={"issue": "the total is wrong"}).json()["id"]

    def send(case: Case) -> None:
        if isinstance(wait := case.query.get("wait"), int | float) and 1 < wait <= 60:  # that would be waited for
            case.query["wait"] = 1
        left_out = [] if _arrives(case) else checks.CHECKS.get_by_names(["negative_data_rejection"])
        if len(json.dumps(case.body, default=str)) > 8_000_000:  # 413 is a refusal that the check does not know
            left_out = checks.CHECKS.get_by_names(["negative_data_rejection"])
        case.call_and_validate(base_url=api.url, headers=headers, checks=CHECKS, excluded_checks=left_out)

    def send_of_known(case: Case) -> None:
        if len(case.path_parameters.get("job", "")) % 2:
            case.path_parameters["job"] = known
        send(case)

    few = settings(
        max_examples=min(30, settings().max_examples),  # each is a request with its answer, checked in ten ways
        deadline=None,
        database=None,
        derandomize=True,  # what fails once fails again
        suppress_health_check=list(HealthCheck),
    )
    few(given(operation.as_strategy(generation_mode=GenerationMode.POSITIVE))(send_of_known))()
    with suppress(Unsatisfiable):  # some take whatever comes
        few(given(operation.as_strategy(generation_mode=GenerationMode.NEGATIVE))(send))()


def _arrives(case: Case) -> bool:
    """Whether what may be wrong with a request gets to the server: an empty list in a query leaves no trace in the
    address, and the token is sent whatever the case has in its place."""
    return "Authorization" in (case.headers or {}) and all(value not in ([], {}) for value in case.query.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_what_is_sent_is_answered_as_described(name: str, shared: Api) -> None:
    _send(name, shared)
