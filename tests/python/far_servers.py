"""Servers that stand for stores far away: moto's S3 and a web server with ranges, of one folder.

    python far_servers.py FOLDER

prints one line of JSON, {"s3": endpoint or null, "http": address}, and ends with its standard
input. Objects of the bucket "bucket" are the files of FOLDER as they are at the start; the web
server has no listings, and counts requests.
"""

from __future__ import annotations

import hashlib
import http.server
import json
import re
import sys
import threading
import urllib.parse
from collections import Counter
from pathlib import Path
from typing import ClassVar

KEYS = {
    "region_name": "us-east-1",
    "aws_access_key_id": "test-key-id",
    "aws_secret_access_key": "test-secret-key",
}


class Handler(http.server.BaseHTTPRequestHandler):
    """Files of a folder: HEAD, GET, one range at a time, an ETag of the contents."""

    protocol_version = "HTTP/1.1"
    folder: ClassVar[Path]
    requests: ClassVar[Counter[str]]
    status = 0  # what every request gets, if it is not 0
    missing = 404  # what a name gets that is not there

    def do_HEAD(self) -> None:
        self.answer(is_head=True)

    def do_GET(self) -> None:
        self.answer(is_head=False)

    def answer(self, is_head: bool) -> None:
        path = urllib.parse.unquote(urllib.parse.urlsplit(self.path).path).lstrip("/")
        self.requests[path] += 1
        file = self.folder / path
        if type(self).status or not file.is_file():
            self.reply(type(self).status or type(self).missing, b"", {}, is_head)
            return
        data = file.read_bytes()
        tag = {"ETag": f'"{hashlib.sha256(data).hexdigest()[:32]}"', "Accept-Ranges": "bytes"}
        wanted = re.fullmatch(r"bytes=(\d*)-(\d*)", self.headers.get("Range", ""))
        if wanted is None:
            self.reply(200, data, tag, is_head)
            return
        first, last = wanted.groups()
        begin = int(first) if first else max(0, len(data) - int(last))
        end = min(len(data), int(last) + 1) if first and last else len(data)
        if begin >= end:
            self.reply(416, b"", {"Content-Range": f"bytes */{len(data)}"}, is_head)
            return
        place = {"Content-Range": f"bytes {begin}-{end - 1}/{len(data)}"}
        self.reply(206, data[begin:end], {**tag, **place}, is_head)

    def reply(self, status: int, data: bytes, headers: dict[str, str], is_head: bool) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if not is_head:
            self.wfile.write(data)

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is printed."""


class Web:
    """The web server of a folder."""

    def __init__(self, folder: Path) -> None:
        kept = {"folder": Path(folder), "requests": Counter()}
        self.handler = type("Served", (Handler,), kept)
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), self.handler)
        self.server.daemon_threads = True
        self.server.block_on_close = False
        self.server.handle_error = lambda *_: None  # clients end before the last answer
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()
        self.address = f"http://127.0.0.1:{self.server.server_address[1]}"

    @property
    def requests(self) -> Counter[str]:
        return self.handler.requests

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Bucket:
    """moto's S3 with the bucket "bucket", which has the files of a folder."""

    def __init__(self, folder: Path) -> None:
        import boto3
        from moto.server import ThreadedMotoServer

        self.server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
        self.server.start()
        self.endpoint = f"http://127.0.0.1:{self.server.get_host_and_port()[1]}"
        self.client = boto3.client("s3", endpoint_url=self.endpoint, **KEYS)
        self.client.create_bucket(Bucket="bucket")
        self.put(folder)

    def put(self, folder: Path, prefix: str = "") -> None:
        """Puts the files of a folder, below a prefix."""
        for file in sorted(path for path in Path(folder).rglob("*") if path.is_file()):
            key = prefix + file.relative_to(folder).as_posix()
            self.client.put_object(Bucket="bucket", Key=key, Body=file.read_bytes())

    def close(self) -> None:
        self.server.stop()


def main() -> None:
    folder = Path(sys.argv[1])
    web = Web(folder)
    try:
        endpoint = Bucket(folder).endpoint
    except ImportError:
        endpoint = None
    print(json.dumps({"s3": endpoint, "http": web.address}), flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    main()
