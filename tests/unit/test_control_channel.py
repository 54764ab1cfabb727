"""The two ends of the control channel over real sockets, with strangers on the line."""

import os
import random
import stat
import threading

import pytest
import zmq

from emulator.control.client import ControlClient, ControlThread
from emulator.control.endpoint import control_endpoint
from emulator.control.protocol import (
    MESSAGE_BYTES_MAX,
    Error,
    Failed,
    Hello,
    Ping,
    Pong,
    Ready,
    Start,
    Stop,
    decode,
    encode,
)
from emulator.control.server import ControlServer
from emulator.errors import CannotRun

LONG_MS = 10_000


@pytest.fixture
def run_dir(tmp_path):
    path = tmp_path / "r"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def server(run_dir):
    with ControlServer(run_dir, agents=3) as server:
        yield server


@pytest.fixture
def client(server):
    client = ControlClient(server.endpoint, 1)
    yield client
    client.close()


@pytest.fixture
def stranger(server):
    """A raw DEALER under whatever identity a test wants."""
    context = zmq.Context()
    sockets = []

    def connect(identity: bytes | None) -> zmq.Socket:
        socket = context.socket(zmq.DEALER)
        if identity is not None:
            socket.setsockopt(zmq.IDENTITY, identity)
        socket.setsockopt(zmq.RCVTIMEO, LONG_MS)
        socket.setsockopt(zmq.SNDTIMEO, LONG_MS)
        socket.connect(server.endpoint)
        sockets.append(socket)
        return socket

    yield connect
    for socket in sockets:
        socket.close(linger=0)
    context.term()


def refusals(server: ControlServer, wanted: int) -> None:
    while server.refused < wanted:
        before = server.refused
        assert server.poll(LONG_MS) == []
        assert server.refused > before, "nothing came"


def test_a_round_trip(server, client):
    assert client.send(Hello("flood", os.getpid(), 1))
    assert server.poll(LONG_MS) == [(1, Hello("flood", os.getpid(), 1))]
    assert server.send(1, Start(42))
    assert client.receive(LONG_MS) == Start(42)
    assert client.receive() is None


def test_the_socket_is_reachable_by_its_owner_alone(server, run_dir):
    assert server.endpoint == control_endpoint(run_dir)
    assert stat.S_IMODE(run_dir.stat().st_mode) == 0o700


def test_a_directory_that_others_can_enter_is_refused(run_dir):
    run_dir.chmod(0o755)
    with pytest.raises(CannotRun, match="mode 0700"):
        ControlServer(run_dir, agents=1)


def test_a_socket_that_cannot_be_bound_is_one_line(run_dir):
    (run_dir / "control.sock").mkdir()
    with pytest.raises(CannotRun, match="cannot be bound"):
        ControlServer(run_dir, agents=1)


def test_tcp_only_on_loopback(run_dir):
    with ControlServer(run_dir, agents=1, endpoint="tcp://127.0.0.1:*") as server:
        client = ControlClient(server.endpoint, 0)
        client.send(Ready())
        assert server.poll(LONG_MS) == [(0, Ready())]
        client.close()
    with pytest.raises(CannotRun, match="needs keys"):
        ControlServer(run_dir, agents=1, endpoint="tcp://0.0.0.0:*")


def test_an_agent_that_is_not_there_is_not_waited_for(server):
    assert server.send(0, Stop()) is False


def test_garbage_is_answered_counted_and_changes_nothing(server, client, stranger):
    client.send(Hello("flood", 7, 1))
    assert server.poll(LONG_MS) == [(1, Hello("flood", 7, 1))]
    rng = random.Random(5)
    raw = stranger(b"2")
    for _ in range(300):
        raw.send(b"\xc1" + rng.randbytes(rng.randrange(200)))  # 0xc1 is never msgpack
    refusals(server, 300)
    for _ in range(300):
        answer = decode(raw.recv())
        assert isinstance(answer, Error)
        assert "msgpack" in answer.text
    raw.send(encode(Ready(), seq=1))
    assert server.poll(LONG_MS) == [(2, Ready())]
    client.send(Ready())
    assert server.poll(LONG_MS) == [(1, Ready())]


@pytest.mark.parametrize(
    ("identity", "frames", "says"),
    [
        (None, [encode(Ready())], "no agent of this run has that identity"),
        (b"3", [encode(Ready())], "no agent of this run"),
        (b"01", [encode(Ready())], "no agent of this run"),
        (b"\xff\xfe", [encode(Ready())], "no agent of this run"),
        (b"2", [encode(Ready()), b""], "one frame, not 2"),
        (b"2", [b"", encode(Ready())], "one frame, not 2"),
        (b"2", [encode(Start(1))], "does not go in this direction"),
        (b"2", [encode(Hello("flood", 1, 0))], "agent 2 says that it is agent 0"),
    ],
)
def test_what_an_agent_may_not_say_is_refused(server, stranger, identity, frames, says):
    raw = stranger(identity)
    raw.send_multipart(frames)
    refusals(server, 1)
    assert says in server.last_refusal
    answer = decode(raw.recv())
    assert isinstance(answer, Error)
    assert says in answer.text


def test_a_replayed_message_is_refused(server, stranger):
    raw = stranger(b"0")
    raw.send(encode(Ready(), seq=5))
    assert server.poll(LONG_MS) == [(0, Ready())]
    raw.send(encode(Ready(), seq=5))
    refusals(server, 1)
    assert "replayed" in server.last_refusal


def test_an_oversized_frame_never_arrives_and_disturbs_nobody(server, client, stranger):
    raw = stranger(b"2")
    raw.send(b"x" * (MESSAGE_BYTES_MAX + 1))
    raw.send(encode(Ready(), seq=9))  # lost with the connection, or heard after the reconnect
    client.send(Ready())
    heard = []
    while (1, Ready()) not in heard:
        got = server.poll(LONG_MS)
        assert got, "nothing came"
        heard += got
    assert set(heard) <= {(1, Ready()), (2, Ready())}
    assert server.refused == 0


def test_a_peer_that_does_not_read_is_not_waited_for(server, client, stranger):
    deaf = stranger(b"2")
    deaf.setsockopt(zmq.RCVHWM, 1)
    deaf.send(encode(Ready()))
    assert server.poll(LONG_MS) == [(2, Ready())]
    while server.send(2, Error("x" * 8000)):
        pass
    client.send(Ready())
    assert server.poll(LONG_MS) == [(1, Ready())]
    assert server.send(1, Stop())
    assert client.receive(LONG_MS) == Stop()


def test_a_flooding_peer_does_not_hold_the_launcher(server, stranger):
    raw = stranger(b"0")
    for number in range(1, 601):
        raw.send(encode(Ready(), seq=number))
    got = 0
    while got < 600:
        heard = server.poll(LONG_MS)
        assert 0 < len(heard) <= 256
        got += len(heard)


def test_the_client_refuses_what_is_malformed_and_goes_on(run_dir):
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.setsockopt(zmq.RCVTIMEO, LONG_MS)
    router.bind(f"ipc://{run_dir}/control.sock")
    client = ControlClient(f"ipc://{run_dir}/control.sock", 0)
    client.send(Ready())
    identity, _ = router.recv_multipart()
    for frames in ([b"\xc1"], [encode(Ready())], [encode(Stop()), b"more"], [encode(Start(3), seq=4)]):
        router.send_multipart([identity, *frames])
    assert client.receive(LONG_MS) == Start(3)
    assert client.refused == 3
    answers = [decode(router.recv_multipart()[1]) for _ in range(3)]
    assert all(isinstance(answer, Error) for answer in answers)
    client.close()
    router.close(linger=0)
    context.term()


def test_a_thread_turns_messages_into_callbacks_and_answers_pings(server):
    heard, came = [], threading.Event()

    def on_message(message: object) -> None:
        heard.append(message)
        came.set()

    thread = ControlThread(ControlClient(server.endpoint, 1), on_message)
    thread.start()
    thread.send(Hello("napi", 1, 1))
    assert server.poll(LONG_MS) == [(1, Hello("napi", 1, 1))]
    server.send(1, Start(8))
    assert came.wait(LONG_MS / 1000)
    assert heard == [Start(8)]
    server.send(1, Ping(3))
    assert server.poll(LONG_MS) == [(1, Pong(3))]
    assert heard == [Start(8)]
    assert thread.close(LONG_MS / 1000)


def test_an_exception_in_a_callback_reaches_the_launcher_and_the_thread_goes_on(server):
    def on_message(message: object) -> None:
        raise RuntimeError("no such word")

    thread = ControlThread(ControlClient(server.endpoint, 1), on_message)
    thread.start()
    thread.send(Ready())
    assert server.poll(LONG_MS) == [(1, Ready())]
    for _ in range(2):
        server.send(1, Stop())
        [(agent, failed)] = server.poll(LONG_MS)
        assert agent == 1
        assert isinstance(failed, Failed)
        assert "RuntimeError: no such word (test_control_channel.py:" in failed.text
    assert thread.close(LONG_MS / 1000)


def test_the_tick_goes_on_while_messages_pour_in(server):
    ticks = threading.Semaphore(0)
    thread = ControlThread(ControlClient(server.endpoint, 0), lambda _: None, ticks.release, tick_s=0.01)
    thread.start()
    thread.send(Ready())
    assert server.poll(LONG_MS) == [(0, Ready())]
    for _ in range(20):
        for _ in range(50):
            server.send(0, Stop())
        assert ticks.acquire(timeout=LONG_MS / 1000)
    assert thread.close(LONG_MS / 1000)


def test_the_last_word_of_an_agent_arrives(server):
    thread = ControlThread(ControlClient(server.endpoint, 2), lambda _: None)
    thread.start()
    thread.send(Failed("why"))
    assert thread.close(LONG_MS / 1000)
    thread.send(Failed("too late"))  # harmless
    assert server.poll(LONG_MS) == [(2, Failed("why"))]


def test_a_thread_that_never_began_can_be_closed(server):
    client = ControlClient(server.endpoint, 2)
    assert ControlThread(client, lambda _: None).close()
    client.close()
