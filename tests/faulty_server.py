"""A real HTTP server on loopback that answers chat completions as told: well, badly, late, or not at all."""

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

# What to do with one request: its handler, its JSON body, and an event that is set when the server closes.
Reply = Callable[[BaseHTTPRequestHandler, dict[str, Any], threading.Event], None]


def send(content: str, *, status: int = 200, kind: str = "application/json", **headers: str) -> Reply:
    """Reply with these bytes; a header's underscores become dashes."""

    def reply(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
        data = content.encode()
        handler.send_response(status)
        handler.send_header("Content-Type", kind)
        handler.send_header("Content-Length", str(len(data)))
        for name, value in headers.items():
            handler.send_header(name.replace("_", "-"), value)
        handler.end_headers()
        handler.wfile.write(data)

    return reply


def completion(message: dict[str, Any], finish: str | None = "stop", usage: Any = None, **choice: Any) -> Reply:
    """Reply with a chat completion of one choice."""
    choices = [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": finish, **choice}]
    return send(json.dumps({"id": "1", "object": "chat.completion", "choices": choices, "usage": usage}))


def say(text: str, prompt_tokens: int = 10, completion_tokens: int = 5) -> Reply:
    """Reply as a healthy server does."""
    return completion(
        {"content": text}, usage={"prompt_tokens": prompt_tokens, "completion_tokens": completion_tokens}
    )


def fail(status: int, message: str = "sorry", **headers: str) -> Reply:
    """Reply with an error of the OpenAI form."""
    return send(json.dumps({"error": {"message": message, "code": None, "param": None}}), status=status, **headers)


def echo(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
    """Reply with the last message of the conversation."""
    say(body["messages"][-1]["content"])(handler, body, closing)


def close(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
    """Close the connection without a word."""
    handler.close_connection = True


def truncate(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
    """Promise more bytes than come."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "1000")
    handler.end_headers()
    handler.wfile.write(b'{"choices": [{"mess')
    handler.close_connection = True


def stay_silent(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
    """Say nothing for a minute."""
    closing.wait(60)
    handler.close_connection = True


def dribble(handler: BaseHTTPRequestHandler, body: dict[str, Any], closing: threading.Event) -> None:
    """Send a space now and then, so that no gap is ever long."""
    handler.send_response(200)
    handler.send_header("Content-Type", "application/json")
    handler.send_header("Content-Length", "100000")
    handler.end_headers()
    try:
        while not closing.wait(0.02):
            handler.wfile.write(b" ")
    except OSError:
        handler.close_connection = True  # the client has gone


class FaultyServer:
    """Gives its replies in order, one a request, the last one for ever; keeps the requests.

    Use it in a `with` block. `bodies` and `headers` hold what came, `most_at_once` the largest number of requests
    that were open together.
    """

    def __init__(self, *replies: Reply) -> None:
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.most_at_once = 0
        self._replies = list(replies)
        self._open = 0
        self._lock = threading.Lock()
        self._closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                server._answer(self)

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=lambda: self._http.serve_forever(poll_interval=0.01))

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> "FaultyServer":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._closing.set()
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = json.loads(handler.rfile.read(int(handler.headers["Content-Length"])))
        with self._lock:
            reply = self._replies[min(len(self.bodies), len(self._replies) - 1)]
            self.bodies.append(body)
            self.headers.append({name.lower(): value for name, value in handler.headers.items()})
            self._open += 1
            self.most_at_once = max(self.most_at_once, self._open)
        try:
            reply(handler, body, self._closing)
        finally:
            with self._lock:
                self._open -= 1
