"""URLs of object stores and web servers, with a real client and a server on this machine.
`cargo dev object-store` runs it."""

from __future__ import annotations

import functools
import http.server
import os
import signal
import subprocess
import threading
from pathlib import Path

import pytest
from s3 import BUCKET, SECRET, Store

ETLINK = os.environ["ETLINK"]
TRACES = Path(os.environ["ETLINK_TRACES"])
SMALL, LARGE = TRACES / "small", TRACES / "large"


@pytest.fixture(scope="module")
def store():
    store = Store()
    store.put_folder(SMALL, "small")
    store.put_folder(LARGE, "large")
    yield store
    store.close()


def environment(settings: dict[str, str], home: Path) -> dict[str, str]:
    """That of the test without what it says of stores, and with nobody's home."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    return {**kept, "HOME": str(home), "AWS_EC2_METADATA_DISABLED": "true", **settings}


@pytest.fixture
def etlink(store, tmp_path):
    """Runs etlink, and looks that nothing secret is in what it says."""

    def run(*words: str | Path, code: int = 0, settings: dict[str, str] | None = None) -> str:
        settings = store.environment() if settings is None else settings
        done = subprocess.run(
            [ETLINK, *map(str, words)],
            capture_output=True,
            text=True,
            env=environment(settings, tmp_path),
            timeout=120,
        )
        said = done.stdout + done.stderr
        assert done.returncode == code, said
        assert SECRET not in said
        return said

    return run


def files(folder: Path) -> dict[str, bytes]:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


@pytest.fixture(scope="module")
def on_disk(tmp_path_factory) -> dict[str, dict[str, bytes]]:
    """What `merge` writes on a disk."""
    merged = {}
    for traces in (SMALL, LARGE):
        folder = tmp_path_factory.mktemp("disk")
        subprocess.run([ETLINK, "merge", traces, "-o", folder], check=True, capture_output=True)
        merged[traces.name] = files(folder)
    return merged


def test_credentials_that_expire_are_said(etlink, store):
    """Whichever request is the first that the store refuses."""
    for granted in range(7):
        with store.behind(lambda number, *_: number <= granted, refusal=403) as port:
            said = etlink("ranks", f"s3://{BUCKET}/small", code=2, settings=store.environment(port))
        assert "denied" in said or "403" in said, (granted, said)
        assert "is not a folder" not in said


@pytest.mark.parametrize("traces", ["small", "large"])
def test_merge_from_a_store_to_a_store_is_as_on_disk(etlink, store, on_disk, tmp_path, traces):
    source, output = f"s3://{BUCKET}/{traces}", f"s3://{BUCKET}/merged-{traces}/"
    etlink("merge", source, "-o", output)
    assert store.contents(f"merged-{traces}") == on_disk[traces]
    assert store.open_uploads() == 0
    # from a store to a disk, too
    etlink("merge", source, "-o", tmp_path / "disk")
    assert files(tmp_path / "disk") == on_disk[traces]
    said = etlink("merge", source, "-o", output, code=2)
    assert f"s3://{BUCKET}/merged-{traces}/comm_group.json already exists; --overwrite" in said
    etlink("merge", source, "-o", output, "--overwrite")
    assert store.contents(f"merged-{traces}") == on_disk[traces]


def test_a_smaller_run_takes_the_place_of_an_earlier_one(etlink, store):
    output = f"s3://{BUCKET}/replaced"
    etlink("merge", f"s3://{BUCKET}/small", "-o", output)
    before = store.names("replaced")
    assert "small.7.et" in before
    store.put_folder(LARGE, "smaller/small")
    etlink("merge", f"s3://{BUCKET}/smaller/small", "-o", output, "--overwrite")
    assert [name for name in store.names("replaced") if name.endswith(".et")] == [
        "small.0.et",
        "small.1.et",
    ]


def test_shards_share_a_cache_in_the_store(etlink, store, on_disk):
    source, output = f"s3://{BUCKET}/small", f"s3://{BUCKET}/shards"
    cache = ["--cache", f"s3://{BUCKET}/kept/here"]
    for shard in ("0/2", "1/2"):
        etlink("merge", source, *cache, "--prepare", shard)
    for shard in ("1/2", "0/2"):
        said = etlink("merge", source, "-o", output, *cache, "--shard", shard)
        assert "found the results of 8 ranks" in said
    assert store.contents("shards") == on_disk["small"]
    [name, *_] = [name for name in store.names("kept/here") if name.endswith(".made")]
    assert store.open_uploads() == 0
    plain = etlink("ranks", source, "--json")
    etlink("ranks", source, *cache, "--prepare", "0/1")
    said = etlink("ranks", source, "--json", *cache)
    assert plain in said and "found the results of 8 ranks" in said
    damaged = f"kept/here/{name}"
    store.client.put_object(Bucket=BUCKET, Key=damaged, Body=b"something else")
    etlink("merge", source, "-o", output, *cache, "--shard", "0/2", "--overwrite")
    assert store.contents("shards") == on_disk["small"]


def test_a_trace_that_was_put_again_is_read_again(etlink, store):
    source, cache = f"s3://{BUCKET}/again", f"s3://{BUCKET}/kept-again"
    traces = store.contents("small")
    whole = {name: content for name, content in traces.items() if "_0." in name}

    def put(change) -> None:
        for name, content in whole.items():
            content = change(content) if "kineto" in name else content
            store.client.put_object(Bucket=BUCKET, Key=f"again/{name}", Body=content)

    put(lambda content: content)
    etlink("ranks", source, "--cache", cache)
    assert "found the results of 1 rank" in etlink("ranks", source, "--cache", cache)
    # the same length within the same second: only the tag of the content differs
    put(lambda content: bytes(len(content)))
    etlink("ranks", source, "--cache", cache, code=2)


def test_a_store_that_refuses_every_tenth_request_changes_nothing(etlink, store, on_disk):
    refused = []

    def judge(number: int, method: str, path: str) -> bool:
        if number % 10 == 0:
            refused.append((method, path))
            return False
        return True

    with store.behind(judge) as port:
        settings = store.environment(port)
        for traces in ("small", "large"):
            output = f"s3://{BUCKET}/refused-{traces}"
            etlink("merge", f"s3://{BUCKET}/{traces}", "-o", output, settings=settings)
    assert len(refused) > 5
    assert store.contents("refused-small") == on_disk["small"]
    assert store.contents("refused-large") == on_disk["large"]
    assert store.open_uploads() == 0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT])
def test_a_run_that_is_ended_leaves_no_object(store, tmp_path, how):
    prefix = f"ended-{how.name}"
    running: list[subprocess.Popen[bytes]] = []
    parts = []

    def judge(number: int, method: str, path: str) -> bool:
        if method == "PUT" and "partNumber" in path:
            parts.append(path)
            # the second part of a file: its upload is open, and not whole
            if len(parts) == 2:
                running[0].send_signal(how)
        return True

    with store.behind(judge) as port:
        env = environment(store.environment(port), tmp_path)
        merge = ["merge", f"s3://{BUCKET}/large", "-o", f"s3://{BUCKET}/{prefix}"]
        # a job in the background of a shell ignores SIGINT, and hands that on
        words = ["env", "--default-signal=INT", ETLINK, *merge]
        running.append(subprocess.Popen(words, env=env, stderr=subprocess.DEVNULL))
        code = running[0].wait(60)
    assert code == (-9 if how == signal.SIGKILL else 130)
    assert store.names(prefix) == []
    if how == signal.SIGINT:
        uploads = store.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", [])
        assert [upload["Key"] for upload in uploads if upload["Key"].startswith(prefix)] == []


@pytest.mark.parametrize(
    "words",
    [
        ["ranks", "SOURCE"],
        ["ranks", "SOURCE", "--json"],
        ["analyze", "SOURCE"],
        ["analyze", "SOURCE", "--json"],
        ["findings", "SOURCE"],
        ["replay", "SOURCE"],
        ["inspect", "SOURCE/kineto_trace_0.json.gz"],
        ["top", "SOURCE/kineto_trace_0.json.gz"],
    ],
    ids=" ".join,
)
def test_commands_say_of_a_store_what_they_say_of_a_folder(etlink, words):
    def said(source: str) -> str:
        named = [word.replace("SOURCE", source) for word in words]
        # figures of what is read and names of where it lies are not of the run
        return etlink(*named).replace(source, "SOURCE")

    assert said(f"s3://{BUCKET}/small") == said(str(SMALL))


def test_results_of_all_kinds_go_to_a_store(etlink, store, tmp_path):
    def both(*words: str) -> None:
        for folder in (str(tmp_path), f"s3://{BUCKET}/kinds"):
            etlink(*(word.replace("OUT", folder) for word in words))

    source = f"s3://{BUCKET}/small"
    trace = ["--host", f"{source}/torch_et_0.json.gz", "--device", f"{source}/kineto_trace_0.json.gz"]
    both("link", *trace, "-o", "OUT/one.et")
    both("link", *trace, "-o", "OUT/one.pftrace.gz")
    both("report", source, "-o", "OUT/page.html")
    both("analyze", source, "--parquet", "OUT/tables")
    both("merge", source, "--format", "perfetto", "-o", "OUT/timeline")
    both("convert", "OUT/one.et", "OUT/one.chakra.json")
    assert store.contents("kinds") == files(tmp_path)
    said = etlink("check", f"s3://{BUCKET}/kinds/one.et")
    assert said.startswith(f"s3://{BUCKET}/kinds/one.et: ok")


@pytest.mark.parametrize(
    ("url", "changed", "said"),
    [
        ("s3://nobody/x", {}, "cannot read folder s3://nobody/x: the bucket does not exist"),
        ("s3://bucket/none", {}, "s3://bucket/none: no object or folder has this name"),
        (
            "s3://bucket/small",
            {"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""},
            "no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
        ),
        ("s3:///x", {}, "the URL has no bucket; give s3://BUCKET/KEY"),
        ("hdfs://host/x", {}, "URLs of hdfs:// are not supported; give s3://"),
        ("http://example.org/x", {}, "http:// is not encrypted; use https://"),
    ],
)
def test_errors_name_the_url_and_a_remedy(etlink, store, tmp_path, url, changed, said):
    settings = {**store.environment(), **changed}
    message = etlink("merge", url, "-o", tmp_path / "out", code=2, settings=settings)
    assert url in message and said in message
    assert len(message.splitlines()) == 1, message


def test_a_profile_has_the_credentials(etlink, store, tmp_path):
    settings = store.environment()
    (tmp_path / "profiles").write_text(
        f"[work]\naws_access_key_id = test\naws_secret_access_key = {SECRET}\n"
    )
    del settings["AWS_ACCESS_KEY_ID"], settings["AWS_SECRET_ACCESS_KEY"]
    settings["AWS_SHARED_CREDENTIALS_FILE"] = str(tmp_path / "profiles")
    etlink("ranks", f"s3://{BUCKET}/small", settings={**settings, "AWS_PROFILE": "work"})
    said = etlink("ranks", f"s3://{BUCKET}/small", code=2, settings={**settings, "AWS_PROFILE": "no"})
    assert "the profile in AWS_PROFILE has no aws_access_key_id" in said


def test_a_recording_is_not_made_in_a_store(etlink):
    said = etlink("record", "-o", f"s3://{BUCKET}/recorded", "--", "true", code=2)
    assert "recordings need a folder on this machine" in said


class WebHandler(http.server.SimpleHTTPRequestHandler):
    """Files, for who knows the signature or the password."""

    asked: list[tuple[str, str | None]] = []

    def do_GET(self) -> None:
        self.asked.append((self.path, self.headers.get("Authorization")))
        super().do_GET()

    def log_message(self, *_: object) -> None:
        """Not to the terminal."""


def test_a_file_of_a_web_server_is_read(etlink):
    handler = functools.partial(WebHandler, directory=SMALL)
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_address[1]}"
        name = "kineto_trace_0.json.gz"
        said = etlink("inspect", f"http://user:{SECRET}@{host}/{name}?sig={SECRET}")
        assert f"http://{host}/{name}" in said and "kineto_trace" in said
        # both went to the server
        path, password = WebHandler.asked[-1]
        assert path == f"/{name}?sig={SECRET}" and password.startswith("Basic ")
        missing = etlink("inspect", f"http://{host}/no.json?sig={SECRET}", code=2)
        assert f"http://{host}/no.json: the server does not have this file" in missing
        written = etlink("link", "--device", SMALL / name, "-o", f"http://{host}/x.et", code=2)
        assert "etlink cannot write to a web server" in written
        server.shutdown()
