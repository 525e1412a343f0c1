"""The deployment files use what the program accepts: commands, settings, ports, probes, extras. `make cluster` runs the
same topology."""

from __future__ import annotations

import ipaddress
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tomllib
import urllib.request
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psycopg
import pytest
import yaml  # type: ignore[import-untyped]  # it has no types
from tests.kit.children import PYTHONPATH, is_running
from tests.kit.waiting import PATIENCE, eventually_sync
from tests.nats_server import program as nats_program
from tests.redis_server import free_port
from typer.main import get_command

from clicket import Settings
from clicket.cli.app import app
from clicket.client import SyncClient
from clicket.runtime.settings.settings import KEYS

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"


def documents(path: Path) -> list[dict[str, Any]]:
    return [document for document in yaml.safe_load_all(path.read_text()) if document]


def pods() -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Every pod of the manifests: the document, and the pod's spec."""
    for path in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in documents(path):
            spec = document.get("spec", {})
            template = spec.get("template") or spec.get("jobTargetRef", {}).get("template")
            if template:
                yield document, template["spec"]


def command_lines() -> Iterator[tuple[str, list[str]]]:
    """Every command line of clicket in the files."""
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    yield "Dockerfile", json.loads(re.findall(r"^CMD (.*)$", dockerfile, re.MULTILINE)[-1])
    for name, service in documents(DEPLOY / "compose.yaml")[0]["services"].items():
        if service["image"] == "clicket":
            yield f"compose.yaml {name}", service["command"]
    for unit in sorted((DEPLOY / "systemd").glob("*.service")):
        (line,) = re.findall(r"^ExecStart=(.*)$", unit.read_text(), re.MULTILINE)
        program, *arguments = shlex.split(line.replace("%i", "9001"))
        assert program.endswith("/clicket")
        yield unit.name, arguments
    for document, pod in pods():
        for container in pod["containers"]:
            yield f"{document['kind']} {document['metadata']['name']}", container["args"]


def settings_of_files() -> Iterator[tuple[str, str]]:
    for path in DEPLOY.rglob("*"):
        if path.is_file() and path.name != "tools.py":
            for name in re.findall(r"\bCLICKET_[A-Z_]+", path.read_text()):
                yield path.name, name


def accepted(arguments: list[str]) -> dict[str, Any]:
    """Parse a command line as the program does, without running it; raises if it is not accepted."""
    root: Any = get_command(app)
    with root.make_context("clicket", list(arguments)) as context:
        name, command, rest = root.resolve_command(context, [*context._protected_args, *context.args])
        with command.make_context(name, rest, parent=context) as inner:
            return dict(inner.params)


@pytest.mark.parametrize(
    ("place", "arguments"), [*command_lines()], ids=lambda value: value if isinstance(value, str) else ""
)
def test_every_command_line_is_accepted(place: str, arguments: list[str]) -> None:
    assert accepted(arguments)


def test_the_check_of_command_lines_can_say_no() -> None:
    for wrong in (["worker", "--bursts"], ["serve", "--port", "many"], ["work"]):
        with pytest.raises(Exception, match=r"(?i)no such|valid"):
            accepted(wrong)


def test_every_setting_is_known() -> None:
    known = {f"CLICKET_{name.upper()}" for name in KEYS}
    unknown = {(place, name) for place, name in settings_of_files() if name not in known}
    assert not unknown


def environment_of(container: dict[str, Any]) -> dict[str, str]:
    """What a container of the manifests gets."""
    values: dict[tuple[str, str], dict[str, str]] = {
        (each["kind"], each["metadata"]["name"]): each.get("data") or each["stringData"]
        for each in documents(DEPLOY / "kubernetes" / "config.yaml")
    }
    kinds = {"configMapRef": "ConfigMap", "secretRef": "Secret"}
    found = [values[kinds[kind], named["name"]] for source in container["envFrom"] for kind, named in source.items()]
    own = {each["name"]: each["value"] for each in container.get("env", [])}
    return {name: value for each in (*found, own) for name, value in each.items()}


def environment_in(name: str) -> dict[str, str]:
    """A file of variables for systemd or compose."""
    lines = (DEPLOY / name).read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def test_the_values_of_the_manifests_are_accepted() -> None:
    for _, pod in pods():
        for container in pod["containers"]:
            assert Settings.load(environ=environment_of(container), file=None).store.startswith("postgresql://")
    environ = environment_in("systemd/environment")
    assert Settings.load(environ=environ).tools == ("/srv/clicket/tools.py",)
    assert Settings.load(environ={**environ, **environment_in("systemd/server-environment")}).server.allowed_hosts


# What each process needs, and no more.


def test_only_servers_get_the_keys_of_callers() -> None:
    for document, pod in pods():
        for container in pod["containers"]:
            is_server = container["args"][0] == "serve"
            assert ("CLICKET_API_KEYS" in environment_of(container)) is is_server, document["metadata"]["name"]
    services = documents(DEPLOY / "compose.yaml")[0]["services"]
    assert [name for name, each in services.items() if "CLICKET_API_KEYS" in each.get("environment", {})] == ["server"]
    assert "CLICKET_API_KEYS" not in (DEPLOY / "systemd" / "environment").read_text()
    units = {path.name: path.read_text() for path in (DEPLOY / "systemd").glob("*.service")}
    assert [name for name, text in units.items() if "server-environment" in text] == ["clicket-server.service"]


def test_pods_meet_the_restricted_standard_and_have_no_token_of_kubernetes() -> None:
    for document, pod in pods():
        name = document["metadata"]["name"]
        assert pod["automountServiceAccountToken"] is False, name
        assert pod["enableServiceLinks"] is False, name
        whole = pod["securityContext"]
        assert whole["seccompProfile"] == {"type": "RuntimeDefault"}, name
        assert whole["runAsNonRoot"] is True, name
        assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys(), name
        assert all("emptyDir" in volume for volume in pod["volumes"]), name
        for container in pod["containers"]:
            own = container["securityContext"]
            assert own["allowPrivilegeEscalation"] is False, name
            assert own["readOnlyRootFilesystem"] is True, name
            assert own["capabilities"] == {"drop": ["ALL"]}, name


def test_every_pod_has_a_network_policy_that_names_what_it_talks_to() -> None:
    policies = documents(DEPLOY / "kubernetes" / "network.yaml")
    for document, pod in pods():
        spec = document["spec"]
        label = (spec.get("template") or spec["jobTargetRef"]["template"])["metadata"]["labels"]["app"]
        (policy,) = [each["spec"] for each in policies if _selects(each["spec"]["podSelector"], label)]
        assert policy["policyTypes"] == ["Ingress", "Egress"]
        named = {port["name"] for container in pod["containers"] for port in container.get("ports", [])}
        for rule in policy["ingress"]:
            assert rule["from"], "from all the world"
            assert {port["port"] for port in rule["ports"]} <= named or not named
        reached = set()
        for rule in policy["egress"]:
            assert rule["to"], "to all the world"
            reached |= {port["port"] for port in rule["ports"]}
            for to in rule["to"]:
                if "ipBlock" in to:
                    blocked = [ipaddress.ip_network(each) for each in to["ipBlock"]["except"]]
                    for inside in ("10.96.0.1", "169.254.169.254", "172.20.0.1", "192.168.1.1", "127.0.0.1"):
                        assert any(ipaddress.ip_address(inside) in each for each in blocked), inside
        assert reached == {53, 443, 4222, 5432}


def _selects(selector: dict[str, Any], label: str) -> bool:
    wanted = [selector.get("matchLabels", {}).get("app")]
    wanted += [value for each in selector.get("matchExpressions", ()) for value in each["values"]]
    return label in wanted


def test_postgres_and_nats_are_reached_by_clicket_alone_and_with_a_password() -> None:
    compose = documents(DEPLOY / "compose.yaml")[0]
    services = compose["services"]
    assert compose["networks"]["backend"] == {"internal": True}
    for name in ("postgres", "nats"):
        assert services[name]["networks"] == ["backend"]
        assert "ports" not in services[name]
        assert services[name]["security_opt"] == ["no-new-privileges:true"]
    for name in ("server", "worker"):
        assert services[name]["networks"] == ["default", "backend"]
    environment = services["worker"]["environment"]
    assert "${NATS_PASSWORD:?" in environment["CLICKET_NOTICES"]
    assert "${NATS_PASSWORD:?" in services["nats"]["environment"]["NATS_PASSWORD"]
    assert {"POSTGRES_PASSWORD", "NATS_PASSWORD", "CLICKET_API_KEYS"} == environment_in("example.env").keys()
    assert not any(environment_in("example.env").values()), "there are no secrets by default"
    (mounted,) = services["nats"]["volumes"]
    assert (DEPLOY / mounted.split(":")[0]).exists()
    for _, pod in pods():
        for container in pod["containers"]:
            assert "@" in environment_of(container)["CLICKET_NOTICES"]
    assert "@" in environment_in("systemd/environment")["CLICKET_NOTICES"]


def test_nats_refuses_clients_without_the_password() -> None:
    port, password = free_port(), "b0b7c4a0a1d94e7e"
    process = subprocess.Popen(
        [nats_program(), "--config", str(DEPLOY / "nats.conf"), "--addr", "127.0.0.1", "--port", str(port)],
        env={"NATS_PASSWORD": password}, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        answer = eventually_sync(lambda: _greeted(port, {"user": "clicket", "pass": password}), timeout=60)
        assert answer.startswith("PONG")
        for wrong in ({}, {"user": "clicket", "pass": "wrong"}, {"user": "other", "pass": password}):
            assert "Authorization Violation" in _greeted(port, wrong)
    finally:
        process.kill()
        process.wait()


def _greeted(port: int, client: dict[str, str]) -> str:
    """What NATS answers to a client's first lines; empty: it does not listen."""
    with suppress(ConnectionRefusedError), socket.create_connection(("127.0.0.1", port), timeout=30) as line:
        read = line.makefile("r")
        assert read.readline().startswith("INFO")
        line.sendall(f"CONNECT {json.dumps({'verbose': False, **client})}\r\nPING\r\n".encode())
        return read.readline()
    return ""


def test_probes_ask_what_the_processes_serve_on_ports_that_they_open() -> None:
    probed = set()
    for document, pod in pods():
        for container in pod["containers"]:
            ports = {each["name"]: each["containerPort"] for each in container.get("ports", [])}
            options = accepted(container["args"])
            opened = options.get("health_port") or options.get("port")
            for kind in ("startupProbe", "livenessProbe", "readinessProbe"):
                if kind in container:
                    probe = container[kind]["httpGet"]
                    assert ports[probe["port"]] == opened, document["metadata"]["name"]
                    probed.add((container["args"][0], probe["path"]))
            if ports:
                assert (options.get("health_host") or options["host"]) == "0.0.0.0"
            assert pod["securityContext"]["runAsNonRoot"]
            assert pod["terminationGracePeriodSeconds"] > 10
    assert probed == {("serve", "/healthz"), ("serve", "/readyz"), ("worker", "/livez"), ("worker", "/readyz")}
    compose = documents(DEPLOY / "compose.yaml")[0]["services"]
    assert ":8000/readyz" in compose["server"]["healthcheck"]["test"][-1]
    assert ":9000/livez" in compose["worker"]["healthcheck"]["test"][-1]
    assert set(compose) == {"postgres", "nats", "server", "worker"}
    assert compose["worker"]["deploy"]["replicas"] == 2


def test_the_manifests_name_each_other() -> None:
    found = {
        (each["kind"], each["metadata"]["name"])
        for path in (DEPLOY / "kubernetes").glob("*.yaml")
        for each in documents(path)
        if "metadata" in each
    }
    assert {("ConfigMap", "clicket"), ("Secret", "clicket"), ("Service", "clicket")} <= found
    listed = documents(DEPLOY / "kubernetes" / "kustomization.yaml")[0]["resources"]
    assert sorted(listed) == sorted(
        path.name for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.name != "kustomization.yaml"
    )
    scaled = [each for each in documents(DEPLOY / "kubernetes" / "keda.yaml") if each["kind"] == "ScaledObject"]
    for each in scaled:
        assert ("Deployment", each["spec"]["scaleTargetRef"]["name"]) in found
    for _, pod in pods():
        for container in pod["containers"]:
            for source in container["envFrom"]:
                ((kind, named),) = source.items()
                assert ({"configMapRef": "ConfigMap", "secretRef": "Secret"}[kind], named["name"]) in found


def test_the_image_is_built_from_files_and_extras_that_exist_and_is_not_roots() -> None:
    text = (DEPLOY / "Dockerfile").read_text()
    stages = re.findall(r"^FROM (\S+)", text, re.MULTILINE)
    assert len(stages) == 2
    for line in re.findall(r"^COPY (?!--from)(.*)$", text, re.MULTILINE):
        *sources, _ = line.split()
        assert all((ROOT / source).exists() for source in sources), line
        ignore = (DEPLOY / "Dockerfile.dockerignore").read_text()
        assert all(f"!{source}" in ignore for source in sources), line
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)", text, re.MULTILINE)
    known = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    assert set(extras.split(",")) <= set(known)
    (user,) = re.findall(r"^USER (\d+):", text, re.MULTILINE)
    assert int(user) > 0


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not on this machine")
def test_systemd_accepts_the_units(tmp_path: Path) -> None:
    units = sorted((DEPLOY / "systemd").glob("*.service"))
    for unit in units:
        (tmp_path / unit.name).write_text(unit.read_text().replace("/opt/clicket/bin/clicket", "/bin/true"))
    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *(str(tmp_path / unit.name) for unit in units)],
        capture_output=True, text=True, check=False, env={**os.environ, "SYSTEMD_UNIT_PATH": f"{tmp_path}:"},
    )  # fmt: skip
    ours = [line for line in done.stderr.splitlines() if "clicket" in line]
    assert not ours, done.stderr


# The same topology as processes.


class Cluster:
    def __init__(self, folder: Path) -> None:
        self._out = folder / "out"
        environment = {key: value for key, value in os.environ.items() if not key.startswith("CLICKET_")}
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                [sys.executable, str(ROOT / "scripts" / "cluster.py"), "--json"],
                env={**environment, "PYTHONPATH": PYTHONPATH, "CLICKET_LEASE": "1", "CLICKET_CLOSE_TIMEOUT": "1"},
                stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT,
            )  # fmt: skip

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self._out.read_text().splitlines() if line.startswith("{")]

    def wait_for(self, event: str) -> dict[str, Any]:
        def said() -> Any:
            found = [line for line in self.lines() if line["event"] == event]
            assert found or self.process.poll() is None, self._out.read_text()
            return found

        found: dict[str, Any] = eventually_sync(said)[0]
        return found

    def stop(self) -> int:
        self.process.send_signal(signal.SIGINT)
        return self.process.wait(PATIENCE)


def test_the_cluster_runs_calls_and_survives_the_death_of_a_worker(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path)
    try:
        facts = cluster.wait_for("ready")
        pids = {worker["id"]: worker["pid"] for worker in facts["workers"]}
        with SyncClient(facts["url"]) as client:
            assert client.call("greet", {"name": "you"}).output == "Hello, you!"
            assert {worker.id for worker in client.workers.list() if worker.role == "worker"} == set(pids)
            handle = client.submit("count", {"to": 5, "pause": 0.2})
            first = eventually_sync(lambda: client.get(handle.id).worker)
            assert _backlog(facts["store"]) == 0
            os.kill(pids[first], signal.SIGKILL)
            assert handle.result(timeout=PATIENCE).output == 5
            workers = [attempt.worker for attempt in client.get(handle.id).attempts]
            assert (workers[0], len(workers), workers[0] != workers[-1]) == (first, 2, True)
            assert {worker.id: worker.state for worker in client.workers.list()}[first] == "lost"
            alive = next(worker for worker in facts["workers"] if worker["id"] != first)
            with urllib.request.urlopen(f"http://127.0.0.1:{alive['health_port']}/metrics", timeout=30) as page:
                assert b'clicket_tool_executions_total{state="completed",tool="greet"}' in page.read()
        assert cluster.wait_for("ended")["exit_code"] == -signal.SIGKILL
        assert cluster.stop() == 0
        assert not any(is_running(pid) for pid in (*pids.values(), facts["server"]["pid"]))
    finally:
        if cluster.process.poll() is None:
            cluster.stop()


def _backlog(store: str) -> int:
    """KEDA's query to PostgreSQL."""
    jobs = [each for each in documents(DEPLOY / "kubernetes" / "keda.yaml") if each["kind"] == "ScaledJob"]
    (query,) = [trigger["metadata"]["query"] for each in jobs for trigger in each["spec"]["triggers"]]
    with psycopg.connect(store) as connection:
        row = connection.execute(query).fetchone()
        assert row is not None
        return int(row[0])
