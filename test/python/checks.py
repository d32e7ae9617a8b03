"""Checks of python/remote_app.py against the servers that `client.test.ts` starts."""

import ast
import base64
import contextlib
import faulthandler
import gc
import hashlib
import http.client
import http.server
import inspect
import io
import json
import os
import re
import shutil
import stat
import struct
import sys
import threading
import unittest
import zipfile
from pathlib import Path
from types import SimpleNamespace
from unittest import mock

import remote_app
from remote_app import Server

FACTS = json.loads(os.environ["FACTS"])
ROOT = Path(FACTS["directory"])
SCHEMAS = json.loads(Path(FACTS["openapi"]).read_text("utf-8"))["paths"]
OPERATIONS = ("infer", "evaluate", "uncertainty", "pipeline", "fine_tune")
GROUP_FIELDS = {"inputs_groups", "gt_groups", "mask_groups"}


def wish(what):
    """Has the test that runs this do something, and waits until it is done."""
    print(what, flush=True)
    sys.stdin.readline()


def plant(name, content=b"voxels"):
    path = ROOT / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def server(**options):
    return Server(FACTS["url"], **{"token": FACTS["token"], "progress": False, **options})



class Scripted:
    """A server that answers as a function says."""

    def __init__(self, answer):
        self.seen = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one(self):
                length = int(self.headers.get("content-length") or 0)
                body = self.rfile.read(length) if not outer.is_early else b""
                outer.seen.append((self.command, self.path, dict(self.headers), body))
                answer(self)
                self.close_connection = True

            do_GET = do_POST = do_PATCH = do_DELETE = handle_one

            def log_message(self, *_):
                pass

            def say(self, status, body, **headers):
                content = body if isinstance(body, bytes) else json.dumps(body).encode()
                kind = "application/octet-stream" if isinstance(body, bytes) else "application/json"
                self.send_response(status)
                for name, value in {"content-type": kind, "content-length": str(len(content)), **headers}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(content)

            def cut(self):
                self.connection.shutdown(2)

        self.is_early = False
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self):
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_):
        self._server.shutdown()
        self._server.server_close()


def element(tag, kind, value):
    value += b"\0" * (len(value) % 2)
    return struct.pack("<HH2sH", tag >> 16, tag & 0xFFFF, kind, len(value)) + value


def dicom(series, syntax=b"1.2.840.10008.1.2.1", is_explicit=True):
    """A DICOM file with a sequence of undefined length before its SeriesInstanceUID, whose item names another."""
    item = struct.pack("<HHI", 0xFFFE, 0xE000, 0xFFFFFFFF)
    ends = struct.pack("<HHIHHI", 0xFFFE, 0xE00D, 0, 0xFFFE, 0xE0DD, 0)
    if is_explicit:
        inner = element(0x0020000E, b"UI", b"9.9")
        head = struct.pack("<HH2sHI", 0x0008, 0x1115, b"SQ", 0, 0xFFFFFFFF)
        # What is unknown may be a sequence, and is implicit inside.
        unknown = struct.pack("<HH2sHI", 0x0009, 0x1010, b"UN", 0, 0xFFFFFFFF)
        value = struct.pack("<HHI", 0x0009, 0x0001, 8) + b"unknown."
        data = head + item + inner + ends + unknown + item + value + ends + element(0x0020000E, b"UI", series)
    else:
        value = series + b"\0" * (len(series) % 2)
        head = struct.pack("<HHI", 0x0008, 0x1115, 0xFFFFFFFF)
        inner = struct.pack("<HHI", 0x0020, 0x000E, 4) + b"9.9\0"
        data = head + item + inner + ends + struct.pack("<HHI", 0x0020, 0x000E, len(value)) + value
    return b"\0" * 128 + b"DICM" + element(0x00020010, b"UI", syntax) + data


class Requests(unittest.TestCase):
    """What is sent is what openapi.json describes."""

    def test_keywords_are_the_fields_of_the_form(self):
        for operation in OPERATIONS:
            form = SCHEMAS[f"/apps/{{app}}/{operation}"]["post"]["requestBody"]["content"]["multipart/form-data"]
            fields = dict(form["schema"]["properties"])
            wanted = (set(fields) | set(fields.pop("options")["properties"])) - GROUP_FIELDS - {"options"}
            given = inspect.signature(getattr(Server, operation)).parameters
            with self.subTest(operation):
                self.assertEqual(set(given) - {"self", "app", "progress", "log"}, wanted)
                required = {name for name, each in given.items() if each.default is each.empty} - {"self"}
                self.assertEqual(required, set(form["schema"]["required"]))

    def test_every_field_reaches_the_app(self):
        ct, gt = plant("ct.nii"), plant("gt.nii", b"truth")
        data = plant("set/a/ct.nii").parent.parent
        plant("set/.hidden")
        every = {"app": "probe", "cpu": 2, "quiet": True, "keep": "1h", "time_limit": 60, "tag": "study"}
        every["deidentified"] = True
        passes = {"tta": 1, "mc": 0, "ensemble_models": ["CV_0"], "uncertainty": True, "patch_size": (8, 0, 8)}
        passes.update(max_voxels=9, batch_size=2, config_overrides={"print": "hello"})
        given = {
            "infer": ([[ct]], {**passes, "prediction_file": "Prediction.yml"}),
            "evaluate": ([ct], {"gt": gt, "mask": ct, "evaluation_file": "Evaluation.yml"}),
            "uncertainty": ([ct], {"uncertainty_file": "Uncertainty.yml"}),
            "pipeline": ([[[ct], [gt]]], {**passes, "gt": [[gt]], "uncertainty": False}),
            "fine_tune": ([data], {"name": "run", "epochs": 3, "it_validation": 5, "models": "CV_0", "lr": 0.5}),
        }
        expected = {
            "infer": "--tta 1 --mc 0 --prediction_file Prediction.yml -uncertainty --ensemble_models CV_0 --patch_size 8 0 8 "
            "--max_voxels 9 --batch_size 2 --set print=hello",
            "evaluate": "--evaluation_file Evaluation.yml",
            "uncertainty": "--uncertainty_file Uncertainty.yml",
            "pipeline": "--tta 1",
            "fine_tune": "--epochs 3 --it_validation 5 --models CV_0 --lr 0.5",
        }
        for operation, (files, fields) in given.items():
            with self.subTest(operation):
                lines = []
                result = getattr(server(), operation)(*files, **every, **fields, log=lines.append)
                self.assertNotIn("ignored", "\n".join(lines))
                record = json.loads(result["probe.json"].read())
                self.assertIn(expected[operation], " ".join(record["argv"]))
                self.assertIn("--cpu 2", " ".join(record["argv"]))
                status = result.job.status()
                self.assertEqual((status["tag"], status["deidentified"]), ("study", True))
                if operation == "pipeline":
                    self.assertEqual(len(record["files"]["--inputs"]), 2)
                    self.assertNotIn("-uncertainty", record["argv"])
                if operation == "fine_tune":
                    self.assertEqual(list(record["files"]["--dataset"][0][0][1]), ["a"])

    def test_through_a_proxy_of_the_environment(self):
        # The test that runs this holds what the proxy was asked against openapi.json.
        variables = {"http_proxy": FACTS["proxy"], "no_proxy": ""}
        with mock.patch.dict(os.environ, variables):
            far = Server("http://gpu.example.org", token=FACTS["token"], progress=False)
            self.assertTrue(far.health())
            # This machine is reached directly.
            self.assertTrue(server().health())
            self.assertEqual(far.apps(), ["probe"])
            self.assertEqual(far.app("probe")["app"], "probe")
            self.assertEqual([each["id"] for each in far.gpus()], [0, 1])
            result = far.infer(plant("ct.nii"), app="probe", gpu=[1], config_overrides=["write=mask.nii:m"])
            self.assertEqual(result["mask.nii"].read(), b"m")
            self.assertIn(result.job.id, [each["job_id"] for each in far.jobs()])
            job = far.submit("infer", plant("ct.nii"), app="probe", config_overrides=[f"wait={ROOT}/never"], tag="x")
            self.assertEqual([each["job_id"] for each in far.jobs(tag="x")], [job.id])
            self.assertEqual(job.kill(), "killed")
            with self.assertRaises(remote_app.JobFailed) as caught:
                job.wait()
            self.assertEqual(caught.exception.state, "killed")
            self.assertIn("probe.json", job.result(partial=True))

    def test_https_with_a_prefix_and_an_authority_of_its_own(self):
        result = Server(FACTS["tls"] + "/", token=FACTS["token"], ca=FACTS["ca"], progress=False).infer(plant("ct.nii"))
        self.assertIn("probe.json", result)
        with self.assertRaisesRegex(remote_app.Unreachable, "certificate that is not trusted"):
            Server(FACTS["tls"], token=FACTS["token"]).health()


class Settings(unittest.TestCase):
    """Which server is asked, and with which token."""

    def profiles(self, **profiles):
        plant(".config/remote-app/profiles.json", json.dumps({"profiles": profiles}).encode())
        self.addCleanup(shutil.rmtree, ROOT / ".config", True)

    def test_a_profile_of_login_names_server_token_and_app(self):
        self.profiles(default={"server": FACTS["url"], "token": FACTS["token"], "app": "probe"}, b={"server": "http://b"})
        self.assertEqual(Server().apps(), ["probe"])
        self.assertEqual(Server(profile="b").url, "http://b")
        with mock.patch.dict(os.environ, {"REMOTE_APP_SERVER": "http://c/", "SERVICE_API_TOKEN": "t"}):
            self.assertEqual(Server().url, "http://c")
            self.assertEqual(Server(profile="b")._settings.token, None)
            self.assertEqual(Server()._settings.token, "t")
        # The token of a profile is not sent to another server.
        self.assertEqual(Server("http://d")._settings.token, None)
        with self.assertRaisesRegex(remote_app.UsageError, "No profile 'nobody'.*default, b"):
            Server(profile="nobody")

    def test_what_cannot_be_used_is_said(self):
        for url, text in {
            "ssh://gpu.example.org": "remote-app forward",
            "ftp://x": "is not the address",
            "http://user:secret@x": "must hold no credentials",
            "http://x:99999": "is not the address",
        }.items():
            with self.subTest(url), self.assertRaisesRegex(remote_app.UsageError, text):
                Server(url)
        plant(".config/remote-app/profiles.json", b'{"token": "secret"')
        self.addCleanup(shutil.rmtree, ROOT / ".config", True)
        with self.assertRaises(remote_app.UsageError) as caught:
            Server()
        self.assertNotIn("secret", str(caught.exception))

    def test_a_profile_that_wants_scans_de_identified_sends_none(self):
        for value in ("full", "names", True):
            self.profiles(default={"server": FACTS["url"], "token": FACTS["token"], "deidentify": value})
            for each in (Server(), server()):
                self.assertEqual(each.apps(), ["probe"])
                with self.assertRaisesRegex(remote_app.UsageError, "'default' wants scans to be de-identified"):
                    each.infer(plant("ct.nii"))
                each.infer(plant("ct.nii"), deidentified=True)

    def test_the_environment_that_wants_scans_de_identified_sends_none(self):
        for word in ("full", "names", "1", "TRUE", "something"):
            with self.subTest(word), mock.patch.dict(os.environ, REMOTE_APP_DEIDENTIFY=word):
                with self.assertRaisesRegex(remote_app.UsageError, "^REMOTE_APP_DEIDENTIFY wants scans to be"):
                    server().infer(plant("ct.nii"))
        self.profiles(default={"server": FACTS["url"], "token": FACTS["token"], "deidentify": "full"})
        for word in ("no", "0", "False"):
            with self.subTest(word), mock.patch.dict(os.environ, REMOTE_APP_DEIDENTIFY=word):
                server().infer(plant("ct.nii"))

    def test_errors_are_classes_with_the_sentence_of_the_server(self):
        with self.assertRaisesRegex(remote_app.NotAuthorised, "needs a token"):
            Server(FACTS["url"]).apps()
        with self.assertRaisesRegex(remote_app.NotAuthorised, "does not accept this token"):
            server(token="wrong").infer(plant("ct.nii"))
        with self.assertRaisesRegex(remote_app.NotFound, "Unknown app"):
            server().infer(plant("ct.nii"), app="nothing")
        with self.assertRaisesRegex(remote_app.Refused, "'tta'") as caught:
            server().infer(plant("ct.nii"), tta=-1)
        self.assertEqual(caught.exception.status, 422)
        with self.assertRaisesRegex(remote_app.Refused, "needs 8.0 TiB of GPU memory"):
            Server(FACTS["greedy"], progress=False).infer(plant("ct.nii"))
        with self.assertRaisesRegex(remote_app.Unreachable, "nothing listens there"):
            Server("http://127.0.0.1:9").health()
        with self.assertRaisesRegex(remote_app.UsageError, "no operation 'segment'"):
            server().submit("segment", "ct.nii")
        with self.assertRaisesRegex(TypeError, "'gpus'"):
            server().submit("infer", "ct.nii", gpus=1)

    def test_what_is_no_service_is_said(self):
        answers = {
            "is that its address": lambda request: request.say(404, b"<html>"),
            "on to 'http://elsewhere'": lambda request: request.say(302, b"", location="http://elsewhere"),
            "did not answer with JSON": lambda request: request.say(200, b"<html>"),
            "a proxy": lambda request: request.say(502, b"<html>"),
        }
        for text, answer in answers.items():
            with self.subTest(text), Scripted(answer) as scripted:
                with self.assertRaisesRegex(remote_app.Unreachable, f"(?i){text}"):
                    Server(scripted.url, token="t").health()
                self.assertEqual(len(scripted.seen), 1)


class Files(unittest.TestCase):
    """What is sent of the files that are named."""

    def recorded(self, *inputs, **fields):
        record = json.loads(server().infer(*inputs, app="probe", **fields)["probe.json"].read())
        return [[(Path(name).name, content) for name, content in group] for group in record["files"]["--inputs"]]

    def test_each_argument_is_a_group(self):
        a, b, c = plant("a.nii", b"a"), plant("b.nii", b"b"), plant('c "é".nii', b"c")
        self.assertEqual(self.recorded(a, [str(b), c]), [[("a.nii", "a")], [("b.nii", "b"), ('c "é".nii', "c")]])
        self.assertEqual(self.recorded([a, b]), [[("a.nii", "a"), ("b.nii", "b")]])

    def test_a_directory_is_one_series(self):
        plant("CT/1/a", dicom(b"1.2.3"))
        plant("CT/2/a", dicom(b"1.2.3", b"1.2.840.10008.1.2", False))
        plant("CT/notes.txt", b"a secret")
        self.assertEqual([[(n, sorted(c)) for n, c in g] for g in self.recorded(ROOT / "CT")], [[("CT", ["1_a", "2_a"])]])
        plant("CT/3", dicom(b"1.2.4"))
        with self.assertRaisesRegex(remote_app.UsageError, "holds 2 DICOM series"):
            server().infer(ROOT / "CT")
        # Some tools give series of several people the same UID.
        uid = element(0x0020000E, b"UI", b"1.2.3")
        plant("CT/3", dicom(b"1.2.3").replace(uid, element(0x00100020, b"LO", b"P2") + uid))
        with self.assertRaisesRegex(remote_app.UsageError, "holds 2 DICOM series"):
            server().infer(ROOT / "CT")
        plant("CT/3", dicom(b"1.2.3")[:-8])
        with self.assertRaisesRegex(remote_app.UsageError, "3' cannot be read as DICOM"):
            server().infer(ROOT / "CT")

    def test_a_zarr_store_is_one_volume(self):
        plant("scan.ome.zarr/.zattrs", b"{}")
        plant("scan.ome.zarr/0/0.0", b"x")
        plant("scan.ome.zarr/.git", b"x")
        self.assertEqual(self.recorded(ROOT / "scan.ome.zarr"), [[("scan.ome.zarr", {".zattrs": "{}", "0": {"0.0": "x"}})]])

    def test_what_cannot_be_sent_is_said(self):
        plant("nothing/readme.txt")
        plant("empty.nii", b"")
        plant("scan.mhd")
        (ROOT / "linked").mkdir()
        (ROOT / "linked/CT").symlink_to(ROOT)
        plant("store.zarr/.zgroup")
        (ROOT / "store.zarr/0").symlink_to("/etc/passwd")
        for given, text in {
            "store.zarr": "is a link",
            "nothing": "no DICOM images",
            "absent.nii": "no file",
            "empty.nii": "is empty",
            "scan.mhd": "name the file with its voxels",
            "linked": "is a link",
        }.items():
            with self.subTest(given), self.assertRaisesRegex(remote_app.UsageError, text):
                server().infer(ROOT / given)
        with self.assertRaisesRegex(remote_app.UsageError, "names no file"):
            server().infer()
        with self.assertRaisesRegex(remote_app.UsageError, "names no file"):
            server().infer([])

    @mock.patch("time.sleep", lambda seconds: None)
    def test_a_file_that_changes_is_not_sent_again_as_another(self):
        file = plant("changing.nii", b"x" * 100)

        def answer(request):
            if request.command == "GET":
                return request.say(200, {"max_keep": 60})
            file.write_bytes(b"y" * 100)
            os.utime(file, ns=(1, 1))
            request.cut()

        with Scripted(answer) as scripted, self.assertRaisesRegex(remote_app.UsageError, "changed while it was sent"):
            Server(scripted.url, progress=False).infer(file, app="probe")

    @mock.patch("time.sleep", lambda seconds: None)
    def test_a_broken_submission_is_sent_again_with_its_key(self):
        def answer(request):
            if request.command == "GET":
                return request.say(200, {"max_keep": 60})
            posts = [each for each in scripted.seen if each[0] == "POST"]
            if len(posts) == 1:
                return request.cut()
            if len(posts) == 2:
                return request.say(429, {"detail": "Server busy"})
            request.say(200, {"job_id": "0123456789ab", "accepted_options": []})

        with Scripted(answer) as scripted:
            job = Server(scripted.url, progress=False).submit("infer", plant("ct.nii"), app="lab/app:MR")
        posts = [each for each in scripted.seen if each[0] == "POST"]
        self.assertEqual(job.id, "0123456789ab")
        self.assertEqual({path for _, path, _, _ in posts}, {"/apps/lab/app%3AMR/infer"})
        self.assertEqual(len({headers["Idempotency-Key"] for _, _, headers, _ in posts}), 1)
        self.assertEqual(len({body for _, _, _, body in posts}), 1)
        # The server keeps such a job for as long as it may.
        self.assertIn(b'name="keep"\r\n\r\nmax\r\n', posts[0][3])

    def test_a_refusal_ends_an_upload_before_all_of_it_is_sent(self):
        file = ROOT / "large.nii"
        with open(file, "wb") as large:
            large.truncate(256 << 20)
        sent = []

        def answer(request):
            scripted.is_early = True
            if request.command == "GET":
                return request.say(200, {"max_keep": 60})
            # First the connection takes what it can hold.
            count = -1
            while count != len(sent):
                count = len(sent)
                is_over.wait(0.2)
            request.say(507, {"detail": "The disk of the server is full"})
            # It takes nothing more, and does not close the connection either.
            is_over.wait(60)

        is_over = threading.Event()
        with Scripted(answer) as scripted, self.assertRaisesRegex(remote_app.Busy, "is full"):
            try:
                Server(scripted.url, timeout=20).infer(file, app="probe", progress=lambda each: sent.append(each.done))
            finally:
                is_over.set()
        # It is told at once, and not when nothing was taken for as long as the timeout.
        self.assertEqual([path for method, path, _, _ in scripted.seen if method == "POST"], ["/apps/probe/infer"])
        self.assertLess(max(sent, default=0), 256 << 20)
        file.unlink()

    def test_an_option_that_the_server_does_not_know_kills_the_job(self):
        def answer(request):
            kill = request.path.endswith("/kill")
            request.say(200, {"status": "killed"} if kill else {"job_id": "0123456789ab", "accepted_options": []})

        with Scripted(answer) as scripted, self.assertRaisesRegex(remote_app.RemoteAppError, "does not know batch_size"):
            Server(scripted.url, progress=False).infer(plant("ct.nii"), app="a", batch_size=1)
        self.assertEqual(scripted.seen[-1][:2], ("POST", "/jobs/0123456789ab/kill"))


@contextlib.contextmanager
def bytes_sent():
    """Counts what goes to servers."""
    counts, send = [0], http.client.HTTPConnection.send

    def counting(self, data):
        counts[0] += len(data)
        send(self, data)

    with mock.patch.object(http.client.HTTPConnection, "send", counting):
        yield counts


class Uploads(unittest.TestCase):
    """Files that are sent once, under the names of their contents."""

    SIZE = 5 << 20

    def test_a_file_and_a_series_are_sent_once(self):
        for number in range(3):
            plant(f"large-series/{number}.dcm", dicom(b"1.2.3") + os.urandom(self.SIZE // 3))
        files = [plant("large.nii", os.urandom(self.SIZE)), plant("small.nii", os.urandom(100))]
        groups = files, ROOT / "large-series"
        with bytes_sent() as first:
            server().submit("infer", *groups, app="probe", cpu=1).kill()
        self.assertGreater(first[0], 2 * self.SIZE)
        os.utime(ROOT / "large-series" / "1.dcm", (1, 1))
        with bytes_sent() as second:
            job = server().submit("infer", *groups, app="probe", cpu=1)
        self.assertLess(second[0], 1 << 14)
        volumes, series = json.loads(job.result()["probe.json"].read())["files"]["--inputs"]
        self.assertEqual([Path(path).name for path, _ in volumes], ["large.nii", "small.nii"])
        self.assertEqual([text.encode("latin-1") for _, text in volumes], [each.read_bytes() for each in files])
        self.assertEqual(sorted(series[0][1]), ["0.dcm", "1.dcm", "2.dcm"])

    def test_a_series_is_deflated_only_where_it_is_not_kept(self):
        plant("zeros/0.dcm", dicom(b"1.2.3") + bytes(self.SIZE))
        for limits, is_small in (({"max_keep": 60}, True), ({"max_keep": 60, "uploads": {"keep": 60}}, False)):
            def answer(request):
                if request.command == "GET":
                    return request.say(200, limits)
                if request.path.startswith("/uploads"):
                    length = request.headers.get("upload-length", "0")
                    sizes.append(int(length))
                    return request.say(201, {}, **{"upload-offset": length})
                request.say(200, {"job_id": "0123456789ab", "accepted_options": []})

            sizes = []
            with self.subTest(limits), Scripted(answer) as scripted:
                Server(scripted.url, progress=False).submit("infer", ROOT / "zeros", app="a")
                sizes += [len(body) for command, _, _, body in scripted.seen if command == "POST"]
                self.assertEqual(max(sizes) < self.SIZE // 50, is_small)

    @mock.patch("time.sleep", lambda seconds: None)
    def test_a_cut_goes_on_where_it_stopped_and_what_has_gone_is_sent_again(self):
        content = os.urandom(self.SIZE)
        name = hashlib.sha256(content).hexdigest()
        kept = bytearray()
        troubles = ["cut", "taken", "gone"]

        def answer(request):
            command, path, headers, body = scripted.seen[-1]
            if command == "GET":
                return request.say(200, {"max_keep": 60, "uploads": {"keep": 60}})
            if path == "/uploads":
                self.assertEqual(base64.b64decode(headers["Upload-Metadata"].split()[1]).decode(), name)
                return request.say(201, {}, **{"upload-offset": str(len(kept))})
            if command == "PATCH":
                self.assertEqual((path, headers["Upload-Offset"]), (f"/uploads/{name}", str(len(kept))))
                trouble = troubles.pop(0) if troubles and troubles[0] != "gone" else None
                if trouble == "taken":
                    return request.say(423, {"detail": "Another request writes it"})
                kept.extend(body[: len(body) // 2] if trouble == "cut" else body)
                return request.cut() if trouble == "cut" else request.say(204, {}, **{"upload-offset": str(len(kept))})
            if troubles:
                troubles.clear()
                kept.clear()
                return request.say(409, {"detail": "It has gone", "uploads": [name]})
            self.assertEqual(bytes(kept), content)
            request.say(200, {"job_id": "0123456789ab", "accepted_options": []})

        with Scripted(answer) as scripted:
            Server(scripted.url, progress=False).submit("evaluate", [plant("large.nii", content)], gt=plant("gt.nii", content), app="a", cpu=2)
        sent = [body for command, _, _, body in scripted.seen if command == "PATCH"]
        self.assertEqual([len(body) for body in sent], [self.SIZE, self.SIZE // 2, self.SIZE // 2, self.SIZE])
        submitted = [each for each in scripted.seen if each[1].startswith("/apps/")]
        self.assertEqual(len({headers["Idempotency-Key"] for _, _, headers, _ in submitted}), 1)
        reference = [[{"upload": name, "name": "large.nii"}]]
        wanted = {"cpu": "2", "options": {}, "keep": "max", "inputs": reference, "gt": [[{"upload": name, "name": "gt.nii"}]]}
        self.assertEqual(json.loads(submitted[-1][3]), wanted)

    def test_a_file_that_changes_while_it_is_sent_is_not_submitted(self):
        file = plant("changing.nii", b"x" * self.SIZE)

        def change(progress):
            if progress.done:
                file.write_bytes(b"y" * self.SIZE)

        with self.assertRaisesRegex(remote_app.UsageError, "changed while it was sent"):
            server().infer(file, app="probe", cpu=1, progress=change)


class Jobs(unittest.TestCase):
    """Jobs that are followed, killed and waited for."""

    def test_a_log_loses_and_repeats_nothing_while_the_server_is_killed(self):
        gate = ROOT / "gate"
        overrides = ["lines=500", f"wait={gate}", "lines=500", "write=mask.txt:m"]
        job = Server(FACTS["mortal"], progress=False).submit("infer", plant("ct.nii"), config_overrides=overrides)
        lines = []
        for line in job.logs():
            lines.append(line)
            if line == "line 500" and not gate.exists():
                wish("crash")
                gate.touch()
        counted = [f"line {each}" for each in range(1, 501)]
        of_app = [each for each in lines if not each.startswith("[remote-app]")]
        self.assertEqual(of_app, ["probe infer", *counted, *counted])
        self.assertEqual(job.wait()["status"], "done")
        self.assertEqual(list(job.logs(since=len(lines) - 1)), lines[-1:])
        self.assertEqual(job.result()["mask.txt"].read(), b"m")

    def test_a_log_that_another_program_reads_is_read_after_that(self):
        answers = [(429, {"detail": "read already"}), (200, b"id: 1\ndata: one\n\ndata: __DONE__\n\n")]

        def answer(request):
            request.say(*answers.pop(0), **{"content-type": "text/event-stream"})

        with Scripted(answer) as scripted, mock.patch("time.sleep"):
            self.assertEqual(list(Server(scripted.url).job("a").logs()), ["one"])

    def test_a_stream_that_breaks_is_taken_up_behind_its_last_line(self):
        streams = {
            "0": b"id: 1\ndata: one\n\ndata: [remote-app] 2nd in the queue\n\nid: 2\ndata: tw",
            "1": b": keepalive\n\nid: 1\ndata: one\n\nid: 2\ndata: two\r\n\r\n",
            "2": b"id: 3\ndata:" + b"x" * (2 << 20) + b"\n\ndata: __ERROR__ sad\n\ndata: more\n\n",
        }

        def answer(request):
            request.say(200, streams[request.path.rpartition("=")[2]], **{"content-type": "text/event-stream"})

        with Scripted(answer) as scripted, mock.patch("time.sleep"):
            one, two, long = Server(scripted.url).job("a").logs()
        self.assertEqual((one, two), ("one", "two"))
        self.assertLess(len(long), (1 << 20) + 100)

    def test_progress_tells_each_step(self):
        stages, lines = [], []
        overrides = ["print=hello", "fill=mask.nii:100000"]
        result = server().infer(plant("ct.nii"), config_overrides=overrides, progress=stages.append, log=lines.append)
        self.assertEqual(list(dict.fromkeys(each.stage for each in stages)), ["uploading", "running", "downloading"])
        for stage in ("uploading", "downloading"):
            last = [each for each in stages if each.stage == stage][-1]
            self.assertEqual(last.done, last.total)
        self.assertIn("hello", [each.text for each in stages])
        self.assertIn("hello", lines)
        self.assertEqual(result["mask.nii"].size, 100_000)

    def test_an_interrupted_upload_makes_no_job(self):
        def interrupt(progress):
            if progress.done:
                raise KeyboardInterrupt

        with self.assertRaises(KeyboardInterrupt):
            server().submit("infer", plant("ct.nii"), tag="early", progress=interrupt)
        self.assertEqual(server().jobs(tag="early"), [])

    def test_an_interruption_kills_the_job(self):
        def interrupt(line):
            if line.startswith("probe"):
                raise KeyboardInterrupt

        told = io.StringIO()
        with contextlib.redirect_stderr(told), self.assertRaises(KeyboardInterrupt):
            server().infer(plant("ct.nii"), config_overrides=[f"wait={ROOT}/never"], tag="interrupted", log=interrupt)
        (view,) = server().jobs(tag="interrupted")
        self.assertEqual(view["status"], "killed")
        self.assertEqual(told.getvalue(), f"Interrupted: job {view['job_id']} is killed\n")

    def test_wait_ends_in_time(self):
        job = server().submit("infer", plant("ct.nii"), config_overrides=[f"wait={ROOT}/never"])
        with self.assertRaisesRegex(remote_app.TimedOut, f"Job {job.id} is"):
            job.wait(timeout=0)
        job.kill()

    def test_a_failure_has_the_reason_of_the_server(self):
        def answer(request):
            request.say(500, {"job_id": "a", "status": "error", "error": "exit code 3\x1b[2J"})

        with Scripted(answer) as scripted, self.assertRaises(remote_app.JobFailed) as caught:
            Server(scripted.url).job("a").result()
        self.assertEqual(str(caught.exception), "Job a failed: exit code 3\\x1b[2J; see job('a').logs()")
        with self.assertRaises(remote_app.UsageError):
            server().job("../health")


class Results(unittest.TestCase):
    """Results that are saved and opened."""

    def result(self, *entries):
        """A result with these entries: names and contents, or what `zipfile` takes for a name."""
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            for name, data in entries:
                archive.writestr(name, data)
        with Scripted(lambda request: request.say(200, content.getvalue())) as scripted:
            return Server(scripted.url, progress=False).job("a").result()

    def test_is_saved_whole_into_a_new_directory(self):
        result = self.result(("masks/liver.nii.gz", b"1"), ("table.csv", b"2"), ("empty/", b""))
        place = result.save(ROOT / "Out/deep")
        found = sorted(str(each.relative_to(place)) for each in place.rglob("*"))
        self.assertEqual(found, ["masks", "masks/liver.nii.gz", "table.csv"])
        with self.assertRaisesRegex(remote_app.UsageError, r"has files already.*job\('a'\)\.result\(\)"):
            result.save(place)
        (place / "table.csv").write_bytes(b"old")
        plant("Out/deep/mine.txt", b"mine")
        result.save(place, overwrite=True)
        self.assertEqual((place / "table.csv").read_bytes(), b"2")
        self.assertEqual((place / "mine.txt").read_bytes(), b"mine")
        self.assertEqual(list(result), ["masks/liver.nii.gz", "table.csv"])
        self.assertEqual(result["table.csv"].read(), b"2")
        shutil.rmtree(place / "masks")
        (place / "masks").symlink_to(ROOT)
        with self.assertRaisesRegex(remote_app.UsageError, "leads through a link"):
            result.save(place, overwrite=True)
        self.assertFalse((ROOT / "liver.nii.gz").exists())
        self.assertEqual([each for each in os.listdir(place) if each.startswith(".remote")], [])

    def test_its_temporary_files_are_removed_with_it(self):
        result = self.result(("mask.nii", b"1"))
        place = result["mask.nii"].path.parent
        self.assertTrue(place.exists())
        del result
        gc.collect()
        self.assertFalse(place.exists())

    def test_an_archive_that_leads_elsewhere_is_not_extracted(self):
        link = zipfile.ZipInfo("link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        for name in ("../out", "a/../../out", "/out", "a//b", "./a", link):
            with self.subTest(name), self.assertRaisesRegex(remote_app.BadArchive, "is not extracted"):
                self.result(("good.nii", b"1"), (name, b"/etc/passwd"))
        with self.assertWarns(UserWarning), self.assertRaises(remote_app.BadArchive):
            self.result(("a", b"1"), ("a", b"2"))
        with Scripted(lambda request: request.say(200, b"no zip")) as scripted:
            with self.assertRaisesRegex(remote_app.BadArchive, "not a zip archive"):
                Server(scripted.url, progress=False).job("a").result()

    def test_an_archive_of_too_many_entries_is_refused_before_they_are_read(self):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("a", b"1")
        one = content.getvalue()
        start = one.index(b"PK\x01\x02")
        end = one.index(b"PK\x05\x06")
        count = 200_001
        # The end record may claim fewer entries than there are.
        listed = one[start:end] * count
        closing = bytearray(one[end:])
        closing[12:16] = len(listed).to_bytes(4, "little")
        data = one[:start] + listed + closing
        made = []
        real = zipfile.ZipInfo
        with mock.patch.object(zipfile, "ZipInfo", lambda *each: made.append(each) or real(*each)):
            with Scripted(lambda request: request.say(200, data)) as scripted:
                with self.assertRaisesRegex(remote_app.BadArchive, f"it has {count} files"):
                    Server(scripted.url, progress=False).job("a").result()
        self.assertEqual(made, [])

    def test_what_is_shown_of_a_result_has_no_control_characters(self):
        result = self.result(("mask\x1b[2J\u202e.nii", b"1"))
        for shown in (repr(result), repr(next(iter(result.values())))):
            self.assertIn("mask\\x1b[2J\\u202e.nii", shown)
            self.assertTrue(shown.isprintable(), ascii(shown))

    def test_not_more_is_extracted_than_there_is_room_for(self):
        result = self.result(("mask.nii", b"\0" * 1000))
        with mock.patch("shutil.disk_usage", return_value=mock.Mock(free=999)):
            with self.assertRaisesRegex(remote_app.RemoteAppError, "needs 1000 bytes"):
                result.save(ROOT / "Full")
        self.assertFalse((ROOT / "Full").exists())

    def test_a_damaged_file_is_said(self):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("mask.nii", b"voxels")
        damaged = content.getvalue().replace(b"voxels", b"voxelz")
        with Scripted(lambda request: request.say(200, damaged)) as scripted:
            result = Server(scripted.url, progress=False).job("a").result()
        with self.assertRaisesRegex(remote_app.BadArchive, "is damaged"):
            result.save(ROOT / "Damaged")
        self.assertFalse((ROOT / "Damaged").exists())

    @mock.patch("time.sleep", lambda seconds: None)
    def test_a_download_that_breaks_goes_on(self):
        content = io.BytesIO()
        with zipfile.ZipFile(content, "w") as archive:
            archive.writestr("mask.nii", os.urandom(3 << 20))
        whole = content.getvalue()

        def answer(request):
            start = int((request.headers.get("range") or "bytes=0-")[6:-1])
            rest = whole[start:]
            end = {0: 1 << 20, 1 << 20: 2 << 20}.get(start, len(whole))
            request.send_response(206 if start else 200)
            request.send_header("etag", '"one"')
            request.send_header("content-length", str(len(rest)))
            if start:
                request.send_header("content-range", f"bytes {start}-{len(whole) - 1}/{len(whole)}")
            request.end_headers()
            request.wfile.write(whole[start:end])

        with Scripted(answer) as scripted:
            result = Server(scripted.url, progress=False).job("a").result()
        self.assertEqual(result.archive.read_bytes(), whole)
        asked = [(each.get("Range"), each.get("If-Range")) for _, _, each, _ in scripted.seen]
        self.assertEqual(asked, [(None, None), ("bytes=1048576-", '"one"'), ("bytes=2097152-", '"one"')])

    def test_images_are_opened_where_a_library_is_installed(self):
        result = self.result(("mask.nii.gz", b"1"), ("table.csv", b"2"))
        library = mock.Mock()
        library.ReadImage.side_effect = lambda path: Path(path).read_bytes()
        with mock.patch.dict(sys.modules, {"SimpleITK": library}):
            with mock.patch("importlib.util.find_spec", return_value=None):
                self.assertEqual(result.images(), {"mask.nii.gz": b"1"})
            self.assertEqual(result["mask.nii.gz"].simpleitk(), b"1")


class KonfAI(unittest.TestCase):
    """The server of KonfAI, which has neither limits nor numbers of lines nor keys."""

    def test_runs_a_job_and_keeps_what_comes_of_its_log(self):
        lines = []
        server = Server(FACTS["konfai"], progress=False)
        result = server.infer(plant("ct.nii"), app="tissue", keep="1h", log=lines.append)
        self.assertEqual([each for each in lines if not each.startswith("[KonfAI")], FACTS["lines"])
        self.assertEqual(result["mask.txt"].read(), b"voxels")

    def test_says_how_a_job_ended(self):
        for name, state in {"killed": "killed", "refused": "refused"}.items():
            with self.subTest(name), self.assertRaises(remote_app.JobFailed) as caught:
                Server(FACTS[name], progress=False).job(FACTS["konfaiJob"]).wait()
            self.assertEqual(caught.exception.state, state)
        self.assertEqual(list(Server(FACTS["killed"]).job(FACTS["konfaiJob"]).logs())[1:], ["one"])

    def test_is_sent_no_second_job_where_an_answer_is_lost(self):
        with self.assertRaisesRegex(remote_app.Unreachable, "the server may have the job"):
            Server(FACTS["silent"], progress=False).infer(plant("ct.nii"), app="tissue")


class Page(unittest.TestCase):
    def test_the_examples_of_the_page_run(self):
        page = Path(FACTS["page"]).read_text("utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        plant("page/t1.nii.gz")
        printed = io.StringIO()
        here = os.getcwd()
        self.addCleanup(os.chdir, here)
        os.chdir(ROOT / "page")
        variables = {"REMOTE_APP_SERVER": FACTS["url"], "SERVICE_API_TOKEN": FACTS["token"]}
        with mock.patch.dict(os.environ, variables), contextlib.redirect_stdout(printed):
            exec("\n".join(blocks).replace('"brain"', '"probe"'), {})
        self.assertIn("probe infer\n", printed.getvalue())
        self.assertIn("done 1\n", printed.getvalue())
        self.assertIn("Field 'tta' must be at least 0", printed.getvalue())
        self.assertEqual(len(blocks), 4)
        self.assertTrue(Path("Out/probe.json").exists() and Path("Out-2/probe.json").exists())

    def test_the_script_for_slicer_sends_a_volume_and_loads_the_result(self):
        page = Path(FACTS["page"]).with_name("slicer.md").read_text("utf-8")
        [block] = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
        loaded = []
        util = SimpleNamespace(
            getNode=str, exportNode=lambda _, file: plant(file), loadSegmentation=lambda file: loaded.append(Path(file).name)
        )
        slicer = SimpleNamespace(app=SimpleNamespace(temporaryPath=str(ROOT)), util=util)
        changes = {'"https://gpu.example.org", token="..."': "", '"liver", gpu=0': '"probe"', ".nii.gz\")": ".json\")"}
        for old, new in changes.items():
            self.assertIn(old, block)
            block = block.replace(old, new)
        variables = {"REMOTE_APP_SERVER": FACTS["url"], "SERVICE_API_TOKEN": FACTS["token"]}
        with mock.patch.dict(os.environ, variables), contextlib.redirect_stdout(io.StringIO()):
            exec(block, {"slicer": slicer})
        self.assertEqual(loaded, ["probe.json"])


class Source(unittest.TestCase):
    def test_is_of_python_3_9(self):
        text = Path(remote_app.__file__).read_text("utf-8")
        ast.parse(text, feature_version=(3, 9))
        names = [node.module or "" for node in ast.walk(ast.parse(text)) if isinstance(node, ast.ImportFrom)]
        names += [each.name for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Import) for each in node.names]
        # Python 3.9 has no list of its modules.
        if hasattr(sys, "stdlib_module_names"):
            others = {each.split(".")[0] for each in names} - sys.stdlib_module_names
            self.assertEqual(others, {"tqdm", "nibabel", "numpy", "SimpleITK"})


if __name__ == "__main__":
    # A check that hangs says where.
    faulthandler.dump_traceback_later(100, exit=True)
    unittest.main(verbosity=2)
