"""
Asks a server everything that KonfAI's Python helpers and the 3D Slicer extension ask, through KonfAI's own classes, and
prints the answers as a JSON object: `helpers.py HOST PORT TOKEN APP SCAN OUTPUT`. Of what changes with time, such as used
memory, it prints whether it is right; of errors, the type and the text without what names the server or the job.
"""

import contextlib
import hashlib
import io
import json
import re
import sys
from dataclasses import asdict
from pathlib import Path

from konfai import RemoteServer, check_server, get_available_devices, get_ram, get_vram
from konfai_apps import KonfAIAppClient
from konfai_apps.app_repository import (
    current_free_vram,
    get_app_repository_info,
    get_available_apps_on_remote_server,
)

host, port, token, app, scan, output = sys.argv[1:]
server = RemoteServer(host, int(port), token)
strangers = RemoteServer(host, int(port), "a-wrong-token")
answers: dict[str, object] = {}


def plain(text: str) -> str:
    """A message without what differs from one server or job to another."""
    return re.sub(r"\b[0-9a-f]{12}\b", "JOB", text.replace(f"{host}:{port}", "SERVER"))


def ask(name: str, question) -> None:
    try:
        answers[name] = question()
    except Exception as error:
        answers[name] = plain(f"{type(error).__name__}: {error}")


def memory_is_right() -> bool:
    used, total = get_ram(server)
    return 0 < used < total


def entries(values) -> dict:
    return {key: {**asdict(entry), "volume_type": entry.volume_type.value} for key, entry in values.items()}


def of_app(info) -> dict:
    """Every property of an app's description."""
    terminology = info.get_terminology()
    return {
        "name": info.get_name(),
        "display_name": info.get_display_name(),
        "description": info.get_description(),
        "short_description": info.get_short_description(),
        "checkpoints_name": info.get_checkpoints_name(),
        "checkpoints_name_available": info.get_checkpoints_name_available(),
        "maximum_tta": info.get_maximum_tta(),
        "mc_dropout": info.get_mc_dropout(),
        "patch_size": info.get_patch_size(),
        "task": info.get_task(),
        "has_capabilities": list(info.has_capabilities()),
        "finetunable": info.is_finetunable(),
        "inputs": entries(info.get_inputs()),
        "outputs": entries(info.get_outputs()),
        "inputs_evaluations": {
            f"{key.display_name}, {key.evaluation_file}": entries(value)
            for key, value in info.get_evaluations_inputs().items()
        },
        "terminology": terminology and {key: asdict(value) for key, value in terminology.items()},
        "text": str(info),
    }


def configuration(info) -> dict:
    """The app's configuration files, by name, with a sum of what is in them."""
    return {file.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in info.download_config_file()}


def printed(call) -> list[str]:
    """What a call prints, without the app's own progress."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        call()
    return [plain(line) for line in text.getvalue().splitlines() if line.startswith("[KonfAI-Apps] Re")]


ask("check_server", lambda: check_server(server))
ask("check_server with a wrong token", lambda: check_server(strangers)[0])
ask("get_available_devices", lambda: get_available_devices(server))
ask("get_ram", memory_is_right)
ask("get_vram of no GPU", lambda: type(get_vram([], server)).__name__)
ask("current_free_vram", lambda: current_free_vram([], server))
ask("get_available_apps_on_remote_server", lambda: get_available_apps_on_remote_server(server))
ask("apps with a wrong token", lambda: get_available_apps_on_remote_server(strangers))

identifier = f"{host}:{port}:{app}|{token}"
ask("app", lambda: of_app(get_app_repository_info(identifier, False)))
ask("configuration", lambda: configuration(get_app_repository_info(identifier, False)))
ask("an app that is not served", lambda: of_app(get_app_repository_info(f"{host}:{port}:nowhere|{token}", False)))

ask("a client with a wrong token", lambda: KonfAIAppClient(app, strangers))
client = KonfAIAppClient(app, server)
ask("infer", lambda: client.infer(inputs=[[Path(scan)]], output=Path(output), cpu=1))
ask("infer writes", lambda: sorted(str(file.relative_to(output)) for file in Path(output).rglob("*.mha")))
ask("infer of an app that is not served", lambda: KonfAIAppClient("nowhere", server).infer([[Path(scan)]], Path(output)))
ask("infer on a GPU that is not there", lambda: client.infer([[Path(scan)]], Path(output), gpu=[7]))
ask("a refusal", lambda: client.infer([[Path(scan)]], Path(output), cpu=1, config_overrides=["gian=2"]))
ask("an option of a wrong kind", lambda: client.infer([[Path(scan)]], Path(output), cpu=1, patch_size=["x"]))
ask("kill_job of an unknown job", lambda: client.kill_job("000000000000"))
ask("logs of an unknown job", lambda: client.stream_logs("000000000000"))
ask("result of an unknown job", lambda: client.download_result("000000000000", Path(output)))

print("ANSWERS " + json.dumps(answers, sort_keys=True, default=str))
