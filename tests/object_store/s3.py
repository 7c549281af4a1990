"""A server of S3's language, and one before it that refuses or counts requests."""

from __future__ import annotations

import http.client
import threading
from collections.abc import Callable
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import boto3
from moto.server import ThreadedMotoServer

BUCKET = "bucket"
SECRET = "s3cr3tDoNotShow"


class Store:
    """The server, with a bucket."""

    def __init__(self) -> None:
        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0)
        self.server.start()
        self.host, self.port = self.server.get_host_and_port()
        self.client = boto3.client(
            "s3",
            endpoint_url=f"http://{self.host}:{self.port}",
            region_name="us-east-1",
            aws_access_key_id="test",
            aws_secret_access_key=SECRET,
        )
        self.client.create_bucket(Bucket=BUCKET)

    def put_folder(self, folder: Path, prefix: str) -> str:
        """Uploads the files of a folder; their URL."""
        for path in folder.rglob("*"):
            if path.is_file():
                key = f"{prefix}/{path.relative_to(folder)}"
                self.client.upload_file(str(path), BUCKET, key)
        return f"s3://{BUCKET}/{prefix}"

    def names(self, prefix: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(
            Bucket=BUCKET, Prefix=f"{prefix}/"
        )
        return [item["Key"][len(prefix) + 1 :] for page in pages for item in page.get("Contents", [])]

    def contents(self, prefix: str) -> dict[str, bytes]:
        get = self.client.get_object
        return {
            name: get(Bucket=BUCKET, Key=f"{prefix}/{name}")["Body"].read()
            for name in self.names(prefix)
        }

    def open_uploads(self) -> int:
        """Uploads in parts that are neither completed nor aborted."""
        return len(self.client.list_multipart_uploads(Bucket=BUCKET).get("Uploads", []))

    def environment(self, port: int | None = None) -> dict[str, str]:
        """What tells a program of the server, or of another that stands before it."""
        return {
            "AWS_ENDPOINT_URL": f"http://{self.host}:{port or self.port}",
            "AWS_REGION": "us-east-1",
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": SECRET,
        }

    @contextmanager
    def behind(self, judge: Callable[[int, str, str], bool], refusal: int = 503):
        """A server that hands requests on which `judge(number, method, path)` allows, and answers
        `refusal` to the others. Gives its port."""
        store, lock, count = self, threading.Lock(), 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # head and body of an answer are two writes: the second would wait for the first to be confirmed
            disable_nagle_algorithm = True

            def hand_on(self) -> None:
                nonlocal count
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                with lock:
                    count += 1
                    number = count
                if not judge(number, self.command, self.path):
                    return self.answer(refusal, {}, b"<Error><Code>SlowDown</Code></Error>")
                inner = http.client.HTTPConnection(store.host, store.port)
                inner.request(self.command, self.path, body, dict(self.headers))
                answer = inner.getresponse()
                content = answer.read()
                headers = {
                    name: value
                    for name, value in answer.getheaders()
                    if name.lower() not in ("connection", "transfer-encoding")
                }
                self.answer(answer.status, headers, content)
                inner.close()

            def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response_only(status)
                if not any(name.lower() == "content-length" for name in headers):
                    headers["Content-Length"] = str(len(content))
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                if self.command != "HEAD":
                    self.wfile.write(content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = hand_on

            def log_message(self, *_: object) -> None:
                """Not to the terminal."""

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield server.server_address[1]
        finally:
            server.shutdown()
            server.server_close()

    def close(self) -> None:
        self.server.stop()
