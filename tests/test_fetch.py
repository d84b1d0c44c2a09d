"""Mirrors that lie, break off or never end: the next one is asked, within the time that the lock's size allows."""

import contextlib
import dataclasses
import hashlib
import http.server
import socket
import struct
import threading
import time

import pytest
from reprofs.guest import fetch, lock


@pytest.fixture
def serve(monkeypatch):
    """`serve(answer)` starts a mirror that answers each request by calling it; those are asked in that order."""
    servers, names = [], []

    def start(answer) -> list[str]:
        asked: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                asked.append(self.path)
                with contextlib.suppress(OSError):
                    answer(self)

            def log_message(self, form, *words):
                pass

        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        servers.append(server)
        names.append(f"http://127.0.0.1:{server.server_port}/d{len(names)}")
        monkeypatch.setenv(fetch.VARIABLE, " ".join(names))
        return asked

    monkeypatch.setenv("PATH", "/nonexistent")  # a machine without apt
    monkeypatch.setattr(fetch, "SILENCE_S", 0.3)
    monkeypatch.setattr(fetch, "ANSWER_S", 0.5)
    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


BODY = b"0123456789" * 500
PACKAGE = lock.Package("thing", "1", "amd64", hashlib.sha256(BODY).hexdigest(), len(BODY), "pool/thing.deb")


def head(handler, length: int | None = len(BODY)) -> None:
    handler.send_response(200)
    if length is not None:
        handler.send_header("Content-Length", str(length))
    handler.end_headers()


def good(handler) -> None:
    head(handler)
    handler.wfile.write(BODY)


def truncated(handler) -> None:
    head(handler)
    handler.wfile.write(BODY[:1000])


def chunk_missing(handler) -> None:
    handler.send_response(200)
    handler.send_header("Transfer-Encoding", "chunked")
    handler.end_headers()
    handler.wfile.write(b"fff\r\nabc")


def reset(handler) -> None:
    handler.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    handler.connection.close()


def no_http(handler) -> None:
    handler.wfile.write(b"220 mail.example ESMTP\r\n")


def silent(handler) -> None:
    time.sleep(2)


def endless(handler) -> None:
    head(handler, None)
    while True:
        handler.wfile.write(bytes(1 << 16))


def dripping(handler) -> None:
    head(handler)
    for number in range(40):
        handler.wfile.write(BODY[number : number + 1])
        time.sleep(0.05)


def dripping_head(handler) -> None:
    handler.wfile.write(b"HTTP/1.0 200 OK\r\nX: ")
    for _ in range(40):
        handler.wfile.write(b"x")
        time.sleep(0.05)


ANSWERS = {  # how often it is asked, and what is said of it
    truncated: (fetch.TRIES, "broke off after 1,000 of 5,000 bytes"),
    chunk_missing: (fetch.TRIES, "IncompleteRead"),
    reset: (fetch.TRIES, "Connection reset"),
    no_http: (fetch.TRIES, "220 mail.example"),
    silent: (1, "sent nothing for"),
    endless: (1, "not the SHA-256"),
    dripping: (1, "5,000 bytes took more than 1 s"),
    dripping_head: (1, "5,000 bytes took more than 1 s"),
}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: answer.__name__)
def test_a_mirror_that_gives_no_whole_file_ends_and_the_next_one_is_asked(answer, serve, tmp_path):
    times, said = ANSWERS[answer]
    asked = serve(answer)
    with pytest.raises(fetch.Gone) as caught:
        fetch.fetch(tmp_path / "cache", lock.Lock("today"), [PACKAGE], print)
    assert said in str(caught.value) and len(str(caught.value)) < 500 and len(asked) == times
    assert not list((tmp_path / "cache/packages").iterdir())
    serve(good)
    found = fetch.fetch(tmp_path / "cache", lock.Lock("today"), [PACKAGE], print)
    assert found["thing"].read_bytes() == BODY and len(asked) == 2 * times


def test_a_download_that_broke_off_is_tried_again(serve, tmp_path):
    def once(handler) -> None:
        (truncated if len(asked) == 1 else good)(handler)

    asked = serve(once)
    assert fetch.fetch(tmp_path / "cache", lock.Lock(""), [PACKAGE], print)["thing"].read_bytes() == BODY
    assert len(asked) == 2


def test_a_slow_mirror_is_not_asked_again_and_progress_is_said(serve, tmp_path, monkeypatch):
    """Thousands of packages of a mirror that never answers end in the time of one."""
    monkeypatch.setattr(fetch, "TOLD_S", 0.1)
    asked, lines = serve(silent), []
    packages = [dataclasses.replace(PACKAGE, name=f"thing{number}") for number in range(40)]
    with pytest.raises(fetch.Gone, match="40 of 40 packages"):
        fetch.fetch(tmp_path / "cache", lock.Lock(""), packages, lines.append)
    assert len(asked) <= fetch.AT_ONCE and "fetching: 0 of 40 packages, 0 of 0 MB" in lines


def test_a_connection_serves_many_files(serve, tmp_path):
    """Each new one asks for the address of the mirror's name, which takes five seconds where an answer is lost."""
    connections = set()

    def kept(handler) -> None:
        handler.protocol_version, handler.close_connection = "HTTP/1.1", False
        connections.add(handler.client_address)
        good(handler)

    serve(kept)
    packages = [dataclasses.replace(PACKAGE, name=f"thing{number}") for number in range(40)]
    found = fetch.fetch(tmp_path / "cache", lock.Lock(""), packages, print)
    assert len(found) == 40 and len(connections) <= fetch.AT_ONCE
