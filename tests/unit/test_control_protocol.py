"""The wire format: what was encoded comes back, and nothing else is ever taken for a message."""

import random
from dataclasses import fields

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from emulator.control.protocol import (
    FROM_AGENT,
    KINDS,
    MESSAGE_BYTES_MAX,
    Error,
    Failed,
    Hello,
    Incoming,
    Outgoing,
    Ping,
    ProtocolError,
    Ready,
    Start,
    Stop,
    decode,
    encode,
)

START = {"v": 1, "seq": 1, "kind": "start", "start_ns": 5}


def pack(body: object) -> bytes:
    return msgpack.packb(body)


def messages() -> st.SearchStrategy:
    def instance(kind: type) -> st.SearchStrategy:
        values = {}
        for one in fields(kind):
            low, high = one.metadata["low"], one.metadata["high"]
            values[one.name] = (
                st.integers(low, high)
                if one.metadata["type"] is int
                else st.text(st.characters(exclude_categories=["Cs"]), min_size=low, max_size=min(high, 40))
            )
        return st.builds(kind, **values)

    return st.one_of([instance(kind) for kind in KINDS.values()])


@given(messages(), st.integers(1, 2**63 - 1))
def test_a_message_comes_back_as_it_was(message, seq):
    assert decode(encode(message, seq)) == message


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ([], "a message is a map"),
        (7, "a message is a map"),
        ({}, "version None is not 1"),
        ({**START, "v": 2}, "version 2 is not 1"),
        ({**START, "v": True}, "version True is not 1"),
        ({**START, "v": 1.0}, "version 1.0 is not 1"),
        ({**START, "seq": 0}, "seq 0"),
        ({**START, "seq": True}, "seq True"),
        ({**START, "seq": 2**63}, "seq"),
        ({**START, "kind": "explode"}, "unknown kind 'explode'"),
        ({**START, "kind": ["start"]}, "unknown kind a list of 1"),
        ({**START, "kind": b"start"}, "unknown kind b'start'"),
        ({"v": 1, "seq": 1, "kind": "start"}, "a start message lacks start_ns"),
        ({**START, "more": 1}, "a start message has no 'more'"),
        ({**START, "a\nb": 1}, "has no 'a\\nb'"),
        ({**START, b"more": 1}, "has no b'more'"),
        ({**START, "start_ns": "5"}, "start_ns is '5', not a number"),
        ({**START, "start_ns": True}, "start_ns is True, not a number"),
        ({**START, "start_ns": 5.0}, "start_ns is 5.0, not a number"),
        ({**START, "start_ns": -1}, "start_ns is -1, out of 0"),
        ({**START, "start_ns": 2**63}, "out of 0"),
        ({**START, "start_ns": msgpack.ExtType(5, b"x")}, "not a number"),
        ({**START, "start_ns": msgpack.Timestamp(1)}, "not a number"),
        ({"v": 1, "seq": 1, "kind": "error", "text": "x" * 9000}, "out of 0 to 8192 characters"),
        ({"v": 1, "seq": 1, "kind": "error", "text": b"x"}, "not text"),
        ({"v": 1, "seq": 1, "kind": "hello", "role": "", "pid": 1, "agent": 0}, "role is ''"),
        ({"v": 1, "seq": 1, "kind": "hello", "role": "x", "pid": 0, "agent": 0}, "pid is 0"),
    ],
)
def test_a_wrong_message_is_refused_with_one_line(body, says):
    with pytest.raises(ProtocolError) as refused:
        decode(pack(body))
    assert says in str(refused.value)
    assert str(refused.value).isprintable()
    assert len(str(refused.value)) < 400


def nested(depth: int) -> bytes:
    return b"\x83\xa1v\x01\xa3seq\x01\xa1x" + b"\x91" * depth + b"\x01"


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not a msgpack message"),
        (pack(START) + b"\x00", "not a msgpack message"),
        (pack(START)[:-1], "not a msgpack message"),
        (b"\x82\xa1v\x01\xa1v\x01", "two values for one key"),
        (b"\x81\x90\x01", "not a msgpack message"),
        (b"\x81\x01\x01", "not a msgpack message"),
        (b"\xa1\xff", "not a msgpack message"),
        (b"\xdd\xff\xff\xff\xff", "not a msgpack message"),
        (b"\xc1", "not a msgpack message"),
        (nested(9), "nested more than 8 deep"),
        (nested(60_000), "not a msgpack message"),
        (b"\x91" * (MESSAGE_BYTES_MAX - 1) + b"\x01", "not a msgpack message"),
        (pack("x" * MESSAGE_BYTES_MAX), f"are above {MESSAGE_BYTES_MAX}"),
    ],
)
def test_wrong_bytes_are_refused_with_one_line(data, says):
    with pytest.raises(ProtocolError, match=says) as refused:
        decode(data)
    assert str(refused.value).isprintable()


def test_depth_up_to_the_limit_is_judged_by_its_keys():
    with pytest.raises(ProtocolError, match="unknown kind"):
        decode(nested(7))


def test_twenty_thousand_random_and_mutated_strings_raise_nothing_but_protocol_errors():
    rng = random.Random(20_260_101)
    good = [
        encode(message, 77)
        for message in (Hello("flood", 4711, 3), Start(123_456_789_012), Failed("no\nmemory \u20ac"), Ping(9), Stop())
    ]
    taken = 0
    for _ in range(20_000):
        noise = rng.random() < 0.3
        data = rng.randbytes(rng.randrange(64)) if noise else mutated(rng, bytearray(rng.choice(good)))
        message, refusal = taken_or_refused(data)
        assert refusal.isprintable(), data.hex()
        if message is not None:
            taken += 1
            assert decode(encode(message)) == message, data.hex()
    assert taken > 0  # a mutation may hit a text or a number; if none did, the fuzzer is blunt


def taken_or_refused(data: bytes) -> tuple[object, str]:
    try:
        return decode(data), ""
    except ProtocolError as error:
        return None, str(error)


def mutated(rng: random.Random, data: bytearray) -> bytes:
    for _ in range(rng.randrange(1, 4)):
        where = rng.randrange(len(data)) if data else 0
        match rng.randrange(5):
            case 0:
                data[where : where + 1] = rng.randbytes(1)
            case 1:
                data[where:where] = rng.randbytes(rng.randrange(1, 6))
            case 2:
                del data[where : where + rng.randrange(1, 6)]
            case 3:
                data[where : where + 1] = bytes([rng.choice((0x80, 0x8F, 0x90, 0xC1, 0xC6, 0xD9, 0xDD, 0xDF))])
            case 4:
                data += data[where:]
    return bytes(data)


def test_a_sender_numbers_its_messages_and_a_replay_changes_nothing():
    out, into = Outgoing(), Incoming(FROM_AGENT)
    first, second = out.encode(Ready()), out.encode(Failed("x"))
    assert into.decode(second) == Failed("x")  # a gap is a lost message, no replay
    for replay in (first, second):
        with pytest.raises(ProtocolError, match="replayed"):
            into.decode(replay)
    assert into.decode(out.encode(Ready())) == Ready()


def test_a_refused_message_does_not_use_up_its_number():
    into = Incoming(FROM_AGENT)
    with pytest.raises(ProtocolError, match="does not go in this direction"):
        into.decode(encode(Start(1), seq=1000))
    assert into.decode(encode(Ready(), seq=1)) == Ready()


def test_text_is_cut_to_what_can_be_sent():
    sent = decode(encode(Error("\ud800" + "\U0001f600" * 20_000)))
    assert isinstance(sent, Error)
    assert sent.text.startswith("?")
    assert len(sent.text) == 8192


def test_what_is_out_of_range_is_not_sent():
    with pytest.raises(ProtocolError, match="start_ns"):
        encode(Start(-1))
