"""An agent's end of the control channel: a DEALER, and the thread that turns messages into callbacks.

The agent's loop runs compiled code and cannot listen; a daemon thread does. Create both before the agent pins itself:
the threads here take over the CPU mask of whoever starts them, and belong on any CPU but the data path's.
"""

import math
import os
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable

import zmq

from emulator.control.protocol import (
    FROM_LAUNCHER,
    MESSAGE_BYTES_MAX,
    Error,
    Failed,
    Incoming,
    Message,
    Outgoing,
    Ping,
    Pong,
    ProtocolError,
)

_HIGH_WATER = 1000
_HEARD_MAX = 256  # messages taken at once, so that the tick is never far
_LINGER_MS = 500  # the last word of an agent is why it failed


class ControlClient:
    """The socket. Belongs to one thread at a time, like every ZeroMQ socket."""

    def __init__(self, endpoint: str, agent: int) -> None:
        self.refused = 0
        self._incoming = Incoming(FROM_LAUNCHER)
        self._outgoing = Outgoing()
        self._context = zmq.Context(io_threads=1)
        self.socket = self._context.socket(zmq.DEALER)
        for option, value in (
            (zmq.SNDHWM, _HIGH_WATER),
            (zmq.RCVHWM, _HIGH_WATER),
            (zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX),
        ):
            self.socket.setsockopt(option, value)
        self.socket.setsockopt(zmq.IDENTITY, str(agent).encode())
        self.socket.connect(endpoint)

    def send(self, message: Message) -> bool:
        """Send without waiting; whether it was taken."""
        try:
            self.socket.send(self._outgoing.encode(message), zmq.NOBLOCK)
        except zmq.Again:
            return False
        return True

    def receive(self, timeout_ms: int = 0) -> Message | None:
        """The next message, or None if none came in time. What is malformed is answered with Error and passed over."""
        while self.socket.poll(timeout_ms):
            try:
                frames = self.socket.recv_multipart(zmq.NOBLOCK)
                if len(frames) != 1:
                    raise ProtocolError(f"a message is one frame, not {len(frames)}")
                return self._incoming.decode(frames[0])
            except zmq.Again:
                return None
            except ProtocolError as error:
                self.refused += 1
                self.send(Error(str(error)))
        return None

    def close(self) -> None:
        """Give the last messages a moment to leave, then close. Twice is harmless."""
        if not self._context.closed:
            self.socket.close(linger=_LINGER_MS)
            self._context.term()


class ControlThread(threading.Thread):
    """Owns a ControlClient: calls ``on_message`` for each message and ``on_tick`` every ``tick_s``, sends
    what it is given.

    A Ping is answered here. An exception in a callback is sent to the launcher as Failed, and the thread goes on.
    """

    def __init__(
        self,
        client: ControlClient,
        on_message: Callable[[Message], None],
        on_tick: Callable[[], None] | None = None,
        tick_s: float = 1.0,
    ) -> None:
        super().__init__(name="control", daemon=True)
        self._client = client
        self._on_message = on_message
        self._on_tick = on_tick
        self._tick_s = tick_s
        self._out: deque[Message] = deque()
        self._closing = False
        self._wake = os.eventfd(0, os.EFD_CLOEXEC | os.EFD_NONBLOCK)
        self._wake_lock = threading.Lock()

    def send(self, message: Message) -> None:
        """Have the thread send a message; may be called from any thread."""
        self._out.append(message)
        self._kick()

    def close(self, timeout_s: float = 2.0) -> bool:
        """Send what is still to be sent, close the socket and end; whether the thread has ended in time."""
        self._closing = True
        self._kick()
        if self.ident is not None:
            self.join(timeout_s)
        if self.is_alive():
            return False
        with self._wake_lock:
            if self._wake >= 0:
                os.close(self._wake)
            self._wake = -1
        return True

    def run(self) -> None:
        """Listen until closed."""
        poller = zmq.Poller()
        poller.register(self._client.socket, zmq.POLLIN)
        poller.register(self._wake, zmq.POLLIN)
        next_tick = time.monotonic()
        while not self._closing:
            if time.monotonic() >= next_tick:
                next_tick = time.monotonic() + self._tick_s
                self._guarded(self._on_tick)
            poller.poll(max(0, math.ceil((next_tick - time.monotonic()) * 1000)))
            self._drain_wake()
            self._flush()
            self._hear()
        self._flush()
        self._client.close()

    def _kick(self) -> None:
        with self._wake_lock:
            if self._wake >= 0:
                os.eventfd_write(self._wake, 1)

    def _hear(self) -> None:
        for _ in range(_HEARD_MAX):
            message = self._client.receive()
            if message is None:
                return
            if isinstance(message, Ping):
                self._client.send(Pong(message.token))
            else:
                self._guarded(lambda heard=message: self._on_message(heard))  # type: ignore[misc]

    def _flush(self) -> None:
        while self._out and self._client.send(self._out[0]):
            self._out.popleft()

    def _drain_wake(self) -> None:
        try:
            os.eventfd_read(self._wake)
        except BlockingIOError:
            return

    def _guarded(self, callback: Callable[[], None] | None) -> None:
        try:
            if callback is not None:
                callback()
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{os.path.basename(where.filename)}:{where.lineno}"  # noqa: PTH119
            self._client.send(Failed(f"control thread: {type(error).__name__}: {error} ({place})"))
