"""The launcher's end of the control channel: a ROUTER that hears every agent and is blocked by none.

An agent is known by its identity, its number in decimal. Whatever is malformed, replayed, from a stranger or not an
agent's to say is answered with Error, counted in ``refused`` and changes nothing. Sending never waits: it returns False
if the agent is not connected or does not read.
"""

from pathlib import Path
from types import TracebackType

import zmq

from emulator.control.endpoint import check_endpoint, control_endpoint
from emulator.control.protocol import (
    FROM_AGENT,
    MESSAGE_BYTES_MAX,
    Error,
    Hello,
    Incoming,
    Message,
    Outgoing,
    ProtocolError,
    encode,
)
from emulator.errors import CannotRun

_HIGH_WATER = 1000  # messages kept for one peer, each way
_POLL_MAX = 256  # messages taken in one poll, so that a flooding peer cannot hold the launcher
_LINGER_MS = 200


class ControlServer:
    """Binds in the run directory, or to ``endpoint`` if one is asked for."""

    def __init__(self, run_dir: Path, agents: int, *, endpoint: str | None = None) -> None:
        wanted = check_endpoint(endpoint or control_endpoint(run_dir))
        self.refused = 0
        self.last_refusal = ""
        self._incoming = [Incoming(FROM_AGENT) for _ in range(agents)]
        self._outgoing = [Outgoing() for _ in range(agents)]
        self._context = zmq.Context(io_threads=1)
        self._socket = self._context.socket(zmq.ROUTER)
        try:
            self.endpoint = self._bind(wanted)
        except zmq.ZMQError as error:
            self.close()
            raise CannotRun(f"{wanted} cannot be bound: {error.strerror}") from None

    def poll(self, timeout_ms: int) -> list[tuple[int, Message]]:
        """What agents have said, waiting at most ``timeout_ms`` for the first word."""
        if not self._socket.poll(timeout_ms):
            return []
        heard = []
        for _ in range(_POLL_MAX):
            try:
                frames = self._socket.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                break
            try:
                heard.append(self._accept(frames))
            except ProtocolError as error:
                self._refuse(frames[0], str(error))
        return heard

    def send(self, agent: int, message: Message) -> bool:
        """Send without waiting; whether it was taken."""
        return self._put(_identity(agent), self._outgoing[agent].encode(message))

    def close(self) -> None:
        """Give the last messages a moment to leave, then close. Twice is harmless."""
        if not self._context.closed:
            self._socket.close(linger=_LINGER_MS)
            self._context.term()

    def __enter__(self) -> "ControlServer":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _bind(self, endpoint: str) -> str:
        for option, value in (
            (zmq.ROUTER_MANDATORY, 1),
            (zmq.SNDHWM, _HIGH_WATER),
            (zmq.RCVHWM, _HIGH_WATER),
            (zmq.MAXMSGSIZE, MESSAGE_BYTES_MAX),
        ):
            self._socket.setsockopt(option, value)
        self._socket.bind(endpoint)
        bound: bytes = self._socket.getsockopt(zmq.LAST_ENDPOINT)  # type: ignore[assignment]
        return bound.rstrip(b"\0").decode()

    def _accept(self, frames: list[bytes]) -> tuple[int, Message]:
        agent = self._agent(frames[0])
        if len(frames) != 2:
            raise ProtocolError(f"a message is one frame, not {len(frames) - 1}")
        message = self._incoming[agent].decode(frames[1])
        if isinstance(message, Hello) and message.agent != agent:
            raise ProtocolError(f"agent {agent} says that it is agent {message.agent}")
        return agent, message

    def _agent(self, identity: bytes) -> int:
        for agent in range(len(self._incoming)):
            if identity == _identity(agent):
                return agent
        raise ProtocolError("no agent of this run has that identity")

    def _refuse(self, identity: bytes, reason: str) -> None:
        self.refused += 1
        self.last_refusal = reason
        try:
            agent = self._agent(identity)
        except ProtocolError:
            self._put(identity, encode(Error(reason)))
        else:
            self.send(agent, Error(reason))

    def _put(self, identity: bytes, data: bytes) -> bool:
        try:
            self._socket.send_multipart([identity, data], zmq.NOBLOCK)
        except zmq.ZMQError as error:
            if error.errno in (zmq.EHOSTUNREACH, zmq.EAGAIN):
                return False
            raise
        return True


def _identity(agent: int) -> bytes:
    return str(agent).encode()
