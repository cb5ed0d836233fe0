"""Where it goes: settings and environment, a collector that is dead or hangs, and a machine without the extra."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from scrout import telemetry
from scrout.base import ConfigError
from scrout.config.loading import discover, load
from scrout.config.settings import Settings
from scrout.observer import SILENT
from scrout.pipeline import open_kit, open_task
from scrout.sandbox.tier import Tier
from scrout.telemetry import exporter

if TYPE_CHECKING:
    from conftest import Collector, Story


NOTHING = "nothing here can be reproduced"
"""An issue that is soon dealt with."""


def on(**more: object) -> Settings:
    return Settings.model_validate({"telemetry": {"enabled": True, **more}})


@pytest.fixture(params=[pytest.param("refuses", marks=pytest.mark.slow), "hangs"])
def dead(request: pytest.FixtureRequest) -> Iterator[str]:
    """A collector that nobody answers at: its port is closed, or takes a connection and says nothing."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        if request.param == "hangs":
            listener.listen()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"


def test_a_run_does_not_notice_a_dead_collector(dead: str, tell: Story, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry, "flush", lambda timeout_s: True)
    run, _ = tell(on(endpoint=dead), NOTHING)
    assert run.outcome == "not_solved"
    monkeypatch.undo()
    assert telemetry.flush(0.2) is False


@pytest.mark.parametrize("dead", ["refuses", pytest.param("hangs", marks=pytest.mark.slow)], indirect=True)
@pytest.mark.slow
def test_a_command_ends_in_time_and_says_what_was_lost(
    dead: str, make_repo: Callable[..., Path], files: dict[str, str], tmp_path: Path, tier: Tier
) -> None:
    """As a process: its exit waits a bounded time, and the exit code is the run's."""
    (tmp_path / "issue.md").write_text(NOTHING)
    argv = ["fix", "--repo", str(make_repo(files)), "--issue", str(tmp_path / "issue.md"), "--json"]
    given = ["-c", "telemetry.enabled=true", "-c", f"telemetry.endpoint={dead}"]
    # The exporter's own patience is ten times longer than the test's.
    env = {**os.environ, "OTEL_EXPORTER_OTLP_TIMEOUT": "600"}
    done = subprocess.run(
        [sys.executable, "-m", "scrout", *argv, *given], capture_output=True, text=True, timeout=60, env=env
    )
    assert done.returncode == 1 and json.loads(done.stdout)["outcome"] == "not_solved", done.stderr
    assert f"telemetry: {dead} did not take 6 spans" in done.stderr and "Traceback" not in done.stderr
    assert "opentelemetry" not in done.stderr.lower()


def test_a_command_sends_all_before_it_ends(
    collector: Collector, make_repo: Callable[..., Path], files: dict[str, str], tmp_path: Path, tier: Tier
) -> None:
    (tmp_path / "issue.md").write_text(NOTHING)
    argv = ["fix", "--repo", str(make_repo(files)), "--issue", str(tmp_path / "issue.md"), "--json"]
    env = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": collector.url}
    done = subprocess.run(
        [sys.executable, "-m", "scrout", *argv, "-c", "telemetry.enabled=true"], capture_output=True, text=True, env=env
    )
    assert done.returncode == 1 and "telemetry" not in done.stderr, done.stderr
    assert len(collector.spans) == 6 and "scrout.runs" in collector.metrics


def test_the_environment_is_honoured_and_the_file_goes_first(
    collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "x-team=blue")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci,service.instance.id=mine")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from-the-environment")
    for given in (on(), on(service_name="from-the-file")):
        exporter.open_exporter(given.telemetry).span("scrout.run", None, {}).end()
    telemetry.flush(20)
    assert {told["x-team"] for told in collector.headers} == {"blue"}
    assert {told["content-encoding"] for told in collector.headers} == {"gzip"}
    resources = [span.resource for span in collector.named("scrout.run")]
    assert [one["service.name"] for one in resources] == ["from-the-environment", "from-the-file"]
    assert {one["deployment.environment.name"] for one in resources} == {"ci"}
    assert {one["service.instance.id"] for one in resources} == {"mine"}


def test_the_environment_can_turn_it_off(
    collector: Collector, tell: Story, config: Callable[..., Settings], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    run, _ = tell(config(), NOTHING)
    assert run.outcome == "not_solved" and collector.bodies == []


def test_a_variable_that_makes_no_sense_is_an_error_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "soon")
    with pytest.raises(ConfigError, match=r"OTEL_.*telemetry.enabled=false"):
        telemetry.require(on())


def test_without_the_extra_it_says_what_to_install(
    make_repo: Callable[..., Path], files: dict[str, str], issue: str, tier: Tier, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(sys.modules, "scrout.telemetry.exporter")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    task = open_task(make_repo(files), issue)
    with open_kit(task, on()) as kit, pytest.raises(ConfigError, match=r"pip install 'scrout\[otel\]'"):
        kit.open(task)
    with open_kit(task, on()) as kit:
        assert kit.ledger.runs() == []


def test_off_nothing_of_it_is_imported() -> None:
    code = (
        "import sys, scrout.pipeline, scrout.batch.session, scrout.agent.loop\n"
        "from scrout import telemetry\n"
        "from scrout.config.settings import Settings\n"
        "assert not telemetry.is_on(Settings()) and telemetry.require(Settings()) is None and telemetry.flush()\n"
        "print([name for name in sys.modules if name.startswith(('opentelemetry', 'google', 'requests'))])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_settings_shape_no_run(collector: Collector) -> None:
    assert on(endpoint=collector.url, content=True, service_name="x").digest() == Settings().digest()
    assert telemetry.watch(Settings(), None, None, attempts=Path()) is SILENT  # type: ignore[arg-type]


@pytest.mark.parametrize("line", ["enabled = true", "content = true", 'endpoint = "http://127.0.0.1:1"'])
def test_a_file_that_came_with_a_clone_may_not_speak_of_it(tmp_path: Path, line: str) -> None:
    (tmp_path / "scrout.toml").write_text(f"[telemetry]\n{line}\n")
    with pytest.raises(ConfigError, match="telemetry"):
        discover(tmp_path)
    assert load(tmp_path / "scrout.toml").telemetry != Settings().telemetry


@pytest.mark.parametrize("endpoint", ["localhost:4318", "ftp://h", "http://", "http://h:99999", "http://h/?key=1"])
def test_an_endpoint_is_an_address(endpoint: str) -> None:
    with pytest.raises(ValueError, match="4318"):
        on(endpoint=endpoint)


def test_an_endpoint_holds_no_password() -> None:
    with pytest.raises(ValueError, match="OTEL_EXPORTER_OTLP_HEADERS"):
        on(endpoint="http://ada:pw@h:4318")
    assert on(endpoint="http://h:4318/").telemetry.endpoint == "http://h:4318"


def test_a_run_that_nobody_ended_is_told_at_the_end(
    collector: Collector,
    config: Callable[..., Settings],
    make_repo: Callable[..., Path],
    files: dict[str, str],
    issue: str,
    tier: Tier,
) -> None:
    given = config()
    task = open_task(make_repo(files), issue)
    with open_kit(task, given) as kit:
        kit.open(task)
    known = exporter.open_exporter(given.telemetry)
    known.leave()
    telemetry.flush(20)
    (root,) = collector.named("scrout.run")
    assert root["scrout.outcome"] == "interrupted" and known.lost == 0
