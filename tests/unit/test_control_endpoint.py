"""Where control sockets may be: reachable by the owner alone."""

import pytest

from emulator.control.endpoint import check_endpoint, control_endpoint, ipc_endpoint
from emulator.errors import CannotRun


@pytest.mark.parametrize("url", ["tcp://127.0.0.1:5555", "tcp://127.8.9.1:0", "tcp://127.0.0.1:*", "tcp://[::1]:5555"])
def test_loopback_may_be_bound(url):
    assert check_endpoint(url) == url


@pytest.mark.parametrize(
    "url",
    [
        "tcp://0.0.0.0:5555",
        "tcp://*:5555",
        "tcp://[::]:5555",
        "tcp://192.168.1.1:5555",
        "tcp://eth0:5555",
        "tcp://lo:5555",
        "tcp://localhost:5555",
        "tcp://127.0.0.1.example.com:5555",
        "tcp://[::ffff:10.0.0.1]:5555",
        "tcp://2130706433:5555",
    ],
)
def test_beyond_loopback_only_with_keys(url):
    with pytest.raises(CannotRun, match="needs keys"):
        check_endpoint(url)
    assert check_endpoint(url, keys=True) == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "udp://127.0.0.1:1",
        "inproc://x",
        "tcp://",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:",
        "tcp://127.0.0.1:70000",
        "tcp://127.0.0.1:5555;0.0.0.0:1",
        "tcp://127.0.0.1:5555/x",
        "tcp://[::1:5",
    ],
)
def test_what_is_no_endpoint_is_refused(url):
    with pytest.raises(CannotRun) as refused:
        check_endpoint(url, keys=True)
    assert "\n" not in str(refused.value)


def test_a_socket_lives_only_in_a_private_directory(tmp_path):
    private = tmp_path / "p"
    private.mkdir(mode=0o700)
    url = f"ipc://{private}/s"
    assert check_endpoint(url) == url
    private.chmod(0o750)
    with pytest.raises(CannotRun, match="mode 0700"):
        check_endpoint(url)
    private.chmod(0o700)
    (tmp_path / "link").symlink_to(private)
    with pytest.raises(CannotRun, match="mode 0700"):
        check_endpoint(f"ipc://{tmp_path}/link/s")
    with pytest.raises(CannotRun, match="No such file"):
        check_endpoint(f"ipc://{tmp_path}/none/s")
    with pytest.raises(CannotRun, match="begins with /"):
        check_endpoint("ipc://relative/s")


def test_a_path_that_is_too_long_for_a_socket_is_one_line(tmp_path):
    assert ipc_endpoint(tmp_path / "x").startswith("ipc:///")
    long = tmp_path / ("\u00e4" * 60)  # 120 bytes
    with pytest.raises(CannotRun, match="107 are the most; set run_dir to a shorter path"):
        control_endpoint(long)
